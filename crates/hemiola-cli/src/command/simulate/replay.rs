//! `hemiola simulate replay`: the line that an exploration prints.

use crate::error::CommandError;
use crate::output;
use clap::Args;
use hemiola_sim::scenario::AnyScenario;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
A scenario is JSON, as `hemiola_sim::explore` prints it: a cluster, a job and a seed. It runs in virtual time, always in the same way. Exit codes: 0 if everything held that its protocol promises, 1 if not.";

/// The arguments of `hemiola simulate replay`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplayArgs {
    /// The scenario.
    #[arg(value_name = "JSON")]
    scenario: String,
}

impl ReplayArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let scenario: AnyScenario = serde_json::from_str(&self.scenario)
            .map_err(|error| CommandError::usage(format!("the scenario cannot be read: {error}")))?;
        match scenario.check() {
            Ok(ended) => {
                output::print(&format!(
                    "everything held: {} events until {}, digest {:016x}\n",
                    ended.events, ended.end_time, ended.digest
                ))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(problem) => {
                output::print(&format!("{problem}\n"))?;
                Ok(ExitCode::FAILURE)
            }
        }
    }
}
