//! Metrics of a ranked list of items: recall, precision, NDCG, average precision and reciprocal
//! rank of its first k items.
//!
//! A list is one user's. Means over users have the names `recall@k`, `precision@k`, `ndcg@k`,
//! `map@k` (mean average precision) and `mrr@k` (mean reciprocal rank).

/// Relevant items in the ranked list of a user.
///
/// ```
/// use hemiola_models::metrics::RankedHits;
/// // The second and the third item of the list are relevant, and so is one that is not in it.
/// let ranking = RankedHits::new(vec![1, 2], 3);
/// assert_eq!(ranking.recall(2), 0.5);
/// assert_eq!(ranking.average_precision(3), (1.0 / 2.0 + 2.0 / 3.0) / 3.0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedHits {
    /// Positions of the relevant items in the list, from 0, ascending.
    positions: Vec<usize>,
    /// Number of relevant items, in the list or not.
    relevant: usize,
}

impl RankedHits {
    /// Creates the list from the ascending positions of its relevant items, counted from 0, and the
    /// number of all relevant items.
    #[must_use]
    pub fn new(positions: Vec<usize>, relevant: usize) -> Self {
        Self { positions, relevant }
    }

    /// Positions of the hits among the first `k`.
    fn first(&self, k: usize) -> &[usize] {
        &self.positions[..self.positions.partition_point(|position| *position < k)]
    }

    /// Largest possible number of hits among the first `k`.
    fn most(&self, k: usize) -> usize {
        self.relevant.min(k)
    }

    /// Returns recall@k: the hits among the first `k`, divided by the largest possible number of
    /// them, `min(k, relevant)`. A perfect list has recall 1 at any k.
    #[must_use]
    pub fn recall(&self, k: usize) -> f64 {
        self.first(k).len() as f64 / self.most(k).max(1) as f64
    }

    /// Returns precision@k: the hits among the first `k`, divided by `k`.
    #[must_use]
    pub fn precision(&self, k: usize) -> f64 {
        self.first(k).len() as f64 / k.max(1) as f64
    }

    /// Returns NDCG@k with binary relevance: `Σ 1 / log2(rank + 1)` over the ranks of the hits,
    /// counted from 1, divided by its value with all relevant items ranked first.
    #[must_use]
    pub fn ndcg(&self, k: usize) -> f64 {
        let worth = |position: usize| 1.0 / ((position + 2) as f64).log2();
        let ideal: f64 = (0..self.most(k)).map(worth).sum();
        let gained = self.first(k).iter().fold(0.0, |sum, position| sum + worth(*position));
        if ideal > 0.0 { gained / ideal } else { 0.0 }
    }

    /// Returns the average precision at k: the sum over hits of the precision at their rank,
    /// divided by the largest possible number of hits.
    #[must_use]
    pub fn average_precision(&self, k: usize) -> f64 {
        let precision = |(hits, position): (usize, &usize)| (hits + 1) as f64 / (position + 1) as f64;
        self.first(k).iter().enumerate().map(precision).sum::<f64>() / self.most(k).max(1) as f64
    }

    /// Returns the reciprocal of the rank of the first hit, counted from 1; 0 without a hit among
    /// the first `k`.
    #[must_use]
    pub fn reciprocal_rank(&self, k: usize) -> f64 {
        self.first(k).first().map_or(0.0, |position| 1.0 / (position + 1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_those_of_their_definitions() {
        let all = |ranking: &RankedHits, k| {
            let found = [ranking.recall(k), ranking.precision(k), ranking.ndcg(k), ranking.average_precision(k)];
            [&found[..], &[ranking.reciprocal_rank(k)]].concat()
        };
        let close = |found: Vec<f64>, expected: [f64; 5]| {
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
        };
        let ranking = RankedHits::new(vec![1, 2, 7], 4);
        let log = |rank: f64| 1.0 / (rank + 1.0).log2();
        close(all(&ranking, 1), [0.0; 5]);
        let ndcg = (log(2.0) + log(3.0)) / (log(1.0) + log(2.0) + log(3.0) + log(4.0));
        close(all(&ranking, 5), [0.5, 0.4, ndcg, (1.0 / 2.0 + 2.0 / 3.0) / 4.0, 0.5]);
        close(all(&RankedHits::new(vec![0, 1], 2), 2), [1.0; 5]);
        close(all(&RankedHits::new(vec![0, 1], 2), 10), [1.0, 0.2, 1.0, 1.0, 1.0]);
        close(all(&RankedHits::new(Vec::new(), 3), 4), [0.0; 5]);
        close(all(&ranking, 0), [0.0; 5]);
    }
}
