//! What the analysis promises, checked against brute force on small loops.
//!
//! `oracle` runs a small loop in the head: which iterations really touch the same element. `generate` makes up loops.
//! `sound` and `complete` compare the analysis with the oracle; `vectors` compares the rules with single distances;
//! `homes` checks where arrays are said to be needed; `orders` is the model of which blocks a schedule leaves free to run at once.
//!
//! More cases: `PROPTEST_CASES=100000 cargo test -p hemiola-analysis --release`.

mod complete;
mod generate;
mod homes;
mod oracle;
mod orders;
mod sound;
mod vectors;
