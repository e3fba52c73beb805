//! `hemiola simulate replay`: runs a scenario that an exploration has printed.

use crate::error::CommandError;
use crate::output;
use clap::Args;
use hemiola_sim::scenario::AnyScenario;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
A scenario is JSON, as `hemiola_sim::explore` prints it: a cluster, a workload and a seed. It runs in virtual time and is \
deterministic. Exit codes: 0 if all invariants of the protocol hold, 1 if one is violated.";

/// Arguments of `hemiola simulate replay`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct ReplayArgs {
    /// Scenario to replay, as JSON.
    #[arg(value_name = "JSON")]
    scenario: String,
}

impl ReplayArgs {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let scenario: AnyScenario = serde_json::from_str(&self.scenario)
            .map_err(|error| CommandError::usage(format!("cannot parse the scenario: {error}")))?;
        match scenario.check() {
            Ok(ended) => {
                output::print(&format!(
                    "all invariants hold: {} events until {}, digest {:016x}\n",
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
