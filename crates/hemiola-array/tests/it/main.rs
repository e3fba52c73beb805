//! Integration tests, by file:
//!
//! - `formats`: every format gives the same records for any split into ranges;
//! - `compressed`: gzip, zstd, bzip2, whole, concatenated and truncated;
//! - `bad_input`: every kind of bad input with the exact message;
//! - `hostile`: fuzzing for panics and for answers that depend on the split;
//! - `crashes`: saves on simulated disks that crash, lose and refuse;
//! - `dist`: arrays on whole clusters: the same contents and errors on any number of peers and
//!   workers;
//! - `file_access`: files that change or cannot be read, on whole clusters;
//! - `find`: files, folders, patterns;
//! - `object`: objects of web servers and stores, with the feature `object-store`;
//! - `real_data`: public data sets under `HEMIOLA_DATA`, with their published counts;
//! - `saved_values`: numbers in saves that are no distributed array;
//! - `saving`: round trips of saves, and rejection of damaged ones;
//! - `synthetic`: synthetic sets have the truth they claim.

mod bad_input;
mod compressed;
mod crashes;
mod dist;
mod file_access;
mod find;
mod formats;
mod hostile;
#[cfg(feature = "object-store")]
mod object;
#[cfg(feature = "object-store")]
mod object_server;
mod real_data;
mod saved_values;
mod saving;
mod synthetic;

use hemiola_array::read::{ByteRange, Csv, InputFile, ReadReport};
use hemiola_array::{Error, Result};
use tempfile::TempDir;

/// Folder with one file in it, and that file.
fn file(contents: impl AsRef<[u8]>) -> (TempDir, InputFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input.txt");
    std::fs::write(&path, contents).unwrap();
    let source = InputFile::open(&path).unwrap();
    (folder, source)
}

/// Folder with these files in it.
fn folder_with(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        std::fs::write(folder.path().join(name), contents).unwrap();
    }
    folder
}

/// Message of an error without the folder of the test.
fn message(error: &Error, folder: &TempDir) -> String {
    error.to_string().replace(&format!("{}/", folder.path().display()), "")
}

type Rating = (u32, u32, f32);

/// Reads ratings in ranges of about `target` bytes.
fn ratings(csv: &Csv, source: &InputFile, target: u64) -> Result<Vec<Rating>> {
    let sources = std::slice::from_ref(source);
    let (mut records, mut reports) = (Vec::new(), Vec::new());
    for range in ByteRange::split(sources, target) {
        reports.push(csv.read(&range, |record: Rating| {
            records.push(record);
            Ok(())
        })?);
    }
    ReadReport::merge(sources, reports, csv.bad_lines_allowed())?;
    Ok(records)
}

/// Standard output of three peers that run the entry point `name`. `prepare` adds to their commands.
fn peers_of_three(name: &str, prepare: impl Fn(u32, &mut std::process::Command)) -> Vec<String> {
    hemiola_testkit::PeerProcesses::start(3, name, prepare).finish()
}
