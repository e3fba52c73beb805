//! Matrix factorization on a parameter server, data-parallel with bounded staleness.
//!
//! Ratings are divided among workers and stay there; both factors are tables. For each mini-batch a
//! worker fetches the rows of its ratings, sums their gradients, and sends the sums. The staleness
//! bound, the update rule of the servers and the bandwidth of eager communication are flags, so
//! that their effect can be measured. With `--keep true` user rows stay with the worker that has
//! all ratings of the user, and are updated by plain SGD.
//!
//! `cargo run --release --example mf_tables -- --staleness 2 --update-rule adarevision
//! --learning-rate 0.1`, or on several peers: `hemiola run -n 2 --
//! target/release/examples/mf_tables --staleness 2 --budget 200`, with `--servers 1` for dedicated
//! servers. `--data FILE` reads lines of user, item and rating, separated by tabs. `--profile FILE`
//! writes the compute times of one peer, for `hemiola simulate train mf --profile`.

mod ssp_training;

use hemiola::array::read::{Csv, CsvHeader};
use hemiola::array::synthetic::mf::SyntheticMf;
use hemiola::cluster::Worker;
use hemiola::loops::LoopProfile;
use hemiola::loops::profile::AlignedArray;
use hemiola::prelude::*;
use hemiola::tables::{RowInitializer, Table, TableWorker};
use ssp_training::{Batch, Epoch, Flags, TableTask};
use std::collections::BTreeMap;

const LAMBDA: f32 = 0.01;

fn main() -> hemiola::Result<()> {
    let flags = defaults().parse(std::env::args().skip(1))?;
    hemiola::run(|cluster| {
        let ratings = match &flags.data {
            Some(path) => read(cluster, path)?,
            None => skewed_ratings(cluster)?,
        };
        let epochs = train(cluster, &ratings, &flags)?;
        if let Some(path) = &flags.profile {
            let text = profile(cluster, &ratings, &flags, &epochs)?;
            std::fs::write(path, text).map_err(|error| format!("cannot write `{}`: {error}", path.display()))?;
        }
        ssp_training::report(cluster, &flags, "rmse", &epochs, |loss| (loss / ratings.len() as f64).sqrt())
    })
}

fn defaults() -> Flags {
    Flags::new("adarevision", 0.1, 16)
}

type Matrix = DistArray<f32, 2>;

/// Trains the factors. The loss of an epoch is the sum of squared errors, each taken when the
/// rating was processed.
fn train(cluster: &Cluster, ratings: &Matrix, flags: &Flags) -> hemiola::Result<Vec<Epoch>> {
    let [users, items] = ratings.shape().extents();
    let table = |name: &str, rows, seed| {
        // Dot products of rows start around 1 for every rank.
        let initializer = RowInitializer::Uniform { seed, low: 0.0, high: 2.0 / (flags.width as f64).sqrt() };
        flags.gradient_table(cluster.table::<f32>(name).rows(rows).width(flags.width).initializer(initializer))?.build()
    };
    let users = if flags.keep { None } else { Some(table("users", users, 1)?) };
    let items = table("items", items, 2)?;
    let mine = divide(ratings, cluster.workers(), flags.keep);
    ssp_training::train(cluster, flags, &Factorization { users, items, mine, flags })
}

/// Profile of one peer as JSON. User rows stay with their workers; item rows would rotate or be
/// served.
fn profile(cluster: &Cluster, ratings: &Matrix, flags: &Flags, epochs: &[Epoch]) -> hemiola::Result<String> {
    if cluster.size() > 1 {
        return Err("`--profile` needs a single peer; run the example without a launcher".into());
    }
    let row =
        |name, dimension| AlignedArray { name, dimension, width: flags.width as u64, cell_bytes: size_of::<f32>() };
    let mut profile =
        LoopProfile::from_custom_loop("matrix factorization on tables", ratings, &[row("users", 0), row("items", 1)])?;
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
    /// `None` if user rows stay with their workers.
    users: Option<Table<f32>>,
    items: Table<f32>,
    /// Ratings, by worker.
    mine: Vec<Vec<([u64; 2], f32)>>,
    flags: &'f Flags,
}

