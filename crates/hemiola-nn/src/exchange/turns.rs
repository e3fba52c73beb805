//! The order in which peers begin messages.
//!
//! All peers must begin the collectives of a handle in the same order, whichever gradient happens to be ready first on which of them. Each stage of a unit's way has a handle of its own, and in each, units take turns: step by step,
//! and within a step in the order that all peers agreed on. **Invariant:** whoever has its turn depends on earlier stages alone, of its own unit or (to be clipped) of all, so turns never wait for each other in a circle.

/// Whose turn it is in one stage.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    /// Units that have this stage, in the order of the steps before `since`, and in that from then on.
    orders: [Vec<usize>; 2],
    since: u64,
    step: u64,
    at: usize,
}

impl Turns {
    pub(crate) fn new(order: Vec<usize>, step: u64) -> Self {
        Self { orders: [order, Vec::new()], since: u64::MAX, step, at: 0 }
    }

    /// Another order of the same units from a step on that nobody has begun.
    pub(crate) fn reorder(&mut self, order: &[usize], since: u64) {
        let known = &self.orders[0];
        let order: Vec<usize> = order.iter().copied().filter(|unit| known.contains(unit)).collect();
        debug_assert_eq!(order.len(), known.len());
        self.orders[1] = order;
        self.since = since;
    }

    /// The step and unit whose turn it is; nothing if no unit has this stage.
    pub(crate) fn next(&self) -> Option<(u64, usize)> {
        let order = &self.orders[usize::from(self.step >= self.since)];
        order.get(self.at).map(|unit| (self.step, *unit))
    }

    pub(crate) fn is_of(&self, step: u64, unit: usize) -> bool {
        self.next() == Some((step, unit))
    }

    /// The next one's turn.
    pub(crate) fn pass(&mut self) {
        self.at += 1;
        if self.at >= self.orders[0].len() {
            (self.step, self.at) = (self.step + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_take_turns_in_the_order_of_their_step() {
        let mut turns = Turns::new(vec![4, 1, 2], 0);
        turns.reorder(&[0, 2, 1, 3, 4], 1);
        let seen: Vec<(u64, usize)> = (0..7).map(|_| (turns.next().unwrap(), turns.pass()).0).collect();
        assert_eq!(seen, [(0, 4), (0, 1), (0, 2), (1, 2), (1, 1), (1, 4), (2, 2)]);
        assert_eq!(Turns::new(Vec::new(), 0).next(), None);
    }
}
