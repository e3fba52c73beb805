//! Properties of training for every sampler: counts equal a recount, bits do not depend on the
//! machine, and topics have the right distribution.

use super::block::WordBlock;
use super::counts::{CountLayout, DocumentCounts};
use super::layout::LdaLayout;
use super::rng::CounterRng;
use super::sampler::SimdLevel;
use super::sampler::word_state::WordState;
use super::special::ln_gamma;
use super::state::LdaState;
use super::{Corpus, LdaVocabulary};
use hemiola_cluster::{Cluster, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

const FORMS: [CountLayout; 3] = [CountLayout::Rows, CountLayout::Lists, CountLayout::Tables];

fn corpus(words: u32, documents: Vec<Vec<(u32, u32)>>) -> Corpus {
    Corpus::new(documents, Arc::new(LdaVocabulary::numbered(words))).unwrap()
}

/// Documents of up to `longest` tokens, some of them empty, with frequent and rare words.
fn random_corpus(seed: u64, documents: u64, words: u32, longest: u64) -> Corpus {
    let key = CounterRng::new(&[seed, 77]);
    let document = |number: u64| {
        let length = key.below(number << 20, longest + 1) * u64::from(!number.is_multiple_of(5));
        let word = |at: u64| {
            let index = u64::from(words) * u64::from(words);
            (key.below(number << 20 | (at + 1), index) as f64).sqrt() as u32
        };
        (0..length).map(|at| (word(at).min(words - 1), 1)).collect()
    };
    corpus(words, (0..documents).map(document).collect())
}

fn random_state(
    cluster: &Cluster,
    corpus: &Corpus,
    form: CountLayout,
    topics: usize,
    parts: usize,
    seed: u64,
) -> Result<LdaState> {
    let layout = Arc::new(LdaLayout::new(cluster, corpus, topics, parts)?);
    let mut state = LdaState::new(cluster, corpus, layout, form, (vec![0.2; topics], 0.05, seed))?;
    state.randomize_topics(cluster)?;
    Ok(state)
}

fn alone<T: Send>(workers: usize, with: impl Fn(&Cluster) -> Result<T> + Sync) -> T {
    hemiola_cluster::standalone(1).workers(workers).run(with).unwrap().remove(0)
}

/// Topic counts of all documents.
fn of_documents(state: &LdaState) -> Vec<Vec<(usize, u32)>> {
    let mut all = Vec::new();
    for part in &state.parts {
        for document in 0..part.lengths.len() {
            let mut own = Vec::new();
            part.counts.each(document, |topic, count| own.push((topic, count)));
            all.push(own);
        }
    }
    all
}

/// Serialized word counts of all blocks.
fn of_words(state: &LdaState) -> Vec<Option<Vec<u8>>> {
    state.blocks.iter().map(|block| block.as_ref().map(WordBlock::pack)).collect()
}

#[test]
fn counts_equal_a_recount() {
    for (seed, topics, parts) in [(1, 1, 1), (2, 2, 3), (3, 9, 2), (4, 60, 4), (5, 130, 1), (6, 400, 3)] {
        let corpus = random_corpus(seed, 40, 30, 60);
        for form in FORMS {
            alone(2, |cluster| {
                let mut state = random_state(cluster, &corpus, form, topics, parts, seed)?;
                let mut words = vec![WordState::new(topics); cluster.workers()];
                for sweep in 1..=4 {
                    state.sweep(cluster, &mut words, SimdLevel::Best)?;
                    state.learn(cluster, sweep == 2, sweep == 2)?;
                    let mut again = state.clone();
                    again.count(cluster)?;
                    assert_eq!(of_documents(&again), of_documents(&state), "{form:?} {topics}");
                    assert!(of_words(&again) == of_words(&state), "{form:?} {topics}");
                    assert_eq!(again.totals, state.totals, "{form:?} {topics}");
                    assert_eq!(state.totals.iter().sum::<i32>() as u64, corpus.tokens());
                    assert!(form == CountLayout::Tables || again.parts == state.parts, "lists are in order");
                }
                Ok(())
            });
        }
    }
}

#[test]
fn simd_and_scalar_code_sample_the_same_topics() {
    for (topics, longest) in [(3, 50), (50, 70), (100, 120), (300, 400)] {
        let corpus = random_corpus(9, 60, 50, longest);
        for form in FORMS {
            let topics_by = |machine| {
                alone(1, |cluster| {
                    let mut state = random_state(cluster, &corpus, form, topics, 2, 5)?;
                    let mut words = vec![WordState::new(topics)];
                    for _ in 0..3 {
                        state.sweep(cluster, &mut words, machine)?;
                    }
                    Ok(state.parts.into_iter().map(|part| part.topics).collect::<Vec<_>>())
                })
            };
            assert_eq!(topics_by(SimdLevel::Best), topics_by(SimdLevel::Scalar), "{form:?} {topics}");
        }
    }
}

#[test]
fn wide_and_narrow_counts_sample_the_same_topics() {
    let corpus = random_corpus(4, 50, 40, 80);
    for form in [CountLayout::Lists, CountLayout::Tables] {
        let by = |longest: Option<u64>| {
            alone(1, |cluster| {
                let mut layout = LdaLayout::new(cluster, &corpus, 70, 1)?;
                // As though there were a longer document on another peer.
                layout.longest = longest.unwrap_or(layout.longest);
                let mut state = LdaState::new(cluster, &corpus, Arc::new(layout), form, (vec![0.2; 70], 0.05, 5))?;
                state.randomize_topics(cluster)?;
                let wide =
                    matches!(state.parts[0].counts, DocumentCounts::WideLists(_) | DocumentCounts::WideTables(_));
                assert_eq!(wide, longest.is_some());
                let mut words = vec![WordState::new(70)];
                for _ in 0..3 {
                    state.sweep(cluster, &mut words, SimdLevel::Best)?;
                }
                Ok((of_documents(&state), of_words(&state)))
            })
        };
        assert_eq!(by(None), by(Some(70_000)));
    }
}

/// Counts by (document, topic) or (word, topic).
type Pairs = BTreeMap<(usize, usize), f64>;

/// Reference sampler: topics of all tokens in `f64`, sampled one by one in the word order of the
/// samplers.
struct ReferenceSampler {
    topics: usize,
    words: usize,
    tokens: Vec<(usize, usize)>,
    assigned: Vec<usize>,
    alpha: f64,
    beta: f64,
}

impl ReferenceSampler {
    fn new(corpus: &Corpus, topics: usize, (alpha, beta): (f64, f64)) -> Self {
        let mut by_word: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (document, (words, counts)) in corpus.iter().enumerate() {
            for (word, count) in words.iter().zip(counts) {
                by_word.entry(*word).or_default().extend(std::iter::repeat_n(document, *count as usize));
            }
        }
        let mut order: Vec<(u32, Vec<usize>)> = by_word.into_iter().collect();
        order.sort_by_key(|(word, documents)| (std::cmp::Reverse(documents.len()), *word));
        let words = order.len();
        let index = |(word, (_, documents)): (usize, (u32, Vec<usize>))| -> Vec<(usize, usize)> {
            documents.into_iter().map(|document| (document, word)).collect()
        };
        let tokens: Vec<_> = order.into_iter().enumerate().flat_map(index).collect();
        Self { topics, words, assigned: vec![0; tokens.len()], tokens, alpha, beta }
    }

    fn counts(&self) -> (Pairs, Pairs, Vec<f64>) {
        let (mut documents, mut words, mut totals) = (BTreeMap::new(), BTreeMap::new(), vec![0.0; self.topics]);
        for ((document, word), topic) in self.tokens.iter().zip(&self.assigned) {
            *documents.entry((*document, *topic)).or_insert(0.0) += 1.0;
            *words.entry((*word, *topic)).or_insert(0.0) += 1.0;
            totals[*topic] += 1.0;
        }
        (documents, words, totals)
    }

    /// Runs `sweeps` sweeps; returns the likelihood after each.
    fn sample(&mut self, seed: u64, sweeps: usize) -> Vec<f64> {
        let key = CounterRng::new(&[seed, 1234]);
        self.assigned
            .iter_mut()
            .enumerate()
            .for_each(|(at, topic)| *topic = key.below(at as u64, self.topics as u64) as usize);
        let (mut documents, mut words, mut totals) = self.counts();
        let mut curve = Vec::new();
        for sweep in 1..=sweeps {
            for (at, (document, word)) in self.tokens.clone().into_iter().enumerate() {
                let old = self.assigned[at];
                *documents.get_mut(&(document, old)).unwrap() -= 1.0;
                *words.get_mut(&(word, old)).unwrap() -= 1.0;
                totals[old] -= 1.0;
                let get = |counts: &Pairs, key| counts.get(&key).copied().unwrap_or(0.0);
                let weights: Vec<f64> = (0..self.topics)
                    .map(|topic| {
                        (get(&documents, (document, topic)) + self.alpha) * (get(&words, (word, topic)) + self.beta)
                            / (totals[topic] + self.words as f64 * self.beta)
                    })
                    .collect();
                let mut left = f64::from(key.unit((sweep << 32 | at) as u64)) * weights.iter().sum::<f64>();
                let found = weights.iter().position(|weight| {
                    left -= weight;
                    left < 0.0
                });
                let new = found.unwrap_or(self.topics - 1);
                self.assigned[at] = new;
                *documents.entry((document, new)).or_insert(0.0) += 1.0;
                *words.entry((word, new)).or_insert(0.0) += 1.0;
                totals[new] += 1.0;
            }
            curve.push(self.likelihood() / self.tokens.len() as f64);
        }
        curve
    }

    /// Computes `log p(w, z)` from its definition.
    fn likelihood(&self) -> f64 {
        let (documents, words, totals) = self.counts();
        let mut lengths: BTreeMap<usize, f64> = BTreeMap::new();
        self.tokens.iter().for_each(|(document, _)| *lengths.entry(*document).or_insert(0.0) += 1.0);
        let (all, betas) = (self.alpha * self.topics as f64, self.beta * self.words as f64);
        let ln_rising = |x: f64, n: f64| ln_gamma(x + n) - ln_gamma(x);
        documents.values().map(|count| ln_rising(self.alpha, *count)).sum::<f64>()
            - lengths.values().map(|length| ln_rising(all, *length)).sum::<f64>()
            + words.values().map(|count| ln_rising(self.beta, *count)).sum::<f64>()
            - totals.iter().map(|total| ln_rising(betas, *total)).sum::<f64>()
    }
}

#[test]
fn the_likelihood_matches_its_definition() {
    let corpus = random_corpus(8, 30, 20, 40);
    for form in FORMS {
        alone(1, |cluster| {
            let mut state = random_state(cluster, &corpus, form, 7, 1, 3)?;
            let mut words = vec![WordState::new(7)];
            state.sweep(cluster, &mut words, SimdLevel::Best)?;
            let mut reference = ReferenceSampler::new(&corpus, 7, (0.2, 0.05));
            reference.assigned =
                (0..state.parts[0].topics.len()).map(|token| state.parts[0].topics.get(token)).collect();
            let expected = reference.likelihood() / reference.tokens.len() as f64;
            assert!((state.likelihood(cluster)? - expected).abs() < 1e-9, "{form:?}");
            Ok(())
        });
    }
}

fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (values.len() as f64 - 1.0) / values.len() as f64).sqrt())
}

