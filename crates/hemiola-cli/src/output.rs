//! What a command writes: text to standard output, and files that appear whole or not at all.
//!
//! **Invariant:** a file is written under the name `.NAME.partial` beside its target and renamed when it is complete and
//! synced. Whoever fails on the way drops the [`StagedFile`] or [`CompleteFile`] file, and dropping removes it. A killed command can
//! leave one such file; the next one for the same target overwrites it.

use crate::error::CommandError;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Prints to standard output. A reader that has seen enough (`| head`) is no reason to fail.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::io("write to", Path::new("standard output"), &error).into())
        }
        _ => Ok(()),
    }
}

/// Writes a file that appears whole or not at all; to a pipe or a device as it is.
pub(crate) fn write(target: &Path, text: &str) -> anyhow::Result<()> {
    if target.exists() && !target.is_file() {
        return fs::write(target, text).map_err(|error| CommandError::io("write to", target, &error).into());
    }
    let mut staged = StagedFile::create(target, OutputCompression::None)?;
    staged.write(text.as_bytes())?;
    staged.finish()?.publish()
}

/// Says something on standard error that is neither a result nor a failure.
pub(crate) fn note(text: &str) {
    // If standard error is closed, nobody wants to know.
    let _ = writeln!(io::stderr().lock(), "hemiola: {text}");
}

/// Files whose names begin with `prefix`.
pub(crate) fn with_ends<const N: usize>(prefix: &Path, ends: [&str; N]) -> anyhow::Result<[PathBuf; N]> {
    let Some(name) = prefix.file_name() else {
        let message = format!("`{}` is no beginning of a file's name", prefix.display());
        return Err(CommandError::usage(message).hint("use --output folder/name").into());
    };
    Ok(ends.map(|end| {
        let mut name = name.to_owned();
        name.push(end);
        prefix.with_file_name(name)
    }))
}

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputCompression {
    None,
    Gzip,
    Zstd,
}

impl OutputCompression {
    /// What the ending of a name asks for; an error for one that cannot be written.
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
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

/// Removes a file when it is dropped, unless it has moved.
#[derive(Debug)]
struct TemporaryFile(PathBuf);

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // It may have moved; if it cannot be removed, nobody is left to tell.
        let _ = fs::remove_file(&self.0);
    }
}

/// A file being written.
pub(crate) struct StagedFile {
    temporary: TemporaryFile,
    target: PathBuf,
    sink: FileEncoder,
}

/// A file that is complete but not yet visible.
#[derive(Debug)]
#[must_use = "publish it, or drop it to remove it"]
pub(crate) struct CompleteFile {
    temporary: TemporaryFile,
    target: PathBuf,
}

impl StagedFile {
    /// Begins a file. Fails if its folder does not exist or cannot be written to.
    pub(crate) fn create(target: &Path, compress: OutputCompression) -> anyhow::Result<Self> {
        let Some(name) = target.file_name().filter(|_| !target.is_dir()) else {
            let message = format!("cannot write `{}`: it is a folder", target.display());
            return Err(CommandError::usage(message).hint("add the name of a file").into());
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".partial");
        let path = target.with_file_name(hidden);
        let failed = |error: io::Error| CommandError::io("write", target, &error);
        let file = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(failed)?);
        let temporary = TemporaryFile(path);
        let sink = match compress {
            OutputCompression::None => FileEncoder::Plain(file),
            OutputCompression::Gzip => FileEncoder::Gzip(GzEncoder::new(file, Compression::default())),
            OutputCompression::Zstd => FileEncoder::Zstd(zstd::stream::write::Encoder::new(file, 3).map_err(failed)?),
        };
        Ok(Self { temporary, target: target.to_owned(), sink })
    }

    /// Appends bytes.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let written = match &mut self.sink {
            FileEncoder::Plain(file) => file.write_all(bytes),
            FileEncoder::Gzip(file) => file.write_all(bytes),
            FileEncoder::Zstd(file) => file.write_all(bytes),
        };
        written.map_err(|error| CommandError::io("write", &self.target, &error).into())
    }

    /// Completes and syncs the file.
    pub(crate) fn finish(self) -> anyhow::Result<CompleteFile> {
        let Self { temporary, target, sink } = self;
        let complete = || {
            let file = match sink {
                FileEncoder::Plain(file) => file,
                FileEncoder::Gzip(file) => file.finish()?,
                FileEncoder::Zstd(file) => file.finish()?,
            };
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        complete().map_err(|error| CommandError::io("write", &target, &error))?;
        Ok(CompleteFile { temporary, target })
    }
}

impl CompleteFile {
    /// Makes the file visible under its name, in place of what was there.
    pub(crate) fn publish(self) -> anyhow::Result<()> {
        fs::rename(&self.temporary.0, &self.target)
            .map_err(|error| CommandError::io("write", &self.target, &error).into())
    }
}
