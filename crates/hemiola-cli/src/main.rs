//! The `hemiola` command line.
//!
//! Each subcommand is one file or folder of [`command`]; [`error`] chooses the exit code.

mod command;
mod error;
mod given_flags;
mod graph;
mod output;
mod plural;
mod report;
mod shell;
mod suggest;

use clap::Parser;
use command::CliCommand;
use hemiola_core::printable_lines;
use std::io::Write as _;
use std::process::ExitCode;

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

fn main() -> ExitCode {
    let parsed = match CommandLine::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    match parsed.command.execute() {
        Ok(code) => code,
        Err(error) => {
            let mut stderr = std::io::stderr().lock();
            // If standard error is closed, the exit code alone reports the failure.
            let _ = writeln!(stderr, "hemiola: {}", printable_lines(&error::text(&error)));
            if let Some(hint) = error::hint(&error) {
                let _ = writeln!(stderr, "hint: {}", printable_lines(hint));
            }
            ExitCode::from(error::exit_code(&error))
        }
    }
}

/// Prints help and versions to standard output, and wrong arguments in the form of all failures.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed standard output is not an error here: there is no other place to report it.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let mut stderr = std::io::stderr().lock();
    let _ = match text.strip_prefix("error: ") {
        Some(text) => write!(stderr, "hemiola: {text}"),
        None => write!(stderr, "{text}"),
    };
    if error.kind() == clap::error::ErrorKind::InvalidUtf8 {
        for argument in std::env::args_os().filter(|argument| argument.to_str().is_none()) {
            let _ = writeln!(
                stderr,
                "hint: `{}` is not UTF-8; name its folder, or use a pattern with `*`",
                argument.display()
            );
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_definition_is_valid() {
        CommandLine::command().debug_assert();
    }
}
