//! Workloads that compute real results in virtual time: only their duration is modelled.

pub mod lda;
mod learning_curve;
pub mod mf;
pub mod profiled;
pub mod protocol_speed;
pub mod synthetic_model;
pub mod what_if;
