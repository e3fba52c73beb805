//! Ranking metrics of a model: means of the [metrics of ranked lists](RankedHits) over users, and
//! the coverage of items.
//!
//! For each user with validation items, all items except the training items are ranked by score,
//! ties by ascending number. The validation items are relevant. Scores are computed for [`USERS_PER_GROUP`] users times
//! [`ITEMS_PER_BLOCK`] items at a time, so that loaded factors are reused; scores below the current
//! top k are dropped at once.

use super::model::MfModel;
use super::top_k::TopKCandidates;
use crate::Error;
use crate::metrics::RankedHits;
use crate::training::Metrics;
use hemiola_array::{Accumulator, DenseArray, DistArray, Element};
use hemiola_cluster::{Cluster, Result};
use hemiola_loops::parallel_for;
use serde::{Deserialize, Serialize};

/// Users scored together: as many as the widest register has lanes.
pub(super) const USERS_PER_GROUP: usize = 16;
/// Number of items scored together.
const ITEMS_PER_BLOCK: usize = 8;

/// Default cutoffs k of the ranking metrics.
pub const DEFAULT_CUTOFFS: [usize; 2] = [10, 20];

/// Validation items of users, and their training items.
#[derive(Debug)]
pub struct RankingEvaluator {
    /// By group of users: pairs of a user's lane in the group and an item, sorted.
    validation: DistArray<Group, 1>,
    /// Training items in the same form. Groups after the last have none.
    known: DistArray<Group, 1>,
}

/// Pairs of a user's lane in the group and an item, sorted.
pub(super) type Group = Vec<(u32, u32)>;

impl RankingEvaluator {
    /// *Collective.* Groups validation entries and known (training) entries by users. Keys are user
    /// and item indices of the model.
    pub fn new(validation: &DistArray<f32, 2>, known: &DistArray<f32, 2>) -> Result<Self> {
        Ok(Self { validation: groups(validation)?, known: groups(known)?.to_dense(Vec::new())? })
    }

    /// *Collective.* Returns `recall@k`, `ndcg@k`, `precision@k`, `map@k` and `mrr@k` of a model for
    /// each k of `cutoffs`, as means over users, and `coverage@k`, the fraction of the items that
    /// are among the first k of any of these users.
    pub fn metrics(&self, cluster: &Cluster, model: &MfModel, cutoffs: &[usize]) -> Result<Metrics> {
        let Self { validation, known } = self;
        let most = cutoffs.iter().copied().max().unwrap_or(0);
        let items = ItemFactors::of(model)?;
        let known_groups = known.shape().extent(0);
        let (w, arch) = (&model.user_factors, pulp::Arch::new());
        let [users, width] = w.shape().extents();
        // Sums are kept per group, so that the total does not depend on which worker added what.
        let sums = Accumulator::new(cluster, Vec::new(), |mut left: Vec<(usize, Vec<f64>)>, right| {
            left.extend(right);
            left
        });
        let all_items = items.factors.row_count();
        let listed = Accumulator::new(cluster, ListedItems::default(), ListedItems::joined);
        parallel_for!(
            cluster,
            for ([group], relevant) in validation {
                let mut factors = vec![[0.0; USERS_PER_GROUP]; width];
                for lane in 0..USERS_PER_GROUP {
                    // Indices beyond the last user of the model have no factors.
                    if group * USERS_PER_GROUP + lane < users && of(relevant, lane).next().is_some() {
                        let row = &w[group * USERS_PER_GROUP + lane];
                        factors.iter_mut().zip(row).for_each(|(all, factor)| all[lane] = *factor);
                    }
                }
                let nothing = Vec::new();
                let trained = if group < known_groups { &known[group] } else { &nothing };
                let best =
                    arch.dispatch(ScoringKernel { factors: &factors, items: &items, relevant, known: trained, most });
                let mut sum = Vec::new();
                let mut lists = ListedItems::new(cutoffs.len(), all_items);
                for (lane, best) in best.into_iter().enumerate() {
                    // Training items are never recommended, so they cannot be hits either.
                    let seen: Vec<u32> = of(trained, lane).collect();
                    let relevant: Vec<u32> =
                        of(relevant, lane).filter(|item| seen.binary_search(item).is_err()).collect();
                    if !relevant.is_empty() {
                        let best = best.sorted(most);
                        lists.insert(&best, cutoffs);
                        sum = added(sum, &user_metrics(&best, &relevant, cutoffs));
                    }
                }
                listed.add(lists);
                sums.add(vec![(group, sum)]);
            }
        )?;
        let (mut sums, listed) = (sums.take()?, listed.take()?);
        sums.sort_unstable_by_key(|(group, _)| *group);
        let sum = sums.iter().fold(Vec::new(), |sum, (_, more)| added(sum, more));
        let Some(count) = sum.first().copied() else { return Err(Error::NothingToRank.into()) };
        let mean = |at: usize| sum[at] / count;
        let mut metrics = Metrics::new();
        for (at, k) in cutoffs.iter().enumerate() {
            for (which, name) in PER_CUTOFF.iter().enumerate() {
                metrics.insert(format!("{name}@{k}"), mean(1 + PER_CUTOFF.len() * at + which));
            }
            metrics.insert(format!("coverage@{k}"), f64::from(listed.count(at)) / all_items.max(1) as f64);
        }
        Ok(metrics)
    }

