//! LDA by collapsed Gibbs sampling: the parallel loop on two workers beside a hand-written serial loop.

use super::timed;
use hemiola::loops::BufferExt;
use hemiola::parallel_for;
use hemiola_array::synthetic::SyntheticLda;
use hemiola_array::{ArrayExt, DistArray};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;
use std::time::Duration;

const TOPICS: usize = 100;
const ALPHA: f32 = 0.5;
const BETA: f32 = 0.1;
const DOCUMENTS: usize = 5_000;
const WORDS: usize = 2_000;

/// The topics of a word's occurrences in a document.
type Assigned = Vec<u16>;

/// Counts by topic from which sampling weights are computed. The total is the sum of `total` and of
/// the buffered changes in `waiting`.
struct TopicCounts<'a> {
    doc: &'a [i32],
    word: &'a [i32],
    total: &'a [i32],
    waiting: &'a [i32],
}

/// Draws a topic by its weight.
#[inline]
fn draw(counts: &TopicCounts<'_>, chance: f32) -> usize {
    // Arrays of constant length, which the compiler can vectorize.
    let TopicCounts { doc, word, total, waiting } = counts;
    let [doc, word, total, waiting] =
        [doc, word, total, waiting].map(|counts| counts.first_chunk::<TOPICS>().expect("one count for each topic"));
    let weights: [f32; TOPICS] = std::array::from_fn(|topic| {
        let total = (total[topic] + waiting[topic]) as f32;
        (doc[topic] as f32 + ALPHA) * (word[topic] as f32 + BETA) / (total + BETA * WORDS as f32)
    });
    let wanted = chance * weights.iter().sum::<f32>();
    let mut sum = 0.0;
    let reached = weights.iter().position(|weight| {
        sum += weight;
        sum > wanted
    });
    reached.unwrap_or(TOPICS - 1)
}

/// Counter of the random number for one occurrence.
fn place(document: usize, word: usize, occurrence: usize) -> u64 {
    ((document * WORDS + word) * 64 + occurrence) as u64
}

fn corpus(cluster: &Cluster) -> Result<DistArray<Assigned, 2>> {
    let set = SyntheticLda { documents: DOCUMENTS, words: WORDS, topics: TOPICS, seed: 3, ..SyntheticLda::default() };
    let made = set.generator();
    let values = PhiloxRng::new(9);
    let documents = cluster.from_fn([DOCUMENTS], |[document]| made.row(document))?;
    let rows = documents.collect()?;
    let counts = |[document, word]: [usize; 2]| {
        let row = &rows[document].1;
        row.binary_search_by_key(&word, |(other, _)| *other).map_or(0, |at| row[at].1 as usize)
    };
    let all = cluster.from_fn([DOCUMENTS, WORDS], |_| ())?;
    let assigned = |key: [usize; 2], ()| {
        let first = |at| values.random_below(place(key[0], key[1], at), 0, TOPICS as u64) as u16;
        (0..counts(key)).map(first).collect::<Assigned>()
    };
    all.entries().filter(|key, ()| counts(key) > 0).map(assigned).materialize()
}

/// Counts of topics by document, by word, and in all.
fn counted(entries: &[([usize; 2], Assigned)]) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    let mut by_document = vec![0; DOCUMENTS * TOPICS];
    let mut by_word = vec![0; WORDS * TOPICS];
    let mut totals = vec![0; TOPICS];
    for ([document, word], topics) in entries {
        for topic in topics {
            by_document[document * TOPICS + usize::from(*topic)] += 1;
            by_word[word * TOPICS + usize::from(*topic)] += 1;
            totals[usize::from(*topic)] += 1;
        }
    }
    (by_document, by_word, totals)
}

struct ParallelLda {
    tokens: DistArray<Assigned, 2>,
    by_document: DistArray<i32, 2>,
    by_word: DistArray<i32, 2>,
    /// One row, so that a loop body can borrow it whole.
    totals: DistArray<i32, 2>,
}

impl ParallelLda {
    fn new(cluster: &Cluster) -> Result<Self> {
        let tokens = corpus(cluster)?;
        let (documents, words, totals) = counted(&tokens.collect()?);
        Ok(Self {
            tokens,
            by_document: cluster.from_fn([DOCUMENTS, TOPICS], |[d, k]| documents[d * TOPICS + k])?,
            by_word: cluster.from_fn([WORDS, TOPICS], |[w, k]| words[w * TOPICS + k])?,
            totals: cluster.from_fn([1, TOPICS], |[_, k]| totals[k])?,
        })
    }

    fn pass(&mut self, cluster: &Cluster, pass: u64) -> Result<()> {
        let Self { tokens, by_document, by_word, totals } = self;
        let values = PhiloxRng::new(11);
        let pending = totals.buffered(|total: &mut i32, change: i32| *total += change);
        parallel_for!(
            cluster,
            for ([d, w], topics) in &mut *tokens {
                let (doc, word) = (&mut by_document[d], &mut by_word[w]);
                let (total, waiting) = (&totals[0], &mut pending[0]);
                for (at, topic) in topics.iter_mut().enumerate() {
                    let old = usize::from(*topic);
                    doc[old] -= 1;
                    word[old] -= 1;
                    waiting[old] -= 1;
                    let chance = values.uniform_f32(place(d, w, at), pass, 0.0..1.0);
                    let new = draw(&TopicCounts { doc, word, total, waiting }, chance);
                    doc[new] += 1;
                    word[new] += 1;
                    waiting[new] += 1;
                    *topic = new as u16;
                }
            }
        )?;
        Ok(())
    }
}

struct SerialLda {
    tokens: Vec<([usize; 2], Assigned)>,
    by_document: Vec<i32>,
    by_word: Vec<i32>,
    totals: Vec<i32>,
}

impl SerialLda {
    fn pass(&mut self, pass: u64) {
        let values = PhiloxRng::new(11);
        let Self { tokens, by_document, by_word, totals } = self;
        let none = [0; TOPICS];
        for ([d, w], topics) in &mut *tokens {
            let (d, w) = (*d, *w);
            let doc = &mut by_document[d * TOPICS..][..TOPICS];
            let word = &mut by_word[w * TOPICS..][..TOPICS];
            for (at, topic) in topics.iter_mut().enumerate() {
                let old = usize::from(*topic);
                doc[old] -= 1;
                word[old] -= 1;
                totals[old] -= 1;
                let chance = values.uniform_f32(place(d, w, at), pass, 0.0..1.0);
                let new = draw(&TopicCounts { doc, word, total: totals, waiting: &none }, chance);
                doc[new] += 1;
                word[new] += 1;
                totals[new] += 1;
                *topic = new as u16;
            }
        }
    }
}

/// The speed of two workers over the serial loop.
pub(super) fn speedup(rounds: u32) -> Result<f64> {
    Cluster::builder().workers(2).run(|cluster| {
        let mut model = ParallelLda::new(cluster)?;
        let tokens = model.tokens.collect()?;
        let (by_document, by_word, totals) = counted(&tokens);
        let mut by_hand = SerialLda { tokens, by_document, by_word, totals };
        let mut best = [Duration::MAX; 2];
        for round in 0..=rounds {
            let ((), serial) = timed(cluster, || {
                by_hand.pass(u64::from(round));
                Ok(())
            })?;
            let ((), parallel) = timed(cluster, || model.pass(cluster, u64::from(round)))?;
            if round > 0 {
                best = [best[0].min(serial), best[1].min(parallel)];
            }
        }
        Ok(best[0].as_secs_f64() / best[1].as_secs_f64())
    })
}
