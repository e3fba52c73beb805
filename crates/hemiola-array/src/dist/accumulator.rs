//! Reductions over all workers of all peers.
//!
//! Every worker adds into its own cell without synchronization with others. [`Accumulator::take`]
//! combines the cells in the order of ranks and workers, identically on every peer, so that
//! floating-point sums have the same bits everywhere.

use crate::dist::element::Element;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::WorkerId;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::ops::Add;

/// Value that all workers contribute to.
///
/// `combine` must be commutative and associative up to rounding, because the loop decides which
/// worker contributes what.
///
/// ```
/// use hemiola_array::Accumulator;
/// hemiola_cluster::standalone(2).workers(3).run(|cluster| {
///     let largest = Accumulator::new(cluster, 0_u64, |a, b| a.max(b));
///     let value = |worker: usize| cluster.rank().index() as u64 * 10 + worker as u64;
///     cluster.each_worker(|worker| largest.add(worker.id(), value(worker.index())))?;
///     assert_eq!(largest.take()?, 12);
///     assert_eq!(largest.take()?, 0); // empty again
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub struct Accumulator<T, C> {
    cluster: Cluster,
    identity: T,
    combine: C,
    /// One cell per worker, each on its own cache line to avoid false sharing.
    cells: Vec<AccumulatorCell<T>>,
}

#[repr(align(128))]
struct AccumulatorCell<T>(Mutex<T>);

impl<T: Element, C: Fn(T, T) -> T + Sync> Accumulator<T, C> {
    /// Creates an accumulator that starts at `identity`, the neutral element of `combine`.
    pub fn new(cluster: &Cluster, identity: T, combine: C) -> Self {
        let cells = (0..cluster.workers()).map(|_| AccumulatorCell(Mutex::new(identity.clone()))).collect();
        Self { cluster: cluster.clone(), identity, combine, cells }
    }

    /// Contributes a value on behalf of a worker.
    ///
    /// # Panics
    /// Panics if the cluster has no such worker.
    pub fn add(&self, worker: WorkerId, value: T) {
        let mut cell = self.cell(worker);
        let before = std::mem::replace(&mut *cell, self.identity.clone());
        *cell = (self.combine)(before, value);
    }

    /// Locks the cell of a worker for direct changes. Only that worker uses it while it runs.
    ///
    /// # Panics
    /// Panics if the cluster has no such worker.
    pub fn cell(&self, worker: WorkerId) -> MutexGuard<'_, T> {
        self.cells[worker.index()].0.lock()
    }

    /// Takes the value out of a worker's cell, for a loop that combines many values. The loop puts
    /// it back through [`cell`](Self::cell).
    ///
    /// # Panics
    /// Panics if the cluster has no such worker.
    #[must_use]
    pub fn take_cell(&self, worker: WorkerId) -> T {
        std::mem::replace(&mut *self.cell(worker), self.identity.clone())
    }

    /// Combines two values as this accumulator does.
    #[inline]
    pub fn combine(&self, left: T, right: T) -> T {
        (self.combine)(left, right)
    }

    /// *Collective.* Returns the combination of everything contributed since the last call,
    /// bit-identical on every peer.
    pub fn take(&self) -> Result<T> {
        let local: Vec<T> =
            self.cells.iter().map(|cell| std::mem::replace(&mut *cell.0.lock(), self.identity.clone())).collect();
        let all = self.cluster.all_gather(local)?;
        Ok(all.into_iter().flatten().fold(self.identity.clone(), &self.combine))
    }
}

/// Extension trait of [`Cluster`] that creates accumulators.
///
/// ```
/// use hemiola_array::AccumulatorExt;
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let loss = cluster.accumulator::<f64>();
///     loss.add(hemiola_core::WorkerId::new(0), 0.25);
///     assert_eq!(loss.take()?, 0.5);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub trait AccumulatorExt {
    /// Creates a sum that starts at the default value: 0 for numbers.
    fn accumulator<T: Element + Default + Add<Output = T>>(
        &self,
    ) -> Accumulator<T, impl Fn(T, T) -> T + Sync + Send + Copy + 'static>;
}

impl AccumulatorExt for Cluster {
    fn accumulator<T: Element + Default + Add<Output = T>>(
        &self,
    ) -> Accumulator<T, impl Fn(T, T) -> T + Sync + Send + Copy + 'static> {
        Accumulator::new(self, T::default(), |left, right| left + right)
    }
}

impl<T, C> fmt::Debug for Accumulator<T, C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Accumulator").finish_non_exhaustive()
    }
}
