//! Setter methods of the settings builders, and the check of a setting.

use crate::Error;
use std::fmt::Display;

/// Defines one builder method per setting; each stores its argument in `self.settings`.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {$(
        $(#[$doc])*
        pub fn $name(mut self, $name: $type) -> Self {
            self.settings.$name = $name;
            self
        }
    )*};
}

pub(crate) use setters;

/// Returns an error that names the setting, its value and what is `expected`, unless it is `valid`.
pub(crate) fn require(
    setting: &'static str,
    found: &impl Display,
    valid: bool,
    expected: &'static str,
) -> Result<(), Error> {
    if valid { Ok(()) } else { Err(Error::InvalidSetting { setting, found: found.to_string(), expected }) }
}
