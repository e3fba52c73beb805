//! Loops on standalone clusters, against serial execution.

mod buffers;
mod generated;
