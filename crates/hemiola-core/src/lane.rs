//! Lane and purpose of a message.
//!
//! Each pair of peers has two lanes that never wait for each other, so a clock or an
//! acknowledgement is not stuck behind 64 MB of data. Order is kept within a lane, not between
//! lanes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One of the two independent connections between a pair of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Small and urgent messages: clocks, acknowledgements, barriers, heartbeats.
    Control,
    /// Large messages that can wait: rows, blocks, tensors.
    Bulk,
}

impl Lane {
    /// Both lanes, in index order.
    pub const ALL: [Self; 2] = [Self::Control, Self::Bulk];

    /// Returns 0 for `Control` and 1 for `Bulk`.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Control => "control",
            Self::Bulk => "bulk",
        })
    }
}

/// Purpose of a message. Every byte sent is counted under one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[repr(u8)]
pub enum Purpose {
    /// Heartbeats, goodbyes and failure notices.
    Liveness = 0,
    /// Barriers of the cluster handle.
    Barrier = 1,
    /// Broadcasts of the cluster handle.
    Broadcast = 2,
    /// Gathers of the cluster handle.
    Gather = 3,
    /// Messages of a user program or a benchmark.
    Custom = 4,
    /// Entries and rows in a shuffle, sent to the peer that owns them.
    Shuffle = 5,
    /// Array blocks that rotate between workers in the time steps of a loop.
    Rotation = 6,
    /// Array rows that their owners serve, and updates to them.
    Served = 7,
    /// Parameter-server tables: rows, updates and clocks.
    Tables = 8,
    /// Elements of collectives such as all-reduce.
    Collective = 9,
    /// Gossip averaging: values sent to graph neighbours, and acknowledgements.
    Gossip = 10,
    /// Results of scheduled jobs.
    Schedule = 11,
}

impl Purpose {
    /// All purposes, in index order.
    pub const ALL: [Self; 12] = [
        Self::Liveness,
        Self::Barrier,
        Self::Broadcast,
        Self::Gather,
        Self::Custom,
        Self::Shuffle,
        Self::Rotation,
        Self::Served,
        Self::Tables,
        Self::Collective,
        Self::Gossip,
        Self::Schedule,
    ];

    /// Returns the index in [`Purpose::ALL`], which is also the number on the wire.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the purpose with this number on the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Liveness => "liveness",
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Gather => "gather",
            Self::Custom => "custom",
            Self::Shuffle => "shuffle",
            Self::Rotation => "rotation",
            Self::Served => "served",
            Self::Tables => "tables",
            Self::Collective => "collective",
            Self::Gossip => "gossip",
            Self::Schedule => "schedule",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_matches_position() {
        for (position, purpose) in Purpose::ALL.iter().enumerate() {
            assert_eq!(purpose.index(), position);
            assert_eq!(Purpose::from_number(position as u8), Some(*purpose));
        }
        assert_eq!(Purpose::from_number(Purpose::ALL.len() as u8), None);
        for (position, lane) in Lane::ALL.iter().enumerate() {
            assert_eq!(lane.index(), position);
        }
    }
}
