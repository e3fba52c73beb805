//! Parser of values that have names, and may have other forms too: `ring`, but also `halton:3`.
//!
//! Shells complete the names. **Invariant:** the names are for completion and documentation alone;
//! the parser decides what is accepted.

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};
use std::ffi::OsStr;

/// Value parser with names.
#[derive(Clone)]
pub(crate) struct NamedValueParser<T> {
    parse: fn(&str) -> Result<T, String>,
    names: fn() -> Vec<String>,
}

impl<T> NamedValueParser<T> {
    /// Creates a parser from the function that parses a value, and the one that lists the names.
    pub(crate) const fn new(parse: fn(&str) -> Result<T, String>, names: fn() -> Vec<String>) -> Self {
        Self { parse, names }
    }
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for NamedValueParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        TypedValueParser::parse_ref(&self.parse, command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.names)().into_iter().map(PossibleValue::new)))
    }
}
