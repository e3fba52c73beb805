//! Loops on standalone clusters, against serial execution.

mod generated;
