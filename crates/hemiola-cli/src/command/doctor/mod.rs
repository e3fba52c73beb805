//! `hemiola doctor`: checks this machine, and says what to do.
//!
//! | file | concept |
//! |---|---|
//! | `facts` | looks at the machine and the environment |
//! | `system_files` | files of Linux that describe the machine |
//! | `checks` | judges the facts |

mod checks;
mod facts;
mod system_files;

use crate::output;
use crate::terminal::Palette;
use checks::{Check, CheckState};
use clap::Args;
use facts::MachineFacts;
use hemiola_core::printable;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola doctor
  srun -n 2 hemiola doctor                the rank, size and rendezvous that each peer would read
  hemiola run -n 2 -- hemiola doctor
  hemiola doctor --json | jq .checks

Nothing is changed, and nothing is sent beyond the loopback interface. The JSON has \"checks\" (\"topic\", \"state\": ok, note or \
problem, \"text\", \"way_out\") and \"facts\".

Exit codes:
  0  no problem; notes do not count
  1  a problem, such as a folder for temporary files that cannot be written to";

/// Arguments of `hemiola doctor`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DoctorArgs {
    /// Print checks and facts as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct DoctorReport<'a> {
    checks: &'a [Check],
    facts: &'a MachineFacts,
}

impl DoctorArgs {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let facts = MachineFacts::find();
        let checks = checks::checks(&facts);
        if self.json {
            let report = DoctorReport { checks: &checks, facts: &facts };
            output::print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
        } else {
            output::print_styled(&text(&checks, Palette::stdout()))?;
        }
        let has_problem = checks.iter().any(|check| check.state == CheckState::Problem);
        Ok(if has_problem { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

/// Formats one line per check, and one per way out.
fn text(checks: &[Check], palette: Palette) -> String {
    let width = checks.iter().map(|check| check.topic.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Check { topic, state, text: sentence, way_out } in checks {
        let state = match state {
            CheckState::Ok => palette.good("ok     "),
            CheckState::Note => palette.note("note   "),
            CheckState::Problem => palette.error("problem"),
        };
        let _ = writeln!(text, "{state}  {topic:<width$}  {}", printable(sentence));
        if let Some(way_out) = way_out {
            let _ = writeln!(text, "         {:<width$}  {way_out}", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_out_is_below_its_check() {
        let check = |topic, state, way_out: Option<&str>| Check {
            topic,
            state,
            text: "text".to_owned(),
            way_out: way_out.map(str::to_owned),
        };
        let checks = [check("a", CheckState::Ok, None), check("long", CheckState::Problem, Some("do this"))];
        let expected = "ok       a     text\nproblem  long  text\n               do this\n";
        assert_eq!(text(&checks, Palette::new(false)), expected);
    }
}
