//! The net commands in a build without the feature `nets`: they say how to enable them.

use super::super::export::ExportFormat;
use super::super::serving::ModelArgs;
use super::NetUse;
use crate::error::CommandError;
use clap::Args;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Arguments of a net command, all ignored.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "This build has no nets; build with `cargo build --release --features nets`."
)]
pub(crate) struct NetsDisabled {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _ignored: Vec<OsString>,
}

impl NetsDisabled {
    #[expect(clippy::unused_self, reason = "same signature as the commands of a build with nets")]
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        Err(refusal().into())
    }
}

/// Refuses the use of a saved net.
pub(in super::super) fn use_net(_common: &ModelArgs, _use: NetUse<'_>) -> anyhow::Result<ExitCode> {
    Err(refusal().into())
}

/// Refuses the export of a saved net.
pub(in super::super) fn export_net(_folder: &Path, _format: ExportFormat) -> anyhow::Result<Vec<u8>> {
    Err(refusal().into())
}

fn refusal() -> CommandError {
    let failure = CommandError::usage("this build has no nets, because Burn takes minutes to compile");
    failure.hint("build with `cargo build --release --features nets`")
}

pub(crate) use NetsDisabled as GenerateArgs;
pub(crate) use NetsDisabled as TrainCnn;
pub(crate) use NetsDisabled as TrainGpt;
pub(crate) use NetsDisabled as TrainLstm;
pub(crate) use NetsDisabled as TrainMlp;
pub(crate) use NetsDisabled as TrainNcf;
pub(crate) use NetsDisabled as TrainResnet;
pub(crate) use NetsDisabled as TrainTransformer;
