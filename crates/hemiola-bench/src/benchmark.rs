//! The course of every benchmark: check the report's target, measure, print a table, write the report.

use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// Writer of JSON reports. The command line implements it with its own files and error messages.
pub trait ReportWriter {
    /// Fails if [`write`](Self::write) could not write to `target`. Leaves `target` as it is.
    fn check(&self, target: &Path) -> anyhow::Result<()>;

    /// Writes `report` to `target`; `-` is standard output. A file appears whole or not at all.
    fn write(&self, target: &Path, report: &serde_json::Value) -> anyhow::Result<()>;
}

/// Arguments of one benchmark.
pub(crate) trait Benchmark {
    /// Results in the units of the report.
    type Measurement: Serialize;

    /// Target of the JSON report, if one was asked for.
    fn report(&self) -> Option<&Path>;

    /// Runs the benchmark. Returns `None` on processes that take part and do not report.
    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>>;

    /// Prints the results for a reader.
    fn print(measurement: &Self::Measurement, out: &mut dyn Write) -> io::Result<()>;
}

/// Runs a benchmark from the check of its report's target to the report.
pub(crate) fn execute<B: Benchmark>(bench: &B, reports: &dyn ReportWriter) -> anyhow::Result<()> {
    if let Some(target) = bench.report() {
        reports.check(target)?;
    }
    let Some(measurement) = bench.measure()? else { return Ok(()) };
    if bench.report() != Some(Path::new("-")) {
        B::print(&measurement, &mut io::stdout().lock())?;
    }
    match bench.report() {
        Some(target) => reports.write(target, &serde_json::to_value(&measurement)?),
        None => Ok(()),
    }
}