struct WorkerData<'a> {
    users: UserRows<'a>,
    items: TableWorker<'a, f32>,
    ratings: &'a [([u64; 2], f32)],
}

/// Storage of the user rows.
enum UserRows<'a> {
    Served(TableWorker<'a, f32>),
    /// Rows of the worker's own users, by user.
    Local(BTreeMap<u64, Vec<f32>>),
}

impl TableTask for Factorization<'_> {
    type WorkerData<'a>
        = WorkerData<'a>
    where
        Self: 'a;

    fn begin(&self, worker: Worker) -> hemiola::Result<WorkerData<'_>> {
        let ratings = &self.mine[worker.index()][..];
        let users = if let Some(users) = &self.users {
            UserRows::Served(users.worker(worker)?)
        } else {
            // Dot products of rows start around 1, as those from tables do.
            let row = vec![1.0 / (self.flags.width as f32).sqrt(); self.flags.width];
            UserRows::Local(ratings.iter().map(|([user, _], _)| (*user, row.clone())).collect())
        };
        Ok(WorkerData { users, items: self.items.worker(worker)?, ratings })
    }

    fn batch(&self, data: &mut WorkerData<'_>, batch: Batch) -> hemiola::Result<f64> {
        let (width, factor) = (self.flags.width, self.flags.learning_rate_factor(batch.epoch));
        let ratings = &data.ratings[batch.of(data.ratings.len())];
        let mut items = BatchFactors::fetch(&mut data.items, width, ratings.iter().map(|([_, item], _)| *item))?;
        let mut loss = 0.0;
        match &mut data.users {
            UserRows::Served(table) => {
                let mut users = BatchFactors::fetch(table, width, ratings.iter().map(|([user, _], _)| *user))?;
                for ([user, item], rating) in ratings {
                    loss += f64::from(add_gradients(users.row(*user), items.row(*item), *rating, factor));
                }
                table.inc_many(&users.keys, &users.gradients)?;
            }
            UserRows::Local(rows) => {
                let mut gradient = vec![0.0; width];
                for ([user, item], rating) in ratings {
                    let row = rows.get_mut(user).ok_or("the user of this rating belongs to another worker")?;
                    gradient.fill(0.0);
                    loss += f64::from(add_gradients((row, &mut gradient), items.row(*item), *rating, factor));
                    let learning_rate = self.flags.learning_rate as f32;
                    row.iter_mut().zip(&gradient).for_each(|(value, gradient)| *value -= learning_rate * gradient);
                }
            }
        }
        data.items.inc_many(&items.keys, &items.gradients)?;
        Ok(loss)
    }

    fn clock(&self, data: &mut WorkerData<'_>) -> hemiola::Result<()> {
        if let UserRows::Served(users) = &mut data.users {
            users.clock()?;
        }
        data.items.clock()
    }

    fn stop(&self, reason: &str) {
        self.users.iter().chain([&self.items]).for_each(|table| table.stop(reason));
    }
}

/// Factor rows of one mini-batch, and their gradients.
struct BatchFactors {
    width: usize,
    keys: Vec<u64>,
    slots: BTreeMap<u64, usize>,
    values: Vec<f32>,
    gradients: Vec<f32>,
}

impl BatchFactors {
    fn fetch(table: &mut TableWorker<'_, f32>, width: usize, keys: impl Iterator<Item = u64>) -> hemiola::Result<Self> {
        let mut keys: Vec<u64> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let slots = keys.iter().copied().zip(0..).collect();
        let mut values = vec![0.0; keys.len() * width];
        table.get_many(&keys, |slot, row| values[slot * width..][..width].copy_from_slice(&row))?;
        Ok(Self { width, gradients: vec![0.0; values.len()], keys, slots, values })
    }

    fn row(&mut self, key: u64) -> (&[f32], &mut [f32]) {
        let at = self.slots[&key] * self.width;
        (&self.values[at..][..self.width], &mut self.gradients[at..][..self.width])
    }
}

