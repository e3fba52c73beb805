//! Loss of a peer, as a typed value.
//!
//! A lost peer is a value on the normal path: every wait of every surviving peer ends with a
//! [`PeerLost`], within the timeout for silence.

use crate::{Rank, printable, printable_lines};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Cause of the loss of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LossCause {
    /// Its connection ended without a goodbye: the process died or was killed.
    Closed,
    /// The operating system reported an error on its connection.
    Broken {
        /// Error text of the operating system.
        reason: String,
    },
    /// It was silent for longer than the timeout: stopped, cut off, or its host is down.
    Silent {
        /// Duration of the silence when the peer was declared lost.
        silence: Duration,
    },
    /// It sent bytes that are not a valid frame.
    Corrupt {
        /// Description of the invalid bytes.
        reason: String,
    },
    /// It reported that its own program failed.
    Failed {
        /// Error or panic message of its program.
        reason: String,
    },
    /// It ended successfully while other peers still waited for it.
    Left,
    /// It sent more than this peer is willing to buffer.
    Flooded {
        /// Bytes that had arrived and were not yet consumed.
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
                "it has been silent for {:.1} s (stopped, cut off, or its host is down)",
                silence.as_secs_f64()
            ),
            Self::Corrupt { reason } => write!(formatter, "it sent invalid bytes: {}", printable_lines(reason)),
            Self::Failed { reason } => write!(formatter, "its program failed: {}", printable_lines(reason)),
            Self::Left => formatter.write_str("it finished while other peers still waited for it"),
            Self::Flooded { pending } => write!(formatter, "it sent {pending} bytes that were not consumed"),
        }
    }
}

/// Lost peer: its rank, its address, the cause, and the time of its last message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("lost peer {rank} at {}: {cause}; last sign of life {:.1} s before", printable(address), last_heard.as_secs_f64())]
pub struct PeerLost {
    /// Rank of the lost peer.
    pub rank: Rank,
    /// Network address of the lost peer.
    pub address: String,
    /// Cause of the loss.
    pub cause: LossCause,
    /// Time between the last message from the peer and the detection of the loss.
    pub last_heard: Duration,
}

/// Reason that a leaving peer gives to the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GoodbyeReason {
    /// Its program ended successfully.
    Done,
    /// Its program failed or panicked.
    Failed {
        /// Error or panic message of the program.
        reason: String,
    },
    /// It gives up because another peer was lost. The receiver blames that peer, not the sender.
    Lost(PeerLost),
}
