//! Output of commands: text on standard output, and files that appear complete or not at all.
//!
//! Names of data files and models go to standard output, usually a terminal, so control characters
//! in them are escaped. Files get them as they are.
//!
//! **Invariant:** a file is an [`AtomicFile`]: written under a fresh name beside its target, and
//! renamed when it is complete and synced. On failure the [`StagedFile`] or [`CompleteFile`] is
//! dropped, and dropping removes the file. A killed command can leave one such file; the next
//! command for the same target removes it.

use crate::activity;
use crate::error::CommandError;
use crate::terminal::Palette;
use flate2::Compression;
use flate2::write::GzEncoder;
use hemiola_array::files::AtomicFile;
use hemiola_core::printable_lines;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Prints to standard output. A closed pipe (`| head`) is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_styled(&printable_lines(text))
}

/// Prints text whose colours are of this command. Its names must have been checked for control
/// characters.
pub(crate) fn print_styled(text: &str) -> anyhow::Result<()> {
    activity::end();
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::io("write to", Path::new("standard output"), &error).into())
        }
        _ => Ok(()),
    }
}

/// Writes a file that appears complete or not at all. Pipes and devices are written directly.
pub(crate) fn write(target: &Path, text: &str) -> anyhow::Result<()> {
    if target.exists() && !target.is_file() {
        return fs::write(target, text).map_err(|error| CommandError::io("write to", target, &error).into());
    }
    let mut staged = StagedFile::create(target, OutputCompression::None)?;
    staged.write(text.as_bytes())?;
    staged.finish()?.publish()
}

/// Prints a note on standard error: neither a result nor an error.
pub(crate) fn note(text: &str) {
    activity::end();
    let label = Palette::stderr().note("hemiola:");
    // A closed standard error drops notes.
    let _ = writeln!(io::stderr().lock(), "{label} {}", printable_lines(text));
}

/// Returns the paths that consist of `prefix` and each of the `suffixes`.
#[cfg(feature = "sim")]
pub(crate) fn with_suffixes<const N: usize>(prefix: &Path, suffixes: [&str; N]) -> anyhow::Result<[PathBuf; N]> {
    let Some(name) = prefix.file_name() else {
        let message = format!("`{}` is not a prefix of a file name", prefix.display());
        return Err(CommandError::usage(message).hint("use --output folder/name").into());
    };
    Ok(suffixes.map(|suffix| {
        let mut name = name.to_owned();
        name.push(suffix);
        prefix.with_file_name(name)
    }))
}

/// Compression of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputCompression {
    None,
    Gzip,
    Zstd,
}

impl OutputCompression {
    /// Returns the compression that the extension of a path selects, or an error if it is not
    /// supported.
    pub(crate) fn of_name(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Ok(Self::Gzip),
            Some("zst") => Ok(Self::Zstd),
            Some(ending @ ("bz2" | "xz" | "zip" | "lz4")) => {
                let message = format!("cannot write `{}`: files are not compressed as `.{ending}`", path.display());
                Err(CommandError::usage(message).hint("let the name end with `.gz`, `.zst` or neither").into())
            }
            _ => Ok(Self::None),
        }
    }
}

enum FileEncoder {
    Plain(BufWriter<AtomicFile>),
    Gzip(GzEncoder<BufWriter<AtomicFile>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<AtomicFile>>),
}

/// Output file that is being written under a temporary name.
pub(crate) struct StagedFile {
    target: PathBuf,
    sink: FileEncoder,
}

/// Output file that is complete and synced, but not yet visible under its name.
#[derive(Debug)]
#[must_use = "publish it, or drop it to remove it"]
pub(crate) struct CompleteFile(AtomicFile);

impl StagedFile {
    /// Creates the temporary file. Fails if its folder does not exist or is not writable.
    pub(crate) fn create(target: &Path, compress: OutputCompression) -> anyhow::Result<Self> {
        if target.file_name().is_none() || target.is_dir() {
            let message = format!("cannot write `{}`: it is a folder", target.display());
            return Err(CommandError::usage(message).hint("add the name of a file").into());
        }
        let failed = |error: io::Error| CommandError::io("write", target, &error);
        let file = BufWriter::with_capacity(1 << 18, AtomicFile::create(target).map_err(failed)?);
        let sink = match compress {
            OutputCompression::None => FileEncoder::Plain(file),
            OutputCompression::Gzip => FileEncoder::Gzip(GzEncoder::new(file, Compression::default())),
            OutputCompression::Zstd => FileEncoder::Zstd(zstd::stream::write::Encoder::new(file, 3).map_err(failed)?),
        };
        Ok(Self { target: target.to_owned(), sink })
    }

    /// Appends bytes to the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = match &mut self.sink {
            FileEncoder::Plain(file) => file.write_all(bytes),
            FileEncoder::Gzip(file) => file.write_all(bytes),
            FileEncoder::Zstd(file) => file.write_all(bytes),
        };
        written.map_err(|error| CommandError::io("write", &self.target, &error).into())
    }

    /// Completes, compresses and syncs the file.
    pub(crate) fn finish(self) -> anyhow::Result<CompleteFile> {
        let Self { target, sink } = self;
        let complete = || {
            let file = match sink {
                FileEncoder::Plain(file) => file,
                FileEncoder::Gzip(file) => file.finish()?,
                FileEncoder::Zstd(file) => file.finish()?,
            };
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync().map(|()| file)
        };
        Ok(CompleteFile(complete().map_err(|error: io::Error| CommandError::io("write", &target, &error))?))
    }
}

impl CompleteFile {
    /// Makes the file visible under its name; an existing file is replaced.
    pub(crate) fn publish(self) -> anyhow::Result<()> {
        let target = self.0.target().to_owned();
        self.0.publish().map_err(|error| CommandError::io("write", &target, &error).into())
    }
}
