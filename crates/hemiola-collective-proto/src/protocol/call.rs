//! One collective call of one peer, as every driver runs it: threads, TCP and the simulator.
//!
//! A [`CollectiveCall`] owns all decisions of the protocol: size of messages, lane, headers,
//! acceptance of messages in any order, detection of mismatched calls and the notices that spread a
//! mismatch to all peers. A driver carries messages and lends the elements with each call, so a
//! call works on the caller's own slice and lends the ranges to be sent. Calls share nothing, so
//! each may have its own channel and thread.
//!
//! Messages that arrive before this peer has begun their call wait outside: in the channel of the
//! call's tag, which the runtime opens late, or in [`EarlyMessages`](super::EarlyMessages).
//!
//! **Invariant:** a call that fails because two peers make different calls fails on all peers with
//! that mismatch. The peer that detects it hands a notice for each other peer to its driver in
//! [`CallFailure::notices`]; a peer that learns of it from a notice sends none.

use super::message::{BorrowedMessage, CollectiveBody, CollectiveMessage, Tag};
use super::{CallSignature, CollectiveElement, CollectiveMachine, ElementKind, Operation};
use crate::compress::CompressionLabel;
use crate::{Error, Result};
use bytes::Bytes;
use hemiola_core::{Lane, Rank};

/// Default size of a message in bytes of elements: large enough that the cost per message does not
/// matter, small enough that messages in flight stay in a second-level cache.
const SEGMENT_BYTES: usize = 1 << 18;
/// Calls with a buffer of at most this many bytes use the control lane, where no large message
/// precedes them.
const CONTROL_LANE_BYTES: usize = 1 << 13;

/// Properties that all calls of a peer share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSetup {
    /// Rank of this peer.
    pub me: Rank,
    /// Number of peers in the job.
    pub peers: usize,
    /// Maximum size of a message in bytes of elements. All peers must set the same; results do not
    /// depend on it.
    pub segment_bytes: usize,
}

impl CallSetup {
    /// Setup of peer `me` of `peers` with the default size of messages.
    #[must_use]
    pub const fn new(me: Rank, peers: usize) -> Self {
        Self { me, peers, segment_bytes: SEGMENT_BYTES }
    }

    /// Sets the maximum size of a message in bytes of elements.
    #[must_use]
    pub const fn segment_bytes(mut self, bytes: usize) -> Self {
        self.segment_bytes = bytes;
        self
    }
}

/// Progress of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallProgress {
    /// The call is complete, and its result is in the buffer.
    Done,
    /// The call waits for a message of this peer.
    Waiting(Rank),
    /// The driver has refused a message to this peer.
    Blocked(Rank),
}

/// Failure of a call, with the notices by which the other peers learn of it.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct CallFailure {
    /// Reason of the failure.
    pub error: Error,
    /// Notices that the driver must send, one to each other peer, on [`CallFailure::LANE`]; none if
    /// the other peers do not depend on them or know already.
    pub notices: Vec<CollectiveMessage>,
}

impl CallFailure {
    /// Lane of the notices.
    pub const LANE: Lane = Lane::Control;
}

/// Buffer that a driver lends to a call: a slice of elements, or the buffer of a stage of a
/// compressed collective.
pub trait CallBuffer {
    /// Advances a machine with the elements of the buffer, as [`CollectiveMachine::advance`] does.
    fn advance_machine(
        &mut self,
        machine: &mut CollectiveMachine,
        send: &mut dyn FnMut(BorrowedMessage<'_>) -> bool,
    ) -> Result<bool>;
}

impl<T: CollectiveElement> CallBuffer for [T] {
    fn advance_machine(
        &mut self,
        machine: &mut CollectiveMachine,
        send: &mut dyn FnMut(BorrowedMessage<'_>) -> bool,
    ) -> Result<bool> {
        machine.advance(self, send)
    }
}

/// Collective call in flight on one peer.
///
/// ```
/// use hemiola_collective_proto::protocol::{
///     BorrowedMessage, CallProgress, CallSetup, CollectiveCall, ElementKind,
/// };
/// use hemiola_collective_proto::{Algorithm, Operation, ReduceOp, Tag};
/// use hemiola_core::Rank;
///
/// let (algorithm, operator) = (Algorithm::Ring, ReduceOp::Sum);
/// let operation = Operation::AllReduce { algorithm, operator, length: 3 };
/// let setup = |me| CallSetup::new(Rank::new(me), 2);
/// let begin = |me| CollectiveCall::begin(setup(me), Tag::new(0), &operation, ElementKind::F32);
/// let mut calls = [begin(0)?, begin(1)?];
/// let mut data = [vec![1.0_f32, 2.0, 3.0], vec![10.0, 20.0, 30.0]];
/// let mut messages = Vec::new();
/// let mut done = [false; 2];
/// while done != [true; 2] {
///     for peer in 0..2 {
///         let mut send = |message: BorrowedMessage<'_>| {
///             messages.push(message.to_message());
///             true
///         };
///         let progress = calls[peer].advance(&mut data[peer][..], &mut send);
///         done[peer] = progress.map_err(|failure| failure.error)? == CallProgress::Done;
///     }
///     for message in messages.drain(..) {
///         calls[message.to.index()].receive(message).map_err(|failure| failure.error)?;
///     }
/// }
/// assert_eq!(data, [[11.0, 22.0, 33.0], [11.0, 22.0, 33.0]]);
/// # Ok::<(), hemiola_collective_proto::Error>(())
/// ```
#[derive(Debug)]
pub struct CollectiveCall {
    setup: CallSetup,
    tag: Tag,
    lane: Lane,
    machine: CollectiveMachine,
}

impl CollectiveCall {
    /// Begins a call with elements of this type. Nothing is sent before the first
    /// [`CollectiveCall::advance`].
    pub fn begin(setup: CallSetup, tag: Tag, operation: &Operation, kind: ElementKind) -> Result<Self> {
        let CallSetup { me, peers, segment_bytes } = setup;
        let segment = (segment_bytes / kind.bytes()).max(1);
        let machine = CollectiveMachine::new(tag, me, peers, operation, kind, segment)?;
        let bytes = operation.buffer_length(peers).saturating_mul(kind.bytes());
        let lane = if bytes <= CONTROL_LANE_BYTES { Lane::Control } else { Lane::Bulk };
        Ok(Self { setup, tag, lane, machine })
    }