    /// *Collective.* Returns the number of users with validation items.
    pub fn users(&self, cluster: &Cluster) -> Result<u64> {
        let mut mine = 0;
        self.validation.for_each(|_, relevant| {
            mine += (0..USERS_PER_GROUP).filter(|lane| of(relevant, *lane).next().is_some()).count() as u64;
        });
        Ok(cluster.all_gather(mine)?.into_iter().sum())
    }
}

/// *Collective.* Groups entries by users.
fn groups(entries: &DistArray<f32, 2>) -> Result<DistArray<Group, 1>> {
    let group = |[user, item]: [usize; 2], _| (user / USERS_PER_GROUP, ((user % USERS_PER_GROUP) as u32, item as u32));
    let grouped = entries.entries().group_by(group)?;
    let sorted = |_, mut group: Group| {
        group.sort_unstable();
        group
    };
    grouped.entries().map(sorted).materialize()
}

/// Items of one user of a group, ascending.
fn of(group: &Group, lane: usize) -> impl Iterator<Item = u32> {
    let start = group.partition_point(|(user, _)| (*user as usize) < lane);
    group[start..].iter().take_while(move |(user, _)| *user as usize == lane).map(|(_, item)| *item)
}

/// Adds two lists of sums element by element.
fn added(mut left: Vec<f64>, right: &[f64]) -> Vec<f64> {
    if left.is_empty() {
        return right.to_vec();
    }
    left.iter_mut().zip(right).for_each(|(left, right)| *left += right);
    left
}

/// Metrics of a user for each cutoff, in the order of [`user_metrics`].
const PER_CUTOFF: [&str; 5] = ["recall", "ndcg", "precision", "map", "mrr"];

/// Returns 1 (the user count), then the metrics for each k.
fn user_metrics(best: &[(usize, f32)], relevant: &[u32], cutoffs: &[usize]) -> Vec<f64> {
    let is_hit = |item: usize| u32::try_from(item).is_ok_and(|item| relevant.binary_search(&item).is_ok());
    let hits = (0..best.len()).filter(|index| is_hit(best[*index].0)).collect();
    let ranked = RankedHits::new(hits, relevant.len());
    let of = |k: usize| {
        [ranked.recall(k), ranked.ndcg(k), ranked.precision(k), ranked.average_precision(k), ranked.reciprocal_rank(k)]
    };
    std::iter::once(1.0).chain(cutoffs.iter().flat_map(|k| of(*k))).collect()
}

/// Items among the first k of any user, a bit each, for each k.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ListedItems(Vec<Vec<u64>>);

impl Element for ListedItems {}

impl ListedItems {
    fn new(cutoffs: usize, items: usize) -> Self {
        Self(vec![vec![0; items.div_ceil(64)]; cutoffs])
    }

