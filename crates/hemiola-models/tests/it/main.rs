//! Models on standalone clusters. `mf` is about matrix factorization, `resume` about checkpoints of any model, `sparse` about sparse regression.

mod fold;
mod linear;
mod mf;
mod one_class;
mod python;
mod ranking;
mod resume;
mod rotation;
mod schedule;
mod sparse;
