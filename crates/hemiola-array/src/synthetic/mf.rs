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
///
/// ```
/// use hemiola_array::synthetic::SyntheticMf;
/// let ratings = SyntheticMf { users: 60, items: 40, entries: 1200, ..SyntheticMf::default() };
/// assert_eq!(ratings.generator().entries().count(), 1200);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticMf {
    /// Number of users, the rows of the matrix.
    pub users: usize,
    /// Number of items, the columns of the matrix.
    pub items: usize,
    /// Number of ratings. All cells are rated if there are fewer of them.
    pub entries: usize,
    /// Rank of the matrix, without the noise.
    pub rank: usize,
    /// Standard deviation of the noise.
    pub noise: f64,
    /// Exponent of the power law over users; 0 is uniform.
    pub user_skew: f64,
    /// Exponent of the power law over items; 0 is uniform.
    pub item_skew: f64,
    /// Random seed of factors, noise and choices.
    pub seed: u64,
}

impl Default for SyntheticMf {
    /// 50,000 ratings of 1,000 users and 500 items, of rank 8.
    fn default() -> Self {
        Self { users: 1000, items: 500, entries: 50_000, rank: 8, noise: 0.1, user_skew: 0.6, item_skew: 0.8, seed: 0 }
    }
}

impl SyntheticMf {
    /// Draws the truth and returns the generator of the ratings.
    #[must_use]
    pub fn generator(self) -> MfGenerator {
        let Self { users, items, entries, rank, seed, .. } = self;
        let activity = Zipf::new(users, self.user_skew, seed);
        let offset = stream_rng(seed, RandomStream::Count).random_f64(0, 0);
        let counts = activity.apportion(entries, items, offset);
        let popularity = Zipf::new(items, self.item_skew, seed ^ RandomStream::Order as u64);
        let mut set = MfGenerator { set: self, activity, counts, popularity, item_factors: None };
        let factors = items.saturating_mul(rank);
        if factors <= CACHED_FACTORS && items < entries {
            set.item_factors =
                Some((0..factors).map(|index| set.factor_cell(RandomStream::OtherTruth, index)).collect());
        }
        set
    }
}

/// Generator of the ratings of a [`SyntheticMf`].
#[derive(Clone, Debug)]
pub struct MfGenerator {
    set: SyntheticMf,
    /// Power law over users.
    activity: Zipf,
    /// Number of ratings by activity rank of the user.
    counts: Vec<usize>,
    popularity: Zipf,
    /// True item factors, item by item, unless there are too many to cache.
    item_factors: Option<Arc<[f64]>>,
}

/// Maximum number of item factors that are cached instead of drawn for every rating: 32 MiB.
const CACHED_FACTORS: usize = 4 << 20;

/// Mean of all ratings.
pub const MEAN_RATING: f64 = 3.5;

impl MfGenerator {
    /// Returns the parameters of the set.
    #[must_use]
    pub fn set(&self) -> &SyntheticMf {
        &self.set
    }

    /// Shape of the matrix: users by items.
    #[must_use]
    pub fn shape(&self) -> Shape<2> {
        Shape::new([self.set.users, self.set.items])
    }

    /// True factors: users by rank and items by rank.
    pub fn truth(&self) -> Result<(DenseArray<f32, 2>, DenseArray<f32, 2>)> {
        let factor = |rows, stream| {
            let shape = Shape::new([rows, self.set.rank]);
            DenseArray::from_fn(shape, |index| self.factor_cell(stream, index) as f32)
        };
        Ok((factor(self.set.users, RandomStream::Truth)?, factor(self.set.items, RandomStream::OtherTruth)?))
    }

    /// Element of a factor, scaled so that the product of two rows has variance 1.
    fn factor_cell(&self, stream: RandomStream, index: usize) -> f64 {
        let deviation = libm::pow(self.set.rank as f64, -0.25);
        stream_rng(self.set.seed, stream).normal(index as u64, 0, 0.0, deviation)
    }

    /// Generates the ratings of one user, with items in ascending order.
    #[must_use]
    pub fn row(&self, user: usize) -> Vec<(usize, f32)> {
        let SyntheticMf { rank, seed, .. } = self.set;
        let count = self.counts[self.activity.rank(user)];
        let items = self.popularity.sample_distinct(stream_rng(seed, RandomStream::Choice), user, count);
        let factor: Vec<f64> = (0..rank).map(|k| self.factor_cell(RandomStream::Truth, user * rank + k)).collect();
        let noise = stream_rng(seed, RandomStream::Noise);
        let rating = |item: usize| {
            let first = item * rank;
            let product: f64 = match &self.item_factors {
                Some(cached) => factor.iter().zip(&cached[first..]).map(|(user, item)| user * item).sum(),
                None => factor
                    .iter()
                    .zip(first..)
                    .map(|(user, at)| user * self.factor_cell(RandomStream::OtherTruth, at))
                    .sum(),
            };
            (MEAN_RATING + product + noise.normal(user as u64, item as u64, 0.0, self.set.noise)) as f32
        };
        items.into_iter().map(|item| (item, rating(item))).collect()
    }

    /// Generates all ratings, user by user.
    pub fn entries(&self) -> impl Iterator<Item = ([usize; 2], f32)> + '_ {
        (0..self.set.users)
            .flat_map(|user| self.row(user).into_iter().map(move |(item, rating)| ([user, item], rating)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_and_drawn_factors_give_the_same_ratings() {
        let set =
            SyntheticMf { users: 30, items: 20, entries: 200, rank: 5, noise: 0.3, seed: 4, ..Default::default() };
        let cached = set.generator();
        let drawn = MfGenerator { item_factors: None, ..cached.clone() };
        assert!(cached.item_factors.is_some());
        let bits = |set: &MfGenerator| set.entries().map(|(key, rating)| (key, rating.to_bits())).collect::<Vec<_>>();
        assert_eq!(bits(&cached), bits(&drawn));
    }
}
