//! Delivery of arriving messages to the slots of an averager.

use crate::error::protocol_error;
use hemiola_cluster::{ChannelReceiver, Error, PeerHandle, Result, ShutdownToken};
use hemiola_collective_proto::GossipAverager;
use hemiola_collective_proto::gossip::{GossipElement, GossipMessage};
use hemiola_core::{ChannelId, Lane, OutgoingMessage, Payload, Purpose};
use parking_lot::Mutex;
use std::time::Duration;

/// Timeout of a receive; the service is woken for its end.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Pause of the service between a loss and the exclusion of the lost peer.
const LOSS_BACKOFF: Duration = Duration::from_millis(2);

/// Delivers one arrived message to its slot.
pub(super) fn deliver<T: GossipElement>(
    averager: &mut GossipAverager<T>,
    message: &hemiola_core::Message,
) -> Result<()> {
    if message.payload.is_empty() {
        return Ok(()); // empty messages only wake the receiver
    }
    let to = averager.me();
    GossipMessage::from_bytes(message.from, to, &message.payload)
        .and_then(|message| averager.receive(message))
        .map_err(protocol_error)
}

/// Delivers all arrived messages.
pub(super) fn deliver_all<T: GossipElement>(
    receiver: &ChannelReceiver,
    averager: &mut GossipAverager<T>,
) -> Result<()> {
    while let Some(message) = receiver.try_receive() {
        deliver(averager, &message)?;
    }
    Ok(())
}

/// Delivers arriving messages until the service ends. With `excludes_lost`, it waits for the
/// program to exclude a lost peer.
pub(super) fn serve<T: GossipElement>(
    peer_handle: &PeerHandle,
    values: &ChannelReceiver,
    averager: &Mutex<GossipAverager<T>>,
    excludes_lost: bool,
    ending: &ShutdownToken,
) -> Result<()> {
    while !ending.is_shutdown_requested() {
        match peer_handle.receive_within(values, POLL_INTERVAL) {
            Ok(Some(message)) => deliver(&mut averager.lock(), &message)?,
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
