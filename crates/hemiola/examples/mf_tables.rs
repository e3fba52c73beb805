//! Matrix factorization on tables: data-parallel, every worker at its own pace.
//!
//! Ratings are divided among workers and stay where they are; both factors are tables. For each batch a worker fetches the rows
//! that its ratings need, sums their gradients, and adds those. How stale rows may be, what shards do with gradients, and how much is sent ahead of
//! need are flags, so that their effect can be seen. With `--keep true` rows of users stay with the worker that has all their ratings, and take steps of plain gradient descent.
//!
//! `cargo run --release --example mf_tables -- --staleness 2 --procedure adarevision --step 0.1`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/mf_tables --staleness 2 --budget 200`, with `--servers 1` if others are to hold the tables.
//! `--data FILE` reads lines of user, item and rating, separated by tabs. `--profile FILE` writes what one peer computes, for `hemiola simulate train mf --profile`.

mod paced;

use hemiola::array::read::{Csv, Header};
use hemiola::array::synthetic::mf::Mf;
use hemiola::cluster::Worker;
use hemiola::loops::Profile;
use hemiola::loops::profile::Follows;
use hemiola::prelude::*;
use hemiola::tables::{Defaults, Table, TableWorker};
use paced::{Batch, Epoch, Flags, Work};
use std::collections::BTreeMap;

const LAMBDA: f32 = 0.01;

fn main() -> hemiola::Result<()> {
    let flags = defaults().parse(std::env::args().skip(1))?;
    hemiola::run(|cluster| {
        let ratings = match &flags.data {
            Some(path) => read(cluster, path)?,
            None => skewed(cluster)?,
        };
        let epochs = train(cluster, &ratings, &flags)?;
        if let Some(path) = &flags.profile {
            let text = profile(cluster, &ratings, &flags, &epochs)?;
            std::fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        }
        paced::tell(cluster, &flags, "rmse", &epochs, |loss| (loss / ratings.len() as f64).sqrt())
    })
}

fn defaults() -> Flags {
    Flags::new("adarevision", 0.1, 16)
}

type Matrix = DistArray<f32, 2>;

/// Trains: of each epoch, the squared errors of ratings when they were used.
fn train(cluster: &Cluster, ratings: &Matrix, flags: &Flags) -> hemiola::Result<Vec<Epoch>> {
    let [users, items] = ratings.shape().extents();
    let table = |name: &str, rows, seed| {
        // Products of rows begin around 1, whatever the width.
        let defaults = Defaults::Uniform { seed, low: 0.0, high: 2.0 / (flags.width as f64).sqrt() };
        flags.descends(cluster.table::<f32>(name).rows(rows).width(flags.width).defaults(defaults))?.build()
    };
    let users = if flags.keep { None } else { Some(table("users", users, 1)?) };
    let items = table("items", items, 2)?;
    let mine = divided(ratings, cluster.workers(), flags.keep);
    paced::train(cluster, flags, &Factorization { users, items, mine, flags })
}

/// What one peer has computed, as a profile: rows of users stay, those of items would travel or be served.
fn profile(cluster: &Cluster, ratings: &Matrix, flags: &Flags, epochs: &[Epoch]) -> hemiola::Result<String> {
    if cluster.size() > 1 {
        return Err("`--profile` is of one peer; run it without a launcher".into());
    }
    let row = |name, dimension| Follows { name, dimension, width: flags.width as u64, cell_bytes: size_of::<f32>() };
    let mut profile = Profile::by_hand("matrix factorization on tables", ratings, &[row("users", 0), row("items", 1)])?;
    let mut start = 0.0;
    for epoch in epochs {
        let share = ratings.len() / epoch.computing.len() as u64;
        let workers: Vec<(u64, f64)> = epoch.computing.iter().map(|computing| (share, *computing)).collect();
        profile.add_pass(epoch.seconds - start, &workers);
        start = epoch.seconds;
    }
    Ok(profile.to_json())
}

struct Factorization<'f> {
    /// Unless rows of users stay with their workers.
    users: Option<Table<f32>>,
    items: Table<f32>,
    /// By worker.
    mine: Vec<Vec<([u64; 2], f32)>>,
    flags: &'f Flags,
}

