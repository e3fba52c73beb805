//! Collective in flight: a state machine and its channel.
//!
//! Every collective has a channel of its own, so collectives never take each other's messages and
//! any thread can drive one. Messages that arrive before a peer has started the collective wait in
//! the receiver that will be opened. **Invariants:** a sender that finds no room takes in the
//! arrived messages before it tries again, so peers that send to each other make room for each
//! other, however long the vectors are; and a peer that waits for another checks regularly for
//! failure notices of all peers.

use crate::completion::NotifyFn;
use crate::error::{protocol_error, receive_failure};
use hemiola_cluster::{ChannelReceiver, Cluster, PeerHandle, Result, WaitReason};
use hemiola_collective_proto::compress::CompressionLabel;
use hemiola_collective_proto::protocol::{
    CallSignature, CollectiveBody, CollectiveElement, CollectiveMachine, CollectiveMessage, CollectiveMismatch,
    ElementKind, Operation, Tag,
};
use hemiola_core::{ChannelId, Lane, Moment, OutgoingMessage, Purpose, Rank, Waiter};
use std::panic::Location;
use std::time::Duration;

/// Bytes of elements per message: large enough that the cost per message does not matter, small
/// enough that messages in flight stay in a second-level cache.
pub(crate) const SEGMENT_BYTES: usize = 1 << 18;
/// Collectives of at most this many bytes use the control lane, where no large message precedes
/// them.
const SMALL_BYTES: usize = 1 << 13;
/// Timeout of a send before the sender takes in arrived messages.
const SEND_TIMEOUT: Duration = Duration::from_millis(5);
/// Timeout of a receive before the messages of other peers are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Progress of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectiveProgress {
    /// The collective is complete.
    Done,
    /// Waits for a message of this peer.
    Waiting(Rank),
    /// Waits for this peer to take in messages.
    Blocked(Rank),
}

/// Collective in flight on this peer. The elements belong to the caller and are lent with each
/// call.
pub(crate) struct InFlightCollective {
    peer_handle: PeerHandle,
    machine: CollectiveMachine,
    tag: Tag,
    peers: usize,
    channel: ChannelId,
    lane: Lane,
    receiver: ChannelReceiver,
    site: &'static Location<'static>,
    /// Time of the last progress.
    moved: Moment,
}

impl InFlightCollective {
    pub(crate) fn begin<T: CollectiveElement>(
        cluster: &Cluster,
        channel: ChannelId,
        tag: Tag,
        operation: &Operation,
        site: &'static Location<'static>,
    ) -> Result<Self> {
        Self::begin_as(cluster, channel, tag, operation, (T::KIND, None), site)
    }

    /// Starts a collective with an element type known at run time, and with the label of the
    /// compressed collective that it is a stage of.
    pub(crate) fn begin_as(
        cluster: &Cluster,
        channel: ChannelId,
        tag: Tag,
        operation: &Operation,
        (kind, label): (ElementKind, Option<&CompressionLabel>),
        site: &'static Location<'static>,
    ) -> Result<Self> {
        let peers = cluster.size();
        let segment = SEGMENT_BYTES / kind.bytes();
        let mut machine =
            CollectiveMachine::new(tag, cluster.rank(), peers, operation, kind, segment).map_err(protocol_error)?;
        if let Some(label) = label {
            machine = machine.with_label(label);
        }
        let bytes = operation.buffer_length(peers).saturating_mul(kind.bytes());
        let lane = if bytes <= SMALL_BYTES { Lane::Control } else { Lane::Bulk };
        let (peer_handle, receiver) = (cluster.peer_handle(), cluster.open_channel(channel, lane));
        let moved = peer_handle.env().now();
        Ok(Self { peer_handle, machine, tag, peers, channel, lane, receiver, site, moved })
    }

    pub(crate) fn call(&self) -> CallSignature {
        self.machine.call()
    }

    /// Number of NaN elements of the result.
    pub(crate) fn nan(&self) -> usize {
        self.machine.nan()
    }

    /// Reason shown in stall reports while a thread waits for this collective.
    pub(crate) fn reason(&self) -> WaitReason {
        WaitReason { operation: self.call().name(), number: Some(self.tag.number()), site: Some(self.site) }
    }

    /// Sets the callback that is called whenever a message for this collective arrives, or can no
    /// longer arrive.
    pub(crate) fn set_waker(&self, waker: &NotifyFn) {
        let waker = waker.clone();
        self.receiver.set_waker(move || waker());
    }

    /// Runs to completion on the calling thread.
    pub(crate) fn run<T: CollectiveElement>(&mut self, elements: &mut [T]) -> Result<()> {
        loop {
            let progress = self.advance(elements)?;
            let (CollectiveProgress::Waiting(peer) | CollectiveProgress::Blocked(peer)) = progress else {
                return Ok(());
            };
            let peer_handle = self.peer_handle.clone();
            let _waiting = peer_handle.waiting(Waiter::Driver, self.reason(), Some(peer));
            while !self.wait(progress, POLL_INTERVAL)? {}
        }
    }

