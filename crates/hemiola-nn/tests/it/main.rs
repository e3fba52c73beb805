//! Nets on clusters of threads: every strategy trains the model that one process would train.

mod bad;
mod equal;
mod net;
mod options;
mod precision;
