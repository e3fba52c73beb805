//! Labelled images of equal size.
//!
//! They are stored as bytes and converted batch by batch. Each channel is normalized to mean 0 and
//! standard deviation 1, with the statistics of the training set.

use super::augmentation::{ImageAugmentation, ImageChange};
use super::image_folder::{self, ImageReadOptions};
use super::{Dataset, bytes, cifar, idx, image_file, packed_images};
use crate::models::ImageBatch;
use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_array::Result;
use std::path::Path;

/// Images with class labels.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageDataset {
    shape: [usize; 3],
    /// Name of each class.
    classes: Vec<String>,
    /// Image by image, channel by channel, in row-major order.
    pixels: Vec<u8>,
    labels: Vec<u8>,
    /// Mean and standard deviation of each channel, in bytes.
    normalization: Vec<[f32; 2]>,
    /// Random changes in training.
    augmentation: ImageAugmentation,
}

impl ImageDataset {
    /// Creates a data set from bytes, and computes its normalization.
    ///
    /// # Panics
    /// If the number of bytes does not match the labels, or a label is not below `classes`.
    #[must_use]
    pub fn new(shape: [usize; 3], classes: usize, pixels: Vec<u8>, labels: Vec<u8>) -> Self {
        assert_eq!(pixels.len(), shape.iter().product::<usize>() * labels.len(), "one image for every label");
        assert!(labels.iter().all(|label| usize::from(*label) < classes), "every label is below the number of classes");
        let tones = channel_statistics(&pixels, shape);
        let classes = (0..classes).map(|class| class.to_string()).collect();
        Self { shape, classes, pixels, labels, normalization: tones, augmentation: ImageAugmentation::default() }
    }

    /// Sets the names of the classes. Default: their indices.
    ///
    /// # Panics
    /// If there is not one name for each class.
    #[must_use]
    pub fn with_class_names(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        assert_eq!(names.len(), self.classes.len(), "one name for every class");
        self.classes = names;
        self
    }

    /// Sets random changes of the images in training. Default: none.
    #[must_use]
    pub fn augmented(mut self, augmentation: ImageAugmentation) -> Self {
        self.augmentation = augmentation;
        self
    }

    /// Reads training and test set from a folder of MNIST (or a set in its format), of CIFAR-10, or of
    /// [image files](image_folder), with the default options.
    pub fn read(folder: &Path) -> Result<[Self; 2]> {
        Self::read_with(folder, &ImageReadOptions::default())
    }

    /// Reads training and test set as [`read`](Self::read) does. Options are for image files.
    pub fn read_with(folder: &Path, options: &ImageReadOptions) -> Result<[Self; 2]> {
        if bytes::find(folder, packed_images::TRAIN).is_some() {
            return packed_images::read(folder, options.size);
        }
        if bytes::find(folder, idx::TRAIN[0]).is_some() {
            idx::read(folder)
        } else if bytes::find(folder, cifar::TEST).is_some() {
            cifar::read(folder)
        } else if image_folder::is_image_folder(folder) || folder.join("train").is_dir() {
            image_folder::read(folder, options)
        } else {
            let problem = format!(
                "expected a folder with the files of MNIST (`{}` and three more) or the binary files of CIFAR-10 (`{}` and five more), plain or compressed, or a folder of JPEG or PNG images for each class",
                idx::TRAIN[0],
                cifar::TEST
            );
            Err(bytes::bad_file(folder, problem))
        }
    }

    /// Reads the test set from a folder of MNIST (or a set in its format) or CIFAR-10, or all
    /// images of one file: IDX images, with the labels of the file beside it, if there is one; or a
    /// binary file of CIFAR-10. Returns the images, and whether they have labels.
    pub fn read_new(path: &Path) -> Result<(Self, bool)> {
        if path.is_dir() {
            if bytes::find(path, idx::TEST[0]).is_some() {
                return Ok((idx::read_test(path)?, true));
            }
            if let Some(test) = bytes::find(path, cifar::TEST) {
                return Ok((cifar::read_files(&[test])?, true));
            }
            let problem = format!(
                "expected a folder with the test set of MNIST (`{}`) or CIFAR-10 (`{}`), plain or compressed",
                idx::TEST[0],
                cifar::TEST
            );
            return Err(bytes::bad_file(path, problem));
        }
        match idx::read_images(path)? {
            Some(images) => Ok(images),
            None => Ok((cifar::read_files(&[path.to_owned()])?, true)),
        }
    }

