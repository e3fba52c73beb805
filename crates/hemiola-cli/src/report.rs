//! Results for programs: JSON to a file, or to standard output with `-`.

use crate::output::{self, Compress, Staged};
use serde::Serialize;
use std::path::Path;

/// Writes `report` to `target`; `-` is standard output. A file appears whole or not at all.
pub(crate) fn write(target: &Path, report: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    if target == Path::new("-") {
        return output::print(&text);
    }
    if target.exists() && !target.is_file() {
        // A pipe or a device such as `/dev/null`: renaming would replace it.
        return std::fs::write(target, text)
            .map_err(|error| crate::failure::Failure::io("write the report to", target, &error).into());
    }
    let mut staged = Staged::create(target, Compress::None)?;
    staged.write(text.as_bytes())?;
    staged.finish()?.publish()
}
