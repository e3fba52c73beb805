//! Sums over rows, over this peer's workers and over peers: the only place where peers communicate.
//!
//! A solver sees columns as though all rows were local. Work on whole columns (a survey of all of
//! them) is divided by columns. Work on a few columns whose rows change in between (a block of
//! coordinate descent, a conjugate-gradient step) is divided by rows. Sums over rows are then
//! summed over peers by one all-reduce.
//!
//! A task of less than some ten microseconds is not worth waking other threads: the leader runs the
//! shares of all workers itself. A solver makes many thousands of such tasks, and where other work
//! keeps the cores busy, each of them would wait for a context switch.
//!
//! **Invariants:** every operation is one task of the worker team and at most one all-reduce, and
//! all peers make the same operations in the same order. Partial sums are added by worker and then
//! in ring order, whichever thread has computed them, so the same number of workers and peers gives
//! the same bits, on every peer.

use super::design::{DesignMatrix, Moments};
use super::kernel::ColumnValue;
use hemiola_cluster::WorkerTeam;
use hemiola_cluster::{Cluster, Result, StopPoll};
use hemiola_collective::{Communicator, ReduceOp};

/// Number of multiplications up to which one thread does the work of all workers: some 30 µs.
const SERIAL_WORK_LIMIT: usize = 1 << 18;
/// Cost of a column in [`RowReducer::share`], in multiplications.
const COLUMN_COST: usize = 8;

/// Rows of all peers and the worker team that processes them.
pub(super) struct RowReducer<'f, 'c, T> {
    cluster: &'f Cluster,
    team: &'f mut WorkerTeam<'c>,
    design: &'f DesignMatrix<T>,
    /// Communicator between peers; `None` with a single peer.
    peers: Option<&'f Communicator>,
    /// Buffers of each worker.
    buffers: Vec<WorkerBuffers>,
    poll: StopPoll,
}

/// Scratch buffers of a worker.
#[derive(Clone, Debug, Default)]
struct WorkerBuffers {
    sums: Vec<f64>,
    spare: Vec<f64>,
}

impl WorkerBuffers {
    /// Returns a slice of `count` sums and the spare buffer.
    fn room(&mut self, count: usize) -> (&mut [f64], &mut Vec<f64>) {
        if self.sums.len() < count {
            self.sums.resize(count, 0.0);
        }
        (&mut self.sums[..count], &mut self.spare)
    }
}

impl<'f, 'c, T: ColumnValue> RowReducer<'f, 'c, T> {
    pub(super) fn new(
        cluster: &'f Cluster,
        team: &'f mut WorkerTeam<'c>,
        design: &'f DesignMatrix<T>,
        peers: Option<&'f Communicator>,
    ) -> Self {
        let buffers = vec![WorkerBuffers::default(); team.workers()];
        Self { cluster, team, design, peers, buffers, poll: StopPoll::new(cluster) }
    }

    /// Returns the cluster and the worker team, for code that schedules its own work.
    pub(super) fn cluster_and_team(&mut self) -> (&'f Cluster, &mut WorkerTeam<'c>) {
        (self.cluster, self.team)
    }