#[test]
fn likelihood_curves_match_the_reference() {
    let corpus = {
        let lda = hemiola_array::synthetic::SyntheticLda {
            documents: 120,
            words: 100,
            topics: 5,
            length: 50,
            seed: 3,
            ..Default::default()
        }
        .generator();
        let rows = lda.rows().map(|row| row.into_iter().map(|(word, count)| (word as u32, count)).collect());
        corpus(100, rows.collect())
    };
    let seeds = 1..=5_u64;
    let reference: Vec<Vec<f64>> =
        seeds.clone().map(|seed| ReferenceSampler::new(&corpus, 8, (0.2, 0.05)).sample(seed, 40)).collect();
    for form in [CountLayout::Rows, CountLayout::Lists] {
        let ours = seeds.clone().map(|seed| {
            alone(2, |cluster| {
                let mut state = random_state(cluster, &corpus, form, 8, 3, seed)?;
                let mut words = vec![WordState::new(8); 2];
                let mut curve = Vec::new();
                for _ in 0..40 {
                    state.sweep(cluster, &mut words, SimdLevel::Best)?;
                    curve.push(state.likelihood(cluster)?);
                }
                Ok(curve)
            })
        });
        let ours: Vec<Vec<f64>> = ours.collect();
        for sweep in [1, 2, 4, 9, 19, 39] {
            let at = |all: &[Vec<f64>]| mean_and_error(&all.iter().map(|one| one[sweep]).collect::<Vec<_>>());
            let ((ours, our_error), (theirs, their_error)) = (at(&ours), at(&reference));
            // Four standard errors, plus the lag of rotation in three partitions during the first
            // sweeps.
            let noise = 4.0 * (our_error.powi(2) + their_error.powi(2)).sqrt() + 0.01;
            assert!((ours - theirs).abs() < noise, "{form:?} sweep {}: {ours} and {theirs} ± {noise}", sweep + 1);
        }
    }
}

