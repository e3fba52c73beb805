//! Protocol tests: clients and shards of a table, connected by a network that the test controls.
//!
//! `model` checks all guarantees under random schedules; `bit_identity` that BSP is bit-identical,
//! also over a restart; `error_conditions` the errors; `eager_sending` bandwidth-managed
//! communication; `intents` prefetching and leases; `slow_receivers` the send window.

mod bit_identity;
mod eager_sending;
mod error_conditions;
mod intents;
mod model;
mod slow_receivers;
mod test_network;
