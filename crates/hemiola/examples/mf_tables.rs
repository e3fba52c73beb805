//! Matrix factorization on tables: data-parallel, every worker at its own pace.
//!
//! Ratings are divided among workers and stay where they are; both factors are tables. In each clock a worker fetches the rows
//! that a tenth of its ratings need, sums their gradients, and adds those. How stale rows may be, what shards do with gradients, and how much is sent ahead of
//! need are flags, so that their effect can be seen.
//!
//! `cargo run --release --example mf_tables -- --staleness 2 --procedure adarevision --step 0.1`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/mf_tables --staleness 2 --budget 200`

use hemiola::prelude::*;
use hemiola::tables::{AdaGrad, AdaRevision, Bandwidth, Consistency, Defaults, Priority, Sgd, Table, TableBuilder};
use std::collections::BTreeMap;
use std::time::Duration;

const RANK: usize = 16;
const LAMBDA: f32 = 0.01;
/// Clocks in which a worker uses all its ratings once.
const CLOCKS: usize = 10;

fn main() -> hemiola::Result<()> {
    let flags = Flags::parse(std::env::args().skip(1))?;
    hemiola::run(|cluster| {
        let ratings = made_up(cluster, [1000, 400])?;
        let start = cluster.env().now();
        let curve = train(cluster, &ratings, &flags, |epoch, rmse| {
            let seconds = (cluster.env().now() - start).as_secs_f64();
            cluster.println(format_args!("epoch {epoch}: rmse {rmse:.4} after {seconds:.2} s"));
        })?;
        let megabytes = cluster.traffic().bytes_sent() as f64 / 1e6;
        cluster.println(format_args!("{} epochs, {megabytes:.1} MB sent by the first peer", curve.len()));
        Ok(())
    })
}

/// How tables are used.
#[derive(Clone, Debug)]
struct Flags {
    consistency: Consistency,
    procedure: String,
    step: f64,
    /// Megabits per second.
    budget: Option<u64>,
    epochs: usize,
    /// How long the first worker of the first peer pauses in each clock.
    slow: Duration,
}

impl Default for Flags {
    fn default() -> Self {
        let (consistency, procedure) = (Consistency::Bsp, "sgd".to_owned());
        Self { consistency, procedure, step: 0.005, budget: None, epochs: 20, slow: Duration::ZERO }
    }
}

impl Flags {
    fn parse(mut arguments: impl Iterator<Item = String>) -> hemiola::Result<Self> {
        let mut flags = Self::default();
        while let Some(flag) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("`{flag}` needs a value"))?;
            let bad = |_| format!("`{flag} {value}`: expected a number");
            match &*flag {
                "--staleness" if value == "none" => flags.consistency = Consistency::Async,
                "--staleness" => {
                    let clocks =
                        value.parse().map_err(|_| format!("`{flag} {value}`: expected a number, or `none`"))?;
                    flags.consistency = if clocks == 0 { Consistency::Bsp } else { Consistency::Ssp(clocks) };
                }
                "--procedure" => flags.procedure = value,
                "--step" => flags.step = value.parse().map_err(|_| format!("`{flag} {value}`: expected a number"))?,
                "--budget" => flags.budget = Some(value.parse().map_err(bad)?),
                "--epochs" => {
                    flags.epochs = value.parse().map_err(|_| format!("`{flag} {value}`: expected a number"))?;
                }
                "--slow" => flags.slow = Duration::from_millis(value.parse().map_err(bad)?),
                _ => {
                    let known = "--staleness, --procedure, --step, --budget, --epochs and --slow";
                    return Err(format!("`{flag}` is no flag; there are {known}").into());
                }
            }
        }
        Ok(flags)
    }

    fn table(&self, cluster: &Cluster, name: &str, rows: u64, seed: u64) -> hemiola::Result<Table<f32>> {
        let table: TableBuilder<f32> = cluster.table::<f32>(name).rows(rows).width(RANK).consistency(self.consistency);
        let mut table = table.defaults(Defaults::Uniform { seed, low: 0.0, high: 0.5 });
        table = match &*self.procedure {
            "sgd" => table.procedure(Sgd::new(self.step)),
            "adagrad" => table.procedure(AdaGrad::new(self.step)),
            "adarevision" => table.procedure(AdaRevision::new(self.step)),
            other => return Err(format!("`--procedure {other}`: there are sgd, adagrad and adarevision").into()),
        };
        if let Some(megabits) = self.budget {
            table = table.budget(Bandwidth::mbps(megabits)).priority(Priority::RelativeMagnitude);
        }
        table.build()
    }
}

type Matrix = DistArray<f32, 2>;

