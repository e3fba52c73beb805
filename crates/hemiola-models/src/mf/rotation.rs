//! Hand-written rotation schedule of matrix factorization: users stay with workers, items move
//! around the ring.
//!
//! `parallel_for!` derives this schedule from the body of the loop (see `train`). Here it is
//! written as a rotation program: a job is an item with its factors, and an update takes an SGD
//! step for every rating of the item by users of the worker. It serves for comparison, and shows
//! options that a loop lacks: how jobs are assigned, and when workers synchronize.

use super::MatrixFactorization;
use super::loss::MfLoss;
use super::model::{FactorInit, FactorRow, MfModel};
use super::sgd::{BiasState, RatingScale, SgdUpdate, SimdArch};
use super::train::moments;
use crate::Error;
use hemiola::array::dist::{PartitionMethod, Storage};
use hemiola::prelude::*;
use hemiola::schedule::{
    JobAssignment, ObjectiveTrace, RotationBarrier, RotationProgram, RotationReport, RotationScheduler,
    ScheduleProgress,
};
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Settings of the rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationSettings {
    /// Number of rotations (epochs).
    pub rotations: u32,
    /// Number of blocks in which the items of a worker travel.
    pub blocks: usize,
    /// Assignment of items to blocks.
    pub deal: JobAssignment,
    /// Barrier between workers of the ring.
    pub synchronize: RotationBarrier,
}

impl Default for RotationSettings {
    fn default() -> Self {
        Self { rotations: 20, blocks: 4, deal: JobAssignment::HeaviestFirst, synchronize: RotationBarrier::PerRotation }
    }
}

/// Result of training by rotation.
#[derive(Clone, Debug)]
pub struct RotationFit {
    /// Model after the last update.
    pub model: MfModel,
    /// Loss per entry after each rotation.
    pub trace: ObjectiveTrace,
    /// Duration of each rotation, and busy time of the workers of this peer.
    pub turns: Vec<RotationReport>,
}

impl MatrixFactorization {
    /// *Collective.* Trains on ratings by hand-written rotation, with the squared or the logistic
    /// loss. Every peer ends with the whole model.
    pub fn fit_rotating(
        &self,
        cluster: &Cluster,
        ratings: &DistArray<f32, 2>,
        rounds: RotationSettings,
    ) -> Result<RotationFit> {
        let settings = &self.settings;
        if ratings.is_empty() {
            return Err(Error::NoRatings.into());
        }
        if settings.loss == MfLoss::OneClass {
            return Err(Error::RotationUnsupported.into());
        }
        let (mean, variance) = moments(cluster, ratings, settings.loss)?;
        let deviation = super::train::deviation(settings.loss, variance);
        let start = FactorInit::new(settings, deviation);
        let [_, items] = ratings.shape().extents();
        let mut resident = assign_users(cluster, ratings, &start)?;
        let rating_counts = rating_counts(cluster, &resident, items)?;
        let make = |item: usize| RotatingItem { number: item as u64, row: start.item(item as u64) };
        let mut rotation = RotationScheduler::new(cluster, &rating_counts, rounds.blocks, rounds.deal, make)?
            .barrier(rounds.synchronize);
        let mut program = SgdProgram {
            machine: SimdArch::this(),
            scale: RatingScale::new(start.width(), deviation),
            learning_rate: settings.learning_rate,
            l2: settings.l2,
            loss: settings.loss,
            mean: settings.loss.base_score(mean),
            cost: 0.0,
        };
        let (mut trace, mut turns, mut elapsed) = (ObjectiveTrace::default(), Vec::new(), std::time::Duration::ZERO);
        for _ in 0..rounds.rotations {
            let turn = rotation.rotate(&mut program, &mut resident)?;
            elapsed += turn.elapsed;
            let touched = turn.rotations * ratings.len();
            let progress = ScheduleProgress { rounds: turn.rotations, jobs: turn.rotations * items, touched, elapsed };
            trace.add(&progress, program.cost / ratings.len() as f64);
            turns.push(turn);
        }
        let users = resident.into_iter().flat_map(|resident| resident.numbers.into_iter().zip(resident.rows)).collect();
        let items = rotation.jobs().map(|item| (item.number, item.row.clone())).collect();
        let model = MfModel::start(cluster, ratings.shape().extents(), (program.mean, deviation), settings)?;
        let model = model.filled(cluster, &gathered(cluster, users)?, &gathered(cluster, items)?)?.named(ratings);
        Ok(RotationFit { model, trace, turns })
    }
}

