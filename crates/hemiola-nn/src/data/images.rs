//! Labelled images of equal size.
//!
//! They are stored as bytes and converted batch by batch. Each channel is normalized to mean 0 and
//! standard deviation 1, with the statistics of the training set.

use super::{Dataset, bytes, cifar, idx};
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
        Self { shape, classes, pixels, labels, normalization: tones }
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

    /// Reads training and test set from a folder of MNIST (or a set in its format) or CIFAR-10.
    pub fn read(folder: &Path) -> Result<[Self; 2]> {
        if bytes::find(folder, idx::TRAIN[0]).is_some() {
            idx::read(folder)
        } else if bytes::find(folder, cifar::TEST).is_some() {
            cifar::read(folder)
        } else {
            let problem = format!(
                "expected a folder with the files of MNIST (`{}` and three more) or the binary files of CIFAR-10 (`{}` and five more), plain or compressed",
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
        let ([channels, rows, columns], size) = (self.shape, self.image_bytes());
        let mut numbers = Vec::with_capacity(examples.len() * size);
        for example in examples {
            let image = &self.pixels[example * size..(example + 1) * size];
            for (channel, [mean, deviation]) in image.chunks_exact(rows * columns).zip(&self.normalization) {
                numbers.extend(channel.iter().map(|byte| (f32::from(*byte) - mean) / deviation));
            }
        }
        let labels: Vec<i32> = examples.iter().map(|example| i32::from(self.labels[*example])).collect();
        let images = TensorData::new(numbers, [examples.len(), channels, rows, columns]);
        ImageBatch {
            images: Tensor::from_data(images, device),
            labels: Tensor::<1, Int>::from_data(TensorData::new(labels, [examples.len()]), device),
        }
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
