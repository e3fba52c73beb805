//! Hints for errors in data files: each kind of data names the flags that help with it.
//!
//! Hints are added before an error leaves the peer, so that a launcher that repeats the message
//! repeats the hint, too.

use crate::error::{CommandError, into_cluster_error};
use crate::suggest;
use hemiola_array::{BadLine, Error as ArrayError};
use hemiola_models::Error as ModelError;
use hemiola_models::input::ColumnError;

/// Hint where more invalid lines occur than `--skip-bad-lines` allows.
const TOO_MANY_BAD_LINES: &str = "correct the lines, or allow more with `--skip-bad-lines N`";

/// Adds the most similar names to the error of a column that does not exist.
fn unknown_column(error: &ModelError) -> Option<CommandError> {
    let ModelError::Columns(ColumnError::Unknown { column, columns, .. }) = error else { return None };
    let hint = suggest::hint(column, columns.iter().map(String::as_str))?;
    Some(CommandError::usage(error.to_string()).hint(hint))
}

/// Returns the hint for a field that is no number, if its column has a name.
fn column_hint(bad: &BadLine) -> Option<String> {
    let (_, column) = bad.expected.split_once(" in column `")?;
    let column = column.trim_end_matches('`');
    Some(if bad.found.as_deref().is_none_or(|found| MISSING.contains(&found)) {
        format!(
            "fill missing values in training with `--missing mean` (or median, zero, most-frequent), or leave the column out with `--ignore {column}`"
        )
    } else {
        format!(
            "correct the line; a column of words is made features with `--categorical {column}` or `--text-column {column}`, or left out with `--ignore {column}`"
        )
    })
}

/// Texts of missing values that are met most often.
const MISSING: [&str; 8] = ["", "NA", "NaN", "nan", "N/A", "null", "NULL", "?"];

/// Hints for one kind of data.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadHints {
    bad_line: &'static str,
    /// Hint for a file without recognizable structure, if the kind of data has one.
    bad_file: Option<&'static str>,
    /// Name of the key of an entry, if keys must be unique.
    unique_key: Option<&'static str>,
}

impl ReadHints {
    /// Hints for ratings and events to train on.
    pub(super) const TRAINING_RATINGS: Self = Self {
        bad_line: "correct the line, or skip up to N invalid lines with `--skip-bad-lines N`",
        bad_file: Some("a line is a user, an item and a rating; set the separator with `--separator TEXT`"),
        unique_key: Some("the same user and item"),
    };

    /// Hints for ratings and events of commands that can neither skip lines nor set the separator.
    pub(super) const RATINGS: Self = Self {
        bad_line: "correct or remove the line",
        bad_file: Some("a line is a user, an item and a rating"),
        unique_key: Some("the same user and item"),
    };

    /// Hints for labelled examples, in LIBSVM format or as separated values.
    pub(super) const EXAMPLES: Self = Self {
        bad_line: "a line is a label and features (`+1 3:0.5 7:1`), or numbers of which the first is the label (labels are \
                   names if none is a number); correct it, or see --zero-based, --separator and --skip-bad-lines",
        bad_file: None,
        unique_key: Some("the same feature"),
    };

    /// Hints for documents of topic models.
    pub(super) const DOCUMENTS: Self = Self {
        bad_line: "documents are bags of words (docword, libsvm, ldac) or lines of text; correct the line, or see --format, \
                   --zero-based and --skip-bad-lines",
        bad_file: None,
        unique_key: None,
    };

    /// Adds the hint to an error of reading. Other errors are returned unchanged.
    pub(super) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        if let Some(explained) = error.chain().find_map(|cause| unknown_column(cause.downcast_ref::<ModelError>()?)) {
            return explained.into();
        }
        let Some(problem) = error.chain().find_map(|cause| cause.downcast_ref::<ArrayError>()) else { return error };
        match (problem, self.bad_file, self.unique_key) {
            (ArrayError::BadLine(bad), ..) => match column_hint(bad) {
                Some(hint) => CommandError::array(problem, &hint).into(),
                None => CommandError::array(problem, self.bad_line).into(),
            },
            (ArrayError::TooManyBadLines { .. }, ..) => CommandError::array(problem, TOO_MANY_BAD_LINES).into(),
            (ArrayError::BadFile { .. }, Some(hint), _) => CommandError::array(problem, hint).into(),
            (ArrayError::DuplicateKey { first, second, .. }, _, Some(key)) => {
                let message = if first == second {
                    format!("{first} has {key} twice")
                } else {
                    format!("{first} and {second} have {key}")
                };
                let hint = "keep one of them, or choose a value with `--duplicates last` (or first, mean, sum)";
                CommandError::usage(message).hint(hint).into()
            }
            _ => error,
        }
    }

    /// Adds the hint to an error that leaves a program of the cluster.
    pub(super) fn explain_in_cluster(&self, error: hemiola_cluster::Error) -> hemiola_cluster::Error {
        match self.explain(error.into()).downcast::<hemiola_cluster::Error>() {
            Ok(unchanged) => unchanged,
            Err(explained) => into_cluster_error(explained),
        }
    }
}
