//! The `hemiola` command. One file of [`command`] per subcommand; [`failure`] chooses the exit code.

mod command;
mod failure;
mod output;
mod report;
mod shell;

use clap::Parser;
use command::Command;
use std::io::Write as _;
use std::process::ExitCode;

/// Distributed machine learning: bring a serial loop or a model, run it on one thread or many machines.
#[derive(Debug, Parser)]
#[command(name = "hemiola", version, propagate_version = true)]
struct Hemiola {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match Hemiola::parse().command.execute() {
        Ok(code) => code,
        Err(error) => {
            let mut stderr = std::io::stderr().lock();
            // If stderr is closed, the exit code has to do.
            let _ = writeln!(stderr, "hemiola: {}", failure::text(&error));
            if let Some(hint) = failure::hint(&error) {
                let _ = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::from(failure::exit_code(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Hemiola::command().debug_assert();
    }
}
