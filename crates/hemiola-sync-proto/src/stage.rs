//! Stages of a unit's synchronization.
//!
//! **Invariant:** updates come between `Payloads` and `Values`. A stage that updates wait for never
//! waits for an update.

use crate::plan::SyncMethod;
use std::ops::{Index, IndexMut};

/// Stage of a unit's synchronization. Each stage has a communicator and an order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SyncStage {
    /// Gradients, or the lengths of structured ones.
    Gradients,
    /// Structured gradients: factors or rows.
    Payloads,
    /// New values from their owner, or the lengths of changed rows.
    Values,
    /// Rows with new values, from their owners.
    Rows,
}

impl SyncStage {
    /// All stages in their order.
    pub const ALL: [Self; 4] = [Self::Gradients, Self::Payloads, Self::Values, Self::Rows];

    /// Stages that a unit passes through, in order.
    pub(crate) fn of(method: &SyncMethod) -> &'static [Self] {
        match method {
            SyncMethod::AllReduce { .. } | SyncMethod::Gossip { .. } => &[Self::Gradients],
            SyncMethod::ParameterServer { .. } => &[Self::Gradients, Self::Values],
            SyncMethod::SufficientFactors => &[Self::Gradients, Self::Payloads],
            SyncMethod::ServedRows { .. } => &Self::ALL,
            SyncMethod::Table { .. } => &[],
        }
    }
}

/// One item for each [`SyncStage`].
#[derive(Debug)]
pub(crate) struct PerStage<T>([T; SyncStage::ALL.len()]);

impl<T> PerStage<T> {
    pub(crate) fn new(create: impl FnMut(SyncStage) -> T) -> Self {
        Self(SyncStage::ALL.map(create))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}

impl<T> Index<SyncStage> for PerStage<T> {
    type Output = T;

    fn index(&self, stage: SyncStage) -> &T {
        &self.0[stage as usize]
    }
}

impl<T> IndexMut<SyncStage> for PerStage<T> {
    fn index_mut(&mut self, stage: SyncStage) -> &mut T {
        &mut self.0[stage as usize]
    }
}
