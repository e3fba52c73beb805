//! Labelled JPEG or PNG images in one file: records of a label (a byte), a length (two bytes, little
//! endian) and the bytes of an image file.
//!
//! `train.jpk` and `test.jpk` of a folder are the two sets. Images of 32 by 32 pixels with ten labels
//! get the names of the classes of CIFAR-10.

use super::bytes::{bad_file, find, read as read_bytes};
use super::cifar;
use super::image_file::ImageCollector;
use super::images::ImageDataset;
use hemiola_array::Result;
use std::path::Path;

/// Files of the training set and the test set.
pub(super) const TRAIN: &str = "train.jpk";
pub(super) const TEST: &str = "test.jpk";
/// Bytes before each image.
const HEAD: usize = 3;

/// Reads training and test set from a folder.
pub(super) fn read(folder: &Path, size: Option<[usize; 2]>) -> Result<[ImageDataset; 2]> {
    let file = |name: &str| find(folder, name).ok_or_else(|| bad_file(&folder.join(name), "it is missing"));
    let (train, labels) = read_file(&file(TRAIN)?, size, size.is_some())?;
    let (test, test_labels) = read_file(&file(TEST)?, train.size(), size.is_some())?;
    let count = labels.iter().chain(&test_labels).map(|label| usize::from(*label) + 1).max().unwrap_or(0);
    let classes = cifar::class_names(count, train.size());
    let channels = if train.has_color() || test.has_color() { 3 } else { 1 };
    let train = train.dataset(channels, labels, &classes);
    let test = test.dataset(channels, test_labels, &classes).normalized_as(&train);
    Ok([train, test])
}

/// Reads the images of a file for a net that takes `shape` and knows `classes`.
pub(super) fn read_for(file: &Path, [channels, rows, columns]: [usize; 3], classes: &[String]) -> Result<ImageDataset> {
    let (images, labels) = read_file(file, Some([rows, columns]), true)?;
    if let Some(label) = labels.iter().find(|label| usize::from(**label) >= classes.len()) {
        let problem = format!("an image has the label {label}, and the net knows {} classes", classes.len());
        return Err(bad_file(file, problem));
    }
    Ok(images.dataset(channels, labels, classes))
}

fn read_file(file: &Path, size: Option<[usize; 2]>, resizes: bool) -> Result<(ImageCollector, Vec<u8>)> {
    let bytes = read_bytes(file)?;
    let (mut images, mut labels, mut at) = (ImageCollector::new(size), Vec::new(), 0);
    while at < bytes.len() {
        let head = bytes.get(at..at + HEAD);
        let length = head.map(|head| usize::from(u16::from_le_bytes([head[1], head[2]])));
        let image = length.and_then(|length| bytes.get(at + HEAD..at + HEAD + length));
        let (Some(head), Some(image)) = (head, image) else {
            let problem = format!("record {} at byte {at} is cut off; fetch the file again", labels.len());
            return Err(bad_file(file, problem));
        };
        // The errors of an image name the file and its record.
        let name = file.join(format!("record {}", labels.len()));
        images.add(&name, image, resizes)?;
        labels.push(head[0]);
        at += HEAD + image.len();
    }
    if labels.is_empty() {
        return Err(bad_file(file, "it is empty"));
    }
    Ok((images, labels))
}

#[cfg(test)]
mod tests {
    use super::super::Dataset as _;
    use super::super::image_file::tests::png;
    use super::*;

    fn record(label: u8, tone: u8) -> Vec<u8> {
        let image = png(32, 32, |row, _| [tone, row as u8, 0]);
        [&[label][..], &(image.len() as u16).to_le_bytes(), &image].concat()
    }

    #[test]
    fn records_become_images() {
        let lab = tempfile::tempdir().unwrap();
        std::fs::write(lab.path().join(TRAIN), [record(9, 1), record(3, 2)].concat()).unwrap();
        std::fs::write(lab.path().join(TEST), record(0, 7)).unwrap();
        let [train, test] = ImageDataset::read(lab.path()).unwrap();
        assert_eq!((train.labels(), train.shape(), test.len()), (&[9, 3][..], [3, 32, 32], 1));
        assert_eq!((train.pixels()[0], train.pixels()[3 * 1024], test.pixels()[0]), (1, 2, 7));
        assert_eq!(train.class_names()[9], "truck");
        let (again, has_labels) = ImageDataset::read_for(lab.path(), [3, 32, 32], train.class_names()).unwrap();
        assert_eq!((again.pixels(), has_labels), (test.pixels(), true));
    }

    #[test]
    fn cut_files_are_refused_by_record() {
        let lab = tempfile::tempdir().unwrap();
        let bytes = [record(1, 1), record(2, 2)].concat();
        let (half, file) = (bytes.len() / 2, lab.path().join(TEST));
        std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let told = read_file(&file, None, false).unwrap_err().to_string();
        assert!(told.contains("test.jpk") && told.contains("record 1") && told.contains("cut off"), "{told}");
        let mut damaged = bytes;
        damaged[half + 60] ^= 0xff;
        std::fs::write(&file, damaged).unwrap();
        let told = read_file(&file, None, false).unwrap_err().to_string();
        assert!(told.contains("record 1") && told.contains("cannot be decoded"), "{told}");
    }
}
