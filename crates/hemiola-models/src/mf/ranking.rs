//! How well a model ranks: recall@k and NDCG@k.
//!
//! For each user with held-out items, all items but those trained on are ranked by score, of equals the smaller number first.
//! With `hits` the held-out items among the first k:
//!
//! - recall@k = hits / min(k, held-out items)
//! - NDCG@k = Σ 1 / log2(place + 1) over the places of the hits, divided by what it would be with the held-out items in front
//!
//! Both are means over users. Users are scored [`USERS`] at a time against [`ITEMS`] items at a time, so that what was fetched
//! is used many times; scores that cannot be among the best k are dropped without asking who they are.

use super::best::Best;
use super::model::Model;
use crate::Error;
use crate::training::Metrics;
use hemiola::array::Dense;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};

/// Users that are scored together: as many as the widest register holds numbers.
const USERS: usize = 16;
/// Items that are scored together.
const ITEMS: usize = 8;

/// The numbers of places looked at where nobody says otherwise.
pub const PLACES: [usize; 2] = [10, 20];

/// Held-out items of users, and the items they were trained on.
#[derive(Debug)]
pub struct Ranking {
    /// By group of users: each user's place in the group, and an item; sorted.
    held_out: DistArray<Group, 1>,
    /// The same of what was trained on. Groups after the last have nothing.
    known: DistArray<Group, 1>,
}

type Group = Vec<(u32, u32)>;

impl Ranking {
    /// *Collective.* Arranges held-out entries, and those that are known. Keys are users and items with the numbers of the model.
    pub fn new(held_out: &DistArray<f32, 2>, known: &DistArray<f32, 2>) -> Result<Self> {
        Ok(Self { held_out: groups(held_out)?, known: groups(known)?.to_dense(Vec::new())? })
    }

    /// *Collective.* `recall@k` and `ndcg@k` of a model, for each k of `places`; `users` is how many they are means of.
    pub fn figures(&self, cluster: &Cluster, model: &Model, places: &[usize]) -> Result<Metrics> {
        let Self { held_out, known } = self;
        let most = places.iter().copied().max().unwrap_or(0);
        let items = Items::of(model)?;
        let known_groups = known.shape().extents()[0] as usize;
        let (w, arch) = (&model.user_factors, pulp::Arch::new());
        let [users, width] = w.shape().extents();
        let (users, width) = (users as usize, width as usize);
        // By group, so that the sum over all does not depend on who added what.
        let sums = Accumulator::new(cluster, Vec::new(), |mut left: Vec<(u64, Vec<f64>)>, right| {
            left.extend(right);
            left
        });
        parallel_for!(
            cluster,
            for ([group], wanted) in held_out {
                let mut factors = vec![[0.0; USERS]; width];
                for lane in 0..USERS {
                    // A user after the last that the model knows is nobody's.
                    if group * USERS + lane < users && of(wanted, lane).next().is_some() {
                        let row = &w[group * USERS + lane];
                        factors.iter_mut().zip(row).for_each(|(all, factor)| all[lane] = *factor);
                    }
                }
                let nothing = Vec::new();
                let trained = if group < known_groups { &known[group] } else { &nothing };
                let best = arch.dispatch(Score { factors: &factors, items: &items, wanted, known: trained, most });
                let mut sum = Vec::new();
                for (lane, best) in best.into_iter().enumerate() {
                    // What was trained on is not recommended, so it cannot be sought, either.
                    let seen: Vec<u32> = of(trained, lane).collect();
                    let wanted: Vec<u32> = of(wanted, lane).filter(|item| seen.binary_search(item).is_err()).collect();
                    if !wanted.is_empty() {
                        sum = added(sum, &user_figures(&best.sorted(most), &wanted, places));
                    }
                }
                sums.add(vec![(group as u64, sum)]);
            }
        )?;
        let mut sums = sums.take()?;
        sums.sort_unstable_by_key(|(group, _)| *group);
        let sum = sums.iter().fold(Vec::new(), |sum, (_, more)| added(sum, more));
        let Some(count) = sum.first().copied() else { return Err(Error::NothingToRank.into()) };
        let mean = |at: usize| sum[at] / count;
        let mut figures = Metrics::new();
        for (at, k) in places.iter().enumerate() {
            figures.insert(format!("recall@{k}"), mean(1 + 2 * at));
            figures.insert(format!("ndcg@{k}"), mean(2 + 2 * at));
        }
        Ok(figures)
    }

    /// *Collective.* How many users the figures are means of.
    pub fn users(&self, cluster: &Cluster) -> Result<u64> {
        let mut mine = 0;
        self.held_out.for_each(|_, wanted| {
            mine += (0..USERS).filter(|lane| of(wanted, *lane).next().is_some()).count() as u64;
        });
        Ok(cluster.all_gather(mine)?.into_iter().sum())
    }
}

