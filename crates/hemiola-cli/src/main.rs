//! The `hemiola` command. One file of [`command`] per subcommand; this one chooses the exit code.

mod command;
mod report;

use clap::Parser;
use command::Command;
use hemiola_cluster::launch::LaunchError;
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
            // If stderr is closed, the exit code has to do.
            let _ = writeln!(std::io::stderr(), "hemiola: {error:#}");
            error.downcast_ref::<LaunchError>().map_or(ExitCode::FAILURE, |error| ExitCode::from(error.exit_code()))
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
