//! Whole files, for formats that are one block of bytes; and a number for what was read.

use hemiola_array::read::Source;
use hemiola_array::{Error, Result};
use std::path::Path;

/// What is read at once.
const PIECE: usize = 1 << 18;

/// The decoded contents of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut reader = Source::open(path)?.reader()?;
    let mut bytes = Vec::new();
    loop {
        let filled = bytes.len();
        bytes.resize(filled + PIECE, 0);
        let count = reader.fill(&mut bytes[filled..])?;
        bytes.truncate(filled + count);
        if count < PIECE {
            return Ok(bytes);
        }
    }
}

/// A file that is not what its format asks for.
pub(super) fn bad(path: &Path, problem: impl Into<String>) -> Error {
    Error::BadFile { file: path.to_owned(), problem: problem.into() }
}

/// The first of these files that is there, plain or compressed.
pub(super) fn find(folder: &Path, name: &str) -> Option<std::path::PathBuf> {
    ["", ".gz", ".zst", ".bz2"]
        .into_iter()
        .map(|ending| folder.join(format!("{name}{ending}")))
        .find(|path| path.is_file())
}

/// Goes on with a digest: FNV-1a, over words rather than bytes.
pub(super) fn digest(digest: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(digest ^ 0xcbf2_9ce4_8422_2325, |digest, word| {
        let mixed = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
        mixed ^ (mixed >> 32)
    })
}
