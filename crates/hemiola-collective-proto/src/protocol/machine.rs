//! State machine of one collective on one peer: executes its steps as messages arrive.
//!
//! The machine does not own the elements: its driver lends them with every call, so that a
//! collective works on the caller's own slice, and the machine lends the ranges to be sent.
//! **Invariant:** steps are executed strictly in order, and the k-th receive from a peer consumes
//! the k-th message of that peer, whenever it arrived.
//!
//! NaN elements of the result are counted where elements get their final value, while they are in
//! cache.

use super::message::{BorrowedMessage, CollectiveBody, CollectiveMessage, CollectiveMismatch, Tag};
use super::{
    CallProgress, CallSignature, CollectiveElement, CollectiveStep, ElementKind, Operation, ReceiveAction, ReduceOp,
    element,
};
use crate::compress::CompressionLabel;
use crate::{Error, Result};
use bytes::Bytes;
use hemiola_core::Rank;
use std::collections::BTreeMap;
use std::ops::Range;

/// Collective in flight on one peer.
#[derive(Debug)]
pub struct CollectiveMachine {
    tag: Tag,
    me: Rank,
    call: CallSignature,
    operator: ReduceOp,
    length: usize,
    steps: Vec<CollectiveStep>,
    next: usize,
    /// Messages sent to each peer, and consumed from it.
    sent: BTreeMap<Rank, u32>,
    taken: BTreeMap<Rank, u32>,
    /// Messages that arrived before their turn, by sender and sequence number.
    waiting: BTreeMap<(Rank, u32), Bytes>,
    /// NaN elements of the result so far.
    nan: usize,
    /// By step: the step gives elements of the result their final value.
    last: Vec<bool>,
    /// Ranges of the result that no step writes; they hold their final value from the start.
    untouched: Vec<Range<usize>>,
}

