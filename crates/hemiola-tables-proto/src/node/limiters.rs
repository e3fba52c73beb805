//! Rate limiters of one node: the bandwidth budget of a peer, by direction.
//!
//! Urgent messages to other peers are charged with all their bytes. Eager ones were charged by
//! [`RateLimiter::spend`] when they were created, so only their overhead is charged. Messages
//! within the peer take no bandwidth; their limiter never says no.

use crate::node::table_message::HEADER_BYTES;
use crate::rate_limiter::RateLimiter;
use crate::selection_rng::SelectionRng;
use crate::spec::{ClientId, ShardId, TableSpec};
use hemiola_core::{Bandwidth, FRAME_OVERHEAD_BYTES, Moment, Rank};
use std::time::Duration;

/// Interval between two eager sends of a node.
pub const TICK_INTERVAL: Duration = Duration::from_millis(2);
/// Time without acknowledgement after which the network counts as saturated.
pub const ACK_TIMEOUT: Duration = Duration::from_millis(200);
/// Interval of bandwidth that forms a burst.
pub const BURST_INTERVAL: Duration = Duration::from_millis(20);
/// Smallest burst in bytes: room for at least one message.
pub const MIN_BURST_BYTES: usize = 16 << 10;

/// Bandwidth that never limits, for messages within a peer.
const UNLIMITED: (Bandwidth, usize) = (Bandwidth::bytes_per_second(1 << 40), 64 << 20);

/// Rate limiters of eager sending of one node.
#[derive(Clone, Debug)]
pub struct NodeLimiters {
    /// From clients here to shards on other peers.
    pub up: RateLimiter,
    /// From shards here to clients on other peers.
    pub down: RateLimiter,
    /// Between clients and shards of this peer.
    pub local: RateLimiter,
    /// Random numbers of the selection of rows by clients.
    pub random: SelectionRng,
}

impl NodeLimiters {
    /// Creates the limiters of a node with a budget for each direction.
    #[must_use]
    pub fn new(budget: Bandwidth, spec: &TableSpec, rank: Rank, seed: u64, now: Moment) -> Self {
        let limiter = || {
            if budget == Bandwidth::bytes_per_second(0) {
                return RateLimiter::zero();
            }
            let burst = budget.bytes_in(BURST_INTERVAL).max(MIN_BURST_BYTES);
            RateLimiter::new(budget, burst, ACK_TIMEOUT, now)
        };
        // Shards have the seeds before.
        let seed = seed.wrapping_add(spec.shards as u64 + u64::from(rank.number()));
        Self::with_limiters(limiter(), limiter(), SelectionRng::new(seed), now)
    }

    /// Creates the limiters of a node with other settings.
    #[must_use]
    pub fn with_limiters(up: RateLimiter, down: RateLimiter, random: SelectionRng, now: Moment) -> Self {
        let local = RateLimiter::new(UNLIMITED.0, UNLIMITED.1, Duration::MAX, now);
        Self { up, down, local, random }
    }

    /// Eager and urgent bytes sent to other peers so far.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        let ((up, urgent_up), (down, urgent_down)) = (self.up.bytes(), self.down.bytes());
        (up + down, urgent_up + urgent_down)
    }
}

/// Charges a message of `bytes` encoded bytes that was sent to another peer.
pub(super) fn charge(limiter: &mut RateLimiter, now: Moment, urgent: bool, bytes: usize) {
    limiter.charge(now, FRAME_OVERHEAD_BYTES + if urgent { bytes } else { HEADER_BYTES });
}

/// Number of the stream from the client here to a shard.
pub(super) fn stream_to_shard(shard: ShardId) -> u64 {
    shard.index() as u64
}

/// Number of the stream from a shard to a client. It follows those to shards.
pub(super) fn stream_to_client(spec: &TableSpec, shard: ShardId, client: ClientId) -> u64 {
    (spec.shards + shard.index() * spec.clients + client.index()) as u64
}