    /// Reads images for a net that takes `shape` and knows `classes`: what [`read_new`](Self::read_new)
    /// reads, and JPEG or PNG images, which are scaled and cut to its size. They are a file, a folder
    /// without labels, or the test set of a folder with a folder for each class.
    pub fn read_for(path: &Path, shape: [usize; 3], classes: &[String]) -> Result<(Self, bool)> {
        if path.is_dir() {
            let of_others = [idx::TEST[0], cifar::TEST].iter().any(|name| bytes::find(path, name).is_some());
            return match bytes::find(path, packed_images::TEST) {
                Some(file) => Ok((packed_images::read_for(&file, shape, classes)?, true)),
                None if of_others => Self::read_new(path),
                None => image_folder::read_for(path, shape, classes),
            };
        }
        if path.to_string_lossy().contains(".jpk") {
            return Ok((packed_images::read_for(path, shape, classes)?, true));
        }
        if image_file::FileUse::of(path) == image_file::FileUse::Image {
            let [channels, rows, columns] = shape;
            let mut images = image_file::ImageCollector::new(Some([rows, columns]));
            images.add(path, &bytes::read(path)?, true)?;
            return Ok((images.dataset(channels, vec![0], classes), false));
        }
        Self::read_new(path)
    }

    /// Uses the normalization of the training set, so that a network sees all images alike.
    #[must_use]
    pub fn normalized_as(mut self, trained: &Self) -> Self {
        self.normalization.clone_from(&trained.normalization);
        self
    }

    /// Uses this normalization, as [`byte_normalization`](Self::byte_normalization) returns it.
    ///
    /// # Panics
    /// If there is not one entry for each channel.
    #[must_use]
    pub fn normalized_by(mut self, normalization: &[[f32; 2]]) -> Self {
        assert_eq!(normalization.len(), self.shape[0], "one mean and deviation for every channel");
        self.normalization = normalization.to_vec();
        self
    }

    /// Returns the first `count` images.
    #[must_use]
    pub fn take(&self, count: usize) -> Self {
        let count = count.min(self.labels.len());
        let pixels = self.pixels[..count * self.image_bytes()].to_vec();
        Self { pixels, labels: self.labels[..count].to_vec(), ..self.clone() }
    }

    /// Returns all but the first `start` images.
    #[must_use]
    pub fn skip(&self, start: usize) -> Self {
        let start = start.min(self.labels.len());
        let pixels = self.pixels[start * self.image_bytes()..].to_vec();
        Self { pixels, labels: self.labels[start..].to_vec(), ..self.clone() }
    }

    /// Channels, rows and columns of an image.
    #[must_use]
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    /// Number of classes; labels are below it.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Name of each class.
    #[must_use]
    pub fn class_names(&self) -> &[String] {
        &self.classes
    }

    /// Class label of each image.
    #[must_use]
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Pixels of all images, image by image.
    #[must_use]
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Mean and standard deviation of each channel, with 1.0 as white.
    pub fn normalization(&self) -> impl Iterator<Item = [f32; 2]> {
        self.normalization.iter().map(|[mean, deviation]| [mean / 255.0, deviation / 255.0])
    }

    /// Mean and standard deviation of each channel in units of the stored bytes: 255 is white.
    #[must_use]
    pub fn byte_normalization(&self) -> &[[f32; 2]] {
        &self.normalization
    }

    fn image_bytes(&self) -> usize {
        self.shape.iter().product()
    }
}

impl Dataset for ImageDataset {
    type Batch = ImageBatch;

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn batch(&self, examples: &[usize], device: &Device) -> ImageBatch {
        self.batch_of(examples, None, device)
    }

    fn training_batch(&self, examples: &[usize], epoch: u32, device: &Device) -> ImageBatch {
        self.batch_of(examples, (!self.augmentation.is_identity()).then_some(epoch), device)
    }

    fn digest(&self) -> u64 {
        let words = |bytes: &[u8], digest| {
            bytes::digest(
                digest,
                bytes.chunks(8).map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))),
            )
        };
        words(&self.labels, words(&self.pixels, bytes::digest(0, self.shape.map(|extent| extent as u64))))
    }
}

impl ImageDataset {
    /// Creates a batch; `epoch` is that of random changes, if there are any.
    fn batch_of(&self, examples: &[usize], epoch: Option<u32>, device: &Device) -> ImageBatch {
        let ([channels, rows, columns], size) = (self.shape, self.image_bytes());
        let mut numbers = Vec::with_capacity(examples.len() * size);
        for example in examples {
            let image = &self.pixels[example * size..(example + 1) * size];
            let change = epoch.map(|epoch| self.augmentation.change(epoch, *example));
            for (channel, [mean, deviation]) in image.chunks_exact(rows * columns).zip(&self.normalization) {
                let number = |byte: u8| (f32::from(byte) - mean) / deviation;
                match change {
                    None => numbers.extend(channel.iter().map(|byte| number(*byte))),
                    Some(change) => {
                        let of_place = |place: usize| source(change, channel, [rows, columns], place);
                        numbers.extend((0..rows * columns).map(|place| number(of_place(place))));
                    }
                }
            }
        }
        let labels: Vec<i32> = examples.iter().map(|example| i32::from(self.labels[*example])).collect();
        let images = TensorData::new(numbers, [examples.len(), channels, rows, columns]);
        ImageBatch {
            images: Tensor::from_data(images, device),
            labels: Tensor::<1, Int>::from_data(TensorData::new(labels, [examples.len()]), device),
        }
    }
}

