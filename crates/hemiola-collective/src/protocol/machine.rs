//! One collective on one peer: goes through its steps as messages come.
//!
//! The elements are not in here: whoever drives the machine lends them with every call, so that a collective works on the caller's own slice. **Invariant:** steps are
//! taken strictly in order, and the k-th receive from a peer takes the k-th message of that peer, whenever it came.

use super::message::{Body, Disagreement, Message, Tag};
use super::{Call, Element, ElementKind, How, Operation, Operator, Step, element};
use crate::encode::Label;
use crate::{Error, Result};
use bytes::{Bytes, BytesMut};
use hemiola_core::Rank;
use std::collections::BTreeMap;
use std::ops::Range;

/// How many buffers are kept for reuse.
const SPARE: usize = 8;

/// Smaller ones are not worth keeping: the allocator has them at hand.
const SPARE_BYTES: usize = 1 << 14;

/// A collective in flight on one peer.
#[derive(Debug)]
pub struct Machine {
    tag: Tag,
    me: Rank,
    call: Call,
    operator: Operator,
    length: usize,
    steps: Vec<Step>,
    next: usize,
    /// Messages sent to, and taken from, each peer.
    sent: BTreeMap<Rank, u32>,
    taken: BTreeMap<Rank, u32>,
    /// Buffers of messages that have been taken, for those to be sent: memory fresh from the system costs more to touch than a message to copy.
    pub(super) spare: Vec<BytesMut>,
    /// Arrived before their turn, by sender and number.
    waiting: BTreeMap<(Rank, u32), Bytes>,
    /// Elements of the result so far that are not numbers.
    nan: usize,
    /// Parts of the result that this peer is not told, since it computes them itself or had them all along.
    untold: Vec<Range<usize>>,
}

impl Machine {
    /// The machine of peer `me` of `peers`, with messages of up to `segment` elements of this type.
    pub fn new(
        tag: Tag,
        me: Rank,
        peers: usize,
        operation: &Operation,
        kind: ElementKind,
        segment: usize,
    ) -> Result<Self> {
        let bad = |problem: String| Err(Error::BadCall { peers, problem });
        match operation {
            _ if me.index() >= peers => return bad(format!("peer {me} is not one of them")),
            Operation::Broadcast { root, .. } | Operation::Reduce { root, .. } if root.index() >= peers => {
                return bad(format!("its root, peer {root}, is not one of them"));
            }
            Operation::AllGatherRagged { blocks } if blocks.len() != peers => {
                return bad(format!("{} lengths were given", blocks.len()));
            }
            _ if operation.buffer_length(peers) > isize::MAX as usize => {
                return bad("it is longer than any buffer".to_owned());
            }
            _ => {}
        }
        Ok(Self {
            tag,
            me,
            call: Call::new(operation, kind, segment),
            operator: operation.operator().unwrap_or(Operator::Sum),
            length: operation.buffer_length(peers),
            steps: operation.steps(me, peers, segment),
            next: 0,
            sent: BTreeMap::new(),
            taken: BTreeMap::new(),
            spare: Vec::new(),
            waiting: BTreeMap::new(),
            nan: 0,
            untold: Vec::new(),
        }
        .with_untold(operation.result(me, peers)))
    }

    /// The same as a part of an encoded all-reduce. Peers that encode differently find out by it.
    #[must_use]
    pub fn labelled(mut self, label: &Label) -> Self {
        self.call = self.call.labelled(label);
        self
    }

    fn with_untold(mut self, result: Range<usize>) -> Self {
        let told = |step: &Step| match step {
            Step::Receive { range, how: How::Replace, .. } => Some(range.clone()),
            _ => None,
        };
        let mut told: Vec<Range<usize>> = self.steps.iter().filter_map(told).collect();
        told.sort_unstable_by_key(|range| range.start);
        let mut end = result.start;
        for range in told.into_iter().chain(std::iter::once(result.end..result.end)) {
            if range.start > end {
                self.untold.push(end..range.start);
            }
            end = end.max(range.end);
        }
        self
    }

    /// How many elements of the result were not numbers. To be asked when [`Machine::advance`] has said that all is done.
    #[must_use]
    pub fn nan(&self) -> usize {
        self.nan
    }

    /// What this peer is doing.
    #[must_use]
    pub fn call(&self) -> Call {
        self.call
    }

