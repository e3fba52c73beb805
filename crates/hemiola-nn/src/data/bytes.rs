//! Reads whole files, for binary formats, and computes digests of data sets.

use hemiola_array::read::InputFile;
use hemiola_array::{Error, Result};
use std::path::Path;

/// Bytes of one read.
const READ_BYTES: usize = 1 << 18;

/// Returns the decompressed contents of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    read_all(&InputFile::open(path)?)
}

/// Returns the decoded contents of an input.
pub(super) fn read_all(file: &InputFile) -> Result<Vec<u8>> {
    let mut reader = file.reader()?;
    let mut bytes = Vec::new();
    loop {
        let filled = bytes.len();
        bytes.resize(filled + READ_BYTES, 0);
        let count = reader.fill(&mut bytes[filled..])?;
        bytes.truncate(filled + count);
        if count < READ_BYTES {
            return Ok(bytes);
        }
    }
}

/// Error for a file that does not have the expected format.
pub(super) fn bad_file(path: &Path, problem: impl Into<String>) -> Error {
    Error::BadFile { file: path.to_owned(), problem: problem.into() }
}

/// Finds a file by name, plain or with a suffix of a compression format.
pub(super) fn find(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    ["", ".gz", ".zst", ".bz2"]
        .into_iter()
        .map(|ending| folder.join(format!("{name}{ending}")))
        .find(|path| path.is_file())
}

/// Continues a digest: FNV-1a over 64-bit words.
pub(super) fn digest(digest: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(digest ^ 0xcbf2_9ce4_8422_2325, |digest, word| {
        let mixed = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
        mixed ^ (mixed >> 32)
    })
}
