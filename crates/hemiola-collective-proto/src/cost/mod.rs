//! Cost models of communication.
//!
//! [`scheme`] counts numbers: should the update of a matrix travel whole, or as its sufficient
//! factors? [`timing`] counts seconds: which all-reduce algorithm is fastest for this size on these
//! links? Both are functions of their arguments, so all peers with the same inputs make the same
//! choice without communication.

pub mod scheme;
pub mod timing;

pub use scheme::{MatrixUpdate, NodeLoad, Scheme, SchemeCosts};
pub use timing::{AlgorithmTime, AlphaBeta, NetworkModel};
