//! Jobs that do real work in virtual time: what they compute is computed, and only the time it takes is modelled.

mod course;
pub mod lda;
pub mod mf;
pub mod profiled;
pub mod speed;
pub mod what_if;
