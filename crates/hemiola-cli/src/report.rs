//! Results for programs: JSON to a file, or to standard output with `-`.

use anyhow::Context;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Writes `report` to `target`; `-` is standard output.
pub(crate) fn write(target: &Path, report: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    if target == Path::new("-") {
        std::io::stdout().write_all(text.as_bytes()).context("cannot write the report to standard output")
    } else {
        std::fs::write(target, text).with_context(|| format!("cannot write the report to `{}`", target.display()))
    }
}
