//! Flags about the layout of files, for commands that use a trained model.
//!
//! A model stores the layout of its training files, and new files are read by it. A flag that is
//! given again takes precedence, and a note says where it differs.

use crate::error::CommandError;
use crate::output;
use clap::Args;
use hemiola_array::read::InputPaths;
use hemiola_models::input::{DuplicateHandling, InputSchema};
use hemiola_models::mf::data::RatingReadOptions;

/// Format of files with ratings or events.
#[derive(Args, Debug)]
pub(super) struct RatingFileArgs {
    /// Field separator [default: that of the model, or detected]
    #[arg(long, value_name = "TEXT", value_parser = separator)]
    pub(super) separator: Option<String>,

    /// Columns of user, item and rating, by name or number: `userId,movieId,rating` or `1,2,4`
    /// [default: those of the model, or the first three]
    #[arg(long, value_name = "USER,ITEM[,RATING]", value_parser = rating_columns)]
    columns: Option<ColumnList>,

    /// Value of a user and an item that occur together more than once: error, first, last, mean or
    /// sum [default: error; sum for events]
    #[arg(long, value_name = "CHOICE")]
    duplicates: Option<DuplicateHandling>,
}

/// Parsed list of columns.
#[derive(Clone, Debug)]
struct ColumnList(Vec<String>);

impl RatingFileArgs {
    /// Returns the options for reading events, or ratings.
    pub(super) fn options(&self, events: bool, schema: Option<&InputSchema>) -> RatingReadOptions {
        RatingReadOptions {
            separator: self.separator.clone(),
            skip_bad_lines: 0,
            columns: self.columns.as_ref().map(|columns| columns.0.clone()).unwrap_or_default(),
            schema: schema.cloned(),
            events,
            duplicates: self.duplicates,
        }
    }

    /// Returns the name of a flag that was given, if any.
    pub(super) fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--separator", self.separator.is_some()),
            ("--columns", self.columns.is_some()),
            ("--duplicates", self.duplicates.is_some()),
        ];
        flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }
}

/// Returns the files of a flag that was given several values; `None` if it was not given.
pub(super) fn input_paths(given: &[String]) -> Option<InputPaths> {
    (!given.is_empty()).then(|| given.into())
}

/// Returns the path of a command that takes one; `None` if none was given.
pub(super) fn one_path(given: &[String]) -> anyhow::Result<Option<&str>> {
    match given {
        [] => Ok(None),
        [path] => Ok(Some(path)),
        _ => {
            let failure = CommandError::usage("a net takes one file or folder, and several are given");
            Err(failure.hint("quote a pattern (`--data 'part-*.txt'`), or give their folder").into())
        }
    }
}

/// Parses a field separator. `tab` and `\\t` stand for a tab.
pub(super) fn separator(text: &str) -> Result<String, String> {
    match text {
        "\\t" | "tab" => Ok("\t".to_owned()),
        "" => Err("a separator has at least one character".to_owned()),
        text if text.contains(['"', '\n', '\r']) => {
            Err("a separator contains no quotes and no line endings".to_owned())
        }
        text => Ok(text.to_owned()),
    }
}

/// Parses two or three columns.
fn rating_columns(text: &str) -> Result<ColumnList, String> {
    let columns: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if !(2..=3).contains(&columns.len()) || columns.iter().any(String::is_empty) {
        return Err("give the columns of user, item and rating, such as `userId,movieId,rating` or `1,2,4`".to_owned());
    }
    Ok(ColumnList(columns))
}

/// Prints notes on standard error.
pub(super) fn print_notes(notes: &[String]) {
    for note in notes {
        output::note(note);
    }
}
