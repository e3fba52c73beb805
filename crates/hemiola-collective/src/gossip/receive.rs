//! Delivery of arriving messages to a gossip node.

use crate::error::protocol_error;
use hemiola_cluster::{ChannelReceiver, Error, PeerHandle, Result, ShutdownToken};
use hemiola_collective_proto::GossipNode;
use hemiola_collective_proto::gossip::{GossipChannel, GossipElement, GossipNodeMessage};
use hemiola_core::{ChannelId, Lane, OutgoingMessage, Payload, Purpose, RECHECK_INTERVAL};
use parking_lot::Mutex;
use std::time::Duration;

/// Pause of the service between a loss and the exclusion of the lost peer.
const LOSS_BACKOFF: Duration = Duration::from_millis(2);

/// Delivers one message that arrived on a channel.
pub(super) fn deliver<T: GossipElement>(
    node: &mut GossipNode<T>,
    channel: GossipChannel,
    message: &hemiola_core::Message,
    out: &mut Vec<GossipNodeMessage>,
) -> Result<()> {
    if message.payload.is_empty() {
        return Ok(()); // empty messages only wake the receiver
    }
    GossipNodeMessage::from_bytes(channel, message.from, node.me(), &message.payload)
        .and_then(|message| node.receive(message, out))
        .map_err(protocol_error)
}

/// Delivers all arrived messages of a channel.
pub(super) fn deliver_all<T: GossipElement>(
    receiver: &ChannelReceiver,
    channel: GossipChannel,
    node: &mut GossipNode<T>,
    out: &mut Vec<GossipNodeMessage>,
) -> Result<()> {
    while let Some(message) = receiver.try_receive() {
        deliver(node, channel, &message, out)?;
    }
    Ok(())
}

/// Delivers arriving messages until the service ends. With `excludes_lost`, it waits for the
/// program to exclude a lost peer.
pub(super) fn serve<T: GossipElement>(
    peer_handle: &PeerHandle,
    values: &ChannelReceiver,
    node: &Mutex<GossipNode<T>>,
    excludes_lost: bool,
    ending: &ShutdownToken,
) -> Result<()> {
    while !ending.is_shutdown_requested() {
        match peer_handle.receive_within(values, RECHECK_INTERVAL) {
            // Values never make a node send something.
            Ok(Some(message)) => deliver(&mut node.lock(), GossipChannel::Values, &message, &mut Vec::new())?,
            Ok(None) => {}
            Err(Error::Lost(_)) if excludes_lost => peer_handle.env().sleep(LOSS_BACKOFF),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Wakes the service by an empty message to itself.
pub(super) fn wake_up(peer_handle: &PeerHandle, channel: ChannelId) {
    let message =
        OutgoingMessage { lane: Lane::Control, channel, purpose: Purpose::Liveness, payload: Payload::empty() };
    // If this peer has left, its service knows already.
    let _ = peer_handle.send(peer_handle.rank(), message);
}
