//! What can be wrong with a question put to this crate. All of it is the caller's mistake: the analysis itself cannot
//! fail, it can only find that a loop must run serially.

use thiserror::Error;

/// A description that cannot be one of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A loop without an index.
    #[error("a loop needs at least one dimension")]
    NoDimensions,
    /// A subscript that refers to a loop index that is not there.
    #[error(
        "`{access}` (line {line}) uses index {dimension} of a loop that has {dimensions}; indices are counted from 0"
    )]
    NoSuchIndex {
        /// The access as written.
        access: String,
        /// Its line.
        line: u32,
        /// The index it refers to.
        dimension: usize,
        /// How many there are.
        dimensions: usize,
    },
    /// More subscripts than the array has dimensions.
    #[error(
        "`{access}` (line {line}) gives {subscripts} subscripts to array `{array}`, which has {dimensions} dimensions"
    )]
    TooManySubscripts {
        /// The access as written.
        access: String,
        /// Its line.
        line: u32,
        /// The array's name.
        array: String,
        /// How many are given.
        subscripts: usize,
        /// How many there can be.
        dimensions: usize,
    },
    /// A matrix that loses or doubles iterations.
    #[error(
        "{rows:?} is no change of coordinates: a matrix must be square with determinant 1 or -1, and its inverse in range"
    )]
    NotUnimodular {
        /// The rows as given.
        rows: Vec<Vec<i64>>,
    },
}
