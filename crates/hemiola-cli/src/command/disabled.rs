//! Subcommands that are not in this build. Each returns a usage error that names its feature.

use crate::error::CommandError;
use clap::Args;
use std::ffi::OsString;
use std::process::ExitCode;

/// Arguments of a subcommand that is not in this build, all ignored.
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct DisabledCommand {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _ignored: Vec<OsString>,
}

impl DisabledCommand {
    /// Returns the usage error that names the missing `part` and its `feature`.
    #[expect(clippy::unused_self, reason = "called like the command of a build with the feature")]
    pub(crate) fn refuse(self, part: &str, feature: &str) -> anyhow::Result<ExitCode> {
        let failure = CommandError::usage(format!("this build has no {part}"));
        Err(failure.hint(format!("build with `cargo build --release --features {feature}`")).into())
    }
}
