//! Tests of whole simulated clusters.

mod collective_conformance;
mod explore;
mod figures;
mod network;
mod staleness;
mod sync_conformance;
