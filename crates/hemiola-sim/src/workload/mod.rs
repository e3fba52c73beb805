//! Jobs that do real work in virtual time: what they compute is computed, and only the time it takes is modelled.

pub mod mf;
pub mod profiled;
pub mod speed;
pub mod what_if;
