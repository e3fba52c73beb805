//! Errors about the columns of separated values.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Maximum number of column names in a message.
const NAMES_SHOWN: usize = 12;

/// Column that is missing, unknown or ambiguous.
///
/// It is serializable: the root inspects the files, and all peers fail alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnError {
    /// A file lacks a column that the model was trained on.
    #[error(
        "`{}` has no column `{column}`, which the model was trained on; its columns are {}",
        .file.display(), list(.columns)
    )]
    Missing {
        /// File without the column.
        file: PathBuf,
        /// Name of the missing column.
        column: String,
        /// Names in the header of the file.
        columns: Vec<String>,
    },
    /// A column was asked for that the file does not have.
    #[error(
        "`{}` has no column `{column}`; give a number from 1 to {}, or one of the names in its header: {}",
        .file.display(), .columns.len(), list(.columns)
    )]
    Unknown {
        /// File without the column.
        file: PathBuf,
        /// Name or number that was asked for.
        column: String,
        /// Names of the columns: those of the header, or numbers.
        columns: Vec<String>,
    },
    /// One column was asked for twice, in two roles.
    #[error("column `{column}` is given twice; each column has one role")]
    Repeated {
        /// Name of the column.
        column: String,
    },
    /// The header names a label that is not the first column.
    #[error(
        "the first column is `{first}`, and the header also names a column `{named}`: it is unclear which one is the label; \
         choose with `--label {named}` or `--label {first}`"
    )]
    AmbiguousLabel {
        /// Name of the first column.
        first: String,
        /// Column with the name of a label.
        named: String,
    },
    /// A file without a header has a number of fields that fits no layout of the model.
    #[error("`{}` has {found} fields on a line, and {expected} are expected", .file.display())]
    FieldCount {
        /// File with the line.
        file: PathBuf,
        /// Number of fields of its first record.
        found: usize,
        /// Description of the expected numbers.
        expected: String,
    },
    /// Files of one data set have different columns.
    #[error(
        "`{}` and `{}` have different columns; give both the same header, or read them separately",
        .first.display(), .other.display()
    )]
    DifferentFiles {
        /// First file of the data set.
        first: PathBuf,
        /// File whose columns differ.
        other: PathBuf,
    },
    /// A file of ratings has two columns.
    #[error(
        "`{}` has two columns, a user and an item, and no rating; learn from such events with `--loss one-class`",
        .file.display()
    )]
    NoRating {
        /// File without ratings.
        file: PathBuf,
    },
    /// No feature is left.
    #[error("`{}` has no feature column besides the label; check `--separator`, `--label` and `--ignore`", .file.display())]
    NoFeatures {
        /// File without features.
        file: PathBuf,
    },
    /// A flag about columns was given for LIBSVM text, which has none.
    #[error("`{flag}` is for separated values, and `{}` is LIBSVM text; leave it out", .file.display())]
    NotSeparated {
        /// Flag that has no effect.
        flag: String,
        /// File in LIBSVM format.
        file: PathBuf,
    },
    /// A flag about LIBSVM text was given for separated values.
    #[error("`{flag}` is for LIBSVM text, and `{}` has separated values; leave it out", .file.display())]
    NotLibsvm {
        /// Flag that has no effect.
        flag: String,
        /// File with separated values.
        file: PathBuf,
    },
}

/// Formats names for a message.
fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > NAMES_SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}