/// Enumerates all assignments; returns the probability that pairs of tokens share a topic, and the
/// mean likelihood.
fn enumerate_posterior(reference: &mut ReferenceSampler) -> (Vec<f64>, f64) {
    let count = reference.tokens.len();
    let mut likelihoods = Vec::new();
    for number in 0..reference.topics.pow(count as u32) {
        assign(reference, number);
        likelihoods.push(reference.likelihood());
    }
    let most = likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let all: f64 = likelihoods.iter().map(|likelihood| (likelihood - most).exp()).sum();
    let (mut same, mut mean) = (vec![0.0; count * count], 0.0);
    for (number, likelihood) in likelihoods.iter().enumerate() {
        assign(reference, number);
        let share = (likelihood - most).exp() / all;
        mean += share * likelihood;
        add_pairs(&mut same, &reference.assigned, share);
    }
    (same, mean)
}

fn assign(reference: &mut ReferenceSampler, mut number: usize) {
    for topic in &mut reference.assigned {
        *topic = number % reference.topics;
        number /= reference.topics;
    }
}

fn add_pairs(same: &mut [f64], assigned: &[usize], share: f64) {
    let count = assigned.len();
    for left in 0..count {
        for right in 0..count {
            same[left * count + right] += share * f64::from(u8::from(assigned[left] == assigned[right]));
        }
    }
}

