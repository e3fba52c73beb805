//! Queue of future events, ordered by time.
//!
//! **Invariant:** events of the same time come out in the order of insertion, so a run depends only
//! on its inputs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Priority queue of events by time.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(u64, u64, SimEvent)>>,
    count: u64,
}

/// Event of the simulation. Small, so that moves in the heap are cheap; large data are in slot
/// maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SimEvent {
    /// The first byte of a message reaches the next link.
    Head(u32),
    /// A message has arrived completely.
    Deliver(u32),
    /// The first flow may have ended; the number is the version of the rates.
    Flows(u32),
    /// A task of a host may have ended; the second number is the version of the host.
    Cores(u16, u32),
    /// A timer of an actor has expired.
    Timer(u32),
    /// A fault of the cluster spec begins or ends.
    Fault(u32),
    /// A peer detects the loss of another.
    Lost { observer: u16, gone: u16 },
}

impl EventQueue {
    pub(crate) fn push(&mut self, at: u64, event: SimEvent) {
        self.heap.push(Reverse((at, self.count, event)));
        self.count += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, SimEvent)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }

    /// Returns the time of the next event.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}

/// Values by index; free indices are reused.
#[derive(Debug)]
pub(crate) struct SlotMap<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for SlotMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> SlotMap<T> {
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = Some(thing);
            return slot;
        }
        self.slots.push(Some(thing));
        (self.slots.len() - 1) as u32
    }

    pub(crate) fn take(&mut self, slot: u32) -> T {
        self.free.push(slot);
        self.slots[slot as usize].take().expect("an index is taken once")
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut T {
        self.slots[slot as usize].as_mut().expect("the index is in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_ordered_by_time_and_insertion() {
        let mut queue = EventQueue::default();
        for (at, number) in [(5, 0), (3, 1), (5, 2), (3, 3), (0, 4)] {
            queue.push(at, SimEvent::Timer(number));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected = [(0, 4), (3, 1), (3, 3), (5, 0), (5, 2)].map(|(at, number)| (at, SimEvent::Timer(number)));
        assert_eq!(order, expected);
    }
}