/// Returns the byte that comes to a place of a changed channel; black outside.
fn source(change: ImageChange, channel: &[u8], size: [usize; 2], place: usize) -> u8 {
    let columns = size[1].max(1);
    change.source(size, place / columns, place % columns).map_or(0, |from| channel[from])
}

/// Computes mean and standard deviation of each channel. A constant channel is divided by 1.
fn channel_statistics(pixels: &[u8], [channels, rows, columns]: [usize; 3]) -> Vec<[f32; 2]> {
    let mut sums = vec![[0_u64; 2]; channels];
    for (index, channel) in pixels.chunks_exact((rows * columns).max(1)).enumerate() {
        let sum = &mut sums[index % channels];
        for byte in channel {
            let byte = u64::from(*byte);
            *sum = [sum[0] + byte, sum[1] + byte * byte];
        }
    }
    let count = (pixels.len() / channels.max(1)).max(1) as f64;
    let tone = |[sum, squares]: [u64; 2]| {
        let mean = sum as f64 / count;
        let variance = squares as f64 / count - mean * mean;
        [mean as f32, if variance > 1e-9 { variance.sqrt() as f32 } else { 1.0 }]
    };
    sums.into_iter().map(tone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_mean_0_and_deviation_1_by_channel() {
        let pixels: Vec<u8> = (0..2 * 2 * 3 * 3).map(|place: u32| (place * 37 % 251) as u8).collect();
        let images = ImageDataset::new([2, 3, 3], 3, pixels.clone(), vec![0, 2]);
        let batch = images.batch(&[1, 0], &Device::flex());
        assert_eq!(batch.images.dims(), [2, 2, 3, 3]);
        assert_eq!(batch.labels.into_data().try_to_vec::<i32>().unwrap(), [2, 0]);
        let numbers = batch.images.into_data().try_to_vec::<f32>().unwrap();
        for channel in 0..2 {
            let of = |example: usize| (example * 2 + channel) * 9..(example * 2 + channel) * 9 + 9;
            let seen: Vec<f32> = (0..2).flat_map(|example| numbers[of(example)].to_vec()).collect();
            let mean = seen.iter().sum::<f32>() / 18.0;
            let variance = seen.iter().map(|number| number * number).sum::<f32>() / 18.0;
            assert!(mean.abs() < 1e-5 && (variance - 1.0).abs() < 1e-4, "{mean} {variance}");
        }
        // The first example of the batch is the second image.
        let [mean, deviation] = images.normalization[0];
        assert!(((f32::from(pixels[18]) - mean) / deviation - numbers[0]).abs() < 1e-6);
    }

    #[test]
    fn augmented_images_are_shifted_in_training_only() {
        let pixels: Vec<u8> = (0..2 * 16).map(|place| place + 100).collect();
        let images = ImageDataset::new([1, 4, 4], 2, pixels, vec![0, 1]);
        let augmented = images.clone().augmented(ImageAugmentation { flip: true, crop_padding: 2, seed: 3 });
        let numbers = |batch: ImageBatch| batch.images.into_data().try_to_vec::<f32>().unwrap();
        let device = Device::flex();
        assert_eq!(numbers(augmented.batch(&[1], &device)), numbers(images.batch(&[1], &device)));
        let epochs: Vec<_> = (0..6).map(|epoch| numbers(augmented.training_batch(&[1], epoch, &device))).collect();
        assert_ne!(epochs[0], epochs[1]);
        assert_eq!(numbers(augmented.training_batch(&[0, 1], 2, &device))[16..], epochs[2], "batches do not matter");
        // Every pixel is one of the image or black.
        let [mean, deviation] = images.normalization[0];
        let known = numbers(images.batch(&[1], &device));
        let black = -mean / deviation;
        let black_or_known = [known.as_slice(), &[black]].concat();
        assert!(epochs.iter().flatten().all(|number| black_or_known.contains(number)));
        assert!(epochs.iter().any(|numbers| numbers.contains(&black)));
    }

    #[test]
    fn an_unknown_folder_is_refused_with_the_expected_files() {
        let folder = tempfile::tempdir().unwrap();
        let text = ImageDataset::read(folder.path()).unwrap_err().to_string();
        assert!(text.contains("train-images-idx3-ubyte") && text.contains("test_batch.bin"), "{text}");
    }

    #[test]
    fn the_digest_tells_images_apart() {
        let images = |pixels: [u8; 4], labels: [u8; 2]| {
            ImageDataset::new([1, 1, 2], 2, pixels.to_vec(), labels.to_vec()).digest()
        };
        assert_eq!(images([1, 2, 3, 4], [0, 1]), images([1, 2, 3, 4], [0, 1]));
        assert_ne!(images([1, 2, 3, 4], [0, 1]), images([1, 2, 4, 3], [0, 1]));
        assert_ne!(images([1, 2, 3, 4], [0, 1]), images([1, 2, 3, 4], [1, 0]));
    }
}