    /// Marks the call as a stage of a compressed collective. The label is part of every message, so
    /// that peers with different compressions detect it.
    #[must_use]
    pub fn with_label(mut self, label: Option<&CompressionLabel>) -> Self {
        if let Some(label) = label {
            self.machine = self.machine.with_label(label);
        }
        self
    }

    /// Tag of the call.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Lane of all messages of the call, except for notices of a failure.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Signature of the call, which every message repeats.
    #[must_use]
    pub fn signature(&self) -> CallSignature {
        self.machine.call()
    }

    /// Number of NaN elements of the result; valid when the call is [done](CallProgress::Done).
    #[must_use]
    pub fn nan(&self) -> usize {
        self.machine.nan()
    }

    /// Number of executed steps, and number of all steps.
    #[must_use]
    pub fn steps(&self) -> (usize, usize) {
        self.machine.progress()
    }

    /// Returns the peer whose message the call waits for, if any.
    #[must_use]
    pub fn waits_for(&self) -> Option<Rank> {
        self.machine.waits_for()
    }

    /// Accepts a message in wire format.
    pub fn receive_bytes(&mut self, from: Rank, bytes: &Bytes) -> Result<(), CallFailure> {
        let message = CollectiveMessage::from_bytes(from, self.setup.me, bytes);
        message.map_err(|error| self.fail(error, false)).and_then(|message| self.receive(message))
    }

    /// Accepts a message; [`CollectiveCall::advance`] then acts on it. After a failure the call
    /// cannot continue.
    pub fn receive(&mut self, message: CollectiveMessage) -> Result<(), CallFailure> {
        let CollectiveMessage { from, .. } = message;
        if from.index() >= self.setup.peers || from == self.setup.me {
            let problem = format!("it is not from one of the other {} peers", self.setup.peers.saturating_sub(1));
            return Err(self.fail(Error::InvalidMessage { from, problem }, false));
        }
        let informed = matches!(message.body, CollectiveBody::Failed(_));
        self.machine.receive(message).map_err(|error| self.fail(error, informed))
    }

    /// Executes steps as far as messages allow. `send` is lent each outgoing message and returns
    /// whether it accepted it; if not, the call is [blocked](CallProgress::Blocked), and the same
    /// message is lent again next time.
    ///
    /// A buffer of the wrong length or type is an error that leaves the call as it is; the next
    /// buffer may be right.
    pub fn advance<B: CallBuffer + ?Sized>(
        &mut self,
        buffer: &mut B,
        send: &mut dyn FnMut(BorrowedMessage<'_>) -> bool,
    ) -> Result<CallProgress, CallFailure> {
        match buffer.advance_machine(&mut self.machine, send) {
            Ok(true) => Ok(CallProgress::Done),
            Ok(false) => Ok(self.machine.pending()),
            Err(error) => Err(self.fail(error, false)),
        }
    }

    /// Adds the notices for the other peers, unless one of them has `informed` this peer.
    fn fail(&self, error: Error, informed: bool) -> CallFailure {
        let notices = match &error {
            Error::CollectiveMismatch(mismatch) if !informed => {
                let (from, tag, call) = (self.setup.me, self.tag, self.signature());
                let others = Rank::all(self.setup.peers).filter(|&to| to != from);
                let body = CollectiveBody::Failed(**mismatch);
                let notice = |to| CollectiveMessage { from, to, tag, sequence: 0, call, body: body.clone() };
                others.map(notice).collect()
            }
            _ => Vec::new(),
        };
        CallFailure { error, notices }
    }
}
