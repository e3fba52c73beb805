//! Models on standalone clusters. `mf` is about matrix factorization, `resume` about checkpoints of any model.

mod fold;
mod linear;
mod mf;
mod one_class;
mod python;
mod ranking;
mod resume;
mod rotation;
