//! IDX files, the format of MNIST: a header, then bytes.
//!
//! The header has two zero bytes, the element type (8: bytes), the number of dimensions, and each
//! extent as a big-endian 32-bit integer.

use super::bytes::{bad_file, find, read as read_bytes};
use super::images::ImageDataset;
use hemiola_array::Result;
use std::path::{Path, PathBuf};

/// Images and labels of the training set.
pub(super) const TRAIN: [&str; 2] = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"];
/// Images and labels of the test set.
pub(super) const TEST: [&str; 2] = ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];
/// Element type of unsigned bytes.
const BYTES: u8 = 8;

/// Reads training and test set from a folder.
pub fn read(folder: &Path) -> Result<[ImageDataset; 2]> {
    let train = read_set(folder, TRAIN)?;
    let test = read_set(folder, TEST)?.normalized_as(&train);
    if test.shape() != train.shape() || test.classes() > train.classes() {
        return Err(bad_file(
            &path(folder, TEST[0])?,
            format!(
                "its images are {:?} with {} classes, and the training set has {:?} with {}; use files of one data set",
                test.shape(),
                test.classes(),
                train.shape(),
                train.classes()
            ),
        ));
    }
    Ok([train, test])
}

/// Reads the test set from a folder.
pub(super) fn read_test(folder: &Path) -> Result<ImageDataset> {
    read_set(folder, TEST)
}

/// Reads the images of a file, with their labels if the file of labels is beside it; else all
/// labels are 0. Returns the images and whether they have labels, or `None` if the file is not IDX.
pub(super) fn read_images(images: &Path) -> Result<Option<(ImageDataset, bool)>> {
    let name = images.file_name().unwrap_or_default().to_string_lossy();
    let labels = images.with_file_name(name.replace("images-idx3", "labels-idx1"));
    if labels != images && labels.is_file() {
        return Ok(Some((read_pair(images, &labels)?, true)));
    }
    let bytes = read_bytes(images)?;
    if bytes.len() < 4 || bytes[..3] != [0, 0, BYTES] {
        return Ok(None);
    }
    let ([count, rows, columns], pixels) = parse::<3>(images, bytes)?;
    check_size(images, [count, rows, columns])?;
    Ok(Some((ImageDataset::new([1, rows, columns], 1, pixels, vec![0; count]), false)))
}

fn read_set(folder: &Path, [images, labels]: [&str; 2]) -> Result<ImageDataset> {
    read_pair(&path(folder, images)?, &path(folder, labels)?)
}

fn path(folder: &Path, name: &str) -> Result<PathBuf> {
    let missing = || {
        let problem = "it is missing; expected the four files of MNIST in one folder, plain or compressed";
        bad_file(&folder.join(name), problem)
    };
    find(folder, name).ok_or_else(missing)
}

/// Reads images from one file and labels from another.
pub fn read_pair(images: &Path, labels: &Path) -> Result<ImageDataset> {
    let ([count, rows, columns], pixels) = contents::<3>(images)?;
    let ([labelled], tags) = contents::<1>(labels)?;
    if count != labelled {
        let problem =
            format!("it has {labelled} labels, and `{}` has {count} images; expected one for each", images.display());
        return Err(bad_file(labels, problem));
    }
    let classes = tags.iter().max().map_or(0, |largest| usize::from(*largest) + 1);
    check_size(images, [count, rows, columns])?;
    Ok(ImageDataset::new([1, rows, columns], classes, pixels, tags))
}

fn check_size(images: &Path, extents: [usize; 3]) -> Result<()> {
    if extents.contains(&0) {
        return Err(bad_file(images, "expected at least one image of at least one pixel"));
    }
    Ok(())
}

/// Reads the extents and the elements of a file.
fn contents<const D: usize>(path: &Path) -> Result<([usize; D], Vec<u8>)> {
    parse(path, read_bytes(path)?)
}