impl CollectiveMachine {
    /// Creates the machine of peer `me` of `peers`, with messages of up to `segment` elements of
    /// this type.
    pub fn new(
        tag: Tag,
        me: Rank,
        peers: usize,
        operation: &Operation,
        kind: ElementKind,
        segment: usize,
    ) -> Result<Self> {
        let bad = |problem: String| Err(Error::InvalidCall { peers, problem });
        match operation {
            _ if me.index() >= peers => return bad(format!("peer {me} is not one of them")),
            Operation::Broadcast { root, .. }
            | Operation::Reduce { root, .. }
            | Operation::Gather { root, .. }
            | Operation::RoutedReduce { root, .. }
            | Operation::RoutedBroadcast { root, .. }
                if root.index() >= peers =>
            {
                return bad(format!("its root, peer {root}, is not one of them"));
            }
            Operation::RoutedAllReduce { route, .. }
            | Operation::RoutedReduce { route, .. }
            | Operation::RoutedBroadcast { route, .. } => {
                if let Some(problem) = route.problem(peers) {
                    return bad(problem);
                }
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
            call: CallSignature::new(operation, kind, segment),
            operator: operation.operator().unwrap_or(ReduceOp::Sum),
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
        .with_final_writes(&operation.result(me, peers)))
    }

    /// Marks the machine as a stage of a compressed collective. The label is part of every message,
    /// so that peers with different compressions detect it.
    #[must_use]
    pub fn with_label(mut self, label: &CompressionLabel) -> Self {
        self.call = self.call.with_label(label);
        self
    }

    fn with_final_writes(mut self, result: &Range<usize>) -> Self {
        self.last = vec![false; self.steps.len()];
        // Disjoint ranges, by start: those written by the steps visited so far, and those whose
        // final write has been found.
        let (mut touched, mut settled) = (BTreeMap::new(), Vec::new());
        for (step, last) in self.steps.iter().zip(&mut self.last).rev() {
            let CollectiveStep::Receive { range, .. } = step else { continue };
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

    /// Number of NaN elements of the result. Valid after [`CollectiveMachine::advance`] has
    /// returned true.
    #[must_use]
    pub fn nan(&self) -> usize {
        self.nan
    }

    /// Call signature of this peer.
    #[must_use]
    pub fn call(&self) -> CallSignature {
        self.call
    }

    /// Returns the peer whose message this peer waits for, if any.
    #[must_use]
    pub fn waits_for(&self) -> Option<Rank> {
        match self.steps.get(self.next) {
            Some(CollectiveStep::Receive { from, .. }) => Some(*from),
            _ => None,
        }
    }

    /// Progress of a machine that is not done: the peer of its next step.
    pub(super) fn pending(&self) -> CallProgress {
        match self.steps.get(self.next) {
            Some(CollectiveStep::Send { to, .. }) => CallProgress::Blocked(*to),
            Some(CollectiveStep::Receive { from, .. }) => CallProgress::Waiting(*from),
            None => CallProgress::Done,
        }
    }

    /// Number of executed steps, and number of all steps.
    #[must_use]
    pub fn progress(&self) -> (usize, usize) {
        (self.next, self.steps.len())
    }

    /// Accepts a message. An error says that two peers make different calls or that the message is
    /// broken; the collective cannot continue then.
    pub fn receive(&mut self, message: CollectiveMessage) -> Result<()> {
        let CollectiveMessage { from, sequence, call, body, .. } = message;
        let elements = match body {
            CollectiveBody::Failed(mismatch) => return Err(Error::CollectiveMismatch(Box::new(mismatch))),
            CollectiveBody::Elements(elements) => elements,
        };
        if call != self.call {
            let (tag, first, first_call) = (self.tag, self.me, self.call);
            // The lower rank comes first, so that both sides report the same text.
            let mut mismatch = CollectiveMismatch { tag, first, first_call, second: from, second_call: call };
            if from < first {
                mismatch =
                    CollectiveMismatch { tag, first: from, first_call: call, second: first, second_call: first_call };
            }
            return Err(Error::CollectiveMismatch(Box::new(mismatch)));
        }
        let taken = self.taken.get(&from).copied().unwrap_or(0);
        if sequence < taken || self.waiting.insert((from, sequence), elements).is_some() {
            let problem = format!("number {sequence} of collective {} came twice", self.tag);
            return Err(Error::InvalidMessage { from, problem });
        }
        Ok(())
    }

    /// Executes steps as far as messages allow. Returns true when all are done. `send` is lent each
    /// outgoing message and returns whether it accepted it; if not, the machine stops there and
    /// lends the same message again next time. If the machine is not done and
    /// [`CollectiveMachine::waits_for`] is `None`, `send` has refused a message.
    pub fn advance<T: CollectiveElement>(
        &mut self,
        elements: &mut [T],
        send: &mut dyn FnMut(BorrowedMessage<'_>) -> bool,
    ) -> Result<bool> {
        if T::KIND != self.call.kind {
            return Err(Error::WrongElementKind {
                call: Box::new(self.call),
                expected: self.call.kind,
                found: T::KIND,
            });
        }
        if elements.len() != self.length {
            let (expected, found) = (self.length, elements.len());
            return Err(Error::WrongLength { call: Box::new(self.call), expected, found });
        }
        while let Some(step) = self.steps.get(self.next) {
            match step {
                CollectiveStep::Send { to, range } => {
                    let count = self.sent.entry(*to).or_insert(0);
                    let elements = &*element::as_bytes(&elements[range.clone()]);
                    let (from, to, tag, call) = (self.me, *to, self.tag, self.call);
                    if !send(BorrowedMessage { from, to, tag, sequence: *count, call, elements }) {
                        return Ok(false);
                    }
                    *count += 1;
                }
                CollectiveStep::Receive { from, range, action } => {
                    let count = self.taken.entry(*from).or_insert(0);
                    let Some(bytes) = self.waiting.remove(&(*from, *count)) else { return Ok(false) };
                    *count += 1;
                    let own = &mut elements[range.clone()];
                    if bytes.len() != size_of_val(own) {
                        let problem = format!("{} bytes came where {} were due", bytes.len(), size_of_val(own));
                        return Err(Error::InvalidMessage { from: *from, problem });
                    }
                    let nan = match action {
                        ReceiveAction::Replace => element::replace(own, &bytes),
                        ReceiveAction::OwnFirst => element::combine(self.operator, own, &bytes, true),
                        ReceiveAction::IncomingFirst => element::combine(self.operator, own, &bytes, false),
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
                Err(Error::InvalidMessage { from, problem })
            }
        }
    }
}

/// Adds a range to a set of disjoint ranges, given by their starts. Returns true if it overlapped
/// one of them.
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
    fn overlapping_ranges_are_merged() {
        let mut touched = BTreeMap::new();
        assert!(!touch(&mut touched, &(4..6)));
        assert!(!touch(&mut touched, &(6..8)));
        assert!(!touch(&mut touched, &(5..5)), "an empty range overlaps nothing");
        assert!(touch(&mut touched, &(0..7)));
        assert_eq!(touched, BTreeMap::from([(0, 8)]));
        assert!(touch(&mut touched, &(1..2)));
        assert!(!touch(&mut touched, &(8..9)));
    }

    #[test]
    fn every_element_of_a_result_is_counted_once() {
        let all_reduce = |algorithm| Operation::AllReduce { algorithm, operator: ReduceOp::Sum, length: 23 };
        let algorithms = [Algorithm::Ring, Algorithm::Tree, Algorithm::HalvingDoubling, Algorithm::Doubling];
        let others = [
            Operation::ReduceScatter { operator: ReduceOp::Max, length: 23 },
            Operation::AllGather { block: 5 },
            Operation::AllToAll { block: 5 },
            Operation::Broadcast { root: Rank::new(1), length: 23 },
            Operation::Reduce { root: Rank::new(1), operator: ReduceOp::Sum, length: 23 },
        ];
        for operation in algorithms.into_iter().map(all_reduce).chain(others) {
            for peers in 2..6 {
                for me in Rank::all(peers) {
                    let machine =
                        CollectiveMachine::new(Tag::new(0), me, peers, &operation, ElementKind::F32, 2).unwrap();
                    let mut counted = vec![0; operation.buffer_length(peers)];
                    let settled =
                        machine.steps.iter().zip(&machine.last).filter(|(_, last)| **last).map(|(step, _)| {
                            let CollectiveStep::Receive { range, .. } = step else {
                                unreachable!("sending changes nothing")
                            };
                            range
                        });
                    settled.chain(&machine.untouched).flat_map(Clone::clone).for_each(|index| counted[index] += 1);
                    let result = operation.result(me, peers);
                    let expected: Vec<i32> = (0..counted.len()).map(|index| result.contains(&index).into()).collect();
                    assert_eq!(counted, expected, "{operation:?} on {me} of {peers}");
                }
            }
        }
    }
}
