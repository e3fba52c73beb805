//! Stand-ins for the benchmarks of nets in a build without them.

use crate::benchmark::ReportWriter;
use clap::Args;

/// Any arguments at all.
#[derive(Args, Debug)]
pub struct NnBench {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    ignored: Vec<String>,
}

/// Any arguments at all.
#[derive(Args, Debug)]
pub struct NetsTimelineBench {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    ignored: Vec<String>,
}

impl NnBench {
    #[expect(clippy::unused_self, reason = "the signature of the benchmark that a build with nets has")]
    pub(crate) fn run(&self, _: &dyn ReportWriter) -> anyhow::Result<()> {
        Err(no_nets())
    }
}

impl NetsTimelineBench {
    #[expect(clippy::unused_self, reason = "the signature of the benchmark that a build with nets has")]
    pub(crate) fn run(&self, _: &dyn ReportWriter) -> anyhow::Result<()> {
        Err(no_nets())
    }
}

fn no_nets() -> anyhow::Error {
    anyhow::anyhow!(
        "this build has no nets; build one that has them: cargo build --release --features full --bin hemiola"
    )
}
