//! Synchronization without a tensor library.

mod checkpoints;
mod conditions;
mod killed_peers;
mod linear_model;
mod modes;
mod peer_state;
mod routes;
mod tables;
mod waits;
