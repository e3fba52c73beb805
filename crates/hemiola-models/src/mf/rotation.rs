//! The same training as a program for the static engine: users stay with workers, items go around the ring.
//!
//! `parallel_for!` finds this schedule by itself, from the body of the loop (`train`). Here it is written out by hand, as a [`Rotating`] program: a job is an item with
//! its factors, an update is a step for every rating of it by users of the worker. It is for comparison, and to show what a schedule can be told that a loop
//! cannot: how jobs are dealt out, and when workers wait for each other.

use super::MatrixFactorization;
use super::loss::Loss;
use super::model::{Kept, Model, Start};
use super::step::{Entry, Machine, Scale, Side};
use super::train::moments;
use crate::Error;
use hemiola::array::dist::{Storage, Way};
use hemiola::prelude::*;
use hemiola::schedule::{Deal, Progress, Rotating, Rotation, Synchronize, Trace, Turn};
use hemiola::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How items go around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// How many rotations.
    pub rotations: u32,
    /// Blocks in which the items of a worker travel.
    pub blocks: usize,
    /// How items are dealt out.
    pub deal: Deal,
    /// When workers wait for each other.
    pub synchronize: Synchronize,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { rotations: 20, blocks: 4, deal: Deal::HeavyFirst, synchronize: Synchronize::Macro }
    }
}

/// A model that went around, and how.
#[derive(Clone, Debug)]
pub struct Rotated {
    /// The model.
    pub model: Model,
    /// What an entry cost in each rotation.
    pub trace: Trace,
    /// How long each took, and how long workers of this peer worked.
    pub turns: Vec<Turn>,
}

impl MatrixFactorization {
    /// *Collective.* Trains on ratings by hand-written rotation, with the squared or the logistic loss. In the end every peer has all of the model.
    pub fn fit_rotating(&self, cluster: &Cluster, ratings: &DistArray<f32, 2>, rounds: Rounds) -> Result<Rotated> {
        let settings = &self.settings;
        if ratings.is_empty() {
            return Err(Error::NoRatings.into());
        }
        if settings.loss == Loss::OneClass {
            return Err(Error::NotRotating.into());
        }
        let (mean, variance) = moments(cluster, ratings, settings.loss)?;
        let deviation = super::train::deviation(settings.loss, variance);
        let start = Start::new(settings, deviation);
        let [_, items] = ratings.shape().extents();
        let mut own = seat(cluster, ratings, &start)?;
        let weights = weights(cluster, &own, items)?;
        let make = |item: usize| Item { number: item as u64, row: start.item(item as u64) };
        let mut rotation =
            Rotation::new(cluster, &weights, rounds.blocks, rounds.deal, make)?.synchronize(rounds.synchronize);
        let mut program = Steps {
            machine: Machine::this(),
            scale: Scale::new(start.width(), deviation),
            step: settings.step,
            l2: settings.l2,
            loss: settings.loss,
            mean: settings.loss.score_of_mean(mean),
            cost: 0.0,
        };
        let (mut trace, mut turns, mut elapsed) = (Trace::default(), Vec::new(), std::time::Duration::ZERO);
        for _ in 0..rounds.rotations {
            let turn = rotation.rotate(&mut program, &mut own)?;
            elapsed += turn.elapsed;
            let touched = turn.rotations * ratings.len();
            let progress = Progress { rounds: turn.rotations, jobs: turn.rotations * items, touched, elapsed };
            trace.add(&progress, program.cost / ratings.len() as f64);
            turns.push(turn);
        }
        let users = own.into_iter().flat_map(|own| own.numbers.into_iter().zip(own.rows)).collect();
        let items = rotation.jobs().map(|item| (item.number, item.row.clone())).collect();
        let model = Model::start(cluster, ratings.shape().extents(), (program.mean, deviation), settings)?;
        let model = model.filled(cluster, &gathered(cluster, users)?, &gathered(cluster, items)?)?.named(ratings);
        Ok(Rotated { model, trace, turns })
    }
}

/// What travels.
#[derive(Debug, Serialize, Deserialize)]
struct Item {
    number: u64,
    row: Kept,
}

