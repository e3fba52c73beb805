//! Schedulers on clusters, compared with serial execution.

mod dynamic;
mod lasso;
mod pool;
mod rotation;