/// Trains; the root mean squared error of each epoch, of every rating when it was used.
fn train(cluster: &Cluster, ratings: &Matrix, flags: &Flags, tell: impl Fn(usize, f64)) -> hemiola::Result<Vec<f64>> {
    let [users, items] = ratings.shape().extents();
    let (w, h) = (flags.table(cluster, "users", users, 1)?, flags.table(cluster, "items", items, 2)?);
    let mine = divided(ratings, cluster.workers());
    let mut curve = Vec::new();
    for epoch in 0..flags.epochs {
        let losses = cluster.each_worker(|worker| {
            let slow = if cluster.is_root() && worker.index() == 0 { flags.slow } else { Duration::ZERO };
            let work = || {
                let (mut w, mut h) = (w.worker(worker)?, h.worker(worker)?);
                let mut loss = 0.0;
                let entries = &mine[worker.index()];
                for clock in 0..CLOCKS {
                    let batch = &entries[entries.len() * clock / CLOCKS..entries.len() * (clock + 1) / CLOCKS];
                    let mut users = Factors::fetch(&mut w, batch.iter().map(|([user, _], _)| *user))?;
                    let mut items = Factors::fetch(&mut h, batch.iter().map(|([_, item], _)| *item))?;
                    for ([user, item], rating) in batch {
                        loss += f64::from(descend(users.row(*user), items.row(*item), *rating));
                    }
                    cluster.env().pause(slow);
                    w.inc_many(&users.keys, &users.gradients)?;
                    h.inc_many(&items.keys, &items.gradients)?;
                    w.clock()?;
                    h.clock()?;
                }
                Ok(loss)
            };
            // Others would wait for the clock of a worker that failed.
            work().inspect_err(|error: &hemiola::Error| {
                w.stop(&error.to_string());
                h.stop(&error.to_string());
            })
        })?;
        let loss: f64 = losses.into_iter().sum::<hemiola::Result<f64>>()?;
        let rmse = (cluster.all_gather(loss)?.iter().sum::<f64>() / ratings.len() as f64).sqrt();
        tell(epoch, rmse);
        curve.push(rmse);
    }
    Ok(curve)
}

/// Rows of one clock, and their gradients.
struct Factors {
    keys: Vec<u64>,
    places: BTreeMap<u64, usize>,
    values: Vec<f32>,
    gradients: Vec<f32>,
}

impl Factors {
    fn fetch(
        table: &mut hemiola::tables::TableWorker<'_, f32>,
        keys: impl Iterator<Item = u64>,
    ) -> hemiola::Result<Self> {
        let mut keys: Vec<u64> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let places = keys.iter().copied().zip(0..).collect();
        let mut values = vec![0.0; keys.len() * RANK];
        table.get_many(&keys, |place, row| values[place * RANK..][..RANK].copy_from_slice(&row))?;
        Ok(Self { gradients: vec![0.0; values.len()], keys, places, values })
    }

    fn row(&mut self, key: u64) -> (&[f32], &mut [f32]) {
        let at = self.places[&key] * RANK;
        (&self.values[at..][..RANK], &mut self.gradients[at..][..RANK])
    }
}

/// Adds the gradients of one rating; its squared error.
fn descend((w, dw): (&[f32], &mut [f32]), (h, dh): (&[f32], &mut [f32]), rating: f32) -> f32 {
    let error = rating - w.iter().zip(h).map(|(a, b)| a * b).sum::<f32>();
    for k in 0..RANK {
        dw[k] += LAMBDA * w[k] - error * h[k];
        dh[k] += LAMBDA * h[k] - error * w[k];
    }
    error * error
}

/// The ratings that this peer holds, by worker, in an order that mixes users.
fn divided(ratings: &Matrix, workers: usize) -> Vec<Vec<([u64; 2], f32)>> {
    let mut all = Vec::new();
    ratings.for_each(|key, rating| all.push((key, *rating)));
    all.sort_by_key(|([user, item], _)| ((user * 31 + item * 17) % 101, *user, *item));
    (0..workers).map(|worker| all.iter().skip(worker).step_by(workers).copied().collect()).collect()
}

/// Ratings of users for items, one in five known.
fn made_up(cluster: &Cluster, shape: [u64; 2]) -> hemiola::Result<Matrix> {
    let all = cluster.from_fn(shape, |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
    all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 5 == 0).materialize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> Flags {
        Flags::parse(text.split_whitespace().map(str::to_owned)).unwrap()
    }

    fn curves(peers: usize, flags: &Flags) -> Vec<Vec<f64>> {
        let train = |cluster: &Cluster| train(cluster, &made_up(cluster, [100, 60])?, flags, |_, _| ());
        hemiola::standalone(peers).workers(2).run(train).unwrap()
    }

    #[test]
    fn it_learns_whatever_the_flags() {
        for text in [
            "--staleness 0",
            "--staleness 2",
            "--staleness 2 --slow 1 --epochs 8",
            "--staleness 1 --procedure adagrad --step 0.1",
            "--staleness 2 --procedure adarevision --step 0.1",
            "--staleness 3 --procedure adarevision --step 0.1 --budget 100",
        ] {
            for peers in [1, 2, 3] {
                for curve in curves(peers, &flags(text)) {
                    let (first, last) = (curve[0], curve[curve.len() - 1]);
                    assert!(last < first / 3.0, "{text}, {peers} peers: from {first} to {last}");
                }
            }
        }
        assert!(curves(2, &flags("--staleness none")).into_iter().flatten().all(f64::is_finite));
    }

    #[test]
    fn bsp_repeats_bit_for_bit() {
        let bits = || -> Vec<Vec<u64>> {
            let curves = curves(2, &flags("--procedure adarevision --step 0.1 --epochs 5"));
            curves.into_iter().map(|curve| curve.into_iter().map(f64::to_bits).collect()).collect()
        };
        assert_eq!(bits(), bits());
    }

    #[test]
    fn flags_that_are_not_understood_are_named() {
        let said = |text: &str| Flags::parse(text.split_whitespace().map(str::to_owned)).unwrap_err().to_string();
        assert_eq!(said("--staleness two"), "`--staleness two`: expected a number, or `none`");
        assert_eq!(said("--budget"), "`--budget` needs a value");
        assert!(said("--rank 3").starts_with("`--rank` is no flag"));
    }
}