/// What stays with a worker: users, and their ratings by item.
#[derive(Debug, Default)]
struct Users {
    numbers: Vec<u64>,
    rows: Vec<Kept>,
    /// By item: where its ratings begin.
    starts: Vec<usize>,
    /// The user, by its place here, and the rating.
    ratings: Vec<(u32, f32)>,
}

/// The program.
struct Steps {
    machine: Machine,
    scale: Scale,
    step: f32,
    l2: f32,
    loss: Loss,
    mean: f32,
    /// What all entries cost in the last rotation.
    cost: f64,
}

impl Rotating for Steps {
    type Job = Item;
    type Own = Users;
    type Partial = f64;

    fn update(&self, item: &mut Item, own: &mut Users, cost: &mut f64) {
        let number = item.number as usize;
        for (user, rating) in &own.ratings[own.starts[number]..own.starts[number + 1]] {
            let user = &mut own.rows[*user as usize];
            let (wu, hi) = (&mut user.factors[..], &mut item.row.factors[..]);
            let (user, item) = (Side::of(&mut user.side), Side::of(&mut item.row.side));
            let Self { scale, step, l2, loss, mean, .. } = *self;
            let entry = Entry { wu, hi, user, item, rating: *rating, mean, scale, step, l2, loss };
            *cost += f64::from(self.machine.step(entry));
        }
    }

    fn aggregate(&mut self, costs: Vec<f64>, _: &mut [Users]) -> Result<()> {
        self.cost = costs.into_iter().sum();
        Ok(())
    }
}

/// *Collective.* The users of each worker of this peer, with their ratings.
fn seat(cluster: &Cluster, ratings: &DistArray<f32, 2>, start: &Start) -> Result<Vec<Users>> {
    let [_, items] = ratings.shape().extents();
    let dense = matches!(&*ratings.storage(), Storage::Dense(_));
    let sparse = if dense { Some(ratings.entries().materialize()?) } else { None };
    let ratings = sparse.as_ref().unwrap_or(ratings).repartition(&Partition::along(0).by(Way::Balanced))?;
    let mut entries: Vec<Vec<(u64, u64, f32)>> = vec![Vec::new(); cluster.workers()];
    if let Storage::Sparse(blocks) = &*ratings.storage() {
        for (place, block) in blocks.iter().enumerate() {
            let worker = place % cluster.workers();
            entries[worker].extend(block.iter().map(|([user, item], rating)| (item, user, *rating)));
        }
    }
    let seated = |mut entries: Vec<(u64, u64, f32)>| {
        let mut numbers: Vec<u64> = entries.iter().map(|(_, user, _)| *user).collect();
        numbers.sort_unstable();
        numbers.dedup();
        entries.sort_unstable_by_key(|(item, user, _)| (*item, *user));
        let starts = (0..=items).map(|item| entries.partition_point(|entry| entry.0 < item)).collect();
        let place = |user: u64| numbers.partition_point(|number| *number < user) as u32;
        let ratings = entries.iter().map(|(_, user, rating)| (place(*user), *rating)).collect();
        let rows = numbers.iter().map(|user| start.user(*user)).collect();
        Users { numbers, rows, starts, ratings }
    };
    Ok(entries.into_iter().map(seated).collect())
}

/// *Collective.* How many ratings each item has.
fn weights(cluster: &Cluster, own: &[Users], items: u64) -> Result<Vec<u64>> {
    let of = |item: usize| own.iter().map(|own| (own.starts[item + 1] - own.starts[item]) as u64).sum();
    let counts: Vec<u64> = (0..items as usize).map(of).collect();
    let of_peers = cluster.all_gather(counts)?;
    Ok((0..items as usize).map(|item| of_peers.iter().map(|counts| counts[item]).sum()).collect())
}

/// *Collective.* Rows of all peers, on every peer.
fn gathered(cluster: &Cluster, rows: Vec<(u64, Kept)>) -> Result<BTreeMap<u64, Kept>> {
    Ok(cluster.all_gather(rows)?.into_iter().flatten().collect())
}
