//! The engines on clusters, against serial execution.

mod dynamic;
mod lasso;
mod pool;
mod rotation;
