//! Matrix factorization by SGD on two tables.

use super::StalenessBench;
use super::ratings::divide;
use super::training::{self, Batch, Epoch};
use hemiola::cluster::Worker;
use hemiola::loops::LoopProfile;
use hemiola::loops::profile::AlignedArray;
use hemiola::prelude::*;
use hemiola::tables::{RowInitializer, Table, TableWorker};
use std::collections::BTreeMap;

const LAMBDA: f32 = 0.01;

/// Trains the factors. The loss of an epoch is the sum of squared errors, each taken when the
/// rating was processed.
pub(super) fn train(
    cluster: &Cluster,
    ratings: &DistArray<f32, 2>,
    arguments: &StalenessBench,
) -> hemiola_cluster::Result<Vec<Epoch>> {
    let [users, items] = ratings.shape().extents();
    let table = |name: &str, rows: usize, seed| {
        // Dot products of rows start around 1 for every rank.
        let initializer = RowInitializer::Uniform { seed, low: 0.0, high: 2.0 / (arguments.width as f64).sqrt() };
        let table = cluster.table::<f32>(name).rows(rows as u64).width(arguments.width).initializer(initializer);
        arguments.configure(table).build()
    };
    let users = if arguments.local_users { None } else { Some(table("users", users, 1)?) };
    let items = table("items", items, 2)?;
    let mine = divide(ratings, cluster.workers(), arguments.local_users);
    training::train(cluster, arguments, &Factorization { users, items, mine, arguments })
}

/// Profile of one peer as JSON. User rows stay with their workers; item rows would rotate or be
/// served.
pub(super) fn profile(
    cluster: &Cluster,
    ratings: &DistArray<f32, 2>,
    width: usize,
    epochs: &[Epoch],
) -> hemiola_cluster::Result<String> {
    if cluster.size() > 1 {
        return Err("`--profile` needs a single peer; run the command without a launcher".into());
    }
    let row = |name, dimension| AlignedArray { name, dimension, width, cell_bytes: size_of::<f32>() };
    let mut profile =
        LoopProfile::from_custom_loop("matrix factorization on tables", ratings, &[row("users", 0), row("items", 1)])?;
    let mut start = 0.0;
    for epoch in epochs {
        let share = (ratings.len() / epoch.computing.len()) as u64;
        let workers: Vec<(u64, f64)> = epoch.computing.iter().map(|computing| (share, *computing)).collect();
        profile.add_pass(epoch.seconds - start, &workers);
        start = epoch.seconds;
    }
    Ok(profile.to_json())
}

/// The model, and the ratings of this peer.
pub(super) struct Factorization<'a> {
    /// `None` if user rows stay with their workers.
    users: Option<Table<f32>>,
    items: Table<f32>,
    /// Ratings, by worker.
    mine: Vec<Vec<([usize; 2], f32)>>,
    arguments: &'a StalenessBench,
}

/// Table handles and ratings of one worker.
pub(super) struct WorkerData<'a> {
    users: UserRows<'a>,
    items: TableWorker<'a, f32>,
    ratings: &'a [([usize; 2], f32)],
}

/// Storage of the user rows.
enum UserRows<'a> {
    Served(TableWorker<'a, f32>),
    /// Rows of the worker's own users, by user.
    Local(BTreeMap<usize, Vec<f32>>),
}

impl Factorization<'_> {
    pub(super) fn begin(&self, worker: Worker) -> hemiola_cluster::Result<WorkerData<'_>> {
        let ratings = &self.mine[worker.index()][..];
        let users = if let Some(users) = &self.users {
            UserRows::Served(users.worker(worker)?)
        } else {
            // Dot products of rows start around 1, as those from tables do.
            let row = vec![1.0 / (self.arguments.width as f32).sqrt(); self.arguments.width];
            UserRows::Local(ratings.iter().map(|([user, _], _)| (*user, row.clone())).collect())
        };
        Ok(WorkerData { users, items: self.items.worker(worker)?, ratings })
    }

    /// Processes a mini-batch and returns its loss.
    pub(super) fn batch(&self, data: &mut WorkerData<'_>, batch: Batch) -> hemiola_cluster::Result<f64> {
        let (width, factor) = (self.arguments.width, self.arguments.learning_rate_factor(batch.epoch));
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
                    let learning_rate = self.arguments.learning_rate as f32;
                    row.iter_mut().zip(&gradient).for_each(|(value, gradient)| *value -= learning_rate * gradient);
                }
            }
        }
        data.items.inc_many(&items.keys, &items.gradients)?;
        Ok(loss)
    }

    /// Stops the tables after a failure: the other workers would wait for the failed worker's
    /// clock.
    pub(super) fn stop(&self, reason: &str) {
        self.users.iter().chain([&self.items]).for_each(|table| table.stop(reason));
    }
}

/// Factor rows of one mini-batch, and their gradients.
struct BatchFactors {
    width: usize,
    keys: Vec<u64>,
    slots: BTreeMap<usize, usize>,
    values: Vec<f32>,
    gradients: Vec<f32>,
}

impl BatchFactors {
    fn fetch(
        table: &mut TableWorker<'_, f32>,
        width: usize,
        keys: impl Iterator<Item = usize>,
    ) -> hemiola_cluster::Result<Self> {
        let mut keys: Vec<usize> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let slots = keys.iter().copied().zip(0..).collect();
        let keys: Vec<u64> = keys.into_iter().map(|key| key as u64).collect();
        let mut values = vec![0.0; keys.len() * width];
        table.get_many(&keys, |slot, row| values[slot * width..][..width].copy_from_slice(&row))?;
        Ok(Self { width, gradients: vec![0.0; values.len()], keys, slots, values })
    }

    fn row(&mut self, key: usize) -> (&[f32], &mut [f32]) {
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

impl WorkerData<'_> {
    /// Ends a clock of this worker in both tables.
    pub(super) fn clock(&mut self) -> hemiola_cluster::Result<()> {
        if let UserRows::Served(users) = &mut self.users {
            users.clock()?;
        }
        self.items.clock()
    }
}