    /// Whom this peer waits for, if it does.
    #[must_use]
    pub fn waits_for(&self) -> Option<Rank> {
        match self.steps.get(self.next) {
            Some(Step::Receive { from, .. }) => Some(*from),
            _ => None,
        }
    }

    /// How many of its steps have been taken, and how many there are.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.next, self.steps.len())
    }

    /// Takes a message in. An error says that peers disagree or that the message is broken; then the collective cannot go on.
    pub fn receive(&mut self, message: Message) -> Result<()> {
        let Message { from, sequence, call, body, .. } = message;
        let elements = match body {
            Body::Failed(disagreement) => return Err(Error::Disagreement(Box::new(disagreement))),
            Body::Elements(elements) => elements,
        };
        if call != self.call {
            let (tag, first, first_call) = (self.tag, self.me, self.call);
            // The lower rank is named first, so that both sides tell the same story.
            let mut disagreement = Disagreement { tag, first, first_call, second: from, second_call: call };
            if from < first {
                disagreement =
                    Disagreement { tag, first: from, first_call: call, second: first, second_call: first_call };
            }
            return Err(Error::Disagreement(Box::new(disagreement)));
        }
        let taken = self.taken.get(&from).copied().unwrap_or(0);
        if sequence < taken || self.waiting.insert((from, sequence), elements).is_some() {
            let problem = format!("number {sequence} of collective {} came twice", self.tag);
            return Err(Error::BadMessage { from, problem });
        }
        Ok(())
    }

    /// Goes as far as messages allow, or until it has given about `window` bytes to be sent; whether all is done. If it is not and
    /// [`Machine::waits_for`] names nobody, there is more to be sent.
    pub fn advance<T: Element>(&mut self, elements: &mut [T], window: usize, out: &mut Vec<Message>) -> Result<bool> {
        if T::KIND != self.call.kind {
            return Err(Error::WrongKind { call: Box::new(self.call), expected: self.call.kind, found: T::KIND });
        }
        if elements.len() != self.length {
            let (expected, found) = (self.length, elements.len());
            return Err(Error::WrongLength { call: Box::new(self.call), expected, found });
        }
        let mut given = 0_usize;
        while let Some(step) = self.steps.get(self.next) {
            match step {
                Step::Send { .. } if given >= window => return Ok(false),
                Step::Send { to, range } => {
                    given = given.saturating_add(size_of_val(&elements[range.clone()]));
                    let count = self.sent.entry(*to).or_insert(0);
                    let (sequence, tag, call) = (*count, self.tag, self.call);
                    *count += 1;
                    let piece = &elements[range.clone()];
                    let spare = if size_of_val(piece) < SPARE_BYTES { None } else { self.spare.pop() };
                    let body = Body::Elements(match spare {
                        Some(buffer) => element::to_bytes_in(buffer, piece),
                        None => element::to_bytes(piece).into(),
                    });
                    out.push(Message { from: self.me, to: *to, tag, sequence, call, body });
                }
                Step::Receive { from, range, how } => {
                    let count = self.taken.entry(*from).or_insert(0);
                    let Some(bytes) = self.waiting.remove(&(*from, *count)) else { return Ok(false) };
                    *count += 1;
                    let own = &mut elements[range.clone()];
                    if bytes.len() != size_of_val(own) {
                        let problem = format!("{} bytes came where {} were due", bytes.len(), size_of_val(own));
                        return Err(Error::BadMessage { from: *from, problem });
                    }
                    match how {
                        How::Replace => {
                            element::replace(own, &bytes);
                            // Here they are in the cache; after the last step they would have to be read once more.
                            self.nan += element::count_nan(own);
                        }
                        How::OwnFirst => element::combine(self.operator, own, &bytes, true),
                        How::IncomingFirst => element::combine(self.operator, own, &bytes, false),
                    }
                    // Only if nobody else holds it. A few are enough, since a peer that receives much sends as much.
                    if self.spare.len() < SPARE
                        && bytes.len() >= SPARE_BYTES
                        && let Ok(buffer) = bytes.try_into_mut()
                    {
                        self.spare.push(buffer);
                    }
                }
            }
            self.next += 1;
        }
        match self.waiting.keys().next() {
            None => {
                self.nan += self.untold.drain(..).map(|range| element::count_nan(&elements[range])).sum::<usize>();
                Ok(true)
            }
            Some(&(from, sequence)) => {
                let problem = format!("number {sequence} of collective {} is one too many", self.tag);
                Err(Error::BadMessage { from, problem })
            }
        }
    }
}