    /// Advances as far as possible without waiting for messages.
    pub(crate) fn advance<T: CollectiveElement>(&mut self, elements: &mut [T]) -> Result<CollectiveProgress> {
        let Self { peer_handle, machine, lane, channel, moved, .. } = self;
        let mut stopped = None;
        let advanced = machine.advance(elements, &mut |lent| {
            let payload = lent.header().into();
            let message = OutgoingMessage { lane: *lane, channel: *channel, purpose: Purpose::Collective, payload };
            let sent = peer_handle.send_borrowed(lent.to, message, lent.elements, SEND_TIMEOUT);
            match sent {
                Ok(true) => *moved = peer_handle.env().now(),
                Ok(false) => stopped = Some(Ok(CollectiveProgress::Blocked(lent.to))),
                Err(error) => stopped = Some(Err(error)),
            }
            stopped.is_none()
        });
        match (stopped, advanced) {
            (Some(stopped), _) => {
                self.take_all()?;
                stopped
            }
            (None, Ok(true)) => Ok(CollectiveProgress::Done),
            // Neither blocked nor done: it can only be waiting.
            (None, Ok(false)) => {
                Ok(CollectiveProgress::Waiting(self.machine.waits_for().unwrap_or(self.peer_handle.rank())))
            }
            (None, Err(error)) => Err(self.fail(error, None)),
        }
    }

    /// Waits until progress is possible, at most for `timeout`. Returns true if it is. Fails if
    /// there has been no progress until the deadline.
    pub(crate) fn wait(&mut self, progress: CollectiveProgress, timeout: Duration) -> Result<bool> {
        let can_advance = match progress {
            CollectiveProgress::Done => true,
            // Only another send can find out if there is room now.
            CollectiveProgress::Blocked(_) => {
                self.take_all()?;
                self.peer_handle.env().now() - self.moved < self.peer_handle.wait_timeout()
            }
            CollectiveProgress::Waiting(peer) => match self.receiver.receive_from(peer, timeout) {
                Ok(message) => {
                    self.take(&message)?;
                    true
                }
                Err(error) => {
                    // Another peer may have reported the cause, which explains more than a loss
                    // that follows from it. And the awaited message may have arrived just now: then
                    // no waker would report it.
                    let taken = self.take_all()?;
                    if let Some(error) = receive_failure(error) {
                        return Err(error);
                    }
                    taken
                }
            },
        };
        let (CollectiveProgress::Waiting(peer) | CollectiveProgress::Blocked(peer)) = progress else { return Ok(true) };
        if can_advance || self.peer_handle.env().now() - self.moved < self.peer_handle.wait_timeout() {
            return Ok(can_advance);
        }
        let action = if matches!(progress, CollectiveProgress::Blocked(_)) { "to take in messages" } else { "to send" };
        let (reason, call) = (self.reason(), self.call());
        let (taken, steps) = self.machine.progress();
        let details =
            format!("\nthis peer waits for peer {peer} {action} in {call}, after {taken} of its {steps} steps");
        Err(self.peer_handle.timed_out(&format_args!("{reason}, with peer {peer}"), &details))
    }

    /// Takes in all arrived messages. Returns true if there were any.
    fn take_all(&mut self) -> Result<bool> {
        let mut taken = false;
        while let Some(message) = self.receiver.try_receive() {
            self.take(&message)?;
            taken = true;
        }
        Ok(taken)
    }

    fn take(&mut self, message: &hemiola_core::Message) -> Result<()> {
        self.moved = self.peer_handle.env().now();
        let from = message.from;
        let message =
            CollectiveMessage::from_bytes(from, self.peer_handle.rank(), &message.payload).map_err(protocol_error)?;
        let informed_by = matches!(message.body, CollectiveBody::Failed(_)).then_some(from);
        self.machine.receive(message).map_err(|error| self.fail(error, informed_by))
    }

    /// Returns the error, after informing the other peers of it unless another peer, `informed_by`,
    /// already has.
    fn fail(&mut self, error: hemiola_collective_proto::Error, informed_by: Option<Rank>) -> hemiola_cluster::Error {
        if let (hemiola_collective_proto::Error::CollectiveMismatch(mismatch), None) = (&error, informed_by) {
            self.broadcast_failure(**mismatch);
        }
        protocol_error(error)
    }

    fn broadcast_failure(&self, mismatch: CollectiveMismatch) {
        let me = self.peer_handle.rank();
        for to in Rank::all(self.peers).filter(|&to| to != me) {
            let body = CollectiveBody::Failed(mismatch);
            let payload =
                CollectiveMessage { from: me, to, tag: self.tag, sequence: 0, call: self.call(), body }.to_payload();
            let (lane, channel, purpose) = (Lane::Control, self.channel, Purpose::Collective);
            // A peer that cannot be informed now learns of it when this peer leaves.
            let _ = self.peer_handle.send_within(to, OutgoingMessage { lane, channel, purpose, payload }, SEND_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_arrives_as_a_wait_ends_is_noticed() {
        let run = hemiola_cluster::standalone(2).run(|cluster| {
            let operation = Operation::Broadcast { root: Rank::ROOT, length: 1 };
            let (channel, site) = (ChannelId::of(200, 1), Location::caller());
            let mut in_flight = InFlightCollective::begin::<f32>(cluster, channel, Tag::new(1), &operation, site)?;
            if cluster.is_root() {
                in_flight.run(&mut [7.0_f32])?;
                return cluster.barrier();
            }
            cluster.barrier()?;
            let mut here = [0.0_f32];
            assert_eq!(in_flight.advance(&mut here)?, CollectiveProgress::Waiting(Rank::ROOT));
            // The message has arrived, and the wait for another peer ends without it, as a wait
            // that ends a moment too early does.
            assert!(in_flight.wait(CollectiveProgress::Waiting(cluster.rank()), Duration::ZERO)?, "it can go on");
            assert_eq!(in_flight.advance(&mut here)?, CollectiveProgress::Done);
            assert_eq!(here.map(f32::to_bits), [7.0_f32.to_bits()]);
            Ok(())
        });
        run.unwrap();
    }
}
