//! Reads single variables, and turns what cannot be read into errors that name them.

use super::PlacementError;
use crate::variables::{Variable, Variables};

/// Typed access to variables.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'a> {
    variables: &'a dyn Variables,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(variables: &'a dyn Variables) -> Self {
        Self { variables }
    }

    /// The value, if it is set to something.
    pub(super) fn text(self, variable: Variable) -> Option<String> {
        self.variables.get_set(variable.name)
    }

    /// The value as a number, if it is set.
    pub(super) fn number(self, variable: Variable) -> Result<Option<usize>, PlacementError> {
        self.text(variable).map(|value| parse(variable, value, "a whole number, 0 or more")).transpose()
    }

    /// The value as a port, if it is set.
    pub(super) fn port(self, variable: Variable) -> Result<Option<u16>, PlacementError> {
        self.text(variable).map(|value| parse(variable, value, "a port from 1 to 65535")).transpose()
    }

    /// The value as a number; an error if it is not set although `because` is.
    pub(super) fn required_number(
        self,
        variable: Variable,
        because: Variable,
        remedy: &'static str,
    ) -> Result<usize, PlacementError> {
        self.number(variable)?.ok_or_else(|| self.missing(variable, because, remedy))
    }

    /// The error that `variable` is not set although `because` is.
    pub(super) fn missing(self, variable: Variable, because: Variable, remedy: &'static str) -> PlacementError {
        let value = self.text(because).unwrap_or_default();
        PlacementError::Missing { missing: variable.name, because: because.name, value, remedy }
    }
}

fn parse<T: std::str::FromStr>(variable: Variable, value: String, expected: &'static str) -> Result<T, PlacementError> {
    value.trim().parse().map_err(|_| PlacementError::Unreadable { variable: variable.name, value, expected })
}
