//! Defaults that depend on another argument of the same command.
//!
//! clap applies such a default, but its help shows the unconditional one alone.
//!
//! **Invariant:** the help text is made of the values that clap applies.

use clap::Arg;
use std::fmt::Write as _;

/// Default of an argument if another argument has a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConditionalDefault {
    /// Name of the other argument.
    pub(crate) argument: &'static str,
    /// Value of the other argument.
    pub(crate) is: &'static str,
    /// Default of this argument in that case.
    pub(crate) default: &'static str,
}

/// Sets the default of an argument, and the defaults that replace it under conditions.
pub(crate) fn set(argument: Arg, default: &'static str, conditions: &[ConditionalDefault]) -> Arg {
    if conditions.is_empty() {
        return argument.required(false).default_value(default);
    }
    let mut help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let _ = write!(help, " [default: {default}");
    for condition in conditions {
        let _ = write!(help, "; {} with --{} {}", condition.default, condition.argument, condition.is);
    }
    help.push(']');
    let conditions = conditions.iter().map(|condition| (condition.argument, condition.is, Some(condition.default)));
    argument.required(false).default_value(default).default_value_ifs(conditions).hide_default_value(true).help(help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Command;

    #[test]
    fn the_help_shows_what_is_applied() {
        let rate = Arg::new("rate").long("rate").help("Rate.");
        let conditions = [ConditionalDefault { argument: "kind", is: "fast", default: "9" }];
        let command = Command::new("x").arg(Arg::new("kind").long("kind")).arg(set(rate, "1", &conditions));
        assert!(command.clone().render_help().to_string().contains("Rate. [default: 1; 9 with --kind fast]"));
        let value = |line: &[&str]| {
            let matches = command.clone().try_get_matches_from(line).unwrap();
            matches.get_one::<String>("rate").cloned().unwrap()
        };
        assert_eq!(value(&["x"]), "1");
        assert_eq!(value(&["x", "--kind", "fast"]), "9");
        assert_eq!(value(&["x", "--kind", "fast", "--rate", "4"]), "4");
    }
}
