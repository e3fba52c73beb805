//! The command line: its definition as clap sees it, the errors of wrong arguments, and pages that
//! are generated from it.
//!
//! | file | concept |
//! |---|---|
//! | `conditional_default` | defaults that depend on another argument |
//! | `foreign_flags` | flags of other programs, with the flag of this one |
//! | `given_flags` | flags that were given, as opposed to defaults |
//! | `named_value` | values with names that shells complete |
//! | `reference` | the reference page of all commands, compared with the definition in a test |
//! | `usage_error` | messages for wrong arguments |
//!
//! **Invariant:** [`definition`] is the only source of the command line. Parsing, help, completions,
//! man pages and the reference page all use it, so they cannot differ.

pub(crate) mod conditional_default;
pub(crate) mod foreign_flags;
pub(crate) mod given_flags;
pub(crate) mod named_value;
#[cfg(test)]
mod reference;
pub(crate) mod usage_error;

pub(crate) use given_flags::GivenFlags;

use crate::CommandLine;
use clap::builder::Styles;
use clap::builder::styling::AnsiColor;
use clap::{Command, CommandFactory as _};

/// Colours of help and usage errors.
const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default())
    .error(AnsiColor::Red.on_default().bold())
    .valid(AnsiColor::Cyan.on_default())
    .invalid(AnsiColor::Yellow.on_default());

/// Returns the definition of the command line.
pub(crate) fn definition() -> Command {
    with_negative_values(CommandLine::command().styles(STYLES))
}

/// Lets all flags take negative numbers, so that `--rank -3` is a value out of range rather than an
/// unknown flag `-3`.
fn with_negative_values(command: Command) -> Command {
    let command = command.mut_args(|argument| {
        if argument.is_positional() || !argument.get_action().takes_values() {
            return argument;
        }
        argument.allow_negative_numbers(true)
    });
    command.mut_subcommands(with_negative_values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all commands without subcommands, with their names from the root.
    pub(super) fn leaves(command: &Command, path: &str) -> Vec<(String, Command)> {
        let path = format!("{path} {}", command.get_name()).trim().to_owned();
        if command.has_subcommands() {
            return command.get_subcommands().flat_map(|inner| leaves(inner, &path)).collect();
        }
        vec![(path, command.clone())]
    }

    #[test]
    fn the_definition_is_valid() {
        definition().debug_assert();
    }

    #[test]
    fn every_flag_is_explained_in_the_words_of_its_own_command() {
        for (path, command) in leaves(&definition(), "") {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let (name, help) = (argument.get_id(), argument.get_help().map(ToString::to_string));
                let help = help.unwrap_or_default();
                assert!(!help.is_empty(), "`{path}`: `{name}` has no help");
                // A default is that of this command; shared flags have no list of models.
                assert!(!help.contains("Default:"), "`{path}`: `{name}`: {help}");
                if path.starts_with("hemiola train ") && name != "loss" {
                    let others = ["svm, logistic", "lasso and elastic-net", "lstm and transformer"];
                    assert!(!others.iter().any(|other| help.contains(other)), "`{path}`: `{name}`: {help}");
                }
            }
        }
    }
}
