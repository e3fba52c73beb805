//! Binary files of CIFAR-10: records of a label and an image of 32 × 32 pixels in three channels.

use super::bytes::{bad_file, find, read as read_bytes};
use super::images::ImageDataset;
use hemiola_array::Result;
use std::path::{Path, PathBuf};

/// File of the test set.
pub(super) const TEST: &str = "test_batch.bin";
const SHAPE: [usize; 3] = [3, 32, 32];
/// Names of the classes, as in `batches.meta.txt`.
const CLASSES: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];
const RECORD: usize = 1 + 3 * 32 * 32;

/// Returns the names of so many classes of images of this size: those of CIFAR-10, or numbers.
pub(super) fn class_names(count: usize, size: Option<[usize; 2]>) -> Vec<String> {
    if count == CLASSES.len() && size == Some([SHAPE[1], SHAPE[2]]) {
        return CLASSES.map(str::to_owned).to_vec();
    }
    (0..count).map(|class| class.to_string()).collect()
}

/// Reads training and test set from a folder with `data_batch_1.bin` to `data_batch_5.bin`, of
/// which some may be missing, and `test_batch.bin`.
pub fn read(folder: &Path) -> Result<[ImageDataset; 2]> {
    let batches: Vec<PathBuf> =
        (1..=5).filter_map(|number| find(folder, &format!("data_batch_{number}.bin"))).collect();
    if batches.is_empty() {
        return Err(bad_file(
            &folder.join("data_batch_1.bin"),
            "it is missing; expected the binary files of CIFAR-10 in one folder",
        ));
    }
    let test = find(folder, TEST).ok_or_else(|| {
        bad_file(&folder.join(TEST), "it is missing; expected the binary files of CIFAR-10 in one folder")
    })?;
    let train = read_files(&batches)?;
    let test = read_files(&[test])?.normalized_as(&train);
    Ok([train, test])
}

/// Reads the images of these files, concatenated.
pub fn read_files(files: &[PathBuf]) -> Result<ImageDataset> {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for file in files {
        let bytes = read_bytes(file)?;
        if bytes.is_empty() || bytes.len() % RECORD != 0 {
            let problem = format!(
                "it has {} bytes; expected records of {RECORD}: a label and 3 times 32 times 32 bytes; fetch the file again",
                bytes.len()
            );
            return Err(bad_file(file, problem));
        }
        for (number, record) in bytes.chunks_exact(RECORD).enumerate() {
            let label = record[0];
            if usize::from(label) >= CLASSES.len() {
                let problem = format!(
                    "the label of record {number}, at byte {}, is {label}; expected 0 to 9 (CIFAR-100 has another format)",
                    number * RECORD
                );
                return Err(bad_file(file, problem));
            }
            labels.push(label);
            pixels.extend_from_slice(&record[1..]);
        }
    }
    Ok(ImageDataset::new(SHAPE, CLASSES.len(), pixels, labels).with_class_names(CLASSES))
}

#[cfg(test)]
mod tests {
    use super::super::Dataset as _;
    use super::*;
    use std::fs;

    fn record(label: u8) -> Vec<u8> {
        let mut record = vec![label; RECORD];
        record[RECORD - 1] = 200;
        record
    }

    #[test]
    fn records_of_all_files_become_images() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, labels: &[u8]| {
            fs::write(folder.path().join(name), labels.iter().flat_map(|label| record(*label)).collect::<Vec<_>>())
                .unwrap();
        };
        write("data_batch_1.bin", &[3, 9]);
        write("data_batch_4.bin", &[0]);
        write(TEST, &[5]);
        let [train, test] = ImageDataset::read(folder.path()).unwrap();
        assert_eq!((train.labels(), train.shape(), test.len()), (&[3, 9, 0][..], SHAPE, 1));
        assert_eq!((train.pixels()[0], train.pixels()[3 * 1024 - 1], train.pixels()[3 * 1024]), (3, 200, 9));
        assert!(train.normalization().eq(test.normalization()));
        assert_eq!(test.class_names()[5], "dog");
    }

    #[test]
    fn bad_files_are_refused_by_name_and_reason() {
        let folder = tempfile::tempdir().unwrap();
        let text = |bytes: &[u8]| {
            let path = folder.path().join("data_batch_1.bin");
            fs::write(&path, bytes).unwrap();
            read_files(&[path]).unwrap_err().to_string()
        };
        assert!(text(&record(1)[..RECORD - 1]).contains("it has 3072 bytes"));
        assert!(text(b"").contains("it has 0 bytes"));
        assert!(text(&[record(1), record(10)].concat()).contains("record 1, at byte 3073, is 10"));
        let text = read(folder.path()).unwrap_err().to_string();
        assert!(text.contains("test_batch.bin"), "{text}");
    }
}
