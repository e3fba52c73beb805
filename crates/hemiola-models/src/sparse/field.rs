//! The one place where sums over rows are made: over this peer's workers, and over peers.
//!
//! A solver sees columns as though all rows were here. Work of whole columns (a survey of all of them) is shared by columns; work of a few columns whose rows
//! change in between (a block of coordinate descent, a step of conjugate gradients) is shared by rows. Whatever is summed over rows is
//! then summed over peers by one all-reduce.
//!
//! **Invariants:** every operation is one piece of work for the crew and at most one all-reduce, and all peers make the same operations in the same
//! order. Partial sums are added by worker and then in the ring's order, so the same number of workers and peers gives the same bits, on every peer.

use super::design::{Design, Moments};
use super::kernel::Value;
use hemiola::cluster::Crew;
use hemiola::collective::{Collectives, Operator};
use hemiola::{Cluster, Result};

/// Rows of all peers, and who works on them.
pub(super) struct Field<'f, 'c, T> {
    cluster: &'f Cluster,
    crew: &'f mut Crew<'c>,
    design: &'f Design<T>,
    /// `None` where there are no others.
    peers: Option<&'f Collectives>,
    /// For each worker.
    desks: Vec<Desk>,
}

/// What a worker computes into.
#[derive(Clone, Debug, Default)]
struct Desk {
    sums: Vec<f64>,
    spare: Vec<f64>,
}

impl Desk {
    /// Room for so many sums.
    fn room(&mut self, count: usize) -> (&mut [f64], &mut Vec<f64>) {
        if self.sums.len() < count {
            self.sums.resize(count, 0.0);
        }
        (&mut self.sums[..count], &mut self.spare)
    }
}

impl<'f, 'c, T: Value> Field<'f, 'c, T> {
    pub(super) fn new(
        cluster: &'f Cluster,
        crew: &'f mut Crew<'c>,
        design: &'f Design<T>,
        peers: Option<&'f Collectives>,
    ) -> Self {
        let desks = vec![Desk::default(); crew.workers()];
        Self { cluster, crew, design, peers, desks }
    }

    /// For whoever hands out work by itself.
    pub(super) fn hands(&mut self) -> (&'f Cluster, &mut Crew<'c>) {
        (self.cluster, self.crew)
    }

    pub(super) fn design(&self) -> &'f Design<T> {
        self.design
    }

    /// How many columns are worth visiting before their changes are told: one where nobody has to be told.
    pub(super) fn together(&self) -> usize {
        match (self.peers.is_some(), self.crew.workers() > 1, self.design.is_sparse()) {
            (true, ..) => 64,
            (false, _, false) => 16,
            // Products of sparse columns cost more beside their visits.
            (false, true, true) => 8,
            (false, false, true) => 1,
        }
    }

    /// Adds up over peers.
    pub(super) fn sum(&self, values: &mut [f64]) -> Result<()> {
        match self.peers {
            Some(peers) if !values.is_empty() => peers.all_reduce(values, Operator::Sum),
            _ => Ok(()),
        }
    }

    /// Products of columns with a vector.
    pub(super) fn survey(&mut self, columns: &[u32], vector: &[f64], out: &mut [f64]) -> Result<()> {
        let (design, share) = (self.design, columns.len().div_ceil(self.crew.workers()).max(1));
        let mut pieces: Vec<(&[u32], &mut [f64])> = columns.chunks(share).zip(out.chunks_mut(share)).collect();
        pieces.resize_with(self.crew.workers(), Default::default);
        self.crew.each_with(&mut pieces, |_, (columns, out)| design.dots(columns, vector, out))?;
        self.sum(out)
    }

    /// What workers make of their shares of columns, in order. Nothing is told to other peers: all do the same.
    pub(super) fn share<R: Send>(&mut self, columns: &[u32], work: impl Fn(&[u32]) -> R + Sync) -> Result<Vec<R>> {
        let share = columns.len().div_ceil(self.crew.workers()).max(1);
        let mut pieces: Vec<(&[u32], Option<R>)> = columns.chunks(share).map(|columns| (columns, None)).collect();
        pieces.resize_with(self.crew.workers(), Default::default);
        self.crew.each_with(&mut pieces, |_, (columns, made)| *made = Some(work(columns)))?;
        Ok(pieces.into_iter().filter_map(|(_, made)| made).collect())
    }

    /// Moments of columns.
    pub(super) fn look(&mut self, columns: &[u32], vector: &[f64], weighted: bool, out: &mut [Moments]) -> Result<()> {
        let (design, share) = (self.design, columns.len().div_ceil(self.crew.workers()).max(1));
        let mut pieces: Vec<(&[u32], &mut [Moments])> = columns.chunks(share).zip(out.chunks_mut(share)).collect();
        pieces.resize_with(self.crew.workers(), Default::default);
        self.crew.each_with(&mut pieces, |_, (columns, out)| design.look(columns, vector, weighted, out))?;
        self.sum(out.as_flattened_mut())
    }

    /// `vector += weights · Σ amount · column`, and then products of `columns` with it.
    pub(super) fn step(
        &mut self,
        changes: (&[u32], &[f64]),
        weights: &[f64],
        vector: &mut [f64],
        columns: &[u32],
        out: &mut [f64],
    ) -> Result<()> {
        let design = self.design;
        let parts = design.parts_of(vector).into_iter().zip(&mut self.desks);
        let mut pieces: Vec<(&mut [f64], &mut Desk)> = parts.collect();
        self.crew.each_with(&mut pieces, |part, (vector, desk)| {
            let (sums, spare) = desk.room(columns.len());
            let weights = if weights.is_empty() { weights } else { &weights[design.part(part)] };
            design.add(changes, part, weights, spare, vector);
            design.part_dots(columns, part, vector, sums);
        })?;
        self.gather(out)
    }

    /// Products of columns with each other, each pair once: `out[j · count + k]` for `k > j`. The rest of `out` has no meaning.
    pub(super) fn products(&mut self, columns: &[u32], weights: &[f64], out: &mut [f64]) -> Result<()> {
        let design = self.design;
        self.crew.each_with(&mut self.desks, |part, desk| {
            let (sums, spare) = desk.room(columns.len() * columns.len());
            let weights = if weights.is_empty() { weights } else { &weights[design.part(part)] };
            design.products(columns, part, weights, spare, sums);
        })?;
        self.gather(out)
    }

    /// Adds up what is on the desks.
    fn gather(&mut self, out: &mut [f64]) -> Result<()> {
        let [first, others @ ..] = &self.desks[..] else { return Ok(()) };
        out.copy_from_slice(&first.sums[..out.len()]);
        for desk in others {
            for (sum, more) in out.iter_mut().zip(&desk.sums) {
                *sum += more;
            }
        }
        self.sum(out)
    }
}
