//! Sums and the like over all workers of all peers.
//!
//! Every worker adds into a cell of its own, without waiting for anyone. [`Accumulator::take`] combines the cells in the order
//! of ranks and workers, on every peer the same way, so that floating-point sums have the same bits everywhere.

use crate::dist::element::Element;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::WorkerId;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::ops::Add;

/// A value that all workers contribute to.
///
/// `combine` must be commutative and associative up to rounding: which worker contributes what is for the loop to decide.
///
/// ```
/// use hemiola_array::Accumulator;
/// hemiola_cluster::standalone(2).workers(3).run(|cluster| {
///     let largest = Accumulator::new(cluster, 0_u64, |a, b| a.max(b));
///     cluster.each_worker(|worker| largest.add(worker.id(), cluster.rank().index() as u64 * 10 + worker.index() as u64))?;
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
    /// By worker. On a cache line of its own each, so that workers do not slow each other down.
    cells: Vec<Cell<T>>,
}

#[repr(align(128))]
struct Cell<T>(Mutex<T>);

impl<T: Element, C: Fn(T, T) -> T + Sync> Accumulator<T, C> {
    /// An accumulator that starts at `identity`, which must leave any value unchanged when combined with it.
    pub fn new(cluster: &Cluster, identity: T, combine: C) -> Self {
        let cells = (0..cluster.workers()).map(|_| Cell(Mutex::new(identity.clone()))).collect();
        Self { cluster: cluster.clone(), identity, combine, cells }
    }

    /// Contributes a value on behalf of a worker.
    ///
    /// # Panics
    /// If the cluster has no such worker.
    pub fn add(&self, worker: WorkerId, value: T) {
        let mut cell = self.cell(worker);
        let before = std::mem::replace(&mut *cell, self.identity.clone());
        *cell = (self.combine)(before, value);
    }

    /// A worker's own cell, to be changed directly: nobody else holds it while that worker works.
    ///
    /// # Panics
    /// If the cluster has no such worker.
    pub fn cell(&self, worker: WorkerId) -> MutexGuard<'_, T> {
        self.cells[worker.index()].0.lock()
    }

    /// Takes a worker's cell away until it is put back through [`cell`](Self::cell): for a loop that combines many values.
    ///
    /// # Panics
    /// If the cluster has no such worker.
    #[must_use]
    pub fn take_cell(&self, worker: WorkerId) -> T {
        std::mem::replace(&mut *self.cell(worker), self.identity.clone())
    }

    /// Two values as this accumulator combines them.
    #[inline]
    pub fn combined(&self, left: T, right: T) -> T {
        (self.combine)(left, right)
    }

    /// *Collective.* The combination of everything contributed since the last time, the same bits on every peer.
    pub fn take(&self) -> Result<T> {
        let local: Vec<T> =
            self.cells.iter().map(|cell| std::mem::replace(&mut *cell.0.lock(), self.identity.clone())).collect();
        let all = self.cluster.all_gather(local)?;
        Ok(all.into_iter().flatten().fold(self.identity.clone(), &self.combine))
    }
}

/// Makes accumulators on a cluster.
///
/// ```
/// use hemiola_array::Accumulate;
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let loss = cluster.accumulator::<f64>();
///     loss.add(hemiola_core::WorkerId::new(0), 0.25);
///     assert_eq!(loss.take()?, 0.5);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub trait Accumulate {
    /// A sum that starts at the default value: 0 for numbers.
    fn accumulator<T: Element + Default + Add<Output = T>>(
        &self,
    ) -> Accumulator<T, impl Fn(T, T) -> T + Sync + Send + Copy + 'static>;
}

impl Accumulate for Cluster {
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
