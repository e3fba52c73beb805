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
    /// Columns of words that are declared neither as categories nor as text.
    #[error(
        "`{}` has words in {}, such as `{example}`, and numbers are expected; make them categories with `--categorical {}` \
         (`--categorical auto` finds such columns), read texts word by word with `--text-column`, or leave columns out with `--ignore`",
        .file.display(), columns_of(.columns), .columns.join(",")
    )]
    Words {
        /// File with the columns.
        file: PathBuf,
        /// Names of the columns.
        columns: Vec<String>,
        /// One of the words.
        example: String,
    },
    /// A column without any value in the training set.
    #[error(
        "all values of column `{column}` are missing; leave it out with `--ignore {column}`, or use `--missing zero`"
    )]
    AllMissing {
        /// Name of the column.
        column: String,
    },
    /// A column with too many categories for a feature each.
    #[error(
        "column `{column}` has more than {most} categories; hash them with `--hash-features 18`, or, if it is a number or an \
         identifier, read it as such or leave it out with `--ignore {column}`"
    )]
    TooManyCategories {
        /// Name of the column.
        column: String,
        /// Maximum number of categories.
        most: usize,
    },
    /// A column with too many different numbers to find the most frequent one.
    #[error("column `{column}` has more than {most} different numbers; use `--missing median` or `mean`")]
    TooManyNumbers {
        /// Name of the column.
        column: String,
        /// Maximum number of different numbers.
        most: usize,
    },
    /// A column of text with too many different terms.
    #[error("column `{column}` has more than {most} different terms; use shorter `--ngrams`")]
    TooManyTerms {
        /// Name of the column.
        column: String,
        /// Maximum number of terms that are counted.
        most: usize,
    },
    /// A column of text without a term that is frequent enough.
    #[error("no term of column `{column}` is left; check that it has text, and lower `--min-df` or raise `--max-df`")]
    NoTerms {
        /// Name of the column.
        column: String,
    },
    /// A file in another format than the files to which the preparation of the model was fitted.
    #[error("the features of the model were prepared for {trained}, and `{}` has another format; convert the file", .file.display())]
    OtherFormat {
        /// File in another format.
        file: PathBuf,
        /// Format of the training files.
        trained: String,
    },
    /// A preparation that the format of the file does not allow.
    #[error("`{flag}` {problem}; leave it out{}", .instead.as_ref().map_or_else(String::new, |instead| format!(", or use `{instead}`")))]
    Unsuitable {
        /// Flag that cannot be applied.
        flag: String,
        /// Reason, as the rest of the sentence.
        problem: String,
        /// Flag that can be used instead.
        instead: Option<String>,
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

/// Formats columns for a message: column `a`, or columns `a`, `b`.
fn columns_of(names: &[String]) -> String {
    format!("{} {}", if names.len() == 1 { "column" } else { "columns" }, list(names))
}

/// Formats names for a message.
fn list(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > NAMES_SHOWN { ", ..." } else { "" };
    format!("{}{more}", shown.join(", "))
}
