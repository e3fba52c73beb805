//! Messages between the nodes of a table, their lanes and their encoding.
//!
//! A message begins with a header: its direction and its shard, padded so that values stay
//! aligned. The rest is encoded by [`wire`]. Acknowledgements, clocks, recalls, requests and rows
//! take the control lane if they are small, and everything else takes the bulk lane. Lanes overtake
//! each other; [`OrderedStream`](crate::stream::OrderedStream) restores the order.

use crate::dtype::StorageType;
use crate::error::{Error, Result};
use crate::message::{ClientMessage, ServerMessage};
use crate::spec::{ClientId, ShardId, TableSpec};
use crate::stream::Sequenced;
use crate::wire;
use bytes::Bytes;
use hemiola_core::{Lane, Payload, Rank};

/// Header of a message in bytes: direction and shard, padded to the alignment of values.
pub const HEADER_BYTES: usize = wire::ALIGNMENT;
/// Largest message in bytes that may take the control lane.
pub const CONTROL_LANE_BYTES: usize = 1024;

const TO_SHARD: u8 = 0;
const TO_CLIENT: u8 = 1;
const FINISHED: u8 = 2;

/// Message from one node of a table to another, or to itself.
#[derive(Clone, Debug, PartialEq)]
pub enum TableMessage<C: StorageType> {
    /// Message from a client to its shard.
    ToShard {
        /// Shard that receives the message.
        shard: ShardId,
        /// Client that sent it. The transport supplies it; it is not encoded.
        from: ClientId,
        /// Numbered message.
        message: Sequenced<ClientMessage<C::Compute>>,
    },
    /// Message from a shard to a client.
    ToClient {
        /// Shard that sent the message.
        shard: ShardId,
        /// Numbered message.
        message: Sequenced<ServerMessage<C, C::Compute>>,
    },
    /// The shards of the sender are no longer used.
    Finished,
}

impl<C: StorageType> TableMessage<C> {
    fn header(&self) -> [u8; HEADER_BYTES] {
        let (kind, shard) = match self {
            Self::ToShard { shard, .. } => (TO_SHARD, shard.index()),
            Self::ToClient { shard, .. } => (TO_CLIENT, shard.index()),
            Self::Finished => (FINISHED, 0),
        };
        let mut header = [0; HEADER_BYTES];
        header[0] = kind;
        header[4..].copy_from_slice(&(shard as u32).to_le_bytes());
        header
    }

    /// Lane of the message, given its encoded size.
    fn lane(may_be_small: bool, bytes: usize) -> Lane {
        if may_be_small && bytes <= CONTROL_LANE_BYTES { Lane::Control } else { Lane::Bulk }
    }

    /// Returns true for kinds of messages that are small unless they name many rows.
    fn may_be_small(&self) -> bool {
        match self {
            Self::ToShard { message, .. } => {
                matches!(&message.body, None | Some(ClientMessage::Clock(_) | ClientMessage::Get { .. }))
            }
            Self::ToClient { message, .. } => {
                matches!(&message.body, None | Some(ServerMessage::Recall { .. } | ServerMessage::Rows { .. }))
            }
            Self::Finished => true,
        }
    }

