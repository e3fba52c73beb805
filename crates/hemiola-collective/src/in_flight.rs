//! Collective in flight: a [`CollectiveCall`] of `hemiola-collective-proto` and its channel.
//!
//! The call makes all decisions of the protocol; this driver gives it a channel, a thread and
//! deadlines. Every call has a channel of its own, so calls never take each other's messages and
//! any thread can drive one. Messages that arrive before a peer has begun the call wait in the
//! channel that will be opened. **Invariants:** a sender that finds no room takes in the arrived
//! messages before it tries again, so peers that send to each other make room for each other,
//! however long the vectors are; and a peer that waits for another checks regularly for failure
//! notices of all peers.

use crate::completion::NotifyFn;
use crate::error::{protocol_error, receive_failure};
use hemiola_cluster::{ChannelReceiver, Cluster, PeerHandle, Result, WaitReason};
use hemiola_collective_proto::protocol::{BorrowedMessage, CallBuffer, CallFailure, CallProgress, CollectiveCall};
use hemiola_core::{ChannelId, ChannelOwner, Moment, OutgoingMessage, POLL_INTERVAL, Purpose, Waiter};
use std::panic::Location;
use std::time::Duration;

/// Timeout of a send before the sender takes in arrived messages.
const SEND_TIMEOUT: Duration = Duration::from_millis(5);

/// Bits of a tag. A channel number has the number of its communicator above them.
const TAG_BITS: u32 = 40;
/// Maximum number of communicators of a cluster.
pub(crate) const MAX_HANDLES: u64 = 1 << (56 - TAG_BITS);

/// Channel of a communicator for one tag.
pub(crate) fn channel(handle: u64, number: u64) -> ChannelId {
    ChannelId::of(ChannelOwner::Collectives, handle << TAG_BITS | number)
}

/// Opens the channels of the calls of one communicator.
#[derive(Clone)]
pub(crate) struct CallOpener {
    pub(crate) cluster: Cluster,
    /// Number of the communicator.
    pub(crate) handle: u64,
}

impl CallOpener {
    pub(crate) fn open(&self, call: CollectiveCall, site: &'static Location<'static>) -> InFlightCollective {
        let channel = channel(self.handle, call.tag().number());
        let (peer_handle, receiver) = (self.cluster.peer_handle(), self.cluster.open_channel(channel, call.lane()));
        let moved = peer_handle.env().now();
        InFlightCollective { peer_handle, call, channel, receiver, site, moved }
    }
}

/// Collective in flight on this peer. The elements belong to the caller and are lent with each
/// call.
pub(crate) struct InFlightCollective {
    peer_handle: PeerHandle,
    call: CollectiveCall,
    channel: ChannelId,
    receiver: ChannelReceiver,
    site: &'static Location<'static>,
    /// Time of the last progress.
    moved: Moment,
}

impl InFlightCollective {
    pub(crate) fn call(&self) -> &CollectiveCall {
        &self.call
    }

    /// Reason shown in stall reports while a thread waits for this collective.
    pub(crate) fn reason(&self) -> WaitReason {
        let (operation, number) = (self.call.signature().name(), Some(self.call.tag().number()));
        WaitReason { operation, number, site: Some(self.site) }
    }

    /// Sets the callback that is called whenever a message for this collective arrives, or can no
    /// longer arrive.
    pub(crate) fn set_waker(&self, waker: &NotifyFn) {
        let waker = waker.clone();
        self.receiver.set_waker(move || waker());
    }

    /// Runs to completion on the calling thread.
    pub(crate) fn run<B: CallBuffer + ?Sized>(&mut self, buffer: &mut B) -> Result<()> {
        loop {
            let progress = self.advance(buffer)?;
            let (CallProgress::Waiting(peer) | CallProgress::Blocked(peer)) = progress else {
                return Ok(());
            };
            let peer_handle = self.peer_handle.clone();
            let _waiting = peer_handle.waiting(Waiter::Driver, self.reason(), Some(peer));
            while !self.wait(progress, POLL_INTERVAL)? {}
        }
    }

