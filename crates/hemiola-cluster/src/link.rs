//! What a thread holds of its cluster that serves other peers.
//!
//! **Invariant:** a link does not keep the cluster alive. A service with a [`Cluster`](crate::Cluster) would: the cluster waits for
//! its services when it is dropped, and would never be.

use crate::error::{Error, Result, receive_error};
use crate::exchange::Exchange;
use crate::waits::{Reason, WaitGuard};
use hemiola_core::{Env, Message, Outgoing, PeerLost, Rank, Stall, TransportError, Waiter};
use hemiola_net::{Mailbox, ReceiveError};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The way to other peers, for services.
#[derive(Clone)]
pub struct Link {
    exchange: Arc<Exchange>,
}

impl Link {
    pub(crate) fn new(exchange: Arc<Exchange>) -> Self {
        Self { exchange }
    }

    /// This peer.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.exchange.transport.rank()
    }

    /// Sends a message, waiting for room as [`Cluster::send`](crate::Cluster::send) does.
    pub fn send(&self, to: Rank, message: Outgoing) -> Result<()> {
        self.exchange.post(to, message)
    }

    /// Sends a message if there is room now; gives it back if there is none.
    pub fn try_send(&self, to: Rank, message: Outgoing) -> Result<Option<Outgoing>> {
        self.send_within(to, message, Duration::ZERO)
    }

    /// Sends a message if there is room before `timeout`; gives it back if there is none.
    pub fn send_within(&self, to: Rank, message: Outgoing, timeout: Duration) -> Result<Option<Outgoing>> {
        match self.exchange.transport.send(to, message.clone(), timeout) {
            Ok(()) => Ok(None),
            Err(TransportError::Stuck { .. }) => Ok(Some(message)),
            Err(error) => Err(self.exchange.blame(error)),
        }
    }

    /// Sends a message whose payload is followed by `tail`, if there is room before `timeout`; whether there was. The tail is copied only as far as it cannot be sent at
    /// once.
    pub fn send_lent(&self, to: Rank, message: Outgoing, tail: &[u8], timeout: Duration) -> Result<bool> {
        match self.exchange.transport.send_lent(to, message, tail, timeout) {
            Ok(()) => Ok(true),
            Err(TransportError::Stuck { .. }) => Ok(false),
            Err(error) => Err(self.exchange.blame(error)),
        }
    }

    /// The next message of anyone, if one comes before `timeout`.
    pub fn receive_within(&self, mailbox: &Mailbox, timeout: Duration) -> Result<Option<Message>> {
        match mailbox.receive(timeout) {
            Ok(message) => Ok(Some(message)),
            Err(ReceiveError::TimedOut { .. }) => Ok(None),
            Err(error) => Err(receive_error(error, &"a message", String::new)),
        }
    }

    /// Marks a thread as waiting while the guard lives, so that a stall report can name it.
    pub fn waiting(&self, waiter: Waiter, reason: Reason, peer: Option<Rank>) -> WaitGuard<'_> {
        self.exchange.waits.enter(waiter, reason, peer)
    }

    /// Who waits for what.
    #[must_use]
    pub fn stall_report(&self) -> Stall {
        self.exchange.monitor.report()
    }

    /// The first loss that nobody has forgiven, if there was one. Threads that do not wait for others look here.
    #[must_use]
    pub fn failure(&self) -> Option<PeerLost> {
        self.exchange.board.failure()
    }

    /// The longest wait inside a running job.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.exchange.timeout
    }

    /// The error of a wait that has lasted for [`patience`](Self::patience).
    #[must_use]
    pub fn timed_out(&self, reason: &dyn fmt::Display, details: &str) -> Error {
        let report = format!("\n{}{details}", self.stall_report());
        Error::TimedOut { reason: reason.to_string(), waited: self.patience(), report }
    }

    /// Time and randomness.
    #[must_use]
    pub fn env(&self) -> &Arc<dyn Env> {
        &self.exchange.env
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Link").field("rank", &self.rank()).finish_non_exhaustive()
    }
}
