//! Integration tests. What belongs where:
//!
//! - `formats`: every format, cut into ranges of every size, gives the same records;
//! - `compressed`: gzip, zstd, bzip2, whole, joined and truncated;
//! - `bad_input`: every kind of bad input with the exact message;
//! - `hostile`: arbitrary bytes, for panics and for answers that depend on the cut;
//! - `dist`: arrays on whole clusters: the same contents and errors on any number of peers and workers;
//! - `find`: files, folders, patterns;
//! - `object`: objects of web servers and stores, with the feature `object-store`;
//! - `real_data`: public data sets under `HEMIOLA_DATA`, with their published counts;
//! - `saving`: what is written comes back, and what is torn does not;
//! - `synthetic`: generated sets have the truth they claim;
//! - `world`: files that change or may not be read, on whole clusters;
//! - `processes`: how tests start peers that are processes.

mod bad_input;
mod compressed;
mod dist;
mod find;
mod formats;
mod hostile;
#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "object-store")]
mod object_server;
mod processes;
mod real_data;
mod saving;
mod synthetic;
mod world;

use hemiola_array::read::{ByteRange, Csv, Report, Source};
use hemiola_array::{Error, Result};
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder with one file in it, and that file.
fn file(contents: impl AsRef<[u8]>) -> (TempDir, Source) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input.txt");
    std::fs::write(&path, contents).unwrap();
    let source = Source::open(&path).unwrap();
    (folder, source)
}

/// A folder with these files in it.
fn folder_with(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        std::fs::write(folder.path().join(name), contents).unwrap();
    }
    folder
}

/// The message of an error without the folder of the test.
fn message(error: &Error, folder: &TempDir) -> String {
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

type Rating = (u32, u32, f32);

/// Reads ratings in ranges of about `target` bytes.
fn ratings(csv: &Csv, source: &Source, target: u64) -> Result<Vec<Rating>> {
    let sources = std::slice::from_ref(source);
    let (mut records, mut reports) = (Vec::new(), Vec::new());
    for range in ByteRange::split(sources, target) {
        reports.push(csv.read(&range, |record: Rating| {
            records.push(record);
            Ok(())
        })?);
    }
    Report::settle(sources, reports, csv.bad_lines_allowed())?;
    Ok(records)
}

/// The path of a data set, or `None` with a word on how to get it.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn data(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("HEMIOLA_DATA") else {
        eprintln!("skipped: HEMIOLA_DATA is not set");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    if !path.exists() {
        eprintln!("skipped: {name} is not there");
        return None;
    }
    Some(path)
}
