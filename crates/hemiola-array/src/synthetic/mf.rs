//! Ratings of a low-rank matrix, with power laws over users and items.
//!
//! A rating is `mean + w[user] · h[item] + noise`, so the best possible RMSE on unseen ratings is
//! the standard deviation of the noise. Users and items follow power laws, as in real rating data.
//! A balanced partition or `shuffle_keys` has to cope with this skew.

use super::zipf::Zipf;
use super::{RandomStream, stream_rng};
use crate::{DenseArray, Result, Shape};
use std::sync::Arc;

/// Parameters of a synthetic rating matrix.
#[derive(Clone, Debug)]
pub struct SyntheticMf {
    users: u64,
    items: u64,
    entries: u64,
    rank: u64,
    noise: f64,
    seed: u64,
    /// Power law over users.
    activity: Zipf,
    /// Number of ratings by activity rank of the user.
    counts: Vec<u64>,
    popularity: Zipf,
    /// True item factors, item by item, unless there are too many to cache.
    item_factors: Option<Arc<[f64]>>,
}

/// Maximum number of item factors that are cached instead of drawn for every rating: 32 MiB.
const CACHED_FACTORS: u64 = 4 << 20;

/// Mean of all ratings.
pub const MEAN_RATING: f64 = 3.5;

impl SyntheticMf {
    /// Creates `entries` ratings (all, if there are fewer) of a matrix of rank `rank`, with noise
    /// of standard deviation 0.1.
    #[must_use]
    pub fn new(users: u64, items: u64, entries: u64, rank: u64, seed: u64) -> Self {
        let (activity, counts) = activity(users, items, entries, 0.6, seed);
        let popularity = Zipf::new(items, 0.8, seed ^ RandomStream::Order as u64);
        let mut set =
            Self { users, items, entries, rank, noise: 0.1, seed, activity, counts, popularity, item_factors: None };
        let factors = items.saturating_mul(rank);
        if factors <= CACHED_FACTORS && items < entries {
            set.item_factors =
                Some((0..factors).map(|index| set.factor_cell(RandomStream::OtherTruth, index)).collect());
        }
        set
    }

    /// Sets the standard deviation of the noise. Default: 0.1.
    #[must_use]
    pub fn noise(mut self, deviation: f64) -> Self {
        self.noise = deviation;
        self
    }

    /// Sets the exponents of the power laws of users and items; 0 is uniform. Default: 0.6 and 0.8.
    #[must_use]
    pub fn skew(mut self, users: f64, items: f64) -> Self {
        (self.activity, self.counts) = activity(self.users, self.items, self.entries, users, self.seed);
        self.popularity = Zipf::new(self.items, items, self.seed ^ RandomStream::Order as u64);
        self
    }

    /// Shape of the matrix: users by items.
    #[must_use]
    pub fn shape(&self) -> Shape<2> {
        Shape::new([self.users, self.items])
    }

    /// True factors: users by rank and items by rank.
    pub fn truth(&self) -> Result<(DenseArray<f32, 2>, DenseArray<f32, 2>)> {
        let factor = |rows, stream| {
            let shape = Shape::new([rows, self.rank]);
            DenseArray::from_fn(shape, |index| self.factor_cell(stream, index) as f32)
        };
        Ok((factor(self.users, RandomStream::Truth)?, factor(self.items, RandomStream::OtherTruth)?))
    }

    /// Element of a factor, scaled so that the product of two rows has variance 1.
    fn factor_cell(&self, stream: RandomStream, index: u64) -> f64 {
        stream_rng(self.seed, stream).normal(index, 0, 0.0, libm::pow(self.rank as f64, -0.25))
    }

    /// Generates the ratings of one user, with items in ascending order.
    #[must_use]
    pub fn row(&self, user: u64) -> Vec<(u64, f32)> {
        let count = self.counts[self.activity.rank(user)] as usize;
        let items = self.popularity.sample_distinct(stream_rng(self.seed, RandomStream::Choice), user, count);
        let factor: Vec<f64> =
            (0..self.rank).map(|k| self.factor_cell(RandomStream::Truth, user * self.rank + k)).collect();
        let noise = stream_rng(self.seed, RandomStream::Noise);
        let rating = |item: u64| {
            let first = item * self.rank;
            let product: f64 = match &self.item_factors {
                Some(cached) => factor.iter().zip(&cached[first as usize..]).map(|(user, item)| user * item).sum(),
                None => factor
                    .iter()
                    .zip(first..)
                    .map(|(user, at)| user * self.factor_cell(RandomStream::OtherTruth, at))
                    .sum(),
            };
            (MEAN_RATING + product + noise.normal(user, item, 0.0, self.noise)) as f32
        };
        items.into_iter().map(|item| (item, rating(item))).collect()
    }

    /// Generates all ratings, user by user.
    pub fn entries(&self) -> impl Iterator<Item = ([u64; 2], f32)> + '_ {
        (0..self.users).flat_map(|user| self.row(user).into_iter().map(move |(item, rating)| ([user, item], rating)))
    }
}

/// Power law over users, and the number of ratings by rank: exactly `entries` in total, if there is
/// room.
fn activity(users: u64, items: u64, entries: u64, skew: f64, seed: u64) -> (Zipf, Vec<u64>) {
    let activity = Zipf::new(users, skew, seed);
    let counts = activity.apportion(entries, items, stream_rng(seed, RandomStream::Count).random_f64(0, 0));
    (activity, counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_and_drawn_factors_give_the_same_ratings() {
        let cached = SyntheticMf::new(30, 20, 200, 5, 4).noise(0.3);
        let drawn = SyntheticMf { item_factors: None, ..cached.clone() };
        assert!(cached.item_factors.is_some());
        let bits = |set: &SyntheticMf| set.entries().map(|(key, rating)| (key, rating.to_bits())).collect::<Vec<_>>();
        assert_eq!(bits(&cached), bits(&drawn));
    }
}