#[test]
fn samplers_have_the_exact_posterior() {
    // Words that occur once and words that occur often, in documents that share some.
    let two = corpus(4, vec![vec![(0, 2), (1, 1), (2, 1)], vec![(0, 1), (2, 2), (3, 1)]]);
    let one = corpus(4, vec![vec![(0, 3), (1, 1), (2, 3), (3, 1)]]);
    // In one document with a block for each word nothing is concurrent, so dense rows are exact.
    // Two words sampled side by side use the same topic totals, which shows with eight tokens in
    // total. So does, a little, that Metropolis-Hastings proposals use word counts that are a few
    // tokens old.
    for (form, corpus, parts, bound) in [
        (CountLayout::Rows, &one, 4, 0.015),
        (CountLayout::Lists, &two, 1, 0.015),
        (CountLayout::Tables, &two, 1, 0.05),
        (CountLayout::Tables, &one, 4, 0.05),
    ] {
        let (expected, mean) = enumerate_posterior(&mut ReferenceSampler::new(corpus, 3, (0.2, 0.05)));
        let sweeps = 30_000;
        let (same, found) = alone(1, |cluster| {
            let mut state = random_state(cluster, corpus, form, 3, parts, 7)?;
            let mut words = vec![WordState::new(3)];
            let mut same = vec![0.0; expected.len()];
            let mut sum = 0.0;
            for _ in 0..sweeps {
                state.sweep(cluster, &mut words, SimdLevel::Best)?;
                let topics = state.parts.iter().map(|part| &part.topics).find(|topics| topics.len() == 8).unwrap();
                // Blocks are in the order of words by frequency, as in the reference.
                let assigned: Vec<usize> = (0..8).map(|token| topics.get(token)).collect();
                add_pairs(&mut same, &assigned, 1.0 / f64::from(sweeps));
                sum += state.likelihood(cluster)? * 8.0 / f64::from(sweeps);
            }
            Ok((same, sum))
        });
        let far = same.iter().zip(&expected).map(|(same, expected)| (same - expected).abs()).fold(0.0, f64::max);
        assert!(far < bound, "{form:?} in {parts} parts: off by {far}");
        assert!((found - mean).abs() < 10.0 * bound, "{form:?} in {parts} parts: {found} and not {mean}");
    }
}