/// Adds the gradients of one rating, scaled by `factor`. Returns its squared error.
fn add_gradients((w, dw): (&[f32], &mut [f32]), (h, dh): (&[f32], &mut [f32]), rating: f32, factor: f32) -> f32 {
    let error = rating - w.iter().zip(h).map(|(a, b)| a * b).sum::<f32>();
    for (((dw, dh), w), h) in dw.iter_mut().zip(dh).zip(w).zip(h) {
        *dw += factor * (LAMBDA * w - error * h);
        *dh += factor * (LAMBDA * h - error * w);
    }
    error * error
}

/// Ratings of this peer, by worker, in an order that mixes users. With `by_user` all ratings of a
/// user go to one worker.
fn divide(ratings: &Matrix, workers: usize, by_user: bool) -> Vec<Vec<([u64; 2], f32)>> {
    let mut all = Vec::new();
    ratings.for_each(|key, rating| all.push((key, *rating)));
    all.sort_by_key(|([user, item], _)| ((user * 31 + item * 17) % 101, *user, *item));
    if by_user {
        let of = |worker: usize| all.iter().filter(move |([user, _], _)| *user as usize % workers == worker).copied();
        return (0..workers).map(|worker| of(worker).collect()).collect();
    }
    (0..workers).map(|worker| all.iter().skip(worker).step_by(workers).copied().collect()).collect()
}

/// Synthetic ratings of a noisy matrix of rank 8. Few users and items have many ratings, most have
/// few.
fn skewed_ratings(cluster: &Cluster) -> hemiola::Result<Matrix> {
    let (users, items) = (2000, 1000);
    let mut cells = vec![f32::NAN; (users * items) as usize];
    for ([user, item], rating) in SyntheticMf::new(users, items, 200_000, 8, 1).entries() {
        cells[(user * items + item) as usize] = rating;
    }
    let all = cluster.from_fn([users, items], |[user, item]| cells[(user * items + item) as usize])?;
    all.entries().filter(|_, rating| !rating.is_nan()).materialize()
}

/// Reads lines of user, item and rating, separated by tabs.
fn read(cluster: &Cluster, path: &str) -> hemiola::Result<Matrix> {
    let options = Csv::new().separator("\t").header(CsvHeader::Absent);
    let entry = |(user, item, rating): (u64, u64, f32)| ([user, item], rating);
    cluster.read_csv_with(options, path, entry)?.materialize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Synthetic ratings of users for items; one rating in five is known.
    fn synthetic_ratings(cluster: &Cluster, shape: [u64; 2]) -> hemiola::Result<Matrix> {
        let all = cluster.from_fn(shape, |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
        all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 5 == 0).materialize()
    }

    fn curves(peers: usize, text: &str) -> Vec<Vec<f64>> {
        let flags = defaults().parse(text.split_whitespace().map(str::to_owned)).unwrap();
        let train = |cluster: &Cluster| {
            let ratings = synthetic_ratings(cluster, [100, 60])?;
            let epochs = train(cluster, &ratings, &flags)?;
            Ok(epochs.iter().map(|epoch| (epoch.loss / ratings.len() as f64).sqrt()).collect())
        };
        hemiola::standalone(peers).workers(2).run(train).unwrap()
    }

    #[test]
    fn training_converges_with_all_flags() {
        for text in [
            "--staleness 0 --update-rule sgd --learning-rate 0.005",
            "--staleness 2 --update-rule sgd --learning-rate 0.005",
            "--staleness 2 --update-rule sgd --learning-rate 0.005 --slow 1 --turns 1 --epochs 8",
            "--staleness 1 --update-rule adagrad --learning-rate 0.1",
            "--staleness 2",
            "--staleness 3 --budget 100 --priority absolute",
            "--staleness 2 --update-rule decayed --learning-rate 0.008 --clocks 2 --batches 5",
            "--staleness 2 --update-rule sgd --learning-rate 0.005 --keep true",
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
    fn bsp_is_bit_identical_between_runs() {
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
