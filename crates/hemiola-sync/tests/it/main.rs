//! Synchronization without a tensor library.

mod linear_model;
