//! Nets: any Burn module, trained by all peers of a cluster, with a strategy for every variable.

pub mod data;
pub mod error;
mod hook;
pub mod layers;
pub mod models;

pub use error::Error;
