//! What the tests stand on.

pub(crate) use hemiola_testkit::with_watchdog;

use hemiola_cluster::Cluster;
use hemiola_collective_proto::protocol::HEADER_BYTES;
use hemiola_core::{Deadlines, Purpose};
use hemiola_net::OVERHEAD_BYTES;
use std::time::Duration;

/// Deadlines for tests in which somebody waits in vain.
pub(crate) fn impatient() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.wait = Duration::from_secs(3);
    // Twice a second peers tell each other what they wait for.
    deadlines.silence = Duration::from_secs(5);
    deadlines
}

/// A number whose sums depend on the order of addition.
pub(crate) fn number(peer: usize, place: usize) -> f64 {
    let mixed = (peer * 7919 + place * 104_729 + peer * place * 31) % 10_007;
    mixed as f64 / 97.0 - 51.0
}

/// Bytes of elements that this peer's collectives have sent so far.
pub(crate) fn sent(cluster: &Cluster) -> u64 {
    let traffic = cluster.traffic();
    let lines = traffic.lines.iter().filter(|line| line.purpose == Purpose::Collective);
    lines.map(|line| line.bytes_sent - line.messages_sent * (HEADER_BYTES + OVERHEAD_BYTES) as u64).sum()
}