    /// Advances as far as possible without waiting for messages.
    pub(crate) fn advance<B: CallBuffer + ?Sized>(&mut self, buffer: &mut B) -> Result<CallProgress> {
        let Self { peer_handle, call, channel, moved, .. } = self;
        let (lane, channel, purpose) = (call.lane(), *channel, Purpose::Collective);
        let mut failed = None;
        let advanced = call.advance(buffer, &mut |lent: BorrowedMessage<'_>| {
            let message = OutgoingMessage { lane, channel, purpose, payload: lent.header().into() };
            match peer_handle.send_borrowed(lent.to, message, lent.elements, SEND_TIMEOUT) {
                Ok(sent) => {
                    if sent {
                        *moved = peer_handle.env().now();
                    }
                    sent
                }
                Err(error) => {
                    failed = Some(error);
                    false
                }
            }
        });
        match (failed, advanced) {
            (Some(error), _) => {
                self.take_all()?;
                Err(error)
            }
            (None, Ok(progress)) => {
                if matches!(progress, CallProgress::Blocked(_)) {
                    self.take_all()?;
                }
                Ok(progress)
            }
            (None, Err(failure)) => Err(self.fail(failure)),
        }
    }

    /// Waits until progress is possible, at most for `timeout`. Returns true if it is. Fails if
    /// there has been no progress until the deadline.
    pub(crate) fn wait(&mut self, progress: CallProgress, timeout: Duration) -> Result<bool> {
        let can_advance = match progress {
            CallProgress::Done => true,
            // Only another send can find out if there is room now.
            CallProgress::Blocked(_) => {
                self.take_all()?;
                self.has_time(progress)
            }
            CallProgress::Waiting(peer) => match self.receiver.receive_from(peer, timeout) {
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
        let (CallProgress::Waiting(peer) | CallProgress::Blocked(peer)) = progress else { return Ok(true) };
        if can_advance || self.has_time(progress) {
            return Ok(can_advance);
        }
        let action = if matches!(progress, CallProgress::Blocked(_)) { "to take in messages" } else { "to send" };
        let (reason, call) = (self.reason(), self.call.signature());
        let (taken, steps) = self.call.steps();
        let details =
            format!("\nthis peer waits for peer {peer} {action} in {call}, after {taken} of its {steps} steps");
        Err(self.peer_handle.timed_out(&format_args!("{reason}, with peer {peer}"), &details))
    }

    /// Returns true until the deadline of the awaited peer.
    fn has_time(&self, progress: CallProgress) -> bool {
        let peer = match progress {
            CallProgress::Waiting(peer) | CallProgress::Blocked(peer) => Some(peer),
            CallProgress::Done => None,
        };
        !self.peer_handle.time_left(self.moved, peer).is_zero()
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
        self.call.receive_bytes(message.from, &message.payload).map_err(|failure| self.fail(failure))
    }

    /// Sends the notices of a failure and returns its error.
    fn fail(&self, CallFailure { error, notices }: CallFailure) -> hemiola_cluster::Error {
        let (lane, channel, purpose) = (CallFailure::LANE, self.channel, Purpose::Collective);
        for notice in notices {
            let message = OutgoingMessage { lane, channel, purpose, payload: notice.to_payload() };
            // A peer that cannot be informed now learns of it when this peer leaves.
            let _ = self.peer_handle.send_within(notice.to, message, SEND_TIMEOUT);
        }
        protocol_error(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_collective_proto::protocol::{CallSetup, ElementKind, Operation, Tag};
    use hemiola_core::Rank;

    #[test]
    fn a_message_that_arrives_as_a_wait_ends_is_noticed() {
        let run = hemiola_cluster::standalone(2).run(|cluster| {
            let operation = Operation::Broadcast { root: Rank::ROOT, length: 1 };
            let setup = CallSetup::new(cluster.rank(), cluster.size());
            let call = CollectiveCall::begin(setup, Tag::new(1), &operation, ElementKind::F32).unwrap();
            let opener = CallOpener { cluster: cluster.clone(), handle: 1 };
            let mut in_flight = opener.open(call, Location::caller());
            if cluster.is_root() {
                in_flight.run(&mut [7.0_f32][..])?;
                return cluster.barrier();
            }
            cluster.barrier()?;
            let mut here = [0.0_f32];
            assert_eq!(in_flight.advance(&mut here[..])?, CallProgress::Waiting(Rank::ROOT));
            // The message has arrived, and the wait for another peer ends without it, as a wait
            // that ends a moment too early does.
            assert!(in_flight.wait(CallProgress::Waiting(cluster.rank()), Duration::ZERO)?, "it can go on");
            assert_eq!(in_flight.advance(&mut here[..])?, CallProgress::Done);
            assert_eq!(here.map(f32::to_bits), [7.0_f32.to_bits()]);
            Ok(())
        });
        run.unwrap();
    }
}
