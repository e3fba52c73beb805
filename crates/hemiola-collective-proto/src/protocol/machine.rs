//! One collective on one peer: goes through its steps as messages come.
//!
//! The elements are not in here: whoever drives the machine lends them with every call, so that a collective works on the caller's own slice, and the machine lends the pieces
//! that are to be sent. **Invariant:** steps are taken strictly in order, and the k-th receive from a peer takes the k-th message of that peer, whenever it came.
//!
//! Elements of the result that are not numbers are counted where they get their last value, while they are at hand.

use super::message::{Body, Disagreement, Lent, Message, Tag};
use super::{Call, Element, ElementKind, How, Operation, Operator, Step, element};
use crate::encode::Label;
use crate::{Error, Result};
use bytes::Bytes;
use hemiola_core::Rank;
use std::collections::BTreeMap;
use std::ops::Range;

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
    /// Arrived before their turn, by sender and number.
    waiting: BTreeMap<(Rank, u32), Bytes>,
    /// Elements of the result so far that are not numbers.
    nan: usize,
    /// By step: it gives elements of the result their last value.
    last: Vec<bool>,
    /// Parts of the result that no step gives their last value, since they were there all along.
    untouched: Vec<Range<usize>>,
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
            Operation::Broadcast { root, .. } | Operation::Reduce { root, .. } | Operation::Gather { root, .. }
                if root.index() >= peers =>
            {
                return bad(format!("its root, peer {root}, is not one of them"));
            }
            Operation::AllGatherRagged { blocks } | Operation::Gather { blocks, .. } if blocks.len() != peers => {
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
            waiting: BTreeMap::new(),
            nan: 0,
            last: Vec::new(),
            untouched: Vec::new(),
        }
        .with_last(&operation.result(me, peers)))
    }

    /// The same as a part of an encoded collective. Peers that encode differently find out by it.
    #[must_use]
    pub fn labelled(mut self, label: &Label) -> Self {
        self.call = self.call.labelled(label);
        self
    }

    fn with_last(mut self, result: &Range<usize>) -> Self {
        self.last = vec![false; self.steps.len()];
        // Disjoint ranges, by start: what is touched by the steps looked at so far, and what of it for the last time.
        let (mut touched, mut settled) = (BTreeMap::new(), Vec::new());
        for (step, last) in self.steps.iter().zip(&mut self.last).rev() {
            let Step::Receive { range, .. } = step else { continue };
            let again = touch(&mut touched, range);
            if !again && !range.is_empty() && result.start <= range.start && range.end <= result.end {
                *last = true;
                settled.push(range.clone());
            }
        }
        settled.sort_unstable_by_key(|range| range.start);
        let mut end = result.start;
        for range in settled.into_iter().chain(std::iter::once(result.end..result.end)) {
            if range.start > end {
                self.untouched.push(end..range.start);
            }
            end = range.end;
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

    /// Goes as far as messages allow; whether all is done. `send` is lent what is to be sent and says whether it took it: if not, the machine stops there and lends the
    /// same again next time. If all is not done and [`Machine::waits_for`] names nobody, `send` has taken no more.
    pub fn advance<T: Element>(&mut self, elements: &mut [T], send: &mut dyn FnMut(Lent<'_>) -> bool) -> Result<bool> {
        if T::KIND != self.call.kind {
            return Err(Error::WrongKind { call: Box::new(self.call), expected: self.call.kind, found: T::KIND });
        }
        if elements.len() != self.length {
            let (expected, found) = (self.length, elements.len());
            return Err(Error::WrongLength { call: Box::new(self.call), expected, found });
        }
        while let Some(step) = self.steps.get(self.next) {
            match step {
                Step::Send { to, range } => {
                    let count = self.sent.entry(*to).or_insert(0);
                    let elements = &*element::as_bytes(&elements[range.clone()]);
                    let (from, to, tag, call) = (self.me, *to, self.tag, self.call);
                    if !send(Lent { from, to, tag, sequence: *count, call, elements }) {
                        return Ok(false);
                    }
                    *count += 1;
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
                    let nan = match how {
                        How::Replace => element::replace(own, &bytes),
                        How::OwnFirst => element::combine(self.operator, own, &bytes, true),
                        How::IncomingFirst => element::combine(self.operator, own, &bytes, false),
                    };
                    if self.last[self.next] {
                        self.nan += nan;
                    }
                }
            }
            self.next += 1;
        }
        match self.waiting.keys().next() {
            None => {
                self.nan += self.untouched.drain(..).map(|range| element::count_nan(&elements[range])).sum::<usize>();
                Ok(true)
            }
            Some(&(from, sequence)) => {
                let problem = format!("number {sequence} of collective {} is one too many", self.tag);
                Err(Error::BadMessage { from, problem })
            }
        }
    }
}

/// Adds a range to disjoint ones, given by their starts; whether it met one of them.
fn touch(touched: &mut BTreeMap<usize, usize>, range: &Range<usize>) -> bool {
    let Range { mut start, mut end } = *range;
    let mut again = false;
    if range.is_empty() {
        return again;
    }
    while let Some((&other, &other_end)) = touched.range(..end).next_back()
        && other_end > start
    {
        touched.remove(&other);
        (start, end) = (start.min(other), end.max(other_end));
        again = true;
    }
    touched.insert(start, end);
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Algorithm;

    #[test]
    fn ranges_that_meet_become_one() {
        let mut touched = BTreeMap::new();
        assert!(!touch(&mut touched, &(4..6)));
        assert!(!touch(&mut touched, &(6..8)));
        assert!(!touch(&mut touched, &(5..5)), "nothing meets nothing");
        assert!(touch(&mut touched, &(0..7)));
        assert_eq!(touched, BTreeMap::from([(0, 8)]));
        assert!(touch(&mut touched, &(1..2)));
        assert!(!touch(&mut touched, &(8..9)));
    }

    #[test]
    fn every_element_of_a_result_is_counted_once() {
        let all_reduce = |algorithm| Operation::AllReduce { algorithm, operator: Operator::Sum, length: 23 };
        let ways = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Doubling];
        let others = [
            Operation::ReduceScatter { operator: Operator::Max, length: 23 },
            Operation::AllGather { block: 5 },
            Operation::AllToAll { block: 5 },
            Operation::Broadcast { root: Rank::new(1), length: 23 },
            Operation::Reduce { root: Rank::new(1), operator: Operator::Sum, length: 23 },
        ];
        for operation in ways.into_iter().map(all_reduce).chain(others) {
            for peers in 2..6 {
                for me in Rank::all(peers) {
                    let machine = Machine::new(Tag::new(0), me, peers, &operation, ElementKind::F32, 2).unwrap();
                    let mut counted = vec![0; operation.buffer_length(peers)];
                    let settled =
                        machine.steps.iter().zip(&machine.last).filter(|(_, last)| **last).map(|(step, _)| {
                            let Step::Receive { range, .. } = step else { unreachable!("sending changes nothing") };
                            range
                        });
                    settled.chain(&machine.untouched).flat_map(Clone::clone).for_each(|place| counted[place] += 1);
                    let result = operation.result(me, peers);
                    let expected: Vec<i32> = (0..counted.len()).map(|place| result.contains(&place).into()).collect();
                    assert_eq!(counted, expected, "{operation:?} on {me} of {peers}");
                }
            }
        }
    }
}
