//! JSON reports: to a file, or to standard output with `-`.

use crate::error::CommandError;
use crate::output::{self, OutputCompression, StagedFile};
use serde::Serialize;
use std::io::Write as _;
use std::path::Path;

/// Approximate size in bytes of the report of a long training run.
const TYPICAL_BYTES: usize = 64 << 10;

/// Writes `report` to `target`; `-` is standard output. A file appears complete or not at all.
pub(crate) fn write(target: &Path, report: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    if target == Path::new("-") {
        return output::print(&text);
    }
    if target.exists() && !target.is_file() {
        // Renaming would replace a pipe or a device such as `/dev/null`.
        return std::fs::write(target, text)
            .map_err(|error| CommandError::io("write the report to", target, &error).into());
    }
    let mut staged = StagedFile::create(target, OutputCompression::None)?;
    staged.write(text.as_bytes())?;
    staged.finish()?.publish()
}

/// Checks that [`write`] can write to `target`, without touching an existing file.
pub(crate) fn check(target: &Path) -> anyhow::Result<()> {
    if target == Path::new("-") {
        return Ok(());
    }
    if target.is_dir() {
        let message = format!("cannot write the report to `{}`: it is a folder", target.display());
        return Err(CommandError::usage(message).hint("add the name of a file").into());
    }
    let failed = |error: std::io::Error| anyhow::Error::from(CommandError::io("write the report to", target, &error));
    if target.exists() && !target.is_file() {
        // Opening a pipe would block until it has a reader.
        return Ok(());
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // A full disk may still have room for an empty file, so the check writes bytes.
    tempfile::tempfile_in(folder).and_then(|mut file| file.write_all(&vec![b' '; TYPICAL_BYTES])).map_err(failed)
}
