//! Latent Dirichlet allocation (LDA) by collapsed Gibbs sampling on a parameter server,
//! data-parallel.
//!
//! Documents are divided among workers and stay there, with the topic of each token and the topic
//! counts of each document. The topic counts of each word, and the topic totals, are two tables.
//! For each mini-batch of documents a worker fetches the rows of their words, resamples all topics,
//! and adds the changes of the counts. Counts of other workers may be stale, so the sampler uses a
//! slightly older model, but no count is lost. Counts are added, so the only `--update-rule` is
//! `add`.
//!
//! `cargo run --release --example lda_tables -- --staleness 2`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/lda_tables --staleness 2 --budget 200`.
//! `--data FILE` reads a UCI bag of words, or LDA-C if the name contains `ldac`; `--width` is the
//! number of topics.

mod ssp_training;

use hemiola::array::read::Ldac;
use hemiola::array::synthetic::SyntheticLda;
use hemiola::cluster::Worker;
use hemiola::core::rng::PhiloxRng;
use hemiola::prelude::*;
use hemiola::tables::{Consistency, Table, TableWorker};
use ssp_training::{Batch, Epoch, Flags, TableTask};
use std::collections::BTreeMap;

const ALPHA: f64 = 0.1;
const BETA: f64 = 0.01;

fn main() -> hemiola::Result<()> {
    let flags = defaults().parse(std::env::args().skip(1))?;
    hemiola::run(|cluster| {
        let counts = match &flags.data {
            Some(path) if path.contains("ldac") => cluster.read_ldac(Ldac::new(), path)?,
            Some(path) => cluster.read_docword(path, None)?,
            None => synthetic_counts(cluster, [600, 1000], 10)?,
        };
        let (tokens, epochs) = train(cluster, &counts, &flags)?;
        ssp_training::report(cluster, &flags, "perplexity", &epochs, |loss| (loss / tokens as f64).exp())
    })
}

fn defaults() -> Flags {
    Flags::new("add", 0.0, 10)
}

/// Word counts, by document and word.
type Counts = DistArray<u32, 2>;

/// Trains the sampler. Returns the number of tokens and, for each epoch, the negative
/// log-likelihood, each token taken before it is resampled.
fn train(cluster: &Cluster, counts: &Counts, flags: &Flags) -> hemiola::Result<(u64, Vec<Epoch>)> {
    if flags.update_rule != "add" {
        return Err(
            format!("`--update-rule {}`: counts are added, so the only rule is `add`", flags.update_rule).into()
        );
    }
    let words = counts.shape().extents()[1];
    let table = |name: &str, rows| flags.configure(cluster.table::<i32>(name).rows(rows).width(flags.width)).build();
    let (word_topics, totals) = (table("word topics", words)?, table("totals", 1)?);
    let mine = divide(counts, cluster.workers());
    let tokens = mine.iter().flatten().map(Document::length).sum::<usize>() as u64;
    let tokens = cluster.all_gather(tokens)?.iter().sum();
    Ok((tokens, ssp_training::train(cluster, flags, &Sampler { word_topics, totals, mine, words, flags })?))
}

/// A document: its index, and its words with their counts.
#[derive(Clone, Debug)]
struct Document {
    number: u64,
    words: Vec<(u64, u32)>,
}

impl Document {
    fn length(&self) -> usize {
        self.words.iter().map(|(_, count)| *count as usize).sum()
    }
}

/// Documents of this peer, by worker.
fn divide(counts: &Counts, workers: usize) -> Vec<Vec<Document>> {
    let mut documents: BTreeMap<u64, Vec<(u64, u32)>> = BTreeMap::new();
    counts.for_each(|[document, word], count| documents.entry(document).or_default().push((word, *count)));
    let mut mine = vec![Vec::new(); workers];
    for (at, (number, words)) in documents.into_iter().enumerate() {
        mine[at % workers].push(Document { number, words });
    }
    mine
}

struct Sampler<'f> {
    word_topics: Table<i32>,
    totals: Table<i32>,
    /// By worker.
    mine: Vec<Vec<Document>>,
    words: u64,
    flags: &'f Flags,
}

struct WorkerData<'a> {
    word_topics: TableWorker<'a, i32>,
    totals: TableWorker<'a, i32>,
    documents: &'a [Document],
    /// Topic of each token, by document, in the order of its words.
    topics: Vec<Vec<u16>>,
}

/// Counts of one mini-batch while it is sampled, and their changes.
struct BatchCounts {
    keys: Vec<u64>,
    counts: Vec<i32>,
    changes: Vec<i32>,
}

