//! Non-owning cluster handle for threads that serve other peers.
//!
//! **Invariant:** the handle does not keep the cluster alive. A service that held a
//! [`Cluster`](crate::Cluster) would: the cluster waits for its services when it is dropped, and
//! would never be dropped.

use crate::error::{Error, Result, receive_error};
use crate::peer_context::PeerContext;
use crate::waits::{WaitGuard, WaitReason};
use hemiola_core::{Env, Message, OutgoingMessage, PeerLost, Rank, StallReport, TransportError, Waiter};
use hemiola_net::{ChannelReceiver, ReceiveError};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Non-owning handle of this peer to its job, for services.
#[derive(Clone)]
pub struct PeerHandle {
    context: Arc<PeerContext>,
}

impl PeerHandle {
    pub(crate) fn new(context: Arc<PeerContext>) -> Self {
        Self { context }
    }

    pub(crate) fn context(&self) -> &PeerContext {
        &self.context
    }

    /// Returns the rank of this peer.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.context.transport.rank()
    }

    /// Sends a message, waiting for room like [`Cluster::send`](crate::Cluster::send).
    pub fn send(&self, to: Rank, message: OutgoingMessage) -> Result<()> {
        self.context.send(to, message)
    }

    /// Sends a message if there is room now; returns it if there is none.
    pub fn try_send(&self, to: Rank, message: OutgoingMessage) -> Result<Option<OutgoingMessage>> {
        self.send_within(to, message, Duration::ZERO)
    }

    /// Sends a message if there is room before `timeout`; returns it if there is none.
    pub fn send_within(
        &self,
        to: Rank,
        message: OutgoingMessage,
        timeout: Duration,
    ) -> Result<Option<OutgoingMessage>> {
        match self.context.transport.send(to, message.clone(), timeout) {
            Ok(()) => Ok(None),
            Err(TransportError::SendTimeout { .. }) => Ok(Some(message)),
            Err(error) => Err(self.context.cause_of(error)),
        }
    }

    /// Sends a message whose payload is followed by the borrowed `tail`, if there is room before
    /// `timeout`. Returns whether there was. Only the part of the tail that cannot be written at
    /// once is copied.
    pub fn send_borrowed(&self, to: Rank, message: OutgoingMessage, tail: &[u8], timeout: Duration) -> Result<bool> {
        match self.context.transport.send_borrowed(to, message, tail, timeout) {
            Ok(()) => Ok(true),
            Err(TransportError::SendTimeout { .. }) => Ok(false),
            Err(error) => Err(self.context.cause_of(error)),
        }
    }

    /// Receives the next message of any peer, if one arrives before `timeout`.
    pub fn receive_within(&self, receiver: &ChannelReceiver, timeout: Duration) -> Result<Option<Message>> {
        match receiver.receive(timeout) {
            Ok(message) => Ok(Some(message)),
            Err(ReceiveError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(receive_error(error, &"a message", String::new)),
        }
    }

    /// Marks a thread as waiting while the guard lives, so that a stall report can name it.
    pub fn waiting(&self, waiter: Waiter, reason: WaitReason, peer: Option<Rank>) -> WaitGuard<'_> {
        self.context.waits.enter(waiter, reason, peer)
    }

    /// Returns the current waits of this peer and the last reported waits of the others.
    #[must_use]
    pub fn stall_report(&self) -> StallReport {
        self.context.monitor.report()
    }

    /// Returns the first loss of a peer that is not excluded, if any. Threads that do not wait for
    /// other peers check it here.
    #[must_use]
    pub fn failure(&self) -> Option<PeerLost> {
        self.context.router.failure()
    }

    /// Returns the longest wait inside a running job.
    #[must_use]
    pub fn wait_timeout(&self) -> Duration {
        self.context.timeout
    }

    /// Creates the error of a wait that has lasted for [`wait_timeout`](Self::wait_timeout).
    #[must_use]
    pub fn timed_out(&self, reason: &dyn fmt::Display, details: &str) -> Error {
        self.context.timed_out(reason, details)
    }

    /// Returns the source of time and randomness.
    #[must_use]
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.context.env
    }
}

impl fmt::Debug for PeerHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PeerHandle").field("rank", &self.rank()).finish_non_exhaustive()
    }
}
