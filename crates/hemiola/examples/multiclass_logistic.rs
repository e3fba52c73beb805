//! Multinomial logistic regression on a parameter server, data-parallel with bounded staleness.
//!
//! Examples are divided among workers and stay there. The weights of a feature, one for each class,
//! are a row of a table. Examples are sparse, so a worker fetches only the rows that its mini-batch
//! needs. The staleness bound, the update rule of the servers and the bandwidth of eager
//! communication are flags.
//!
//! `cargo run --release --example multiclass_logistic -- --staleness 2 --update-rule adarevision
//! --learning-rate 0.5`, or on several peers: `hemiola run -n 2 --
//! target/release/examples/multiclass_logistic --staleness 2 --budget 200`. `--data FILE` reads
//! LIBSVM or, if the name contains `ldac`, word counts in LDA-C with one class per line in the
//! `--labels` file.

mod ssp_training;

use hemiola::array::read::{Ldac, Libsvm};
use hemiola::cluster::Worker;
use hemiola::core::rng::PhiloxRng;
use hemiola::prelude::*;
use hemiola::tables::{Table, TableWorker};
use ssp_training::{Batch, Epoch, Flags, TableTask};
use std::collections::{BTreeMap, BTreeSet};

fn main() -> hemiola::Result<()> {
    let flags = defaults().parse(std::env::args().skip(1))?;
    hemiola::run(|cluster| {
        let samples = match (&flags.data, &flags.labels) {
            (Some(path), Some(labels)) => Samples::of_words(cluster, path, labels)?,
            (Some(path), None) => Samples::of_libsvm(cluster, path)?,
            (None, _) => Samples::synthetic(cluster, 4000, 500, 8)?,
        };
        let (all, classes) = (samples.all, samples.classes);
        let (epochs, right) = train(cluster, samples, &flags)?;
        ssp_training::report(cluster, &flags, "loss", &epochs, |loss| loss / all as f64)?;
        let share = 100.0 * right as f64 / all as f64;
        cluster.println(format_args!("{all} examples of {classes} classes, final accuracy {share:.1} %"));
        Ok(())
    })
}

fn defaults() -> Flags {
    Flags::new("adarevision", 0.5, 1)
}

/// A class index, and the features with their values.
type Sample = (usize, Vec<(u64, f32)>);

/// Examples of this peer.
struct Samples {
    here: Vec<Sample>,
    /// Number of examples on all peers.
    all: usize,
    classes: usize,
}

impl Samples {
    /// Numbers the classes in the order of their labels. Rows are keyed by example index.
    fn new(cluster: &Cluster, rows: BTreeMap<u64, (i64, Vec<(u64, f32)>)>) -> hemiola::Result<Self> {
        let names: BTreeSet<i64> = rows.values().map(|(class, _)| *class).collect();
        let names: BTreeSet<i64> = cluster.all_gather(names)?.into_iter().flatten().collect();
        let index_of = |class| names.range(..class).count();
        let here: Vec<Sample> = rows.into_values().map(|(class, features)| (index_of(class), features)).collect();
        let all = cluster.all_gather(here.len())?.iter().sum();
        Ok(Self { here, all, classes: names.len() })
    }

    fn of_libsvm(cluster: &Cluster, path: &str) -> hemiola::Result<Self> {
        let read = cluster.read_libsvm(Libsvm::new(), path)?;
        let mut rows: BTreeMap<u64, (i64, Vec<(u64, f32)>)> = BTreeMap::new();
        read.labels.for_each(|[row], label| rows.entry(row).or_default().0 = *label as i64);
        read.features.for_each(|[row, feature], value| rows.entry(row).or_default().1.push((feature, *value)));
        Self::new(cluster, rows)
    }

    /// Reads documents. Features are the logarithms of word counts, normalized to length 1.
    fn of_words(cluster: &Cluster, path: &str, labels: &str) -> hemiola::Result<Self> {
        let text = std::fs::read_to_string(labels).map_err(|error| format!("cannot read `{labels}`: {error}"))?;
        let labels: Vec<&str> = text.lines().collect();
        let mut rows: BTreeMap<u64, (i64, Vec<(u64, f32)>)> = BTreeMap::new();
        let counts = cluster.read_ldac(Ldac::new(), path)?;
        counts.for_each(|[row, word], count| rows.entry(row).or_default().1.push((word, (*count as f32).ln_1p())));
        for (row, (class, features)) in &mut rows {
            let label = labels.get(*row as usize).and_then(|label| label.trim().parse().ok());
            *class = label.ok_or_else(|| {
                format!("document {row} has no label among the {} lines of the labels file", labels.len())
            })?;
            let length = features.iter().map(|(_, value)| value * value).sum::<f32>().sqrt();
            for (_, value) in features {
                *value /= length;
            }
        }
        Self::new(cluster, rows)
    }

