//! Tests of whole simulated clusters.

mod explore;
mod figures;
mod network;
mod staleness;
