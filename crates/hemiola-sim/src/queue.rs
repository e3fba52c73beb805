//! What is going to happen, in the order of time.
//!
//! **Invariant:** events of the same moment come out in the order they went in, so a run depends on nothing but what was put in.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events by time.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    count: u64,
}

/// What happens. Small, so that moving it in the heap is cheap: what is large lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The head of a message reaches the next thing on its way.
    Head(u32),
    /// A message has come whole.
    Deliver(u32),
    /// The flow that ends first may have ended; the number tells whether rates have changed since.
    Flows(u32),
    /// What computes on a host may have ended; the second number tells whether shares have changed since.
    Cores(u16, u32),
    /// A span that an actor asked for is over.
    Timer(u32),
    /// One of the description's faults begins.
    Fault(u32),
    /// A peer learns that another is lost.
    Lost { observer: u16, gone: u16 },
}

impl Queue {
    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.heap.push(Reverse((at, self.count, event)));
        self.count += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }

    /// When the next event is.
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }
}

/// Things by number, whose places are used again.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
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
        self.slots[slot as usize].take().expect("a slot is taken once")
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut T {
        self.slots[slot as usize].as_mut().expect("it has not been taken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_comes_first_and_equals_keep_their_order() {
        let mut queue = Queue::default();
        for (at, number) in [(5, 0), (3, 1), (5, 2), (3, 3), (0, 4)] {
            queue.push(at, Event::Timer(number));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected = [(0, 4), (3, 1), (3, 3), (5, 0), (5, 2)].map(|(at, number)| (at, Event::Timer(number)));
        assert_eq!(order, expected);
    }
}
