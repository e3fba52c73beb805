//! Sans-I/O driver of all collectives that a peer has in flight.
//!
//! On a cluster, `hemiola-collective` holds machines one by one, since each has its own channel and
//! possibly its own thread. The engine is for drivers that carry messages themselves: simulations,
//! and the tests of this crate, which deliver messages in every order a transport might.
//!
//! Every peer starts the same collectives in the same order, so counting gives them the same
//! [`Tag`]s without communication. Other peers may be ahead: messages of collectives that have not
//! started here are buffered ([`CollectiveEngine::early_bytes`] tells a driver how much, so that it
//! can stop reading). **Invariant:** a tag below the next one is in flight or completed; messages
//! of a completed one can only come from a peer that makes different calls, or after a failure.

use super::message::{BorrowedMessage, CollectiveBody, CollectiveMessage, Tag};
use super::{CallSignature, CollectiveElement, CollectiveMachine, ElementKind, Operation};
use crate::{Error, Result};
use hemiola_core::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// Peer that a collective waits for, for stall reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveWait {
    /// Tag of the waiting collective.
    pub tag: Tag,
    /// Call signature of the collective.
    pub call: CallSignature,
    /// Peer whose message is missing.
    pub peer: Rank,
}

/// Collectives in flight on one peer.
///
/// ```
/// use hemiola_collective_proto::{Algorithm, CollectiveEngine, Operation, ReduceOp};
/// use hemiola_core::Rank;
///
/// let operation = Operation::AllReduce { algorithm: Algorithm::Ring, operator: ReduceOp::Sum, length: 3 };
/// let mut engines = [CollectiveEngine::new(Rank::new(0), 2), CollectiveEngine::new(Rank::new(1), 2)];
/// let mut data = [vec![1.0_f32, 2.0, 3.0], vec![10.0, 20.0, 30.0]];
/// let mut messages = Vec::new();
/// let tag = engines.each_mut().map(|engine| engine.begin::<f32>(&operation).unwrap())[0];
/// let mut done = [false; 2];
/// while done != [true; 2] {
///     for peer in 0..2 {
///         done[peer] = done[peer] || engines[peer].advance(tag, &mut data[peer], &mut messages)?;
///     }
///     for message in messages.drain(..) {
///         engines[message.to.index()].deliver(message)?;
///     }
/// }
/// assert_eq!(data, [[11.0, 22.0, 33.0], [11.0, 22.0, 33.0]]);
/// # Ok::<(), hemiola_collective_proto::Error>(())
/// ```
#[derive(Debug)]
pub struct CollectiveEngine {
    me: Rank,
    peers: usize,
    segment_bytes: usize,
    window_bytes: usize,
    next: u64,
    in_flight: BTreeMap<Tag, CollectiveMachine>,
    failed: BTreeSet<Tag>,
    early: BTreeMap<Tag, Vec<CollectiveMessage>>,
    early_bytes: usize,
}

impl CollectiveEngine {
    /// Default size of a message in bytes of elements: large enough that the cost per message does
    /// not matter, small enough that several messages are in flight.
    pub const SEGMENT_BYTES: usize = 1 << 18;

    /// Creates the engine of peer `me` of `peers`.
    #[must_use]
    pub fn new(me: Rank, peers: usize) -> Self {
        Self {
            me,
            peers,
            segment_bytes: Self::SEGMENT_BYTES,
            window_bytes: usize::MAX,
            next: 0,
            in_flight: BTreeMap::new(),
            failed: BTreeSet::new(),
            early: BTreeMap::new(),
            early_bytes: 0,
        }
    }