struct Hands<'a> {
    users: Users<'a>,
    items: TableWorker<'a, f32>,
    ratings: &'a [([u64; 2], f32)],
}

/// Where rows of users are.
enum Users<'a> {
    Served(TableWorker<'a, f32>),
    /// By user.
    Kept(BTreeMap<u64, Vec<f32>>),
}

impl Work for Factorization<'_> {
    type Hands<'a>
        = Hands<'a>
    where
        Self: 'a;

    fn begin(&self, worker: Worker) -> hemiola::Result<Hands<'_>> {
        let ratings = &self.mine[worker.index()][..];
        let users = if let Some(users) = &self.users {
            Users::Served(users.worker(worker)?)
        } else {
            // Products of rows begin around 1, as those from tables do.
            let row = vec![1.0 / (self.flags.width as f32).sqrt(); self.flags.width];
            Users::Kept(ratings.iter().map(|([user, _], _)| (*user, row.clone())).collect())
        };
        Ok(Hands { users, items: self.items.worker(worker)?, ratings })
    }

    fn batch(&self, hands: &mut Hands<'_>, batch: Batch) -> hemiola::Result<f64> {
        let (width, factor) = (self.flags.width, self.flags.factor(batch.epoch));
        let ratings = &hands.ratings[batch.of(hands.ratings.len())];
        let mut items = Factors::fetch(&mut hands.items, width, ratings.iter().map(|([_, item], _)| *item))?;
        let mut loss = 0.0;
        match &mut hands.users {
            Users::Served(table) => {
                let mut users = Factors::fetch(table, width, ratings.iter().map(|([user, _], _)| *user))?;
                for ([user, item], rating) in ratings {
                    loss += f64::from(descend(users.row(*user), items.row(*item), *rating, factor));
                }
                table.inc_many(&users.keys, &users.gradients)?;
            }
            Users::Kept(rows) => {
                let mut gradient = vec![0.0; width];
                for ([user, item], rating) in ratings {
                    let row = rows.get_mut(user).ok_or("a rating of another worker's user")?;
                    gradient.fill(0.0);
                    loss += f64::from(descend((row, &mut gradient), items.row(*item), *rating, factor));
                    let step = self.flags.step as f32;
                    row.iter_mut().zip(&gradient).for_each(|(value, gradient)| *value -= step * gradient);
                }
            }
        }
        hands.items.inc_many(&items.keys, &items.gradients)?;
        Ok(loss)
    }

    fn clock(&self, hands: &mut Hands<'_>) -> hemiola::Result<()> {
        if let Users::Served(users) = &mut hands.users {
            users.clock()?;
        }
        hands.items.clock()
    }

    fn stop(&self, reason: &str) {
        self.users.iter().chain([&self.items]).for_each(|table| table.stop(reason));
    }
}

/// Rows of one batch, and their gradients.
struct Factors {
    width: usize,
    keys: Vec<u64>,
    places: BTreeMap<u64, usize>,
    values: Vec<f32>,
    gradients: Vec<f32>,
}

impl Factors {
    fn fetch(table: &mut TableWorker<'_, f32>, width: usize, keys: impl Iterator<Item = u64>) -> hemiola::Result<Self> {
        let mut keys: Vec<u64> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let places = keys.iter().copied().zip(0..).collect();
        let mut values = vec![0.0; keys.len() * width];
        table.get_many(&keys, |place, row| values[place * width..][..width].copy_from_slice(&row))?;
        Ok(Self { width, gradients: vec![0.0; values.len()], keys, places, values })
    }

    fn row(&mut self, key: u64) -> (&[f32], &mut [f32]) {
        let at = self.places[&key] * self.width;
        (&self.values[at..][..self.width], &mut self.gradients[at..][..self.width])
    }
}

/// Adds the gradients of one rating, times a factor; its squared error.
fn descend((w, dw): (&[f32], &mut [f32]), (h, dh): (&[f32], &mut [f32]), rating: f32, factor: f32) -> f32 {
    let error = rating - w.iter().zip(h).map(|(a, b)| a * b).sum::<f32>();
    for (((dw, dh), w), h) in dw.iter_mut().zip(dh).zip(w).zip(h) {
        *dw += factor * (LAMBDA * w - error * h);
        *dh += factor * (LAMBDA * h - error * w);
    }
    error * error
}