    pub(super) fn design(&self) -> &'f DesignMatrix<T> {
        self.design
    }

    /// Returns the block size of coordinate descent: larger where a block costs communication, 1
    /// where it costs nothing.
    pub(super) fn block_size(&self) -> usize {
        match (self.peers.is_some(), self.team.workers() > 1, self.design.is_sparse()) {
            (true, ..) => 64,
            (false, _, false) => 16,
            // Gram matrices of sparse columns are expensive relative to visits.
            (false, true, true) => 8,
            (false, false, true) => 1,
        }
    }

    /// Runs `task` for each element, on the worker of its index, or on the calling thread if the
    /// `work` is small.
    fn each<E: Send>(
        team: &mut WorkerTeam<'_>,
        work: usize,
        elements: &mut [E],
        task: impl Fn(usize, &mut E) + Sync,
    ) -> Result<()> {
        if work > SERIAL_WORK_LIMIT {
            return team.each_with(elements, task);
        }
        elements.iter_mut().enumerate().for_each(|(index, element)| task(index, element));
        Ok(())
    }

    /// Returns the number of stored values of columns.
    fn work(&self, columns: &[u32]) -> usize {
        columns.iter().map(|column| self.design.count(*column)).sum()
    }

    /// *Collective.* Returns an error if a peer is asked to stop.
    fn check_stop(&mut self) -> Result<()> {
        self.poll.check(self.cluster)
    }

    /// Sums values over peers.
    pub(super) fn sum(&self, values: &mut [f64]) -> Result<()> {
        match self.peers {
            Some(peers) if !values.is_empty() => peers.all_reduce(values, ReduceOp::Sum),
            _ => Ok(()),
        }
    }

    /// Computes dot products of columns with a vector.
    pub(super) fn dots(&mut self, columns: &[u32], vector: &[f64], out: &mut [f64]) -> Result<()> {
        let (design, share) = (self.design, columns.len().div_ceil(self.team.workers()).max(1));
        let work = self.work(columns);
        let mut pieces: Vec<(&[u32], &mut [f64])> = columns.chunks(share).zip(out.chunks_mut(share)).collect();
        pieces.resize_with(self.team.workers(), Default::default);
        Self::each(self.team, work, &mut pieces, |_, (columns, out)| design.dots(columns, vector, out))?;
        self.sum(out)
    }

    /// Maps shares of the columns on the workers, in order. No communication: all peers do the
    /// same.
    pub(super) fn share<R: Send>(&mut self, columns: &[u32], work: impl Fn(&[u32]) -> R + Sync) -> Result<Vec<R>> {
        let share = columns.len().div_ceil(self.team.workers()).max(1);
        let mut pieces: Vec<(&[u32], Option<R>)> = columns.chunks(share).map(|columns| (columns, None)).collect();
        pieces.resize_with(self.team.workers(), Default::default);
        let cost = columns.len() * COLUMN_COST;
        Self::each(self.team, cost, &mut pieces, |_, (columns, made)| *made = Some(work(columns)))?;
        Ok(pieces.into_iter().filter_map(|(_, made)| made).collect())
    }

    /// Computes the moments of columns.
    pub(super) fn moments(
        &mut self,
        columns: &[u32],
        vector: &[f64],
        weighted: bool,
        out: &mut [Moments],
    ) -> Result<()> {
        let (design, share) = (self.design, columns.len().div_ceil(self.team.workers()).max(1));
        let work = self.work(columns);
        let mut pieces: Vec<(&[u32], &mut [Moments])> = columns.chunks(share).zip(out.chunks_mut(share)).collect();
        pieces.resize_with(self.team.workers(), Default::default);
        Self::each(self.team, work, &mut pieces, |_, (columns, out)| design.moments(columns, vector, weighted, out))?;
        self.sum(out.as_flattened_mut())
    }

    /// Updates `vector += weights · Σ amount · column`, then computes dot products of `columns`
    /// with it.
    pub(super) fn step(
        &mut self,
        changes: (&[u32], &[f64]),
        weights: &[f64],
        vector: &mut [f64],
        columns: &[u32],
        out: &mut [f64],
    ) -> Result<()> {
        self.check_stop()?;
        let (design, work) = (self.design, self.work(changes.0) + self.work(columns));
        let parts = design.parts_of(vector).into_iter().zip(&mut self.buffers);
        let mut pieces: Vec<(&mut [f64], &mut WorkerBuffers)> = parts.collect();
        Self::each(self.team, work, &mut pieces, |part, (vector, buffer)| {
            let (sums, spare) = buffer.room(columns.len());
            let weights = if weights.is_empty() { weights } else { &weights[design.part(part)] };
            design.add(changes, part, weights, spare, vector);
            design.part_dots(columns, part, vector, sums);
        })?;
        self.gather(out)
    }

    /// Computes dot products of columns with each other, each pair once: `out[j · count + k]` for
    /// `k > j`. The rest of `out` is undefined.
    pub(super) fn products(&mut self, columns: &[u32], weights: &[f64], out: &mut [f64]) -> Result<()> {
        let (design, work) = (self.design, self.work(columns) * columns.len().div_ceil(2));
        Self::each(self.team, work, &mut self.buffers, |part, buffer| {
            let (sums, spare) = buffer.room(columns.len() * columns.len());
            let weights = if weights.is_empty() { weights } else { &weights[design.part(part)] };
            design.products(columns, part, weights, spare, sums);
        })?;
        self.gather(out)
    }

    /// Sums the buffers of the workers, then over peers.
    fn gather(&mut self, out: &mut [f64]) -> Result<()> {
        let [first, others @ ..] = &self.buffers[..] else { return Ok(()) };
        out.copy_from_slice(&first.sums[..out.len()]);
        for buffer in others {
            for (sum, more) in out.iter_mut().zip(&buffer.sums) {
                *sum += more;
            }
        }
        self.sum(out)
    }
}
