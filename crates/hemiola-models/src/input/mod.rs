//! Input of a model: the layout of the files it was trained on, applied to new files.
//!
//! Files that are read after training may have their columns in another order, may lack the label,
//! or may be LIBSVM text that counts from 0. A model therefore stores an [`InputSchema`] in its
//! manifest. **Invariant:** a column of a new file is used as the model was trained on it, or
//! reading fails and names the column.
//!
//! | file | concept |
//! |---|---|
//! | `schema` | [`InputSchema`]: format and columns, as stored with a model |
//! | `example_columns` | label and features of a file, by name or by position |
//! | `rating_columns` | user, item and rating of a file, by name or by position |
//! | `preparation` | [`Preparation`]: categories, missing values, scales, weights of terms |
//! | `held_out` | rows that a fit holds out for validation |
//! | `inspect` | header and width of a file |
//! | `duplicates` | [`DuplicateHandling`]: treatment of entries that occur twice |
//! | `split`, `split_files` | training, validation and test sets of files, by fraction, class, group or time |
//! | `column_error` | [`ColumnError`]: columns that are missing, unknown or ambiguous |

mod column_error;
mod duplicates;
mod example_columns;
mod held_out;
mod inspect;
pub(crate) mod preparation;
mod rating_columns;
mod schema;
pub mod split;
mod split_files;

pub use column_error::ColumnError;
pub use duplicates::DuplicateHandling;
pub(crate) use example_columns::{ExampleColumns, FieldUse, FileHead};
pub use held_out::HeldOutRows;
pub(crate) use inspect::{InspectError, head_of};
pub use preparation::{
    CategoricalColumns, FeatureScaling, MissingHandling, Preparation, PreparationOptions, PreparedColumn,
    SparseStatistics, TermSelection, TermWeighting,
};
pub(crate) use rating_columns::RatingColumns;
pub use schema::{ColumnRole, InputColumn, InputSchema};
pub use split_files::{FileSplit, SplitBy, column_texts, record_codes};
