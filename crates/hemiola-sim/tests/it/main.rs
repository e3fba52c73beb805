//! Tests of whole simulated clusters.

mod network;
