//! All collectives that a peer has in flight, driven without I/O.
//!
//! On a cluster, `hemiola-collective` holds machines one by one, since there each has a mailbox and maybe a thread of its own. This is for whoever carries messages
//! between peers himself: the tests of this crate, which put them into every order a transport might, and simulations.
//!
//! Every peer begins the same collectives in the same order, so counting gives them the same [`Tag`]s without a word. Peers may be ahead:
//! messages of collectives that have not begun here wait ([`Engine::early_bytes`] tells a driver how much, so that it can stop reading). **Invariant:**
//! a tag is in flight or over; messages of one that is over can only come from a peer that makes other calls, or after a failure.

use super::message::{Body, Lent, Message, Tag};
use super::{Call, Element, ElementKind, Machine, Operation};
use crate::{Error, Result};
use hemiola_core::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// What a peer waits for, for stall reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The collective.
    pub tag: Tag,
    /// What it is.
    pub call: Call,
    /// Whom it waits for.
    pub peer: Rank,
}

/// The collectives of one peer.
///
/// ```
/// use hemiola_collective_proto::{Algorithm, Engine, Operation, Operator};
/// use hemiola_core::Rank;
///
/// let operation = Operation::AllReduce { algorithm: Algorithm::Ring, operator: Operator::Sum, length: 3 };
/// let mut engines = [Engine::new(Rank::new(0), 2), Engine::new(Rank::new(1), 2)];
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
pub struct Engine {
    me: Rank,
    peers: usize,
    segment_bytes: usize,
    window_bytes: usize,
    next: u64,
    flying: BTreeMap<Tag, Machine>,
    failed: BTreeSet<Tag>,
    early: BTreeMap<Tag, Vec<Message>>,
    early_bytes: usize,
}

impl Engine {
    /// Bytes of elements in a message, if nothing else is said: large enough that a message's costs do not matter, small enough that several
    /// are under way.
    pub const SEGMENT_BYTES: usize = 1 << 18;

    /// The engine of one of several peers.
    #[must_use]
    pub fn new(me: Rank, peers: usize) -> Self {
        Self {
            me,
            peers,
            segment_bytes: Self::SEGMENT_BYTES,
            window_bytes: usize::MAX,
            next: 0,
            flying: BTreeMap::new(),
            failed: BTreeSet::new(),
            early: BTreeMap::new(),
            early_bytes: 0,
        }
    }

    /// With messages of up to so many bytes of elements. All peers must say the same. Results do not depend on it.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: usize) -> Self {
        self.segment_bytes = bytes.max(1);
        self
    }

    /// With so many bytes to be sent from each [`Engine::advance`], or one message more: a driver that sends them before it asks for the next copies while
    /// they are in the processor's cache, and needs little memory. Unlimited, if nothing is said.
    #[must_use]
    pub fn window_bytes(mut self, bytes: usize) -> Self {
        self.window_bytes = bytes.max(1);
        self
    }

    /// Which peer this is.
    #[must_use]
    pub fn me(&self) -> Rank {
        self.me
    }

    /// How many peers there are.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.peers
    }

    /// Begins a collective. Nothing is sent before the first [`Engine::advance`].
    pub fn begin<T: Element>(&mut self, operation: &Operation) -> Result<Tag> {
        let segment = (self.segment_bytes / size_of::<T>()).max(1);
        let kind: ElementKind = T::KIND;
        let tag = Tag(self.next);
        let machine = Machine::new(tag, self.me, self.peers, operation, kind, segment)?;
        self.next += 1;
        self.flying.insert(tag, machine);
        Ok(tag)
    }

    /// Carries a collective on as far as messages and the window allow; true when it is over, and the result is in `elements`. If it is not over, call again after
    /// the next message from [`Engine::waits_for`] or, if that is nobody, as soon as there is room to send.
    ///
    /// If peers disagree, the error says who and about what; then `out` holds word of it for all other peers, who fail the same way.
    pub fn advance<T: Element>(&mut self, tag: Tag, elements: &mut [T], out: &mut Vec<Message>) -> Result<bool> {
        let machine = self.flying.get_mut(&tag).ok_or(Error::NotInFlight { tag })?;
        let mut told = None;
        let mut result = Ok(());
        for message in self.early.remove(&tag).unwrap_or_default() {
            self.early_bytes -= bytes_of(&message);
            if matches!(message.body, Body::Failed(_)) {
                told = Some(message.from);
            }
            // After the first problem the rest does not matter.
            if result.is_ok() {
                result = machine.receive(message);
            }
        }
        let mut given = 0_usize;
        let mut send = |lent: Lent<'_>| {
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
                self.flying.remove(&tag);
            }
            // A buffer that does not fit is a mistake of this call, and the next may be right.
            Ok(false) | Err(Error::WrongKind { .. } | Error::WrongLength { .. }) => {}
            Err(ref error) => {
                let call = machine.call();
                self.flying.remove(&tag);
                self.failed.insert(tag);
                if let (Error::Disagreement(disagreement), None) = (error, told) {
                    let others = Rank::all(self.peers).filter(|&to| to != self.me);
                    let body = Body::Failed(**disagreement);
                    out.extend(others.map(|to| Message {
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

    /// Takes in a message that has arrived; [`Engine::advance`] then acts on it.
    pub fn deliver(&mut self, message: Message) -> Result<()> {
        let Message { tag, from, call, .. } = message;
        if from.index() >= self.peers || from == self.me {
            let problem = format!("it is not from one of the other {} peers", self.peers.saturating_sub(1));
            return Err(Error::BadMessage { from, problem });
        }
        if tag.0 >= self.next || self.flying.contains_key(&tag) {
            self.early_bytes += bytes_of(&message);
            self.early.entry(tag).or_default().push(message);
            return Ok(());
        }
        match message.body {
            _ if self.failed.contains(&tag) => Ok(()),
            Body::Failed(disagreement) => Err(Error::Disagreement(Box::new(disagreement))),
            Body::Elements(_) => Err(Error::Late { tag, from, theirs: Box::new(call) }),
        }
    }

    /// Whose message a collective waits for.
    #[must_use]
    pub fn waits_for(&self, tag: Tag) -> Option<Rank> {
        self.flying.get(&tag).and_then(Machine::waits_for)
    }

    /// Bytes of messages that wait to be acted on.
    #[must_use]
    pub fn early_bytes(&self) -> usize {
        self.early_bytes
    }

    /// Which collectives are in flight, and whom each waits for.
    pub fn waits(&self) -> impl Iterator<Item = Wait> {
        self.flying
            .iter()
            .filter_map(|(&tag, machine)| machine.waits_for().map(|peer| Wait { tag, call: machine.call(), peer }))
    }
}

fn bytes_of(message: &Message) -> usize {
    match &message.body {
        Body::Elements(elements) => elements.len(),
        Body::Failed(_) => 0,
    }
}
