//! Preparation of features: categories, missing values, scales and weights of terms.
//!
//! Files have columns of words, gaps, and numbers of all magnitudes; models take finite numbers. A
//! [`Preparation`] is fitted to the training rows in passes over their files, and applied while rows
//! are read, so there is no second copy of the data. It is part of the
//! [`InputSchema`](super::InputSchema) of the model: saved with it, and applied to every later file.
//!
//! | columns | features | as in scikit-learn |
//! |---|---|---|
//! | numbers | one, filled and scaled; and one that says where values are missing | `SimpleImputer`, `MissingIndicator`, `StandardScaler`, `MinMaxScaler`, `MaxAbsScaler` |
//! | categories | one for each category, or hashed | `OneHotEncoder(handle_unknown="infrequent_if_exist")`, `FeatureHasher` |
//! | text | one for each term | `CountVectorizer`, `TfidfTransformer` |
//! | LIBSVM text | weighted and scaled | `TfidfTransformer`, `StandardScaler(with_mean=False)`, `MaxAbsScaler` |
//!
//! **Invariant:** a fitted preparation has the same bits on any number of peers and workers. Counts,
//! extremes and order statistics are exact, and so are sums.
//!
//! | file | concept |
//! |---|---|
//! | `options` | [`PreparationOptions`]: settings |
//! | `feature_kind` | kinds of columns, from the settings and the first records |
//! | `feature_scan`, `exact_moments`, `rank_scan` | statistics of a pass; exact sums; medians |
//! | `fit` | the fit to columns of separated values |
//! | `fitted` | [`Preparation`]: the fitted value |
//! | `row_preparer`, `feature_hash`, `missing` | application to a row; feature hashing; missing values |
//! | `sparse_rows` | fit and application to LIBSVM text |

mod exact_moments;
mod feature_hash;
mod feature_kind;
mod feature_scan;
mod fit;
mod fitted;
mod missing;
mod options;
mod rank_scan;
mod row_preparer;
mod sparse_rows;

pub(crate) use feature_kind::{FeatureKind, INSPECTED_RECORDS, feature_kinds};
pub(crate) use feature_scan::FeatureScan;
pub(crate) use fit::fit;
pub use fitted::{Preparation, PreparedColumn, SparseStatistics};
pub use options::{
    CategoricalColumns, FeatureScaling, MissingHandling, PreparationOptions, TermSelection, TermWeighting,
};
pub(crate) use row_preparer::{RowBuffers, RowPreparer, number_of_column};
pub(crate) use sparse_rows::{apply_sparse, fit_sparse};
