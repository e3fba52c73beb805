//! Order in which peers start collectives.
//!
//! All peers must start the collectives of a communicator in the same order, whichever gradient is
//! ready first on each of them. Each stage has a communicator of its own. In each stage, units
//! start step by step, and within a step in the order that all peers agreed on. The first step has
//! the order of the plan; later steps wait for the [agreement](crate::unit_order).
//!
//! **Invariant:** a unit that is next in a stage depends on earlier stages only: its own, or with
//! norm clipping those of all units. So stages never wait for each other in a cycle; see README.md
//! of `hemiola-sync`, section No deadlock.

use crate::ids::UnitId;

/// Order of one stage, and its current position.
#[derive(Clone, Debug)]
pub(crate) struct CollectiveOrder {
    /// Units that have this stage: the order of the first step, and the agreed order of later
    /// ones, empty until it is known.
    orders: [Vec<UnitId>; 2],
    first_step: u64,
    step: u64,
    position: usize,
}

impl CollectiveOrder {
    pub(crate) fn new(order: Vec<UnitId>, first_step: u64) -> Self {
        Self { orders: [order, Vec::new()], first_step, step: first_step, position: 0 }
    }

    /// Sets the order of all steps after the first; units without this stage are left out.
    pub(crate) fn reorder(&mut self, order: &[UnitId]) {
        let known = &self.orders[0];
        let order: Vec<UnitId> = order.iter().copied().filter(|unit| known.contains(unit)).collect();
        debug_assert_eq!(order.len(), known.len());
        self.orders[1] = order;
    }

    /// Returns the step and the unit that start next; `None` if no unit has this stage, or the
    /// order of the step is not known.
    pub(crate) fn next(&self) -> Option<(u64, UnitId)> {
        let order = &self.orders[usize::from(self.step > self.first_step)];
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
        let take = |order: &mut CollectiveOrder| {
            let (step, unit) = order.next()?;
            order.advance();
            Some((step, unit.index()))
        };
        assert_eq!([take(&mut order), take(&mut order), take(&mut order)], [Some((0, 4)), Some((0, 1)), Some((0, 2))]);
        assert_eq!(take(&mut order), None, "the order of later steps is not known");
        order.reorder(&units(&[0, 2, 1, 3, 4]));
        let seen: Vec<(u64, usize)> = (0..4).filter_map(|_| take(&mut order)).collect();
        assert_eq!(seen, [(1, 2), (1, 1), (1, 4), (2, 2)]);
        assert_eq!(CollectiveOrder::new(Vec::new(), 0).next(), None);
    }
}