impl BatchCounts {
    fn new(table: &mut TableWorker<'_, i32>, width: usize, mut keys: Vec<u64>) -> hemiola::Result<Self> {
        keys.sort_unstable();
        keys.dedup();
        let mut counts = vec![0; keys.len() * width];
        table.get_many(&keys, |slot, row| counts[slot * width..][..width].copy_from_slice(&row))?;
        Ok(Self { changes: vec![0; counts.len()], keys, counts })
    }

    fn change(&mut self, at: usize, by: i32) {
        self.counts[at] += by;
        self.changes[at] += by;
    }

    fn add_to(&self, table: &mut TableWorker<'_, i32>) -> hemiola::Result<()> {
        table.inc_many(&self.keys, &self.changes)
    }
}

impl Sampler<'_> {
    /// Fetches the rows of all words of some documents, and the totals.
    fn fetch(&self, data: &mut WorkerData<'_>, documents: &[Document]) -> hemiola::Result<(BatchCounts, BatchCounts)> {
        let words = documents.iter().flat_map(|document| &document.words).map(|(word, _)| *word).collect();
        let of_words = BatchCounts::new(&mut data.word_topics, self.flags.width, words)?;
        Ok((of_words, BatchCounts::new(&mut data.totals, self.flags.width, vec![0])?))
    }
}

impl TableTask for Sampler<'_> {
    type WorkerData<'a>
        = WorkerData<'a>
    where
        Self: 'a;

    /// Assigns a random topic to every token and counts the topics.
    fn begin(&self, worker: Worker) -> hemiola::Result<WorkerData<'_>> {
        let (documents, random, width) = (&self.mine[worker.index()], PhiloxRng::new(1), self.flags.width);
        let topic = |document: &Document, at| random.random_below(document.number, at, width as u64) as u16;
        let topics = documents
            .iter()
            .map(|document| (0..document.length() as u64).map(|at| topic(document, at)).collect())
            .collect();
        let (word_topics, totals) = (self.word_topics.worker(worker)?, self.totals.worker(worker)?);
        let mut data = WorkerData { word_topics, totals, documents, topics };
        let (mut of_words, mut total) = self.fetch(&mut data, documents)?;
        for (document, topics) in documents.iter().zip(&data.topics) {
            let mut topics = topics.iter();
            for (word, count) in &document.words {
                let row = of_words.keys.binary_search(word).expect("it was fetched") * width;
                for topic in topics.by_ref().take(*count as usize) {
                    of_words.change(row + *topic as usize, 1);
                    total.change(*topic as usize, 1);
                }
            }
        }
        of_words.add_to(&mut data.word_topics)?;
        total.add_to(&mut data.totals)?;
        // After this many clocks every worker sees all initial counts.
        let clocks = match self.flags.consistency {
            Consistency::Ssp(staleness) => staleness + 1,
            Consistency::Bsp | Consistency::Async => 1,
        };
        (0..clocks).try_for_each(|_| self.clock(&mut data))?;
        Ok(data)
    }

    fn batch(&self, data: &mut WorkerData<'_>, batch: Batch) -> hemiola::Result<f64> {
        let (width, random, all) = (self.flags.width, PhiloxRng::new(2), data.documents);
        let range = batch.of(all.len());
        let documents = &all[range.clone()];
        let (mut of_words, mut total) = self.fetch(data, documents)?;
        let (mut loss, mut weights) = (0.0, vec![0.0; width]);
        for (document, topics) in documents.iter().zip(&mut data.topics[range]) {
            let mut of_document = vec![0_i32; width];
            for topic in &*topics {
                of_document[*topic as usize] += 1;
            }
            let length = topics.len() as f64 - 1.0;
            let mut at = 0;
            for (word, count) in &document.words {
                let row = of_words.keys.binary_search(word).expect("it was fetched") * width;
                for _ in 0..*count {
                    let old = topics[at] as usize;
                    of_document[old] -= 1;
                    of_words.change(row + old, -1);
                    total.change(old, -1);
                    for (topic, weight) in weights.iter_mut().enumerate() {
                        // Without a staleness bound, a decrement may arrive before its increment.
                        let (of_word, total) = (of_words.counts[row + topic].max(0), total.counts[topic].max(0));
                        *weight = (f64::from(of_document[topic]) + ALPHA) * (f64::from(of_word) + BETA)
                            / (f64::from(total) + self.words as f64 * BETA);
                    }
                    let sum: f64 = weights.iter().sum();
                    let unit = random.random_f64(document.number, (batch.epoch as u64) << 32 | at as u64);
                    let new = sample(&weights, unit * sum);
                    loss -= (sum / (length + width as f64 * ALPHA)).ln();
                    topics[at] = new as u16;
                    of_document[new] += 1;
                    of_words.change(row + new, 1);
                    total.change(new, 1);
                    at += 1;
                }
            }
        }
        of_words.add_to(&mut data.word_topics)?;
        total.add_to(&mut data.totals)?;
        Ok(loss)
    }

    fn clock(&self, data: &mut WorkerData<'_>) -> hemiola::Result<()> {
        data.word_topics.clock()?;
        data.totals.clock()
    }

    fn stop(&self, reason: &str) {
        self.word_topics.stop(reason);
        self.totals.stop(reason);
    }
}

