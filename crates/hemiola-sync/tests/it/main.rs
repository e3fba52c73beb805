//! Synchronization without a tensor library.

mod checkpoints;
mod killed_peers;
mod linear_model;
mod peer_state;
mod tables;
mod waits;
