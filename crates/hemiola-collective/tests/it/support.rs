//! Helpers shared by the tests.

pub(crate) use hemiola_testkit::with_watchdog;

use hemiola_cluster::Cluster;
use hemiola_collective_proto::protocol::HEADER_BYTES;
use hemiola_core::FRAME_OVERHEAD_BYTES;
use hemiola_core::{Deadlines, Purpose};
use std::time::Duration;

/// Deadlines for tests in which a peer waits in vain.
pub(crate) fn short_deadlines() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.wait = Duration::from_secs(3);
    // Peers exchange their waits twice a second.
    deadlines.silence = Duration::from_secs(5);
    deadlines
}

/// Value whose sums depend on the order of addition.
pub(crate) fn number(peer: usize, index: usize) -> f64 {
    let mixed = (peer * 7919 + index * 104_729 + peer * index * 31) % 10_007;
    mixed as f64 / 97.0 - 51.0
}

/// Bytes of elements that this peer's collectives have sent so far.
pub(crate) fn sent(cluster: &Cluster) -> u64 {
    let traffic = cluster.traffic();
    let lines = traffic.lines.iter().filter(|line| line.purpose == Purpose::Collective);
    lines.map(|line| line.bytes_sent - line.messages_sent * (HEADER_BYTES + FRAME_OVERHEAD_BYTES) as u64).sum()
}
