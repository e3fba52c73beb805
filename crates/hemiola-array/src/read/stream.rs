//! Standard input and pipes, copied into a temporary file before they are read.
//!
//! Readers take byte ranges on many threads and peers, and errors are located by a second reading;
//! a stream allows neither. It is therefore copied to disk once, with a small buffer, so that its
//! size never counts against memory. **Invariant:** the copy has no name. It is removed right after
//! it is created and reached through the descriptor that its process holds, so it vanishes with the
//! process, however that ends.
//!
//! Peers on the same machine open the copy of the root through `/proc`; a peer elsewhere cannot, and
//! says so. Standard input that is a regular file is read in place.

use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Read, Seek as _, Write as _};
use std::os::fd::{AsFd as _, IntoRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Names of standard input.
const STANDARD_INPUT: [&str; 4] = ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];
/// Name of standard input in messages.
pub(super) const STANDARD_INPUT_NAME: &str = "stdin";

/// Returns true if a path stands for standard input: `-`, or its device.
#[must_use]
pub fn is_standard_input(pattern: &str) -> bool {
    STANDARD_INPUT.contains(&pattern)
}

/// Returns true if a path can be read once only: standard input, or a pipe.
#[must_use]
pub fn is_stream(pattern: &str) -> bool {
    is_standard_input(pattern) || is_pipe(Path::new(pattern))
}

/// Returns true for a named pipe or a process substitution.
pub(super) fn is_pipe(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Returns a path of the contents of standard input.
pub(super) fn standard_input() -> Result<PathBuf> {
    let name = Path::new(STANDARD_INPUT_NAME);
    let failed = |error: io::Error| Error::io("read", name, &error);
    if io::stdin().is_terminal() {
        let problem = "standard input is a terminal; pipe data into it, as in `zcat ratings.csv.gz | hemiola ..`";
        return Err(Error::BadFile { file: name.to_owned(), problem: problem.to_owned() });
    }
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?);
    // A file is read from its start, so a stream that is half consumed counts as a pipe.
    let whole = input.metadata().map_err(failed)?.is_file() && input.stream_position().map_err(failed)? == 0;
    if whole { Ok(descriptor_path(input.into_raw_fd())) } else { copy(name, input) }
}

/// Returns a path of the contents of a pipe. Opening a pipe waits for its writer.
pub(super) fn pipe(path: &Path) -> Result<PathBuf> {
    copy(path, File::open(path).map_err(|error| Error::io("open", path, &error))?)
}

/// Copies a stream into a file without a name.
fn copy(name: &Path, mut input: impl Read) -> Result<PathBuf> {
    let folder = std::env::temp_dir();
    let write_failed = |error: &io::Error| Error::io("write a copy of the input to", &folder, error);
    let mut file = unnamed_file(&folder).map_err(|error| write_failed(&error))?;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => file.write_all(&buffer[..count]).map_err(|error| write_failed(&error))?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read", name, &error)),
        }
    }
    // Kept open until the process ends: other threads and peers open the file through it.
    Ok(descriptor_path(file.into_raw_fd()))
}

/// Creates a file that only its descriptor leads to.
fn unnamed_file(folder: &Path) -> io::Result<File> {
    for attempt in 0_u32.. {
        let path = folder.join(format!("hemiola-input-{}-{attempt}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => return fs::remove_file(&path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Path that leads any process of this user on this machine to a descriptor of this process.
fn descriptor_path(descriptor: i32) -> PathBuf {
    format!("/proc/{}/fd/{descriptor}", std::process::id()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_becomes_a_file_without_a_name() {
        let text = b"1,2,3\n".repeat(100_000);
        let path = copy(Path::new("stdin"), &text[..]).unwrap();
        assert!(fs::read(&path).unwrap() == text);
        assert!(fs::read(&path).unwrap() == text, "it can be read again");
        let shown = fs::read_link(&path).unwrap();
        assert!(shown.to_string_lossy().ends_with(" (deleted)"), "{}", shown.display());
    }

    #[test]
    fn standard_input_has_several_names() {
        assert!(is_standard_input("-") && is_standard_input("/dev/stdin") && is_stream("-"));
        assert!(!is_standard_input("./-") && !is_stream("/dev/null"));
    }
}
