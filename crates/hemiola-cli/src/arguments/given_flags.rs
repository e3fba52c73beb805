//! Flags that were given on the command line, as opposed to defaults.
//!
//! Two checks need them: a flag without effect is refused, and peers that were started with
//! different flags are refused.

use super::definition;
use crate::Invocation;
use crate::error::CommandError;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use hemiola_array::read::is_standard_input;
use std::collections::BTreeMap;

/// Flags that may differ between the peers of one job.
const PER_PEER: [&str; 10] = [
    "--workers",
    "--peers",
    "--report",
    "--log",
    "--quiet",
    "--explain",
    "--profile",
    "--trace",
    "--device",
    "--output",
];

/// Flags given on the command line, by their long name, with their values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GivenFlags(BTreeMap<String, Vec<String>>);

impl GivenFlags {
    /// Returns the flags of this process.
    pub(crate) fn of_process() -> Self {
        let command = definition();
        match command.clone().try_get_matches_from(Invocation::current().words()) {
            Ok(matches) => Self::collect(&command, &matches),
            // Invalid arguments were refused before.
            Err(_) => Self::default(),
        }
    }

    fn collect(command: &Command, matches: &ArgMatches) -> Self {
        if let Some((name, inner)) = matches.subcommand()
            && let Some(subcommand) = command.find_subcommand(name)
        {
            return Self::collect(subcommand, inner);
        }
        let mut flags = BTreeMap::new();
        for argument in command.get_arguments() {
            let id = argument.get_id().as_str();
            let Some(long) = argument.get_long() else { continue };
            if matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine) {
                let values = matches.get_raw(id).into_iter().flatten();
                let values = values.map(|value| value.to_string_lossy().into_owned()).collect();
                flags.insert(format!("--{long}"), values);
            }
        }
        Self(flags)
    }

    /// Returns the flags that all peers must share.
    pub(crate) fn shared(&self) -> BTreeMap<String, String> {
        self.0
            .iter()
            .filter(|(flag, _)| !PER_PEER.contains(&flag.as_str()))
            .map(|(flag, values)| (flag.clone(), values.join(",")))
            .collect()
    }

    /// Iterates over the values of a flag.
    pub(crate) fn values(&self, flag: &str) -> impl Iterator<Item = &String> {
        self.0.get(flag).into_iter().flatten()
    }

    /// Returns true if data are read from standard input.
    pub(crate) fn read_standard_input(&self) -> bool {
        ["--data", "--validation"].iter().flat_map(|flag| self.values(flag)).any(|value| is_standard_input(value))
    }

    /// Returns an error if one of `flags` was given. `reason` says why it has no effect.
    pub(crate) fn refuse(&self, flags: &[&str], reason: &str, hint: &str) -> anyhow::Result<()> {
        match flags.iter().find(|flag| self.0.contains_key(**flag)) {
            Some(flag) => Err(CommandError::usage(format!("`{flag}` has no effect: {reason}")).hint(hint).into()),
            None => Ok(()),
        }
    }
}