    /// Synthetic examples of eight features each. The class is the most likely one under hidden
    /// weights; one label in ten is random.
    fn synthetic(cluster: &Cluster, count: u64, features: u64, classes: u64) -> hemiola::Result<Self> {
        let (random, hidden) = (PhiloxRng::new(1), PhiloxRng::new(2));
        let sample = |[row]: [u64; 1]| {
            let mut found: Vec<u64> = (0..8).map(|at| random.random_below(row, at, features)).collect();
            found.sort_unstable();
            found.dedup();
            let score = |class| found.iter().map(|feature| hidden.normal(*feature, class, 0.0, 1.0)).sum::<f64>();
            let best = (0..classes).max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap_or(0);
            let class = if random.random_f64(row, 9) < 0.1 { random.random_below(row, 10, classes) } else { best };
            (class as u32, found.into_iter().map(|feature| (feature as u32, 1.0_f32)).collect::<Vec<_>>())
        };
        let mut rows = BTreeMap::new();
        cluster.from_fn([count], sample)?.for_each(|[row], (class, found)| {
            let found = found.iter().map(|(feature, value)| (u64::from(*feature), *value)).collect();
            rows.insert(row, (i64::from(*class), found));
        });
        Self::new(cluster, rows)
    }
}

/// Trains the weights. Returns the epochs, whose losses are taken when an example is processed, and
/// the number of correct predictions at the end.
fn train(cluster: &Cluster, samples: Samples, flags: &Flags) -> hemiola::Result<(Vec<Epoch>, usize)> {
    let workers = cluster.workers();
    let mut mine = vec![Vec::new(); workers];
    for (at, sample) in samples.here.into_iter().enumerate() {
        mine[at % workers].push(sample);
    }
    let classes = samples.classes;
    let weights = flags.gradient_table(cluster.table::<f32>("weights").width(classes))?.build()?;
    let task = Regression { weights, mine, classes, flags };
    let epochs = ssp_training::train(cluster, flags, &task)?;
    let weights = task.weights.collect()?;
    let right = task.mine.iter().flatten().filter(|(class, features)| {
        let score = |class| features.iter().map(|(feature, value)| weights[feature][class] * value).sum::<f32>();
        (0..classes).all(|other| other == *class || score(other) < score(*class))
    });
    let right = cluster.all_gather(right.count())?.iter().sum();
    Ok((epochs, right))
}

struct Regression<'f> {
    weights: Table<f32>,
    /// Examples, by worker.
    mine: Vec<Vec<Sample>>,
    classes: usize,
    flags: &'f Flags,
}

struct WorkerData<'a> {
    weights: TableWorker<'a, f32>,
    samples: &'a [Sample],
}

impl TableTask for Regression<'_> {
    type WorkerData<'a>
        = WorkerData<'a>
    where
        Self: 'a;

    fn begin(&self, worker: Worker) -> hemiola::Result<WorkerData<'_>> {
        Ok(WorkerData { weights: self.weights.worker(worker)?, samples: &self.mine[worker.index()] })
    }

    fn batch(&self, data: &mut WorkerData<'_>, batch: Batch) -> hemiola::Result<f64> {
        let (classes, samples) = (self.classes, &data.samples[batch.of(data.samples.len())]);
        let mut keys: Vec<u64> =
            samples.iter().flat_map(|(_, features)| features).map(|(feature, _)| *feature).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut weights = vec![0.0; keys.len() * classes];
        data.weights.get_many(&keys, |slot, row| weights[slot * classes..][..classes].copy_from_slice(&row))?;
        let mut gradients = vec![0.0; weights.len()];
        let (mut loss, mut probabilities) = (0.0, vec![0.0_f32; classes]);
        // Gradients are averaged over the mini-batch, so the learning rate does not depend on its
        // size.
        let factor = self.flags.learning_rate_factor(batch.epoch) / samples.len().max(1) as f32;
        for (class, features) in samples {
            let slots = || features.iter().map(|(key, value)| (keys.binary_search(key).expect("fetched"), *value));
            probabilities.fill(0.0);
            for (slot, value) in slots() {
                let row = &weights[slot * classes..][..classes];
                probabilities.iter_mut().zip(row).for_each(|(score, weight)| *score += weight * value);
            }
            loss += softmax(&mut probabilities, *class);
            probabilities[*class] -= 1.0;
            for (slot, value) in slots() {
                let row = &mut gradients[slot * classes..][..classes];
                row.iter_mut().zip(&probabilities).for_each(|(gradient, error)| *gradient += factor * error * value);
            }
        }
        data.weights.inc_many(&keys, &gradients)?;
        Ok(loss)
    }

    fn clock(&self, data: &mut WorkerData<'_>) -> hemiola::Result<()> {
        data.weights.clock()
    }

    fn stop(&self, reason: &str) {
        self.weights.stop(reason);
    }
}

