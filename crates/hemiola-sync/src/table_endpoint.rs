//! Messages of a model's tables to and from other peers.
//!
//! All chunks of a model share one channel; the header of a message names its chunk. The network
//! thread that reads a message hands it to the synchronization thread, which decodes and handles
//! it. Messages that arrived before this peer opened the channel are queued; the thread takes them
//! when it is told so. **Invariant:** the network thread never waits, so a peer that waits for room
//! in the network gets it. What a peer may have on its way is bounded by the chunks
//! (`table_chunk.rs` of `hemiola-sync-proto`).

use hemiola_cluster::{ChannelReceiver, Cluster, PeerHandle, Result};
use hemiola_core::{ChannelId, ChannelOwner, Lane, Message, OutgoingMessage, Purpose, Rank};
use hemiola_sync_proto::TableMessage;

/// Channel of a model's tables.
pub(crate) struct TableEndpoint {
    channel: ChannelId,
    peer_handle: PeerHandle,
    receiver: ChannelReceiver,
}

impl TableEndpoint {
    /// *Collective.* Opens the channel; `deliver` gets each message on the thread that read it, and
    /// `None` whenever messages [are queued](Self::next_queued) or a peer is lost.
    pub(crate) fn open(cluster: &Cluster, deliver: impl Fn(Option<Message>) + Clone + Send + Sync + 'static) -> Self {
        let channel = cluster.next_channel(ChannelOwner::ModelTables);
        let receiver = cluster.open_channel(channel, Lane::Bulk);
        let (handle, wake) = (deliver.clone(), deliver.clone());
        receiver.set_handler(move |message| {
            handle(Some(message));
            None
        });
        receiver.set_waker(move || wake(None));
        deliver(None);
        Self { channel, peer_handle: cluster.peer_handle(), receiver }
    }

    /// Returns the next message that was queued instead of delivered.
    pub(crate) fn next_queued(&self) -> Option<Message> {
        self.receiver.try_receive()
    }

    pub(crate) fn peer_handle(&self) -> &PeerHandle {
        &self.peer_handle
    }

    /// Sends a message; waits while the network has no room.
    pub(crate) fn send(&self, to: Rank, message: TableMessage<f32>) -> Result<()> {
        let (lane, payload) = message.encode();
        let message = OutgoingMessage { lane, channel: self.channel, purpose: Purpose::Tables, payload };
        self.peer_handle.send(to, message)
    }
}
