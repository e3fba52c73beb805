//! Recommendations for many users, and similar items of many items, at once.
//!
//! Factors of all items are copied to this process once. Users are then scored in groups, as for
//! the [ranking metrics](super::RankingEvaluator), by all workers. **Invariant:** the memory beyond
//! the factors of items is that of one batch, and lists do not depend on the batch or the workers.

use super::model::{FetchedRows, MfModel};
use super::ranking::{Group, ItemFactors, ScoringKernel, USERS_PER_GROUP};
use super::top_k::TopKCandidates;
use hemiola_array::DenseArray;
use hemiola_cluster::{Cluster, Result};

/// Smallest length of factors that similarity divides by.
const MIN_LENGTH: f32 = f32::MIN_POSITIVE;

/// Model prepared to recommend items to many users.
#[derive(Debug)]
pub struct BatchRecommender<'a> {
    cluster: &'a Cluster,
    model: &'a MfModel,
    items: ItemFactors,
}

/// Items with their scores, best first.
pub type RankedItems = Vec<(usize, f32)>;

impl<'a> BatchRecommender<'a> {
    /// *Collective.* Copies the factors of all items to every peer.
    pub fn new(cluster: &'a Cluster, model: &'a MfModel) -> Result<Self> {
        Ok(Self { cluster, model, items: ItemFactors::of(model)? })
    }

    /// *Collective.* Returns the best `count` items of each user with their predictions, best first.
    /// `seen` returns items that are excluded for a user, ascending.
    pub fn recommend<'s>(
        &self,
        users: &[usize],
        count: usize,
        seen: &(dyn Fn(usize) -> &'s [u32] + Sync),
    ) -> Result<Vec<RankedItems>> {
        let Self { cluster, model, items } = self;
        let rows = FetchedRows::fetch(cluster, &model.user_factors, &model.user_state, users.iter().copied())?;
        let factors = |user: usize| rows.get(user).0;
        let mut lists = self.ranked(items, users, count, &factors, seen)?;
        for (user, list) in users.iter().zip(&mut lists) {
            let base = model.mean + rows.get(*user).1;
            for (_, score) in list.iter_mut() {
                *score = model.loss().prediction(base + *score);
            }
        }
        Ok(lists)
    }

    /// *Collective.* Returns the `count` items most similar to each of these items, by cosine
    /// similarity of factors, most similar first.
    pub fn similar(&self, wanted: &[usize], count: usize) -> Result<Vec<RankedItems>> {
        wanted.iter().try_for_each(|item| self.model.check_item(*item))?;
        let directions = ItemFactors { factors: directions(&self.items.factors), side: self.items.zero_side()? };
        let own: Vec<[u32; 1]> = (0..self.items.factors.row_count()).map(|item| [item as u32]).collect();
        self.ranked(&directions, wanted, count, &|item| directions.factors.row(item), &|item| &own[item])
    }

    /// Ranks all items for rows of factors; workers share the groups of rows.
    fn ranked<'f, 's>(
        &self,
        items: &ItemFactors,
        rows: &[usize],
        count: usize,
        factors: &(dyn Fn(usize) -> &'f [f32] + Sync),
        seen: &(dyn Fn(usize) -> &'s [u32] + Sync),
    ) -> Result<Vec<RankedItems>> {
        let (width, arch) = (self.model.item_factors.shape().extent(1), pulp::Arch::new());
        let groups: Vec<&[usize]> = rows.chunks(USERS_PER_GROUP).collect();
        let ranked = self.cluster.each_worker(|worker| {
            let mut lists: Vec<(usize, RankedItems)> = Vec::new();
            for (number, group) in groups.iter().enumerate().skip(worker.index()).step_by(worker.count()) {
                let mut lanes = vec![[0.0; USERS_PER_GROUP]; width];
                let (mut asked, mut known) = (Group::new(), Group::new());
                for (lane, row) in group.iter().enumerate() {
                    lanes.iter_mut().zip(factors(*row)).for_each(|(all, factor)| all[lane] = *factor);
                    asked.push((lane as u32, 0));
                    known.extend(seen(*row).iter().map(|item| (lane as u32, *item)));
                }
                let (relevant, known) = (&asked, &known);
                let best: [TopKCandidates; USERS_PER_GROUP] =
                    arch.dispatch(ScoringKernel { factors: &lanes, items, relevant, known, most: count });
                let first = number * USERS_PER_GROUP;
                let of_group = best.into_iter().take(group.len()).enumerate();
                lists.extend(of_group.map(|(lane, best)| (first + lane, best.sorted(count))));
            }
            lists
        })?;
        let mut lists: Vec<(usize, RankedItems)> = ranked.into_iter().flatten().collect();
        lists.sort_unstable_by_key(|(row, _)| *row);
        Ok(lists.into_iter().map(|(_, list)| list).collect())
    }
}

/// Scales rows to length 1.
fn directions(factors: &DenseArray<f32, 2>) -> DenseArray<f32, 2> {
    let mut scaled = factors.clone();
    for row in scaled.rows_mut() {
        let length = row.iter().map(|factor| factor * factor).sum::<f32>().sqrt().max(MIN_LENGTH);
        for factor in row.iter_mut() {
            *factor /= length;
        }
    }
    scaled
}