/// Samples an index: the first whose cumulative weight exceeds `left`.
fn sample(weights: &[f64], mut left: f64) -> usize {
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    found.unwrap_or(weights.len() - 1)
}

/// Synthetic documents of about 60 words each, drawn from an LDA model.
fn synthetic_counts(cluster: &Cluster, [documents, words]: [u64; 2], topics: u64) -> hemiola::Result<Counts> {
    let lda = SyntheticLda::new(documents, words, topics, 60, 5);
    let rows: Vec<BTreeMap<u64, u32>> = lda.rows().map(|row| row.into_iter().collect()).collect();
    let count = |[document, word]: [u64; 2]| rows[document as usize].get(&word).copied().unwrap_or(0);
    cluster.from_fn([documents, words], count)?.entries().filter(|_, count| *count > 0).materialize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curves(peers: usize, text: &str) -> hemiola::Result<Vec<Vec<f64>>> {
        let flags = defaults().parse(text.split_whitespace().map(str::to_owned))?;
        let train = |cluster: &Cluster| {
            let (tokens, epochs) = train(cluster, &synthetic_counts(cluster, [120, 200], 5)?, &flags)?;
            Ok(epochs.iter().map(|epoch| (epoch.loss / tokens as f64).exp()).collect())
        };
        hemiola::standalone(peers).workers(2).run(train)
    }

    #[test]
    fn perplexity_falls_with_all_flags() {
        for text in ["", "--staleness 2", "--staleness 3 --budget 50 --clocks 2 --batches 4"] {
            for peers in [1, 2, 3] {
                for curve in curves(peers, &format!("--width 5 --epochs 15 {text}")).unwrap() {
                    let (first, last) = (curve[0], curve[curve.len() - 1]);
                    assert!(last < 0.8 * first, "{text}, {peers} peers: from {first} to {last}");
                }
            }
        }
        // Without a staleness bound convergence is not guaranteed; the values must stay finite.
        let unbounded = curves(2, "--width 5 --staleness none").unwrap();
        assert!(unbounded.into_iter().flatten().all(f64::is_finite));
        let error = curves(1, "--update-rule sgd").unwrap_err().to_string();
        assert_eq!(error, "`--update-rule sgd`: counts are added, so the only rule is `add`");
    }

    #[test]
    fn counts_are_conserved() {
        let flags = defaults().parse("--staleness 2 --epochs 4".split_whitespace().map(str::to_owned)).unwrap();
        let train = |cluster: &Cluster| {
            let counts = synthetic_counts(cluster, [60, 100], 5)?;
            let mine = divide(&counts, cluster.workers());
            let table = |name: &str, rows| flags.configure(cluster.table::<i32>(name).rows(rows).width(10)).build();
            let (word_topics, totals) = (table("word topics", 100)?, table("totals", 1)?);
            let sampler = Sampler { word_topics, totals, mine, words: 100, flags: &flags };
            ssp_training::train(cluster, &flags, &sampler)?;
            let mut of_words: BTreeMap<u64, i64> = BTreeMap::new();
            counts
                .collect()?
                .iter()
                .for_each(|([_, word], count)| *of_words.entry(*word).or_default() += i64::from(*count));
            let found = sampler.word_topics.collect()?;
            let sum = |row: &Vec<i32>| row.iter().map(|count| i64::from(*count)).sum::<i64>();
            assert!(found.values().flatten().all(|count| *count >= 0));
            assert_eq!(found.iter().map(|(word, row)| (*word, sum(row))).collect::<BTreeMap<_, _>>(), of_words);
            assert_eq!(sum(&sampler.totals.collect()?[&0]), of_words.values().sum::<i64>());
            Ok(())
        };
        hemiola::standalone(3).workers(2).run(train).unwrap();
    }

    #[test]
    fn bsp_repeats_bit_for_bit() {
        let bits = || -> Vec<Vec<u64>> {
            let curves = curves(2, "--epochs 5").unwrap();
            curves.into_iter().map(|curve| curve.into_iter().map(f64::to_bits).collect()).collect()
        };
        assert_eq!(bits(), bits());
    }
}
