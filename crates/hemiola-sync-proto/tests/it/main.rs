//! Nodes driven without a cluster, with collectives that complete in any order.

mod any_order;
mod driver;
