//! Channels: ids of the streams of messages between peers, and the registry of their owners.
//!
//! A channel id is the owner in the top byte and a number below it. **Invariant:** every subsystem
//! that opens channels has a variant of [`ChannelOwner`] of its own, so two subsystems never
//! collide, whatever numbers they choose.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Subsystem that owns a channel. Its value is the top byte of the [`ChannelId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ChannelOwner {
    /// Heartbeats and stall reports of the cluster's monitor.
    Monitor = 1,
    /// Collective calls of the cluster: barrier, broadcast, gather.
    ClusterCalls = 2,
    /// Redistribution of a distributed array.
    ArrayRedistribution = 3,
    /// Parallel loops: rotating blocks and served arrays.
    Loops = 4,
    /// All-to-all exchange of the cluster.
    AllToAll = 5,
    /// Tables of the parameter server.
    Tables = 6,
    /// Collectives on slices of numbers, and gossip averaging.
    Collectives = 7,
    /// Scheduled model parallelism.
    Schedules = 8,
    /// Probe of latency and bandwidth between peers.
    Probe = 9,
    /// Shuffle of entries to their partitions.
    ArrayShuffle = 10,
    /// Tables of a model's variables, which the synchronization thread drives.
    ModelTables = 11,
    /// Requests to pause a training of asynchronous peers.
    Training = 12,
    /// Benchmark of the transport.
    TransportBenchmark = 0xbe,
    /// Benchmark of the shuffle.
    ShuffleBenchmark = 0xbf,
    /// Programs that open channels themselves.
    Application = 0xff,
}

/// Identifier of a channel within a peer. The subsystem that opens a channel chooses the number;
/// both sides must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ChannelId(u64);

impl ChannelId {
    /// Creates the id from its number on the wire, for transports. Other code uses
    /// [`ChannelId::of`].
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Creates channel `number` of a subsystem.
    ///
    /// # Panics
    /// If `number` does not fit into 56 bits.
    #[must_use]
    pub const fn of(owner: ChannelOwner, number: u64) -> Self {
        assert!(number < 1 << 56, "channel number needs more than 56 bits");
        Self(((owner as u64) << 56) | number)
    }

    /// Returns the id as it is sent on the wire.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the owner after this one. The match is exhaustive: a new variant must be listed.
    fn next(owner: ChannelOwner) -> Option<ChannelOwner> {
        use ChannelOwner::*;
        Some(match owner {
            Monitor => ClusterCalls,
            ClusterCalls => ArrayRedistribution,
            ArrayRedistribution => Loops,
            Loops => AllToAll,
            AllToAll => Tables,
            Tables => Collectives,
            Collectives => Schedules,
            Schedules => Probe,
            Probe => ArrayShuffle,
            ArrayShuffle => ModelTables,
            ModelTables => Training,
            Training => TransportBenchmark,
            TransportBenchmark => ShuffleBenchmark,
            ShuffleBenchmark => Application,
            Application => return None,
        })
    }

    #[test]
    fn channels_of_different_owners_never_collide() {
        let owners: Vec<_> = std::iter::successors(Some(ChannelOwner::Monitor), |owner| next(*owner)).collect();
        assert_eq!(owners.len(), 15);
        let ids: BTreeSet<u64> = owners
            .iter()
            .flat_map(|owner| [0, 1, (1 << 56) - 1].map(|number| ChannelId::of(*owner, number).number()))
            .collect();
        assert_eq!(ids.len(), owners.len() * 3);
        assert!(!ids.contains(&0), "channel 0 belongs to the transport");
    }
}
