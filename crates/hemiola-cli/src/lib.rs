//! The `hemiola` command line, as a library: the binary `hemiola` and the Python package start it.
//!
//! Each subcommand is one file or folder of `command`; `error` chooses the exit code.

mod activity;
mod arguments;
mod command;
mod error;
mod event_log;
mod graph;
mod invocation;
mod output;
mod plural;
mod readable;
mod report;
mod run_record;
mod shell;
mod suggest;
mod terminal;

use clap::{FromArgMatches as _, Parser};
use command::CliCommand;
use hemiola_core::printable_lines;
pub use invocation::Invocation;
use std::io::Write as _;
use std::process::ExitCode;
use terminal::Palette;

const AFTER_HELP: &str = "\
Examples:
  hemiola train mf                                          train on synthetic ratings
  hemiola train mf --data ratings.csv --output model        train on your own ratings
  hemiola recommend --model model --user 42 -k 10           use the trained model
  hemiola data describe ratings.csv                         inspect a data file
  hemiola run -n 4 -- ./program                             launch your own program as four peers

Exit codes:
  0     success
  1     any other failure
  2     wrong use: change a flag, a file or a setting
  3     the system or another peer failed; the same command may work later
  70    a bug in hemiola (101 after a panic): please report it
  130   interrupted by Ctrl-C (128 + the signal number for other signals); with --output the model is saved
  other of `hemiola run`: the exit code of the peer that failed, see `hemiola run --help`";

/// Distributed machine learning: train models on one thread or on many machines.
#[derive(Debug, Parser)]
#[command(name = "hemiola", version, propagate_version = true, after_help = AFTER_HELP)]
struct CommandLine {
    #[command(subcommand)]
    command: CliCommand,
}

/// Runs the command line; returns the exit code to end the process with.
///
/// The invocation is that of the process: of several calls in one process, the first one decides
/// about it.
#[must_use]
pub fn main(invocation: Invocation) -> ExitCode {
    let invocation = invocation.of_process();
    let matches = arguments::definition().try_get_matches_from(invocation.words());
    let parsed = match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error, invocation),
    };
    match parsed.command.execute() {
        Ok(code) => code,
        Err(error) => {
            activity::end();
            let (palette, mut stderr) = (Palette::stderr(), std::io::stderr().lock());
            // If standard error is closed, the exit code alone reports the failure.
            let _ = writeln!(stderr, "{} {}", palette.error("hemiola:"), printable_lines(&error::text(&error)));
            if let Some(hint) = error::hint(&error) {
                let _ = writeln!(stderr, "{} {}", palette.note("hint:"), printable_lines(hint));
            }
            ExitCode::from(error::exit_code(&error))
        }
    }
}

/// Runs the command line like [`main`]; returns the exit code as a number, for interpreters.
#[must_use]
pub fn exit_status(invocation: Invocation) -> u8 {
    let code = main(invocation);
    // An exit code shows its number to the operating system alone.
    (0..=u8::MAX).find(|status| ExitCode::from(*status) == code).unwrap_or(u8::MAX)
}

/// Prints help and versions to standard output, and wrong arguments in the form of all failures.
fn refuse(error: &clap::Error, invocation: &Invocation) -> ExitCode {
    if !error.use_stderr() {
        // A closed standard output is not an error here: there is no other place to report it.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<_> = invocation.words().collect();
    let text = arguments::usage_error::text(error, &arguments, Palette::stderr());
    let _ = write!(std::io::stderr().lock(), "{text}");
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