/// The ratings that this peer holds, by worker, in an order that mixes users; all of a user with one worker, if they are `kept`.
fn divided(ratings: &Matrix, workers: usize, kept: bool) -> Vec<Vec<([u64; 2], f32)>> {
    let mut all = Vec::new();
    ratings.for_each(|key, rating| all.push((key, *rating)));
    all.sort_by_key(|([user, item], _)| ((user * 31 + item * 17) % 101, *user, *item));
    if kept {
        let of = |worker: usize| all.iter().filter(move |([user, _], _)| *user as usize % workers == worker).copied();
        return (0..workers).map(|worker| of(worker).collect()).collect();
    }
    (0..workers).map(|worker| all.iter().skip(worker).step_by(workers).copied().collect()).collect()
}

/// Ratings of a matrix of rank 8, with noise. Some users and items have many, most have few.
fn skewed(cluster: &Cluster) -> hemiola::Result<Matrix> {
    let (users, items) = (2000, 1000);
    let mut cells = vec![f32::NAN; (users * items) as usize];
    for ([user, item], rating) in Mf::new(users, items, 200_000, 8, 1).entries() {
        cells[(user * items + item) as usize] = rating;
    }
    let all = cluster.from_fn([users, items], |[user, item]| cells[(user * items + item) as usize])?;
    all.entries().filter(|_, rating| !rating.is_nan()).materialize()
}

/// Lines of user, item and rating, separated by tabs.
fn read(cluster: &Cluster, path: &str) -> hemiola::Result<Matrix> {
    let options = Csv::new().separator("\t").header(Header::Absent);
    let entry = |(user, item, rating): (u64, u64, f32)| ([user, item], rating);
    cluster.read_csv_with(options, path, entry)?.materialize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ratings of users for items, one in five known.
    fn made_up(cluster: &Cluster, shape: [u64; 2]) -> hemiola::Result<Matrix> {
        let all = cluster.from_fn(shape, |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
        all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 5 == 0).materialize()
    }

    fn curves(peers: usize, text: &str) -> Vec<Vec<f64>> {
        let flags = defaults().parse(text.split_whitespace().map(str::to_owned)).unwrap();
        let train = |cluster: &Cluster| {
            let ratings = made_up(cluster, [100, 60])?;
            let epochs = train(cluster, &ratings, &flags)?;
            Ok(epochs.iter().map(|epoch| (epoch.loss / ratings.len() as f64).sqrt()).collect())
        };
        hemiola::standalone(peers).workers(2).run(train).unwrap()
    }

    #[test]
    fn it_learns_whatever_the_flags() {
        for text in [
            "--staleness 0 --procedure sgd --step 0.005",
            "--staleness 2 --procedure sgd --step 0.005",
            "--staleness 2 --procedure sgd --step 0.005 --slow 1 --turns 1 --epochs 8",
            "--staleness 1 --procedure adagrad --step 0.1",
            "--staleness 2",
            "--staleness 3 --budget 100 --priority absolute",
            "--staleness 2 --procedure decayed --step 0.008 --clocks 2 --batches 5",
            "--staleness 2 --procedure sgd --step 0.005 --keep true",
        ] {
            for peers in [1, 2, 3] {
                for curve in curves(peers, text) {
                    let (first, last) = (curve[0], curve[curve.len() - 1]);
                    assert!(last < first / 3.0, "{text}, {peers} peers: from {first} to {last}");
                }
            }
        }
        assert!(curves(2, "--staleness none").into_iter().flatten().all(f64::is_finite));
    }

    #[test]
    fn bsp_repeats_bit_for_bit() {
        let bits = || -> Vec<Vec<u64>> {
            let curves = curves(2, "--epochs 5");
            curves.into_iter().map(|curve| curve.into_iter().map(f64::to_bits).collect()).collect()
        };
        assert_eq!(bits(), bits());
    }

    #[test]
    fn ratings_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ratings.tsv");
        std::fs::write(&path, "1\t7\t4.5\n3\t2\t1\n").unwrap();
        let read = |cluster: &Cluster| read(cluster, path.to_str().unwrap())?.collect();
        let ratings = hemiola::standalone(2).run(read).unwrap();
        assert_eq!(ratings[1], [([1, 7], 4.5), ([3, 2], 1.0)]);
    }
}
