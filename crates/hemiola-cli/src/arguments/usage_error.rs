//! Messages for wrong arguments, in the form of all errors: `hemiola: ..`, `hint: ..`.
//!
//! clap finds the mistake. An unknown flag gets a hint of ours: advice about a flag of other
//! programs, or flags of the command whose names are near enough to be a typing error. clap
//! suggests by another measure, which takes `--dropout` for `--output`.

use super::{STYLES, definition, foreign_flags};
use crate::suggest;
use crate::terminal::Palette;
use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::error::Error as _;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

/// Formats an error about `arguments`, which start with the name of the program.
pub(crate) fn text(error: &Error, arguments: &[OsString], palette: Palette) -> String {
    let mut message = match error.kind() {
        ErrorKind::UnknownArgument => unknown_argument(error, arguments, palette),
        ErrorKind::ValueValidation => negative_value(error, palette),
        _ => None,
    };
    let text = message.get_or_insert_with(|| {
        let rendered = error.render();
        let coloured = if palette.is_enabled() { rendered.ansi().to_string() } else { rendered.to_string() };
        if rendered.to_string().starts_with("error:") { coloured.replacen("error:", "hemiola:", 1) } else { coloured }
    });
    if error.kind() == ErrorKind::InvalidUtf8 {
        for argument in arguments.iter().filter(|argument| argument.to_str().is_none()) {
            let hint = "is not UTF-8; name its folder, or use a pattern with `*`";
            let _ = writeln!(text, "{} `{}` {hint}", palette.note("hint:"), argument.display());
        }
    }
    message.unwrap_or_default()
}

/// Formats the error about an unknown flag, or an unexpected value.
fn unknown_argument(error: &Error, arguments: &[OsString], palette: Palette) -> Option<String> {
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) else { return None };
    let root = definition();
    let (command, path) = called(&root, arguments);
    let flag = found.split('=').next().unwrap_or_default();
    let mut text = format!("{} unexpected argument '{found}' found\n", palette.error("hemiola:"));
    let hint = if let Some(name) = flag.strip_prefix("--").or_else(|| flag.strip_prefix('-')) {
        foreign_flags::advice(name, &command, &path).map(str::to_owned).or_else(|| near(name, &command))
    } else {
        stray_value(found, &command)
    };
    if let Some(hint) = hint {
        let _ = writeln!(text, "{} {hint}", palette.note("hint:"));
    }
    // The usage in the error is that of clap's own suggestion.
    let usage = command.bin_name(format!("hemiola {}", path.join(" ")).trim_end()).styles(STYLES).render_usage();
    let usage = if palette.is_enabled() { usage.ansi().to_string() } else { usage.to_string() };
    let _ = writeln!(text, "\n{}\n\nFor more information, try '--help'.", usage.trim_end());
    Some(text)
}

/// Returns the command that `arguments` call, and its names from below the root.
fn called(root: &Command, arguments: &[OsString]) -> (Command, Vec<String>) {
    let (mut command, mut path) = (root.clone(), Vec::new());
    for argument in arguments.iter().skip(1) {
        let Some(inner) = argument.to_str().and_then(|name| command.find_subcommand(name)).cloned() else {
            if argument.to_string_lossy().starts_with('-') {
                continue;
            }
            break;
        };
        path.push(inner.get_name().to_owned());
        command = inner;
    }
    (command, path)
}

/// Returns the flags of a command whose names are near to a mistyped one.
fn near(name: &str, command: &Command) -> Option<String> {
    let mut flags = Vec::new();
    for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
        flags.extend(argument.get_long());
        flags.extend(argument.get_visible_aliases().unwrap_or_default());
    }
    flags.extend(["help", "version"]);
    let found: Vec<String> = suggest::nearest(name, flags).iter().map(|flag| format!("--{flag}")).collect();
    suggest::meant(&found.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns a hint for a value without a flag: several files after `--data`, as a shell expands
/// an unquoted pattern.
fn stray_value(value: &str, command: &Command) -> Option<String> {
    let takes_data = command.get_arguments().any(|argument| argument.get_long() == Some("data"));
    (takes_data && Path::new(value).exists())
        .then(|| "this flag takes one name: quote a pattern (`--validation 'part-*.csv'`), or give a folder".to_owned())
}

/// Formats the error about a negative number where a count is expected.
fn negative_value(error: &Error, palette: Palette) -> Option<String> {
    let (Some(ContextValue::String(flag)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return None;
    };
    let is_parse_error = error.source().is_some_and(|source| source.to_string() == "invalid digit found in string");
    if !is_parse_error || value.parse::<i128>().map_or(true, |number| number >= 0) {
        return None;
    }
    Some(format!(
        "{} invalid value '{value}' for '{flag}': {value} is out of range, because it is negative\n\nFor more \
         information, try '--help'.\n",
        palette.error("hemiola:")
    ))
}
