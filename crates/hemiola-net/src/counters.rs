//! Counters of messages and bytes per peer, lane and purpose, in both directions.
//!
//! Counters only grow and are read without stopping any thread, so a snapshot is not atomic: its
//! counters may be a few messages apart.

use hemiola_core::{Lane, Purpose, Rank, Traffic, TrafficLine};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
struct TrafficCounter {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl TrafficCounter {
    fn add(&self, bytes: usize) {
        // Relaxed: nothing is published through a counter.
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.messages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// Counters of one peer, indexed by the other peer, lane and purpose.
#[derive(Debug)]
pub(crate) struct TrafficCounters {
    sent: Vec<TrafficCounter>,
    received: Vec<TrafficCounter>,
}

const PER_PEER: usize = Lane::ALL.len() * Purpose::ALL.len();

fn index_of(peer: Rank, lane: Lane, purpose: Purpose) -> usize {
    peer.index() * PER_PEER + lane.index() * Purpose::ALL.len() + purpose.index()
}

impl TrafficCounters {
    pub(crate) fn new(size: usize) -> Self {
        let counters = || (0..size * PER_PEER).map(|_| TrafficCounter::default()).collect();
        Self { sent: counters(), received: counters() }
    }

    pub(crate) fn sent(&self, to: Rank, lane: Lane, purpose: Purpose, bytes: usize) {
        self.sent[index_of(to, lane, purpose)].add(bytes);
    }

    pub(crate) fn received(&self, from: Rank, lane: Lane, purpose: Purpose, bytes: usize) {
        self.received[index_of(from, lane, purpose)].add(bytes);
    }

    pub(crate) fn snapshot(&self) -> Traffic {
        let mut lines = Vec::new();
        for peer in Rank::all(self.sent.len() / PER_PEER) {
            for lane in Lane::ALL {
                for purpose in Purpose::ALL {
                    let index = index_of(peer, lane, purpose);
                    let (messages_sent, bytes_sent) = self.sent[index].read();
                    let (messages_received, bytes_received) = self.received[index].read();
                    if messages_sent + messages_received > 0 {
                        lines.push(TrafficLine {
                            peer,
                            lane,
                            purpose,
                            messages_sent,
                            bytes_sent,
                            messages_received,
                            bytes_received,
                        });
                    }
                }
            }
        }
        Traffic { lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_peer_lane_and_purpose_has_its_own_line() {
        let counters = TrafficCounters::new(2);
        counters.sent(Rank::new(1), Lane::Bulk, Purpose::Custom, 100);
        counters.sent(Rank::new(1), Lane::Bulk, Purpose::Custom, 11);
        counters.received(Rank::new(1), Lane::Control, Purpose::Barrier, 7);
        let traffic = counters.snapshot();
        assert_eq!(traffic.lines.len(), 2);
        assert_eq!((traffic.bytes_sent(), traffic.bytes_received()), (111, 7));
        assert_eq!(traffic.lines[1].messages_sent, 2);
        assert_eq!(traffic.lines[0].purpose, Purpose::Barrier);
    }
}