/// Item that moves around the ring.
#[derive(Debug, Serialize, Deserialize)]
struct RotatingItem {
    number: u64,
    row: FactorRow,
}

/// Users that stay with a worker, and their ratings by item.
#[derive(Debug, Default)]
struct ResidentUsers {
    numbers: Vec<u64>,
    rows: Vec<FactorRow>,
    /// Start of the ratings of each item.
    starts: Vec<usize>,
    /// Index of the user in this list, and the rating.
    ratings: Vec<(u32, f32)>,
}

/// Rotation program that takes SGD steps.
struct SgdProgram {
    machine: SimdArch,
    scale: RatingScale,
    learning_rate: f32,
    l2: f32,
    loss: MfLoss,
    mean: f32,
    /// Loss summed over all entries in the last rotation.
    cost: f64,
}

impl RotationProgram for SgdProgram {
    type Job = RotatingItem;
    type WorkerState = ResidentUsers;
    type Partial = f64;

    fn update(&self, item: &mut RotatingItem, resident: &mut ResidentUsers, cost: &mut f64) {
        let number = item.number as usize;
        for (user, rating) in &resident.ratings[resident.starts[number]..resident.starts[number + 1]] {
            let user = &mut resident.rows[*user as usize];
            let (wu, hi) = (&mut user.factors[..], &mut item.row.factors[..]);
            let (user, item) = (BiasState::of(&mut user.side), BiasState::of(&mut item.row.side));
            let Self { scale, learning_rate, l2, loss, mean, .. } = *self;
            let entry = SgdUpdate { wu, hi, user, item, rating: *rating, mean, scale, learning_rate, l2, loss };
            *cost += f64::from(self.machine.step(entry));
        }
    }

    fn aggregate(&mut self, costs: Vec<f64>, _: &mut [ResidentUsers]) -> Result<()> {
        self.cost = costs.into_iter().sum();
        Ok(())
    }
}

/// *Collective.* Returns the users of each worker of this peer, with their ratings.
fn assign_users(cluster: &Cluster, ratings: &DistArray<f32, 2>, start: &FactorInit) -> Result<Vec<ResidentUsers>> {
    let [_, items] = ratings.shape().extents();
    let dense = matches!(&*ratings.storage(), Storage::Dense(_));
    let sparse = if dense { Some(ratings.entries().materialize()?) } else { None };
    let ratings =
        sparse.as_ref().unwrap_or(ratings).repartition(&PartitionSpec::along(0).method(PartitionMethod::Balanced))?;
    let mut entries: Vec<Vec<(u64, u64, f32)>> = vec![Vec::new(); cluster.workers()];
    if let Storage::Sparse(blocks) = &*ratings.storage() {
        for (index, block) in blocks.iter().enumerate() {
            let worker = index % cluster.workers();
            entries[worker].extend(block.iter().map(|([user, item], rating)| (item, user, *rating)));
        }
    }
    let grouped = |mut entries: Vec<(u64, u64, f32)>| {
        let mut numbers: Vec<u64> = entries.iter().map(|(_, user, _)| *user).collect();
        numbers.sort_unstable();
        numbers.dedup();
        entries.sort_unstable_by_key(|(item, user, _)| (*item, *user));
        let starts = (0..=items).map(|item| entries.partition_point(|entry| entry.0 < item)).collect();
        let index = |user: u64| numbers.partition_point(|number| *number < user) as u32;
        let ratings = entries.iter().map(|(_, user, rating)| (index(*user), *rating)).collect();
        let rows = numbers.iter().map(|user| start.user(*user)).collect();
        ResidentUsers { numbers, rows, starts, ratings }
    };
    Ok(entries.into_iter().map(grouped).collect())
}

/// *Collective.* Returns the number of ratings per item.
fn rating_counts(cluster: &Cluster, resident: &[ResidentUsers], items: u64) -> Result<Vec<u64>> {
    let of =
        |item: usize| resident.iter().map(|resident| (resident.starts[item + 1] - resident.starts[item]) as u64).sum();
    let counts: Vec<u64> = (0..items as usize).map(of).collect();
    let of_peers = cluster.all_gather(counts)?;
    Ok((0..items as usize).map(|item| of_peers.iter().map(|counts| counts[item]).sum()).collect())
}

/// *Collective.* Gathers rows of all peers to every peer.
fn gathered(cluster: &Cluster, rows: Vec<(u64, FactorRow)>) -> Result<BTreeMap<u64, FactorRow>> {
    Ok(cluster.all_gather(rows)?.into_iter().flatten().collect())
}
