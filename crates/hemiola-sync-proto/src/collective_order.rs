//! Order in which peers start collectives.
//!
//! All peers must start the collectives of a communicator in the same order, whichever gradient is
//! ready first on each of them. Each stage has a communicator of its own. In each stage, units
//! start step by step, and within a step in the order that all peers agreed on.
//!
//! **Invariant:** a unit that is next in a stage depends on earlier stages only: its own, or with
//! norm clipping those of all units. So stages never wait for each other in a cycle; see README.md
//! of `hemiola-sync`, section No deadlock.

use crate::ids::UnitId;

/// Order of one stage, and its current position.
#[derive(Clone, Debug)]
pub(crate) struct CollectiveOrder {
    /// Units that have this stage: the order before step `since`, and the order from that step on.
    orders: [Vec<UnitId>; 2],
    since: u64,
    step: u64,
    position: usize,
}

impl CollectiveOrder {
    pub(crate) fn new(order: Vec<UnitId>, step: u64) -> Self {
        Self { orders: [order, Vec::new()], since: u64::MAX, step, position: 0 }
    }

    /// Sets another order of the same units, from a step that no peer has started.
    pub(crate) fn reorder(&mut self, order: &[UnitId], since: u64) {
        let known = &self.orders[0];
        let order: Vec<UnitId> = order.iter().copied().filter(|unit| known.contains(unit)).collect();
        debug_assert_eq!(order.len(), known.len());
        self.orders[1] = order;
        self.since = since;
    }

    /// Returns the step and the unit that start next; `None` if no unit has this stage.
    pub(crate) fn next(&self) -> Option<(u64, UnitId)> {
        let order = &self.orders[usize::from(self.step >= self.since)];
        order.get(self.position).map(|unit| (self.step, *unit))
    }

    pub(crate) fn is_next(&self, step: u64, unit: UnitId) -> bool {
        self.next() == Some((step, unit))
    }

    /// Moves on to the next unit, or to the first unit of the next step.
    pub(crate) fn advance(&mut self) {
        self.position += 1;
        if self.position >= self.orders[0].len() {
            (self.step, self.position) = (self.step + 1, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_the_order_of_their_step() {
        let units = |indices: &[usize]| indices.iter().copied().map(UnitId::new).collect::<Vec<_>>();
        let mut order = CollectiveOrder::new(units(&[4, 1, 2]), 0);
        order.reorder(&units(&[0, 2, 1, 3, 4]), 1);
        let seen: Vec<(u64, usize)> = (0..7)
            .map(|_| {
                let (step, unit) = order.next().unwrap();
                order.advance();
                (step, unit.index())
            })
            .collect();
        assert_eq!(seen, [(0, 4), (0, 1), (0, 2), (1, 2), (1, 1), (1, 4), (2, 2)]);
        assert_eq!(CollectiveOrder::new(Vec::new(), 0).next(), None);
    }
}
