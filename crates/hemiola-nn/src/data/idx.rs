//! The files of MNIST: IDX, a header and then bytes.
//!
//! A header is two zeros, the type of numbers (8: bytes), how many extents follow, and those, as big-endian numbers of four bytes.

use super::bytes::{bad, find, read as read_bytes};
use super::images::Images;
use hemiola_array::Result;
use std::path::{Path, PathBuf};

/// Images and labels to train on.
pub(super) const TRAIN: [&str; 2] = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte"];
/// Images and labels to test with.
const TEST: [&str; 2] = ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];
/// The type of numbers that there is.
const BYTES: u8 = 8;

/// Images to train on and images to test with, from a folder.
pub fn read(folder: &Path) -> Result<[Images; 2]> {
    let path = |name: &str| {
        let missing = || {
            bad(
                &folder.join(name),
                "it is missing; expected the four files of MNIST in one folder, as they are or compressed",
            )
        };
        find(folder, name).ok_or_else(missing)
    };
    let pair = |[images, labels]: [&str; 2]| -> Result<Images> { read_pair(&path(images)?, &path(labels)?) };
    let train = pair(TRAIN)?;
    let test = pair(TEST)?.toned_as(&train);
    if test.shape() != train.shape() || test.classes() > train.classes() {
        return Err(bad(
            &path(TEST[0])?,
            format!(
                "its images are {:?} of {} classes, and those to train on {:?} of {}; both must be of one set",
                test.shape(),
                test.classes(),
                train.shape(),
                train.classes()
            ),
        ));
    }
    Ok([train, test])
}

/// Images of one file and labels of another.
pub fn read_pair(images: &Path, labels: &Path) -> Result<Images> {
    let ([count, rows, columns], pixels) = contents::<3>(images)?;
    let ([labelled], tags) = contents::<1>(labels)?;
    if count != labelled {
        let problem =
            format!("it has {labelled} labels, and `{}` has {count} images; expected one for each", images.display());
        return Err(bad(labels, problem));
    }
    let classes = tags.iter().max().map_or(0, |largest| usize::from(*largest) + 1);
    if count == 0 || rows == 0 || columns == 0 {
        return Err(bad(images, "expected at least one image of at least one pixel"));
    }
    Ok(Images::new([1, rows, columns], classes, pixels, tags))
}

/// Extents and bytes.
fn contents<const D: usize>(path: &Path) -> Result<([usize; D], Vec<u8>)> {
    let mut bytes = read_bytes(path)?;
    let header = 4 + 4 * D;
    let kind = if D == 3 { "images" } else { "labels" };
    let wanted = [0, 0, BYTES, D as u8];
    if bytes.len() < header || bytes[..4] != wanted {
        let found = &bytes[..bytes.len().min(4)];
        let problem = format!(
            "expected IDX {kind}, whose first bytes are {wanted:?}; found {found:?} (is it another file of the set?)"
        );
        return Err(bad(path, problem));
    }
    let extents: [usize; D] = std::array::from_fn(|at| {
        let at = 4 + 4 * at;
        bytes[at..at + 4].iter().fold(0, |extent, byte| extent << 8 | usize::from(*byte))
    });
    let expected = extents.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent));
    let found = bytes.len() - header;
    if expected != Some(found) {
        let expected = expected.map_or_else(|| "more bytes than can be".to_owned(), |count| format!("{count} bytes"));
        let problem = format!(
            "its header says {extents:?}, so {expected} follow byte {header}, but {found} do; fetch the file again"
        );
        return Err(bad(path, problem));
    }
    bytes.drain(..header);
    Ok((extents, bytes))
}

/// Where the files of a folder lie, for those who write some.
#[must_use]
pub fn paths(folder: &Path) -> [PathBuf; 4] {
    [TRAIN[0], TRAIN[1], TEST[0], TEST[1]].map(|name| folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::super::Examples as _;
    use super::*;
    use std::fs;

    fn file(extents: &[u32], bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0, 0, BYTES, extents.len() as u8];
        file.extend(extents.iter().flat_map(|extent| extent.to_be_bytes()));
        file.extend(bytes);
        file
    }

    fn pair(images: &[u8], labels: &[u8]) -> Result<Images> {
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
            (text(&file(&[u32::MAX, u32::MAX, u32::MAX], &[]), &labels), "more bytes than can be"),
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
