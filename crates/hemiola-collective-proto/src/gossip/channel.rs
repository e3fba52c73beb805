//! Messages between gossip nodes, their channels and their wire format.
//!
//! Values and NOTIFY travel on the bulk lane, everything else on the control lane. **Invariant:** a
//! channel carries one kind of message, so a node can wait for one kind of one peer, and parsing
//! knows what to expect.

use super::message::{GossipBody, GossipMessage, HEADER_BYTES};
use crate::{Error, Result};
use bytes::Bytes;
use hemiola_core::{Lane, Payload, Purpose, Rank};

/// Channel of a gossip node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GossipChannel {
    /// Pieces of values and NOTIFY.
    Values,
    /// ACKs of reduced values.
    Acks,
    /// Votes about lost peers.
    Votes,
    /// Arrivals and releases of barriers.
    Barriers,
}

impl GossipChannel {
    /// Every channel, by [`GossipChannel::index`].
    pub const ALL: [Self; 4] = [Self::Values, Self::Acks, Self::Votes, Self::Barriers];

    /// Index of the channel among [`GossipChannel::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Lane of the channel's messages.
    #[must_use]
    pub const fn lane(self) -> Lane {
        match self {
            Self::Values => Lane::Bulk,
            Self::Acks | Self::Votes | Self::Barriers => Lane::Control,
        }
    }

    /// Purpose of the channel's messages in traffic reports.
    #[must_use]
    pub const fn purpose(self) -> Purpose {
        match self {
            Self::Values | Self::Acks | Self::Votes => Purpose::Gossip,
            Self::Barriers => Purpose::Barrier,
        }
    }

    /// Name of a wait for a message of this channel, for stall reports.
    #[must_use]
    pub const fn awaited(self) -> &'static str {
        match self {
            Self::Values => "values to average",
            Self::Acks => "a neighbour to average",
            Self::Votes => "a vote about a lost peer",
            Self::Barriers => "the barrier of a round",
        }
    }
}

/// Message from one gossip node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GossipNodeMessage {
    /// Piece of values, NOTIFY or ACK.
    Averager(GossipMessage),
    /// Vote about a lost peer.
    Vote {
        /// Rank of the voter.
        from: Rank,
        /// Rank of the receiver.
        to: Rank,
        /// Peer that is lost.
        lost: Rank,
        /// Next round of the voter.
        round: u64,
    },
    /// Arrival at a barrier or, from the first remaining peer, release of all.
    Barrier {
        /// Rank of the sender.
        from: Rank,
        /// Rank of the receiver.
        to: Rank,
        /// Number of rounds whose barrier the sender has reached.
        rounds: u64,
    },
}

impl GossipNodeMessage {
    /// Rank of the receiver.
    #[must_use]
    pub fn to(&self) -> Rank {
        match self {
            Self::Averager(message) => message.to,
            Self::Vote { to, .. } | Self::Barrier { to, .. } => *to,
        }
    }

    /// Channel of the message.
    #[must_use]
    pub fn channel(&self) -> GossipChannel {
        match self {
            Self::Averager(GossipMessage { body: GossipBody::Ack, .. }) => GossipChannel::Acks,
            Self::Averager(_) => GossipChannel::Values,
            Self::Vote { .. } => GossipChannel::Votes,
            Self::Barrier { .. } => GossipChannel::Barriers,
        }
    }

    /// Bytes of values in the message.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        match self {
            Self::Averager(GossipMessage { body: GossipBody::Piece { values, .. }, .. }) => values.len(),
            _ => 0,
        }
    }

    /// Bytes of the message without values and without the frame of the transport.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        match self {
            Self::Averager(_) => HEADER_BYTES,
            Self::Vote { .. } => 16,
            Self::Barrier { .. } => 8,
        }
    }

    /// Serializes the message without copying the values.
    #[must_use]
    pub fn to_payload(&self) -> Payload {
        match self {
            Self::Averager(message) => message.to_payload(),
            Self::Vote { lost, round, .. } => {
                Payload::from([u64::from(lost.number()), *round].map(u64::to_le_bytes).concat())
            }
            Self::Barrier { rounds, .. } => Payload::from(rounds.to_le_bytes().to_vec()),
        }
    }

    /// Parses a message that arrived on a channel, from `from` to `to`.
    pub fn from_bytes(channel: GossipChannel, from: Rank, to: Rank, bytes: &Bytes) -> Result<Self> {
        let bad = |problem: &str| Error::InvalidMessage { from, problem: problem.to_owned() };
        match channel {
            GossipChannel::Values | GossipChannel::Acks => {
                GossipMessage::from_bytes(from, to, bytes).map(Self::Averager)
            }
            GossipChannel::Votes => {
                let (numbers, []) = bytes.as_chunks::<8>() else { return Err(bad("it is not a vote")) };
                let [lost, round] = numbers else { return Err(bad("it is not a vote")) };
                let lost = u32::try_from(u64::from_le_bytes(*lost)).map_err(|_| bad("it names an unknown peer"))?;
                Ok(Self::Vote { from, to, lost: Rank::new(lost), round: u64::from_le_bytes(*round) })
            }
            GossipChannel::Barriers => {
                let rounds = bytes.first_chunk().ok_or_else(|| bad("it names no round"))?;
                Ok(Self::Barrier { from, to, rounds: u64::from_le_bytes(*rounds) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_round_trip_with_the_size_they_claim() {
        let (from, to) = (Rank::new(1), Rank::new(2));
        let values = |body| GossipNodeMessage::Averager(GossipMessage { from, to, version: 5, body });
        for message in [
            values(GossipBody::Piece { index: 3, values: Bytes::from_static(b"abcd") }),
            values(GossipBody::Notify),
            values(GossipBody::Ack),
            GossipNodeMessage::Vote { from, to, lost: Rank::new(7), round: 1 << 40 },
            GossipNodeMessage::Barrier { from, to, rounds: 9 },
        ] {
            let bytes = message.to_payload().into_bytes();
            assert_eq!(bytes.len(), message.header_bytes() + message.value_bytes());
            assert_eq!(GossipNodeMessage::from_bytes(message.channel(), from, to, &bytes), Ok(message));
        }
        for channel in GossipChannel::ALL {
            assert_eq!(GossipChannel::ALL[channel.index()], channel);
            assert!(GossipNodeMessage::from_bytes(channel, from, to, &Bytes::from_static(b"abc")).is_err());
        }
    }
}
