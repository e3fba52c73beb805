//! The engines on clusters, against serial execution.

mod dynamic;
mod lasso;
mod rotation;
