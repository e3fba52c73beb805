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
//! | `inspect` | header and width of a file |
//! | `column_error` | [`ColumnError`]: columns that are missing, unknown or ambiguous |

mod column_error;
mod example_columns;
mod inspect;
mod rating_columns;
mod schema;

pub use column_error::ColumnError;
pub(crate) use example_columns::{ExampleColumns, FieldUse, FileHead};
pub(crate) use inspect::{InspectError, head_of};
pub(crate) use rating_columns::RatingColumns;
pub use schema::{ColumnRole, InputColumn, InputSchema};
