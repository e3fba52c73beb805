//! Which way a message travels, and what it is for.
//!
//! Each pair of peers has two lanes that never wait for each other, so that a clock or an acknowledgement is not
//! stuck behind 64 MB of data. Order is kept inside a lane, not between lanes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One of the two independent ways between a pair of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lane {
    /// Small and urgent: clocks, acknowledgements, barriers, heartbeats.
    Control,
    /// Large and patient: rows, blocks, tensors.
    Bulk,
}

impl Lane {
    /// Both lanes, in index order.
    pub const ALL: [Self; 2] = [Self::Control, Self::Bulk];

    /// 0 or 1.
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

/// What a message is for. Every byte sent is counted under one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
#[repr(u8)]
pub enum Purpose {
    /// Heartbeats, goodbyes, failure notices.
    Liveness = 0,
    /// Barriers.
    Barrier = 1,
    /// Broadcasts of the cluster handle.
    Broadcast = 2,
    /// Gathers of the cluster handle.
    Gather = 3,
    /// A user's or a benchmark's own messages.
    Custom = 4,
    /// Entries and rows on their way to the peer that holds them.
    Shuffle = 5,
    /// Blocks of arrays that go from worker to worker with the time of a loop.
    Rotation = 6,
    /// Rows of arrays that are served by their owners, and updates to them.
    Served = 7,
    /// Rows of tables, updates to them, and their clocks.
    Tables = 8,
    /// Elements of collectives: all-reduce and its relatives.
    Collective = 9,
    /// Values that neighbours in a communication graph average, and word that they have come.
    Mixing = 10,
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
        Self::Mixing,
        Self::Schedule,
    ];

    /// The purpose's place in [`Purpose::ALL`], and its number on the wire.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The purpose with this number on the wire.
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
            Self::Mixing => "mixing",
            Self::Schedule => "schedule",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_and_place_agree() {
        for (place, purpose) in Purpose::ALL.iter().enumerate() {
            assert_eq!(purpose.index(), place);
            assert_eq!(Purpose::from_number(place as u8), Some(*purpose));
        }
        assert_eq!(Purpose::from_number(Purpose::ALL.len() as u8), None);
        for (place, lane) in Lane::ALL.iter().enumerate() {
            assert_eq!(lane.index(), place);
        }
    }
}
