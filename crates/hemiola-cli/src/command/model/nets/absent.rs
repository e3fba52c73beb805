//! Nets in a build without them: the commands are there and say how to get them.

use crate::failure::Failure;
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

/// Any arguments, none of which is looked at.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Nets are left out of this build; build with `cargo build --release --features nets`."
)]
pub(crate) struct Absent {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _given: Vec<OsString>,
}

impl Absent {
    #[expect(clippy::unused_self, reason = "as the commands of a build that has them")]
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let failure = Failure::usage("nets are left out of this build, since Burn takes minutes to build");
        Err(failure.hint("build with `cargo build --release --features nets`").into())
    }
}

pub(crate) use Absent as TrainCnn;
pub(crate) use Absent as TrainLstm;
pub(crate) use Absent as TrainMlp;
pub(crate) use Absent as TrainNcf;
pub(crate) use Absent as TrainResnet;
pub(crate) use Absent as TrainTransformer;
