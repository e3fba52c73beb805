//! `hemiola bench`: the benchmarks of `hemiola-bench`, with this command's reports and exit codes.

use crate::report;
use hemiola_bench::{Bench, ReportWriter};
use std::path::Path;
use std::process::ExitCode;

/// Writer of benchmark reports, in the form of all reports of this command.
struct CommandReports;

impl ReportWriter for CommandReports {
    fn check(&self, target: &Path) -> anyhow::Result<()> {
        report::check(target)
    }

    fn write(&self, target: &Path, report: &serde_json::Value) -> anyhow::Result<()> {
        report::write(target, report)
    }
}

pub(super) fn execute(bench: Bench) -> anyhow::Result<ExitCode> {
    bench.execute(&CommandReports)?;
    Ok(ExitCode::SUCCESS)
}
