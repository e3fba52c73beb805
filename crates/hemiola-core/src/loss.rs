//! The typed story of a peer that is gone.
//!
//! A lost peer is a value on the normal path: every wait of every surviving peer ends with one of these, within the
//! deadline for silence.

use crate::Rank;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Why a peer counts as gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LossCause {
    /// Its connection ended without a goodbye: the process died or was killed.
    Closed,
    /// The operating system reported an error on its connection.
    Broken {
        /// What the system said.
        reason: String,
    },
    /// It was silent for longer than the deadline: stopped, cut off, or its host is gone.
    Silent {
        /// How long it had been silent when it was given up.
        silence: Duration,
    },
    /// It sent bytes that are no valid frame.
    Corrupt {
        /// What was wrong with them.
        reason: String,
    },
    /// It reported that its own program failed.
    Failed {
        /// The error or panic message of its program.
        reason: String,
    },
    /// It ended well while others still waited for it.
    Left,
    /// It sent more than this peer would hold.
    Flooded {
        /// Bytes that had arrived and were not yet taken.
        pending: u64,
    },
}

impl fmt::Display for LossCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => {
                formatter.write_str("its connection closed without a goodbye (the process died or was killed)")
            }
            Self::Broken { reason } => write!(formatter, "its connection broke: {reason}"),
            Self::Silent { silence } => write!(
                formatter,
                "it has been silent for {:.1} s (stopped, cut off, or its host is gone)",
                silence.as_secs_f64()
            ),
            Self::Corrupt { reason } => write!(formatter, "it sent bytes that are not valid: {reason}"),
            Self::Failed { reason } => write!(formatter, "its program failed: {reason}"),
            Self::Left => formatter.write_str("it finished while others still waited for it"),
            Self::Flooded { pending } => write!(formatter, "it sent {pending} bytes that nobody has taken"),
        }
    }
}

/// A peer that is gone: who, where, why, and when it last gave a sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("lost peer {rank} at {address}: {cause}; last sign of life {:.1} s before", last_heard.as_secs_f64())]
pub struct PeerLost {
    /// Which peer.
    pub rank: Rank,
    /// Where it was.
    pub address: String,
    /// Why it counts as gone.
    pub cause: LossCause,
    /// Time between its last sign of life and the verdict.
    pub last_heard: Duration,
}

/// What a leaving peer tells the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parting {
    /// Its program ended well.
    Done,
    /// Its program failed.
    Failed {
        /// The error or panic message.
        reason: String,
    },
    /// It gives up because another peer is gone. The receiver blames that one, not the messenger.
    Lost(PeerLost),
}
