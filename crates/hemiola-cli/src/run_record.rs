//! Record of a run: command, version, input files and machine, as reports and event logs hold it.
//!
//! **Invariant:** the record describes the run and nothing else depends on it: a fact that cannot be
//! found is null, and never an error.

use crate::event_log::unix_time;
use crate::{Invocation, shell};
use hemiola_array::read::{InputFile, InputPaths, is_stream};
use hemiola_cluster::Cluster;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Bytes of all input files together up to which their digests are computed: some 10 s of reading.
const MAX_DIGESTED_BYTES: u64 = 16 << 30;
/// Number of files of a folder or pattern that are listed one by one.
const MAX_LISTED: usize = 1000;
/// Size of a read.
const BUFFER: usize = 1 << 20;

/// Facts about a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunRecord {
    /// Command line, as a shell takes it.
    command: String,
    /// Version of Hemiola.
    version: &'static str,
    /// Start of the run, in seconds since 1970 (UTC).
    started: f64,
    /// Input files, in the order in which they are read.
    files: Vec<FileRecord>,
    environment: EnvironmentRecord,
}

/// Input file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct FileRecord {
    path: PathBuf,
    /// Size as stored; null for streams.
    bytes: Option<u64>,
    /// SHA-256 of the stored bytes; null for streams and objects, and if the files are large.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// Machine and process of a run, as its root sees them.
#[derive(Clone, Debug, Serialize)]
struct EnvironmentRecord {
    host: String,
    /// Operating system with its release, such as `Linux 6.1.0`.
    system: String,
    architecture: &'static str,
    /// Cores that this process may use.
    cores: Option<usize>,
    peers: usize,
    workers: usize,
}

/// Report with the record of its run before its own fields.
#[derive(Serialize)]
pub(crate) struct RecordedReport<'a, T> {
    #[serde(flatten)]
    record: Option<&'a RunRecord>,
    #[serde(flatten)]
    report: &'a T,
    /// Seconds from the start of the command to the report.
    #[serde(skip_serializing_if = "Option::is_none")]
    total_seconds: Option<f64>,
}

impl RunRecord {
    /// Describes this process, and the files behind the paths and patterns `inputs`.
    pub(crate) fn new<'a>(cluster: &Cluster, inputs: impl Iterator<Item = &'a String>) -> Self {
        let system = rustix::system::uname();
        Self {
            command: shell::line(Invocation::current().words()),
            version: env!("CARGO_PKG_VERSION"),
            started: unix_time(),
            files: inputs.flat_map(|input| files(input)).collect(),
            environment: EnvironmentRecord {
                host: system.nodename().to_string_lossy().into_owned(),
                system: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
                architecture: std::env::consts::ARCH,
                cores: std::thread::available_parallelism().ok().map(usize::from),
                peers: cluster.size(),
                workers: cluster.workers(),
            },
        }
    }

    /// Returns the size of the input files whose size is known.
    pub(crate) fn input_bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.bytes).sum()
    }

    /// Adds the digests of the files, which takes a pass over them.
    pub(crate) fn with_digests(mut self) -> Self {
        let total: u64 = self.files.iter().filter_map(|file| file.bytes).sum();
        if total <= MAX_DIGESTED_BYTES {
            for file in self.files.iter_mut().filter(|file| file.bytes.is_some()) {
                file.sha256 = digest(&file.path);
            }
        }
        self
    }

    /// Returns a report with this record before it.
    pub(crate) fn of<'a, T>(record: Option<&'a Self>, report: &'a T) -> RecordedReport<'a, T> {
        let total_seconds = record.map(|record| ((unix_time() - record.started) * 1e3).round().max(0.0) / 1e3);
        RecordedReport { record, report, total_seconds }
    }
}

/// Returns the files behind a path, a folder, a pattern or a URL. Patterns of objects, and what is
/// not found, stay as they are.
fn files(input: &str) -> Vec<FileRecord> {
    let as_given = || vec![FileRecord { path: input.into(), bytes: None, sha256: None }];
    if is_stream(input) || input.contains("://") {
        return as_given();
    }
    let known = |files: Vec<InputFile>| {
        if files.len() > MAX_LISTED {
            let bytes = Some(files.iter().map(InputFile::bytes).sum());
            return vec![FileRecord { path: input.into(), bytes, sha256: None }];
        }
        let record = |file: InputFile| FileRecord { path: file.path().into(), bytes: Some(file.bytes()), sha256: None };
        files.into_iter().map(record).collect()
    };
    let found = InputPaths::from(input).find().or_else(|_| InputFile::find_below(Path::new(input)));
    found.map_or_else(|_| as_given(), known)
}

/// Returns the SHA-256 of a file as hexadecimal digits; `None` if it cannot be read, as a member of
/// an archive.
fn digest(path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; BUFFER]);
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_their_size_and_their_digest() {
        let lab = tempfile::tempdir().unwrap();
        for (name, text) in [("a.csv", "abc"), ("b.csv", "")] {
            std::fs::write(lab.path().join(name), text).unwrap();
        }
        let at = |name: &str| lab.path().join(name).to_str().unwrap().to_owned();
        let found = files(&at("*.csv"));
        assert_eq!(found.iter().map(|file| file.bytes).collect::<Vec<_>>(), [Some(3), Some(0)]);
        // The test vector of FIPS 180-2.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(&found[0].path).as_deref(), Some(expected));
        for input in ["-", "s3://bucket/key", "missing.csv"] {
            assert_eq!(files(input), [FileRecord { path: input.into(), bytes: None, sha256: None }]);
        }
        assert_eq!(digest(Path::new("missing.csv")), None);
    }
}
