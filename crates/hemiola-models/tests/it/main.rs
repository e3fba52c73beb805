//! Models on standalone clusters. `mf` is about matrix factorization, `resume` about checkpoints of any model, `sparse` about sparse regression, `topics` about documents and topic models.

mod fold;
mod lda;
mod linear;
mod mf;
mod one_class;
mod python;
mod ranking;
mod resume;
mod rotation;
mod schedule;
mod sparse;
mod topics;
