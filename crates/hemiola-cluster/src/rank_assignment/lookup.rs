//! Typed access to single variables, with errors that name them.

use super::RankAssignmentError;
use crate::environment::{EnvironmentVariable, VariableSource};

/// Typed access to environment variables.
#[derive(Clone, Copy)]
pub(super) struct VariableLookup<'a> {
    variables: &'a dyn VariableSource,
}

impl<'a> VariableLookup<'a> {
    pub(super) fn new(variables: &'a dyn VariableSource) -> Self {
        Self { variables }
    }

    /// Returns the value, unless it is unset or empty.
    pub(super) fn text(self, variable: EnvironmentVariable) -> Option<String> {
        self.variables.get_set(variable.name)
    }

    /// Returns the value as a number, if it is set.
    pub(super) fn number(self, variable: EnvironmentVariable) -> Result<Option<usize>, RankAssignmentError> {
        self.text(variable).map(|value| parse(variable, value, "a whole number, 0 or more")).transpose()
    }

    /// Returns the value as a port, if it is set.
    pub(super) fn port(self, variable: EnvironmentVariable) -> Result<Option<u16>, RankAssignmentError> {
        self.text(variable).map(|value| parse(variable, value, "a port from 1 to 65535")).transpose()
    }

    /// Returns the value as a number. It is an error if the value is not set although `because` is.
    pub(super) fn required_number(
        self,
        variable: EnvironmentVariable,
        because: EnvironmentVariable,
        remedy: &'static str,
    ) -> Result<usize, RankAssignmentError> {
        self.number(variable)?.ok_or_else(|| self.missing(variable, because, remedy))
    }

    /// Creates the error that `variable` is not set although `because` is.
    pub(super) fn missing(
        self,
        variable: EnvironmentVariable,
        because: EnvironmentVariable,
        remedy: &'static str,
    ) -> RankAssignmentError {
        let value = self.text(because).unwrap_or_default();
        RankAssignmentError::Missing { missing: variable.name, because: because.name, value, remedy }
    }
}

fn parse<T: std::str::FromStr>(
    variable: EnvironmentVariable,
    value: String,
    expected: &'static str,
) -> Result<T, RankAssignmentError> {
    value.trim().parse().map_err(|_| RankAssignmentError::Unreadable { variable: variable.name, value, expected })
}
