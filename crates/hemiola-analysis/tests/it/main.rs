//! Guarantees of the analysis, checked by brute force on small loops.
//!
//! `oracle` executes a small loop symbolically and lists the iterations that really touch the same
//! element. `generate` creates random loops. `soundness` and `completeness` compare the analysis
//! with the oracle; `legality_rules` compares the rules with single distances; `partitioning`
//! checks the partitioning of arrays; `block_order` is a model of the blocks that may run
//! concurrently.
//!
//! More cases: `PROPTEST_CASES=100000 cargo test -p hemiola-analysis --release`.

mod block_order;
mod completeness;
mod generate;
mod legality_rules;
mod oracle;
mod partitioning;
mod soundness;
