//! Examples of models that sum over all rows: fixed blocks of rows, and sums whose bits do not
//! depend on the cluster.
//!
//! | file | concept |
//! |---|---|
//! | `blocks` | rows of features with a target each, in a fixed number of ranges |
//! | `evaluation` | metrics of a model on examples |
//! | `feature_names` | names of features |
//! | `fit_rows` | start of a fit: examples trained on, and the validation set |
//! | `row_values` | values of each row, gathered on every peer |
//! | `weights` | weights of examples, by row and by class |
//! | `tree_sum` | sum over all blocks in the order of one fixed tree |

mod blocks;
mod evaluation;
mod feature_names;
mod fit_rows;
mod row_values;
mod tree_sum;
mod weights;

pub(crate) use blocks::{BlockedRows, ExampleBlock, shuffled_rows, targets_of, unit_norm};
pub use evaluation::ExampleEvaluation;
pub(crate) use feature_names::feature_names;
pub(crate) use fit_rows::{FitRows, LabelledFit, ValidationDraw};
pub(crate) use row_values::{block_values, each_block, row_values};
pub(crate) use tree_sum::{add_in_place, tree_sum};
pub(crate) use weights::weights_digest;
pub use weights::{ClassWeights, ExampleWeights};
