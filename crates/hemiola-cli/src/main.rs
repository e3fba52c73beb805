//! The `hemiola` command. One file of [`command`] per subcommand; [`error`] chooses the exit code.

mod command;
mod error;
mod graph;
mod output;
mod plural;
mod report;
mod shell;
mod suggest;

use clap::Parser;
use command::CliCommand;
use std::io::Write as _;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  hemiola train mf                                          train on made-up ratings, to see it work
  hemiola train mf --data ratings.csv --output model        train on your own
  hemiola recommend --model model --user 42 -k 10           use what was trained
  hemiola data describe ratings.csv                         look at a file first
  hemiola run -n 4 -- ./program                             start your own program as four peers

Exit codes:
  0     it worked
  1     it failed for a reason that is none of the following
  2     something has to be changed: a flag, a file, a setting
  3     the system or another peer failed; the same command may work later
  70    a bug of hemiola (101, if it panicked): please report it
  130   ended by Ctrl-C (128 + the signal, for others); what was trained is saved if there was an --output
  other of `hemiola run`: that of the peer that failed, see `hemiola run --help`";

/// Distributed machine learning: bring a serial loop or a model, run it on one thread or many machines.
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
            // If stderr is closed, the exit code has to do.
            let _ = writeln!(stderr, "hemiola: {}", error::text(&error));
            if let Some(hint) = error::hint(&error) {
                let _ = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::from(error::exit_code(&error))
        }
    }
}

/// Help and versions go to standard output; what is wrong with arguments is told as all failures are.
fn refuse(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // If nobody reads it, there is nobody to tell.
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
            let _ =
                writeln!(stderr, "hint: `{}` is not UTF-8; name its folder, or a pattern with `*`", argument.display());
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        CommandLine::command().debug_assert();
    }
}
