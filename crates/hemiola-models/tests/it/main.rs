//! Models on standalone clusters.

mod mf;
