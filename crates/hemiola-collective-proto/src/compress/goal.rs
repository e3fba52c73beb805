//! Goals of compressed collectives.
//!
//! | goal | input of each peer | result of each peer |
//! |---|---|---|
//! | all-reduce | a vector | the sum of all |
//! | reduce-scatter | a vector | its own [chunk](crate::protocol::chunk_range) of the sum |
//! | reduce | a vector | the sum at the root; nothing elsewhere |
//! | all-gather | a vector | the vectors of all peers, by rank |
//! | broadcast | a vector at the root | the root's vector |
//! | all-to-all | a vector, cut into a block for each peer | the blocks of all peers for it, by rank |
//!
//! Error feedback is correct where updates are summed, by the collective or by the receiver: later
//! updates carry what an earlier one did not send.

use super::Compression;
use hemiola_core::Rank;
use std::fmt;

/// Goal of a compressed collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveGoal {
    /// All peers get the combination.
    AllReduce,
    /// Each peer gets its chunk of the combination.
    ReduceScatter,
    /// The root gets the combination.
    Reduce {
        /// Peer that receives the combination.
        root: Rank,
    },
    /// All peers get all vectors.
    AllGather,
    /// All peers get the root's vector.
    Broadcast {
        /// Peer that sends its vector.
        root: Rank,
    },
    /// Each peer gets the blocks of all peers for it.
    AllToAll,
}

impl CollectiveGoal {
    /// Every goal, with this root where there is one.
    #[must_use]
    pub const fn all(root: Rank) -> [Self; 6] {
        [
            Self::AllReduce,
            Self::ReduceScatter,
            Self::Reduce { root },
            Self::AllGather,
            Self::Broadcast { root },
            Self::AllToAll,
        ]
    }

    /// Returns true if values of different peers are combined.
    #[must_use]
    pub const fn combines(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce { .. })
    }

    /// Returns true if each peer receives a different part of a vector.
    pub(super) const fn scatters(self) -> bool {
        matches!(self, Self::ReduceScatter | Self::AllToAll)
    }

    /// Peer that has the whole vector at the start or at the end.
    #[must_use]
    pub const fn root(self) -> Option<Rank> {
        match self {
            Self::Reduce { root } | Self::Broadcast { root } => Some(root),
            _ => None,
        }
    }

    /// Returns true if vectors of this compression can be exchanged for this goal.
    #[must_use]
    pub const fn supports(self, compression: Compression) -> bool {
        match compression {
            Compression::LowRank { .. } => self.combines(),
            Compression::SufficientFactors { .. } => matches!(self, Self::AllReduce),
            _ => true,
        }
    }

    pub(crate) const fn with_article(self) -> &'static str {
        match self {
            Self::AllReduce => "an all-reduce",
            Self::ReduceScatter => "a reduce-scatter",
            Self::Reduce { .. } => "a reduce",
            Self::AllGather => "an all-gather",
            Self::Broadcast { .. } => "a broadcast",
            Self::AllToAll => "an all-to-all",
        }
    }

    pub(crate) const fn compressed_name(self) -> &'static str {
        match self {
            Self::AllReduce => "compressed all-reduce",
            Self::ReduceScatter => "compressed reduce-scatter",
            Self::Reduce { .. } => "compressed reduce",
            Self::AllGather => "compressed all-gather",
            Self::Broadcast { .. } => "compressed broadcast",
            Self::AllToAll => "compressed all-to-all",
        }
    }

    /// Wire format, without the root.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::AllReduce => 0,
            Self::ReduceScatter => 1,
            Self::Reduce { .. } => 2,
            Self::AllGather => 3,
            Self::Broadcast { .. } => 4,
            Self::AllToAll => 5,
        }
    }

    pub(crate) fn from_code(code: u8, root: Rank) -> Option<Self> {
        Self::all(root).into_iter().find(|goal| goal.code() == code)
    }
}

impl fmt::Display for CollectiveGoal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.compressed_name();
        formatter.write_str(name.strip_prefix("compressed ").unwrap_or(name))
    }
}
