//! Channels of the parameter server of a loop: requests for rows of served arrays, and answers.
//!
//! Requests go to the driver of the peer that owns the rows, and answers to the worker that waits
//! for them, on a channel of its own. The protocol is `hemiola_tables_proto::read_only`; this file
//! carries its messages. **Invariant:** the channel of a worker has the same number on every peer,
//! so a request names its worker and no channel.

use crate::arrays::LoopArrays;
use crate::served_block::bad_message;
use bytes::Bytes;
use hemiola_cluster::{ChannelReceiver, Cluster, Result, WaitReason};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Payload, Purpose, Rank, Waiter, WorkerId};
use hemiola_tables_proto::{RowRequest, ShardId, TablePlacement};

/// Channels for requests and answers, for one pass.
pub(crate) struct RowRequests {
    /// Channel of the drivers.
    channel: ChannelId,
    /// Channels for answers, by worker.
    channels: Vec<ChannelId>,
    answers: Vec<ChannelReceiver>,
    /// Peers of the shards.
    placement: TablePlacement,
    /// Encoded header of a message to a driver that carries a request.
    header: Vec<u8>,
}

impl RowRequests {
    /// *Collective.* Opens a channel for answers to each of `workers` workers. All peers pass the
    /// same number, so that channel ids stay in step.
    pub(crate) fn open(cluster: &Cluster, channel: ChannelId, workers: usize, header: Vec<u8>) -> Self {
        let channels: Vec<_> = (0..workers).map(|_| cluster.next_channel(ChannelOwner::Loops)).collect();
        let answers = channels.iter().map(|channel| cluster.open_channel(*channel, Lane::Bulk)).collect();
        Self { channel, channels, answers, placement: TablePlacement::on_all(cluster.size()), header }
    }

    /// Bytes that precede a request.
    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Sends a request, encoded behind [`header`](Self::header), to the peer of a shard.
    pub(crate) fn send(&self, cluster: &Cluster, shard: ShardId, request: Vec<u8>) -> Result<()> {
        cluster.send(self.placement.rank_of(shard), message(self.channel, request))
    }

    /// Waits for the next answer of a shard to a worker of this peer.
    pub(crate) fn receive(&self, cluster: &Cluster, shard: ShardId, worker: WorkerId) -> Result<Bytes> {
        let reason = WaitReason { operation: "rows of an array", number: None, site: None };
        let owner = self.placement.rank_of(shard);
        Ok(cluster.receive(&self.answers[worker.index()], owner, Waiter::Worker(worker), reason)?.payload)
    }

    /// Answers a request of another peer.
    pub(crate) fn answer(&self, cluster: &Cluster, arrays: &LoopArrays<'_>, from: Rank, request: &[u8]) -> Result<()> {
        let RowRequest { table, worker, keys } = RowRequest::decode(request).map_err(|error| bad_message(&error))?;
        let Some(channel) = self.channels.get(worker.index()).filter(|_| (table as usize) < arrays.len()) else {
            let problem = "a request names an array or a worker that does not exist".to_owned();
            return Err(hemiola_array::Error::BadMessage { problem }.into());
        };
        let mut cells = Vec::new();
        arrays.get(table as usize).serve(&keys, &mut cells)?;
        cluster.send(from, message(*channel, cells))
    }
}

fn message(channel: ChannelId, bytes: Vec<u8>) -> OutgoingMessage {
    OutgoingMessage { lane: Lane::Bulk, channel, purpose: Purpose::Served, payload: Payload::from(bytes) }
}