/// Turns scores into probabilities in place (softmax). Returns the cross-entropy loss of `class`.
fn softmax(scores: &mut [f32], class: usize) -> f64 {
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    for score in &mut *scores {
        *score = (*score - largest).exp();
    }
    let sum: f32 = scores.iter().sum();
    for score in &mut *scores {
        *score /= sum;
    }
    -f64::from(scores[class].max(1e-9)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(peers: usize, text: &str) -> Vec<(Vec<f64>, usize)> {
        let flags = defaults().parse(text.split_whitespace().map(str::to_owned)).unwrap();
        let train = |cluster: &Cluster| {
            let samples = Samples::synthetic(cluster, 600, 80, 4)?;
            assert_eq!((samples.all, samples.classes), (600, 4));
            let (epochs, right) = train(cluster, samples, &flags)?;
            Ok((epochs.iter().map(|epoch| epoch.loss / 600.0).collect(), right))
        };
        hemiola::standalone(peers).workers(2).run(train).unwrap()
    }

    #[test]
    fn training_converges_with_all_flags() {
        for text in [
            "",
            "--staleness 2",
            "--staleness 2 --update-rule sgd --learning-rate 2",
            "--staleness 1 --update-rule adagrad",
            "--staleness 2 --update-rule adam --learning-rate 0.05 --clocks 2 --batches 5",
            "--staleness 3 --budget 20 --slow 1",
        ] {
            for peers in [1, 2, 3] {
                for (curve, right) in trained(peers, text) {
                    let (first, last) = (curve[0], curve[curve.len() - 1]);
                    assert!(
                        last < 0.8 * first && right > 400,
                        "{text}, {peers} peers: {first} to {last}, {right} right"
                    );
                }
            }
        }
    }

    #[test]
    fn bsp_is_bit_identical_between_runs() {
        let bits = || -> Vec<u64> {
            trained(2, "--epochs 5").into_iter().flat_map(|(curve, _)| curve).map(f64::to_bits).collect()
        };
        assert_eq!(bits(), bits());
    }

    #[test]
    fn files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let libsvm = write("samples.libsvm", "3 1:0.5 4:2\n-1 2:1\n");
        let (words, labels) = (write("words.ldac", "2 0:1 3:1\n1 1:5\n"), write("labels", "20\n4\n"));
        let few = write("few", "20\n");
        let read = |cluster: &Cluster| {
            let (first, second) = (Samples::of_libsvm(cluster, &libsvm)?, Samples::of_words(cluster, &words, &labels)?);
            let missing = Samples::of_words(cluster, &words, &few).map(|_| ());
            Ok((first.here, first.classes, second.here, missing.map_err(|error| error.to_string())))
        };
        let (first, classes, second, missing) = hemiola::standalone(1).run(read).unwrap().remove(0);
        assert_eq!((first.len(), classes), (2, 2));
        assert_eq!(first.iter().map(|(class, _)| *class).collect::<Vec<_>>(), [1, 0]);
        let half = std::f32::consts::FRAC_1_SQRT_2;
        assert_eq!((second[1].0, second[0].1.len()), (0, 2));
        assert!(second[0].1.iter().all(|(_, value)| (value - half).abs() < 1e-6));
        assert_eq!(missing, Err("document 1 has no label among the 1 lines of the labels file".to_owned()));
    }
}