fn parse<const D: usize>(path: &Path, mut bytes: Vec<u8>) -> Result<([usize; D], Vec<u8>)> {
    let header = 4 + 4 * D;
    let kind = if D == 3 { "images" } else { "labels" };
    let wanted = [0, 0, BYTES, D as u8];
    if bytes.len() < header || bytes[..4] != wanted {
        let found = &bytes[..bytes.len().min(4)];
        let problem = format!(
            "expected IDX {kind}, whose first bytes are {wanted:?}; found {found:?} (is it another file of the set?)"
        );
        return Err(bad_file(path, problem));
    }
    let extents: [usize; D] = std::array::from_fn(|at| {
        let at = 4 + 4 * at;
        bytes[at..at + 4].iter().fold(0, |extent, byte| extent << 8 | usize::from(*byte))
    });
    let expected = extents.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent));
    let found = bytes.len() - header;
    if expected != Some(found) {
        let expected =
            expected.map_or_else(|| "more bytes than fit in memory".to_owned(), |count| format!("{count} bytes"));
        let problem = format!(
            "its header says {extents:?}, so {expected} follow byte {header}, but {found} do; fetch the file again"
        );
        return Err(bad_file(path, problem));
    }
    bytes.drain(..header);
    Ok((extents, bytes))
}

/// Returns the paths of the four files in a folder, for code that writes them.
#[must_use]
pub fn paths(folder: &Path) -> [PathBuf; 4] {
    [TRAIN[0], TRAIN[1], TEST[0], TEST[1]].map(|name| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::super::Dataset as _;
    use super::*;
    use std::fs;

    fn file(extents: &[u32], bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0, 0, BYTES, extents.len() as u8];
        file.extend(extents.iter().flat_map(|extent| extent.to_be_bytes()));
        file.extend(bytes);
        file
    }

    fn pair(images: &[u8], labels: &[u8]) -> Result<ImageDataset> {
        let folder = tempfile::tempdir().unwrap();
        let [first, second, ..] = paths(folder.path());
        fs::write(&first, images).unwrap();
        fs::write(&second, labels).unwrap();
        read_pair(&first, &second)
    }

    #[test]
    fn files_become_images() {
        let images = pair(&file(&[2, 1, 3], &[1, 2, 3, 4, 5, 6]), &file(&[2], &[1, 0])).unwrap();
        assert_eq!((images.shape(), images.classes(), images.len()), ([1, 1, 3], 2, 2));
        assert_eq!((images.pixels(), images.labels()), (&[1, 2, 3, 4, 5, 6][..], &[1, 0][..]));
    }

    #[test]
    fn bad_files_are_refused_by_name_and_reason() {
        let (good, labels) = (file(&[2, 1, 3], &[1, 2, 3, 4, 5, 6]), file(&[2], &[1, 0]));
        let text = |images: &[u8], labels: &[u8]| pair(images, labels).unwrap_err().to_string();
        let cases = [
            (text(&good[..good.len() - 1], &labels), "6 bytes follow byte 16, but 5 do"),
            (text(&[good.clone(), vec![9]].concat(), &labels), "but 7 do"),
            (text(&labels, &labels), "expected IDX images, whose first bytes are [0, 0, 8, 3]; found [0, 0, 8, 1]"),
            (text(b"", &labels), "found []"),
            (text(&good, &good), "expected IDX labels"),
            (text(&good, &file(&[3], &[0, 1, 0])), "it has 3 labels"),
            (text(&file(&[0, 28, 28], &[]), &file(&[0], &[])), "at least one image"),
            (text(&file(&[u32::MAX, u32::MAX, u32::MAX], &[]), &labels), "more bytes than fit in memory"),
        ];
        for (text, expected) in cases {
            assert!(text.contains(expected) && text.contains("ubyte"), "{text}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(&paths(folder.path())[0], file(&[1, 1, 1], &[0])).unwrap();
        let text = read(folder.path()).unwrap_err().to_string();
        assert!(text.contains("train-labels-idx1-ubyte") && text.contains("missing"), "{text}");
    }
}
