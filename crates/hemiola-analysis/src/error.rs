//! Errors of the analysis: invalid loop descriptions.
//!
//! All of them are mistakes of the caller. The analysis itself cannot fail; the worst result is
//! that a loop must run serially.

use thiserror::Error;

/// Reason why a loop description is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The loop has no index.
    #[error("a loop needs at least one dimension")]
    NoDimensions,
    /// A subscript refers to a loop index that does not exist.
    #[error(
        "`{access}` (line {line}) uses index {dimension} of a loop that has {dimensions}; indices are counted from 0"
    )]
    NoSuchIndex {
        /// Source text of the access.
        access: String,
        /// Line of the access in the user's file.
        line: u32,
        /// Loop index that the subscript refers to.
        dimension: usize,
        /// Number of indices of the loop.
        dimensions: usize,
    },
    /// An access has more subscripts than the array has dimensions.
    #[error(
        "`{access}` (line {line}) gives {subscripts} subscripts to array `{array}`, which has {dimensions} dimensions"
    )]
    TooManySubscripts {
        /// Source text of the access.
        access: String,
        /// Line of the access in the user's file.
        line: u32,
        /// Name of the accessed array.
        array: String,
        /// Number of subscripts of the access.
        subscripts: usize,
        /// Number of dimensions of the array.
        dimensions: usize,
    },
    /// A matrix is not unimodular: it would lose or duplicate iterations.
    #[error("{rows:?} is not unimodular: use a square matrix with determinant 1 or -1 whose inverse fits `i64`")]
    NotUnimodular {
        /// Rows of the rejected matrix.
        rows: Vec<Vec<i64>>,
    },
}
