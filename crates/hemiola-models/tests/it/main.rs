//! Models on standalone clusters: `mf`, `one_class`, `fold`, `ranking` and `rotation` test matrix
//! factorization, `linear` linear classifiers, `sparse` and `schedule` sparse regression, `lda` and
//! `topics` topic models, `resume` checkpoints, `python` the Python snippets of the guide.

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