    /// Returns true for rows of a shard, which count in its send window.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        matches!(self, Self::ToClient { message, .. } if matches!(message.body, Some(ServerMessage::Rows { .. })))
    }

    /// Encodes the message, and chooses its lane.
    #[must_use]
    pub fn encode(self) -> (Lane, Payload) {
        let (header, may_be_small) = (self.header(), self.may_be_small());
        let payload = match self {
            Self::ToShard { message, .. } => wire::encode_to_shard::<C::Compute>(&header, message),
            Self::ToClient { message, .. } => wire::encode_to_client::<C>(&header, message),
            Self::Finished => header.to_vec().into(),
        };
        (Self::lane(may_be_small, payload.len()), payload)
    }

    /// Lane and encoded size of the message, computed without encoding it.
    #[must_use]
    pub fn lane_and_bytes(&self) -> (Lane, usize) {
        let bytes = HEADER_BYTES
            + match self {
                Self::ToShard { message, .. } => wire::shard_bytes(message),
                Self::ToClient { message, .. } => wire::client_bytes(message),
                Self::Finished => 0,
            };
        (Self::lane(self.may_be_small(), bytes), bytes)
    }

    /// Decodes the output of [`encode`](Self::encode), which `from` has sent.
    pub fn decode(bytes: &Bytes, from: Rank, spec: &TableSpec) -> Result<Self> {
        let bad = |problem: &str| Error::BadMessage {
            table: spec.name.clone(),
            problem: format!("{problem}, from peer {from}"),
        };
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(bad("the message is too short"));
        };
        let number = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        if number as usize >= spec.shards {
            return Err(bad("it names a shard that does not exist"));
        }
        let (shard, body) = (ShardId::new(number), &bytes.slice(HEADER_BYTES..));
        Ok(match header[0] {
            TO_SHARD => {
                let message = wire::decode_to_shard(body, spec)?;
                Self::ToShard { shard, from: ClientId::new(from.number()), message }
            }
            TO_CLIENT => Self::ToClient { shard, message: wire::decode_to_client(body, spec)? },
            FINISHED => Self::Finished,
            _ => return Err(bad("it has an unknown direction")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::RowBatch;
    use crate::cells::RowCells;
    use crate::clock::Clock;
    use crate::spec::KeySpace;

    fn messages(rows: u64) -> Vec<TableMessage<f32>> {
        let (shard, from) = (ShardId::new(2), ClientId::new(3));
        let keys: Vec<u64> = (0..rows).collect();
        let mut batch = RowBatch::new();
        for key in &keys {
            batch.push(*key, 7, &RowCells::Dense(&[1.0, 2.0]));
        }
        let up = [
            None,
            Some(ClientMessage::Clock(Clock::new(5))),
            Some(ClientMessage::Get { need: Clock::ZERO, keys: keys.clone() }),
            Some(ClientMessage::Update { clock: Clock::ZERO, batch: batch.clone(), attachment: Vec::new() }),
            Some(ClientMessage::Forget { keys: keys.clone() }),
        ];
        let down = [
            None,
            Some(ServerMessage::Recall { keys: keys.clone() }),
            Some(ServerMessage::Lease { keys }),
            Some(ServerMessage::Rows { fresh: Clock::ZERO, included: 1, reply: true, batch, attachment: Vec::new() }),
        ];
        let up = up.into_iter().map(|body| {
            let message = Sequenced { number: u64::from(body.is_some()), acknowledged: 9, body };
            TableMessage::ToShard { shard, from, message }
        });
        let down = down.into_iter().map(|body| {
            let message = Sequenced { number: u64::from(body.is_some()), acknowledged: 9, body };
            TableMessage::ToClient { shard, message }
        });
        up.chain(down).chain([TableMessage::Finished]).collect()
    }

    #[test]
    fn computed_lanes_and_sizes_are_those_of_the_encoding() {
        let spec = TableSpec { shards: 4, clients: 4, ..TableSpec::new("t", KeySpace::Growing, 2) };
        for rows in [1, 3, 2000] {
            for message in messages(rows) {
                let (lane, bytes) = message.lane_and_bytes();
                let (encoded_lane, payload) = message.clone().encode();
                assert_eq!((lane, bytes), (encoded_lane, payload.len()), "{message:?}");
                let from = Rank::new(3);
                assert_eq!(TableMessage::decode(&payload.into_bytes(), from, &spec).unwrap(), message);
            }
        }
    }

    #[test]
    fn only_small_urgent_kinds_take_the_control_lane() {
        let control = |rows| -> Vec<bool> {
            messages(rows).iter().map(|message| message.lane_and_bytes().0 == Lane::Control).collect()
        };
        assert_eq!(control(1), [true, true, true, false, false, true, true, false, true, true]);
        assert_eq!(control(2000), [true, true, false, false, false, true, false, false, false, true]);
    }

    #[test]
    fn malformed_messages_are_errors() {
        let spec = TableSpec { shards: 4, clients: 4, ..TableSpec::new("t", KeySpace::Growing, 2) };
        for bytes in [vec![], vec![0; 5], vec![9; 8], vec![9, 0, 0, 0, 1, 0, 0, 0], vec![0, 0, 0, 0, 4, 0, 0, 0]] {
            let error = TableMessage::<f32>::decode(&bytes.into(), Rank::new(1), &spec).unwrap_err();
            assert!(error.to_string().contains("from peer 1"), "{error}");
        }
    }
}
