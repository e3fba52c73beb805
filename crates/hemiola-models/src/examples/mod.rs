//! Examples of models that sum over all rows: fixed blocks of rows, and sums whose bits do not
//! depend on the cluster.
//!
//! | file | concept |
//! |---|---|
//! | `blocks` | rows of features with a target each, in a fixed number of ranges |
//! | `evaluation` | metrics of a model on examples |
//! | `row_values` | values of each row, gathered on every peer |
//! | `tree_sum` | sum over all blocks in the order of one fixed tree |

mod blocks;
mod evaluation;
mod row_values;
mod tree_sum;

pub(crate) use blocks::{BlockedRows, ExampleBlock, shuffled_rows};
pub use evaluation::ExampleEvaluation;
pub(crate) use row_values::{block_values, each_block, row_values};
pub(crate) use tree_sum::{add_in_place, tree_sum};
