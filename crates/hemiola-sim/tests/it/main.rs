//! Tests of whole simulated clusters.

mod explore;
mod network;
mod staleness;
