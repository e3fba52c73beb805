//! Ratings of a low-rank matrix, with busy users and popular items.
//!
//! A rating is `mean + w[user] · h[item] + noise`, so the best possible root mean squared error on unseen ratings is the
//! deviation of the noise. Users and items follow power laws, as in real rating data: the imbalance that a balanced cut or
//! `shuffle_keys` has to deal with.

use super::zipf::Zipf;
use super::{Part, values};
use crate::{Dense, Result, Shape};
use std::sync::Arc;

/// The parameters of a set of ratings. Fields may be changed before the first row is made.
#[derive(Clone, Debug)]
pub struct Mf {
    users: u64,
    items: u64,
    entries: u64,
    rank: u64,
    noise: f64,
    seed: u64,
    /// How busy users are.
    activity: Zipf,
    /// Ratings by rank of the user.
    counts: Vec<u64>,
    popularity: Zipf,
    /// The true factors of items, item by item, unless they are too many to be kept.
    item_factors: Option<Arc<[f64]>>,
}

/// Factors of items that are kept rather than drawn anew for every rating: 32 MiB of them.
const KEPT_FACTORS: u64 = 4 << 20;

/// The mean of all ratings.
pub const MEAN: f64 = 3.5;

impl Mf {
    /// `entries` ratings (all, if there are fewer) of a matrix of rank `rank`, with noise of deviation 0.1.
    #[must_use]
    pub fn new(users: u64, items: u64, entries: u64, rank: u64, seed: u64) -> Self {
        let (activity, counts) = activity(users, items, entries, 0.6, seed);
        let popularity = Zipf::new(items, 0.8, seed ^ Part::Order as u64);
        let mut made =
            Self { users, items, entries, rank, noise: 0.1, seed, activity, counts, popularity, item_factors: None };
        let factors = items.saturating_mul(rank);
        if factors <= KEPT_FACTORS && items < entries {
            made.item_factors = Some((0..factors).map(|index| made.cell(Part::OtherTruth, index)).collect());
        }
        made
    }

    /// The deviation of the noise. Default: 0.1.
    #[must_use]
    pub fn noise(mut self, deviation: f64) -> Self {
        self.noise = deviation;
        self
    }

    /// The exponents of the power laws of users and items. 0 is uniform. Default: 0.6 and 0.8.
    #[must_use]
    pub fn skew(mut self, users: f64, items: f64) -> Self {
        (self.activity, self.counts) = activity(self.users, self.items, self.entries, users, self.seed);
        self.popularity = Zipf::new(self.items, items, self.seed ^ Part::Order as u64);
        self
    }

    /// Users and items.
    #[must_use]
    pub fn shape(&self) -> Shape<2> {
        Shape::new([self.users, self.items])
    }

    /// The true factors: users by rank and items by rank.
    pub fn truth(&self) -> Result<(Dense<f32, 2>, Dense<f32, 2>)> {
        let factor = |rows, part| {
            let shape = Shape::new([rows, self.rank]);
            Dense::from_fn(shape, |index| self.cell(part, index) as f32)
        };
        Ok((factor(self.users, Part::Truth)?, factor(self.items, Part::OtherTruth)?))
    }

    /// An element of a factor: the product of two rows has variance 1.
    fn cell(&self, part: Part, index: u64) -> f64 {
        values(self.seed, part).normal(index, 0, 0.0, libm::pow(self.rank as f64, -0.25))
    }

    /// The ratings of one user: items in ascending order.
    #[must_use]
    pub fn row(&self, user: u64) -> Vec<(u64, f32)> {
        let count = self.counts[self.activity.rank(user)] as usize;
        let items = self.popularity.draw_distinct(values(self.seed, Part::Choice), user, count);
        let factor: Vec<f64> = (0..self.rank).map(|k| self.cell(Part::Truth, user * self.rank + k)).collect();
        let noise = values(self.seed, Part::Noise);
        let rating = |item: u64| {
            let first = item * self.rank;
            let product: f64 = match &self.item_factors {
                Some(kept) => factor.iter().zip(&kept[first as usize..]).map(|(user, item)| user * item).sum(),
                None => factor.iter().zip(first..).map(|(user, at)| user * self.cell(Part::OtherTruth, at)).sum(),
            };
            (MEAN + product + noise.normal(user, item, 0.0, self.noise)) as f32
        };
        items.into_iter().map(|item| (item, rating(item))).collect()
    }

    /// All ratings, user by user.
    pub fn entries(&self) -> impl Iterator<Item = ([u64; 2], f32)> + '_ {
        (0..self.users).flat_map(|user| self.row(user).into_iter().map(move |(item, rating)| ([user, item], rating)))
    }
}

/// How busy users are, and the ratings of each rank: exactly as many as asked for, if there is room.
fn activity(users: u64, items: u64, entries: u64, skew: f64, seed: u64) -> (Zipf, Vec<u64>) {
    let activity = Zipf::new(users, skew, seed);
    let counts = activity.deal(entries, items, values(seed, Part::Count).unit(0, 0));
    (activity, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_that_are_kept_give_the_ratings_of_those_that_are_drawn() {
        let kept = Mf::new(30, 20, 200, 5, 4).noise(0.3);
        let drawn = Mf { item_factors: None, ..kept.clone() };
        assert!(kept.item_factors.is_some());
        let bits = |set: &Mf| set.entries().map(|(key, rating)| (key, rating.to_bits())).collect::<Vec<_>>();
        assert_eq!(bits(&kept), bits(&drawn));
    }
}
