//! The programs of the folder `examples`, as modules.

#![allow(dead_code, reason = "the tests do not call `main`")]

#[path = "../../../examples/compression.rs"]
pub(super) mod compression;
#[path = "../../../examples/edit_distance.rs"]
pub(super) mod edit_distance;
#[path = "../../../examples/estimator.rs"]
pub(super) mod estimator;
#[path = "../../../examples/gauss_seidel.rs"]
pub(super) mod gauss_seidel;
#[path = "../../../examples/gossip.rs"]
pub(super) mod gossip;
#[path = "../../../examples/kmeans.rs"]
pub(super) mod kmeans;
#[path = "../../../examples/lda.rs"]
pub(super) mod lda;
#[path = "../../../examples/mf.rs"]
pub(super) mod mf;
#[path = "../../../examples/pagerank.rs"]
pub(super) mod pagerank;
#[path = "../../../examples/sparse_logistic.rs"]
pub(super) mod sparse_logistic;
#[path = "../../../examples/strategy.rs"]
pub(super) mod strategy;
#[path = "../../../examples/update_rule.rs"]
pub(super) mod update_rule;
