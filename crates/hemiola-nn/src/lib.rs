//! Nets: any Burn module, trained by all peers of a cluster, with a strategy for every variable.

pub mod error;
mod hook;
pub mod layers;

pub use error::Error;
