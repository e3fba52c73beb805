//! Tables on real clusters: threads as peers, and processes.

mod bit_identity;
mod checkpoints;
mod conformance;
mod dedicated;
mod eager_sending;
mod killed_peers;
mod processes;
mod shutdown;
mod staleness;
mod support;
mod usage_errors;
