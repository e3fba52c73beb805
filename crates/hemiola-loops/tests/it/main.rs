//! Loops on standalone clusters, against serial execution.

mod aliases;
mod buffers;
mod generated;
mod stopping;