/// *Collective.* Entries by group of users.
fn groups(entries: &DistArray<f32, 2>) -> Result<DistArray<Group, 1>> {
    let group = |[user, item]: [u64; 2], _| (user / USERS as u64, ((user % USERS as u64) as u32, item as u32));
    let grouped = entries.entries().group_by(group)?;
    let sorted = |_, mut group: Group| {
        group.sort_unstable();
        group
    };
    grouped.entries().map(sorted).materialize()
}

/// The items of one user of a group, ascending.
fn of(group: &Group, lane: usize) -> impl Iterator<Item = u32> {
    let start = group.partition_point(|(user, _)| (*user as usize) < lane);
    group[start..].iter().take_while(move |(user, _)| *user as usize == lane).map(|(_, item)| *item)
}

/// Sums of users' figures, place by place.
fn added(mut left: Vec<f64>, right: &[f64]) -> Vec<f64> {
    if left.is_empty() {
        return right.to_vec();
    }
    left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
    left
}

/// 1, and then recall and NDCG for each k.
fn user_figures(best: &[(u64, f32)], wanted: &[u32], places: &[usize]) -> Vec<f64> {
    let worth = |place: usize| 1.0 / ((place + 2) as f64).log2();
    let mut figures = vec![1.0];
    for k in places {
        let is_hit = |item: u64| u32::try_from(item).is_ok_and(|item| wanted.binary_search(&item).is_ok());
        let hits: Vec<usize> = (0..best.len().min(*k)).filter(|place| is_hit(best[*place].0)).collect();
        let most = wanted.len().min(*k);
        let ideal: f64 = (0..most).map(worth).sum();
        let gained = hits.iter().fold(0.0, |sum, place| sum + worth(*place));
        figures.push(hits.len() as f64 / most.max(1) as f64);
        figures.push(if most == 0 { 0.0 } else { gained / ideal });
    }
    figures
}

/// All items of a model, on every peer.
struct Items {
    factors: Dense<f32, 2>,
    side: Dense<f32, 2>,
}

impl Items {
    fn of(model: &Model) -> Result<Self> {
        let all = |array: &DistArray<f32, 2>| array.hold("ranking")?.copy_of_all(|_| true);
        Ok(Self { factors: all(&model.item_factors)?, side: all(&model.item_side)? })
    }
}

/// Finds the best items of a group of users.
struct Score<'a> {
    /// By factor: of each user of the group.
    factors: &'a [[f32; USERS]],
    items: &'a Items,
    wanted: &'a Group,
    known: &'a Group,
    most: usize,
}

impl pulp::WithSimd for Score<'_> {
    type Output = [Best; USERS];

    #[inline(always)] // into functions compiled for wider registers
    fn with_simd<S: pulp::Simd>(self, simd: S) -> [Best; USERS] {
        let Self { factors, items, wanted, known, most } = self;
        let mut best: [Best; USERS] = std::array::from_fn(|_| Best::default());
        let asked: [bool; USERS] = std::array::from_fn(|lane| of(wanted, lane).next().is_some());
        let count = items.factors.row_count();
        for first in (0..count).step_by(ITEMS) {
            // The last few items are filled up with the last one, whose further scores nobody looks at.
            let rows: [&[f32]; ITEMS] =
                std::array::from_fn(|at| &items.factors.row((first + at).min(count - 1))[..factors.len()]);
            let mut scores = [[0.0_f32; USERS]; ITEMS];
            for vector in 0..USERS / S::F32_LANES {
                let mut sums = [simd.splat_f32s(0.0); ITEMS];
                for (factor, users) in factors.iter().enumerate() {
                    let users = S::as_simd_f32s(users).0[vector];
                    for at in 0..ITEMS {
                        sums[at] = simd.mul_add_e_f32s(simd.splat_f32s(rows[at][factor]), users, sums[at]);
                    }
                }
                for (scores, sum) in scores.iter_mut().zip(sums) {
                    S::as_mut_simd_f32s(scores).0[vector] = sum;
                }
            }
            for (item, scores) in (first..count.min(first + ITEMS)).zip(&scores) {
                let bias = items.side.row(item)[0];
                for lane in 0..USERS {
                    let score = scores[lane] + bias;
                    let place = (lane as u32, item as u32);
                    if asked[lane] && !best[lane].is_below(score) && known.binary_search(&place).is_err() {
                        best[lane].offer(most, score, item as u64);
                    }
                }
            }
        }
        best
    }
}