    fn insert(&mut self, best: &[(usize, f32)], cutoffs: &[usize]) {
        for (listed, k) in self.0.iter_mut().zip(cutoffs) {
            for (item, _) in best.iter().take(*k) {
                listed[item / 64] |= 1 << (item % 64);
            }
        }
    }

    fn joined(mut self, other: Self) -> Self {
        if self.0.is_empty() {
            return other;
        }
        let bits = self.0.iter_mut().flatten().zip(other.0.iter().flatten());
        bits.for_each(|(left, right)| *left |= right);
        self
    }

    fn count(&self, cutoff: usize) -> u32 {
        self.0.get(cutoff).into_iter().flatten().map(|bits| bits.count_ones()).sum()
    }
}

/// Factors and biases of all items, on every peer.
#[derive(Debug)]
pub(super) struct ItemFactors {
    pub(super) factors: DenseArray<f32, 2>,
    pub(super) side: DenseArray<f32, 2>,
}

impl ItemFactors {
    /// *Collective.* Copies factors and biases to every peer.
    pub(super) fn of(model: &MfModel) -> Result<Self> {
        let all = |array: &DistArray<f32, 2>| array.lock("ranking")?.replicate(|_| true);
        Ok(Self { factors: all(&model.item_factors)?, side: all(&model.item_state)? })
    }

    /// Returns biases of 0.
    pub(super) fn zero_side(&self) -> Result<DenseArray<f32, 2>> {
        Ok(DenseArray::filled(self.side.shape(), 0.0)?)
    }
}

/// SIMD kernel that finds the best items of a group of users.
pub(super) struct ScoringKernel<'a> {
    /// By factor: its value for each user of the group.
    pub(super) factors: &'a [[f32; USERS_PER_GROUP]],
    pub(super) items: &'a ItemFactors,
    /// Users without an entry are left out.
    pub(super) relevant: &'a Group,
    /// Items that are not ranked.
    pub(super) known: &'a Group,
    pub(super) most: usize,
}

impl pulp::WithSimd for ScoringKernel<'_> {
    type Output = [TopKCandidates; USERS_PER_GROUP];

    #[inline(always)] // so that it is compiled for the registers of the caller
    fn with_simd<S: pulp::Simd>(self, simd: S) -> [TopKCandidates; USERS_PER_GROUP] {
        let Self { factors, items, relevant, known, most } = self;
        let mut best: [TopKCandidates; USERS_PER_GROUP] = std::array::from_fn(|_| TopKCandidates::default());
        let asked: [bool; USERS_PER_GROUP] = std::array::from_fn(|lane| of(relevant, lane).next().is_some());
        let count = items.factors.row_count();
        for first in (0..count).step_by(ITEMS_PER_BLOCK) {
            // The last block is padded with the last item; the extra scores are ignored.
            let rows: [&[f32]; ITEMS_PER_BLOCK] =
                std::array::from_fn(|at| &items.factors.row((first + at).min(count - 1))[..factors.len()]);
            let mut scores = [[0.0_f32; USERS_PER_GROUP]; ITEMS_PER_BLOCK];
            for vector in 0..USERS_PER_GROUP / S::F32_LANES {
                let mut sums = [simd.splat_f32s(0.0); ITEMS_PER_BLOCK];
                for (factor, users) in factors.iter().enumerate() {
                    let users = S::as_simd_f32s(users).0[vector];
                    for at in 0..ITEMS_PER_BLOCK {
                        sums[at] = simd.mul_add_e_f32s(simd.splat_f32s(rows[at][factor]), users, sums[at]);
                    }
                }
                for (scores, sum) in scores.iter_mut().zip(sums) {
                    S::as_mut_simd_f32s(scores).0[vector] = sum;
                }
            }
            for (item, scores) in (first..count.min(first + ITEMS_PER_BLOCK)).zip(&scores) {
                let bias = items.side.row(item)[0];
                for lane in 0..USERS_PER_GROUP {
                    let score = scores[lane] + bias;
                    let index = (lane as u32, item as u32);
                    if asked[lane] && !best[lane].is_below(score) && known.binary_search(&index).is_err() {
                        best[lane].offer(most, score, item);
                    }
                }
            }
        }
        best
    }
}