    /// Sets the maximum size of a message in bytes of elements. All peers must set the same.
    /// Results do not depend on it.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: usize) -> Self {
        self.segment_bytes = bytes.max(1);
        self
    }

    /// Sets the number of bytes that one [`CollectiveEngine::advance`] may send, exceeded by at
    /// most one message; unlimited by default. A driver that sends them before the next call copies
    /// while they are in the CPU cache, and needs little memory.
    #[must_use]
    pub fn window_bytes(mut self, bytes: usize) -> Self {
        self.window_bytes = bytes.max(1);
        self
    }

    /// Rank of this peer.
    #[must_use]
    pub fn me(&self) -> Rank {
        self.me
    }

    /// Number of peers in the job.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.peers
    }

    /// Starts a collective. Nothing is sent before the first [`CollectiveEngine::advance`].
    pub fn begin<T: CollectiveElement>(&mut self, operation: &Operation) -> Result<Tag> {
        let segment = (self.segment_bytes / size_of::<T>()).max(1);
        let kind: ElementKind = T::KIND;
        let tag = Tag(self.next);
        let machine = CollectiveMachine::new(tag, self.me, self.peers, operation, kind, segment)?;
        self.next += 1;
        self.in_flight.insert(tag, machine);
        Ok(tag)
    }

    /// Advances a collective as far as messages and the window allow. Returns true when it is
    /// complete and the result is in `elements`. If it is not, call again after the next message
    /// from [`CollectiveEngine::waits_for`] or, if that is `None`, as soon as there is room to
    /// send.
    ///
    /// If two peers make different calls, the error names both; `out` then holds a notice for all
    /// other peers, which fail the same way.
    pub fn advance<T: CollectiveElement>(
        &mut self,
        tag: Tag,
        elements: &mut [T],
        out: &mut Vec<CollectiveMessage>,
    ) -> Result<bool> {
        let machine = self.in_flight.get_mut(&tag).ok_or(Error::NotInFlight { tag })?;
        let mut informed_by = None;
        let mut result = Ok(());
        for message in self.early.remove(&tag).unwrap_or_default() {
            self.early_bytes -= bytes_of(&message);
            if matches!(message.body, CollectiveBody::Failed(_)) {
                informed_by = Some(message.from);
            }
            // After the first problem the rest is irrelevant.
            if result.is_ok() {
                result = machine.receive(message);
            }
        }
        let mut given = 0_usize;
        let mut send = |lent: BorrowedMessage<'_>| {
            let room = given < self.window_bytes;
            if room {
                given = given.saturating_add(lent.elements.len());
                out.push(lent.to_message());
            }
            room
        };
        let result = result.and_then(|()| machine.advance(elements, &mut send));
        match result {
            Ok(true) => {
                self.in_flight.remove(&tag);
            }
            // A buffer that does not fit is a mistake of this call; the next call may be right.
            Ok(false) | Err(Error::WrongElementKind { .. } | Error::WrongLength { .. }) => {}
            Err(ref error) => {
                let call = machine.call();
                self.in_flight.remove(&tag);
                self.failed.insert(tag);
                if let (Error::CollectiveMismatch(mismatch), None) = (error, informed_by) {
                    let others = Rank::all(self.peers).filter(|&to| to != self.me);
                    let body = CollectiveBody::Failed(**mismatch);
                    out.extend(others.map(|to| CollectiveMessage {
                        from: self.me,
                        to,
                        tag,
                        sequence: 0,
                        call,
                        body: body.clone(),
                    }));
                }
            }
        }
        result
    }

    /// Accepts a message that has arrived; [`CollectiveEngine::advance`] then acts on it.
    pub fn deliver(&mut self, message: CollectiveMessage) -> Result<()> {
        let CollectiveMessage { tag, from, call, .. } = message;
        if from.index() >= self.peers || from == self.me {
            let problem = format!("it is not from one of the other {} peers", self.peers.saturating_sub(1));
            return Err(Error::InvalidMessage { from, problem });
        }
        if tag.0 >= self.next || self.in_flight.contains_key(&tag) {
            self.early_bytes += bytes_of(&message);
            self.early.entry(tag).or_default().push(message);
            return Ok(());
        }
        match message.body {
            _ if self.failed.contains(&tag) => Ok(()),
            CollectiveBody::Failed(mismatch) => Err(Error::CollectiveMismatch(Box::new(mismatch))),
            CollectiveBody::Elements(_) => Err(Error::LateMessage { tag, from, theirs: Box::new(call) }),
        }
    }

    /// Returns the peer whose message a collective waits for.
    #[must_use]
    pub fn waits_for(&self, tag: Tag) -> Option<Rank> {
        self.in_flight.get(&tag).and_then(CollectiveMachine::waits_for)
    }

    /// Bytes of buffered messages that have not been acted on.
    #[must_use]
    pub fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Iterates over the waiting collectives and the peer each waits for.
    pub fn waits(&self) -> impl Iterator<Item = CollectiveWait> {
        self.in_flight.iter().filter_map(|(&tag, machine)| {
            machine.waits_for().map(|peer| CollectiveWait { tag, call: machine.call(), peer })
        })
    }
}

fn bytes_of(message: &CollectiveMessage) -> usize {
    match &message.body {
        CollectiveBody::Elements(elements) => elements.len(),
        CollectiveBody::Failed(_) => 0,
    }
}
