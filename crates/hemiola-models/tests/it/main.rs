//! Models on standalone clusters. `mf` is about matrix factorization, `resume` about checkpoints of any model.

mod mf;
mod resume;
