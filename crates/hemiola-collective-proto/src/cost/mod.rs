//! What communication costs, before any of it happens.
//!
//! [`scheme`] counts numbers: should the update of a matrix travel whole, or as the factors it is a product of? [`timing`] counts seconds: which
//! all-reduce is fastest for this size on these links? Both are functions of their arguments, so all peers that know the same come to the same
//! choice without talking.

pub mod scheme;
pub mod timing;

pub use scheme::{Costs, Load, MatrixUpdate, Scheme};
pub use timing::{Choice, Link, Links};
