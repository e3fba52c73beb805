//! Ratings for the benchmark of staleness: synthetic ones or a file, divided among workers.

use hemiola::array::read::{Csv, CsvHeader};
use hemiola::array::synthetic::mf::SyntheticMf;
use hemiola::prelude::*;

type Matrix = DistArray<f32, 2>;

/// Ratings of this peer, by worker, in an order that mixes users. With `by_user` all ratings of a
/// user go to one worker.
pub(super) fn divide(ratings: &Matrix, workers: usize, by_user: bool) -> Vec<Vec<([usize; 2], f32)>> {
    let mut all = Vec::new();
    ratings.for_each(|key, rating| all.push((key, *rating)));
    all.sort_by_key(|([user, item], _)| ((user * 31 + item * 17) % 101, *user, *item));
    if by_user {
        let of = |worker: usize| all.iter().filter(move |([user, _], _)| user % workers == worker).copied();
        return (0..workers).map(|worker| of(worker).collect()).collect();
    }
    (0..workers).map(|worker| all.iter().skip(worker).step_by(workers).copied().collect()).collect()
}

/// Synthetic ratings of a noisy matrix of rank 8. Few users and items have many ratings, most have
/// few.
pub(super) fn skewed_ratings(cluster: &Cluster) -> hemiola_cluster::Result<Matrix> {
    let (users, items) = (2000, 1000);
    let mut cells = vec![f32::NAN; users * items];
    let set = SyntheticMf { users, items, entries: 200_000, rank: 8, seed: 1, ..SyntheticMf::default() };
    for ([user, item], rating) in set.generator().entries() {
        cells[user * items + item] = rating;
    }
    let all = cluster.from_fn([users, items], |[user, item]| cells[user * items + item])?;
    all.entries().filter(|_, rating| !rating.is_nan()).materialize()
}

/// Reads lines of user, item and rating, separated by tabs.
pub(super) fn read_ratings(cluster: &Cluster, path: &str) -> hemiola_cluster::Result<Matrix> {
    let options = Csv::new().separator("\t").header(CsvHeader::Absent);
    let entry = |(user, item, rating): (usize, usize, f32)| ([user, item], rating);
    cluster.read_csv_with(options, path, entry)?.materialize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratings_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ratings.tsv");
        std::fs::write(&path, "1\t7\t4.5\n3\t2\t1\n").unwrap();
        let read = |cluster: &Cluster| read_ratings(cluster, path.to_str().unwrap())?.collect();
        let ratings = hemiola_cluster::standalone(2).run(read).unwrap();
        assert_eq!(ratings[1], [([1, 7], 4.5), ([3, 2], 1.0)]);
    }
}
