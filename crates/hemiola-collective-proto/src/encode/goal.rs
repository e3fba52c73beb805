//! What encoded vectors are exchanged for.
//!
//! | goal | each peer brings | afterwards a peer has |
//! |---|---|---|
//! | all-reduce | a vector | the sum of all |
//! | reduce-scatter | a vector | its own [chunk](crate::protocol::cut) of the sum |
//! | reduce | a vector | the sum, if it is the root; nothing else |
//! | all-gather | a vector | everybody's, one after the other by rank |
//! | broadcast | a vector, if it is the root | the root's |
//! | all-to-all | a vector, cut into a block for each peer | everybody's block for it, by rank |
//!
//! An encoding with error feedback pays off where updates are summed, by the exchange or by whoever gets them: what one does not tell, the next ones do.

use super::Encoding;
use hemiola_core::Rank;
use std::fmt;

/// What encoded vectors are exchanged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Goal {
    /// All have the combination.
    AllReduce,
    /// Each has its chunk of the combination.
    ReduceScatter,
    /// One has the combination.
    Reduce {
        /// Who.
        root: Rank,
    },
    /// All have all vectors.
    AllGather,
    /// All have one peer's vector.
    Broadcast {
        /// Whose.
        root: Rank,
    },
    /// Each has everybody's block for it.
    AllToAll,
}

impl Goal {
    /// Every goal, with this root.
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

    /// Whether numbers of different peers are combined.
    #[must_use]
    pub const fn combines(self) -> bool {
        matches!(self, Self::AllReduce | Self::ReduceScatter | Self::Reduce { .. })
    }

    /// Whether each peer gets another part of a vector.
    pub(super) const fn deals(self) -> bool {
        matches!(self, Self::ReduceScatter | Self::AllToAll)
    }

    /// The one that has all, at first or in the end.
    #[must_use]
    pub const fn root(self) -> Option<Rank> {
        match self {
            Self::Reduce { root } | Self::Broadcast { root } => Some(root),
            _ => None,
        }
    }

    /// Whether vectors so encoded can be exchanged for this.
    #[must_use]
    pub const fn allows(self, encoding: Encoding) -> bool {
        match encoding {
            Encoding::LowRank { .. } => self.combines(),
            Encoding::SufficientFactors { .. } => matches!(self, Self::AllReduce),
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

    pub(crate) const fn encoded_name(self) -> &'static str {
        match self {
            Self::AllReduce => "encoded all-reduce",
            Self::ReduceScatter => "encoded reduce-scatter",
            Self::Reduce { .. } => "encoded reduce",
            Self::AllGather => "encoded all-gather",
            Self::Broadcast { .. } => "encoded broadcast",
            Self::AllToAll => "encoded all-to-all",
        }
    }

    /// As it is told to other peers, apart from the root.
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

impl fmt::Display for Goal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.encoded_name();
        formatter.write_str(name.strip_prefix("encoded ").unwrap_or(name))
    }
}
