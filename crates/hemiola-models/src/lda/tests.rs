//! What must hold of training whatever the sampler: counts are those of topics, bits do not depend on machines, and topics have the distribution they should.

use super::block::Block;
use super::counts::{Counts, Form};
use super::layout::Layout;
use super::random::Key;
use super::sampler::Machine;
use super::sampler::word::Word;
use super::special::ln_gamma;
use super::state::State;
use super::{Corpus, Vocabulary};
use hemiola::{Cluster, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

const FORMS: [Form; 3] = [Form::Rows, Form::Lists, Form::Tables];

fn corpus(words: u32, documents: Vec<Vec<(u32, u32)>>) -> Corpus {
    Corpus::new(documents, Arc::new(Vocabulary::numbered(words))).unwrap()
}

/// Documents of up to so many tokens, some of them empty, frequent words and rare ones.
fn random_corpus(seed: u64, documents: u64, words: u32, longest: u64) -> Corpus {
    let key = Key::new(&[seed, 77]);
    let document = |number: u64| {
        let length = key.below(number << 20, longest + 1) * u64::from(!number.is_multiple_of(5));
        let word = |at: u64| {
            let place = u64::from(words) * u64::from(words);
            (key.below(number << 20 | (at + 1), place) as f64).sqrt() as u32
        };
        (0..length).map(|at| (word(at).min(words - 1), 1)).collect()
    };
    corpus(words, (0..documents).map(document).collect())
}

fn begun(cluster: &Cluster, corpus: &Corpus, form: Form, topics: usize, parts: usize, seed: u64) -> Result<State> {
    let layout = Arc::new(Layout::new(cluster, corpus, topics, parts)?);
    let mut state = State::new(cluster, corpus, layout, form, (vec![0.2; topics], 0.05, seed))?;
    state.scatter(cluster)?;
    Ok(state)
}

fn alone<T: Send>(workers: usize, with: impl Fn(&Cluster) -> Result<T> + Sync) -> T {
    hemiola::standalone(1).workers(workers).run(with).unwrap().remove(0)
}

/// All counts of documents.
fn of_documents(state: &State) -> Vec<Vec<(usize, u32)>> {
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

/// All counts of words.
fn of_words(state: &State) -> Vec<Option<Vec<u8>>> {
    state.blocks.iter().map(|block| block.as_ref().map(Block::pack)).collect()
}

#[test]
fn counts_are_those_of_a_recount() {
    for (seed, topics, parts) in [(1, 1, 1), (2, 2, 3), (3, 9, 2), (4, 60, 4), (5, 130, 1), (6, 400, 3)] {
        let corpus = random_corpus(seed, 40, 30, 60);
        for form in FORMS {
            alone(2, |cluster| {
                let mut state = begun(cluster, &corpus, form, topics, parts, seed)?;
                let mut words = vec![Word::new(topics); cluster.workers()];
                for pass in 1..=4 {
                    state.pass(cluster, &mut words, Machine::Best)?;
                    state.learn(cluster, pass == 2, pass == 2)?;
                    let mut again = state.clone();
                    again.count(cluster)?;
                    assert_eq!(of_documents(&again), of_documents(&state), "{form:?} {topics}");
                    assert!(of_words(&again) == of_words(&state), "{form:?} {topics}");
                    assert_eq!(again.totals, state.totals, "{form:?} {topics}");
                    assert_eq!(state.totals.iter().sum::<i32>() as u64, corpus.tokens());
                    assert!(form == Form::Tables || again.parts == state.parts, "lists are in order");
                }
                Ok(())
            });
        }
    }
}

#[test]
fn machines_draw_the_same_topics() {
    for (topics, longest) in [(3, 50), (50, 70), (100, 120), (300, 400)] {
        let corpus = random_corpus(9, 60, 50, longest);
        for form in FORMS {
            let topics_by = |machine| {
                alone(1, |cluster| {
                    let mut state = begun(cluster, &corpus, form, topics, 2, 5)?;
                    let mut words = vec![Word::new(topics)];
                    for _ in 0..3 {
                        state.pass(cluster, &mut words, machine)?;
                    }
                    Ok(state.parts.into_iter().map(|part| part.topics).collect::<Vec<_>>())
                })
            };
            assert_eq!(topics_by(Machine::Best), topics_by(Machine::Plain), "{form:?} {topics}");
        }
    }
}

#[test]
fn wide_counts_draw_what_narrow_ones_do() {
    let corpus = random_corpus(4, 50, 40, 80);
    for form in [Form::Lists, Form::Tables] {
        let by = |longest: Option<u64>| {
            alone(1, |cluster| {
                let mut layout = Layout::new(cluster, &corpus, 70, 1)?;
                // As though there were a longer document elsewhere.
                layout.longest = longest.unwrap_or(layout.longest);
                let mut state = State::new(cluster, &corpus, Arc::new(layout), form, (vec![0.2; 70], 0.05, 5))?;
                state.scatter(cluster)?;
                let wide = matches!(state.parts[0].counts, Counts::WideLists(_) | Counts::WideTables(_));
                assert_eq!(wide, longest.is_some());
                let mut words = vec![Word::new(70)];
                for _ in 0..3 {
                    state.pass(cluster, &mut words, Machine::Best)?;
                }
                Ok((of_documents(&state), of_words(&state)))
            })
        };
        assert_eq!(by(None), by(Some(70_000)));
    }
}

/// Counts of a topic in a document, or of a word in a topic.
type Pairs = BTreeMap<(usize, usize), f64>;

/// The textbook: topics of all tokens in `f64`, drawn one after the other, in the order of words as the samplers take them.
struct Textbook {
    topics: usize,
    words: usize,
    tokens: Vec<(usize, usize)>,
    assigned: Vec<usize>,
    alpha: f64,
    beta: f64,
}

impl Textbook {
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
        let place = |(word, (_, documents)): (usize, (u32, Vec<usize>))| -> Vec<(usize, usize)> {
            documents.into_iter().map(|document| (document, word)).collect()
        };
        let tokens: Vec<_> = order.into_iter().enumerate().flat_map(place).collect();
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

    /// Draws all topics anew, `passes` times; the likelihood after each.
    fn sample(&mut self, seed: u64, passes: usize) -> Vec<f64> {
        let key = Key::new(&[seed, 1234]);
        self.assigned
            .iter_mut()
            .enumerate()
            .for_each(|(at, topic)| *topic = key.below(at as u64, self.topics as u64) as usize);
        let (mut documents, mut words, mut totals) = self.counts();
        let mut trajectory = Vec::new();
        for pass in 1..=passes {
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
                let mut left = f64::from(key.unit((pass << 32 | at) as u64)) * weights.iter().sum::<f64>();
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
            trajectory.push(self.likelihood() / self.tokens.len() as f64);
        }
        trajectory
    }

    /// `log p(w, z)`, from its definition.
    fn likelihood(&self) -> f64 {
        let (documents, words, totals) = self.counts();
        let mut lengths: BTreeMap<usize, f64> = BTreeMap::new();
        self.tokens.iter().for_each(|(document, _)| *lengths.entry(*document).or_insert(0.0) += 1.0);
        let (all, betas) = (self.alpha * self.topics as f64, self.beta * self.words as f64);
        let risen = |x: f64, n: f64| ln_gamma(x + n) - ln_gamma(x);
        documents.values().map(|count| risen(self.alpha, *count)).sum::<f64>()
            - lengths.values().map(|length| risen(all, *length)).sum::<f64>()
            + words.values().map(|count| risen(self.beta, *count)).sum::<f64>()
            - totals.iter().map(|total| risen(betas, *total)).sum::<f64>()
    }
}

#[test]
fn the_likelihood_is_that_of_its_definition() {
    let corpus = random_corpus(8, 30, 20, 40);
    for form in FORMS {
        alone(1, |cluster| {
            let mut state = begun(cluster, &corpus, form, 7, 1, 3)?;
            let mut words = vec![Word::new(7)];
            state.pass(cluster, &mut words, Machine::Best)?;
            let mut textbook = Textbook::new(&corpus, 7, (0.2, 0.05));
            textbook.assigned =
                (0..state.parts[0].topics.len()).map(|token| state.parts[0].topics.get(token)).collect();
            let expected = textbook.likelihood() / textbook.tokens.len() as f64;
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
fn trajectories_are_those_of_the_textbook() {
    let corpus = {
        let lda = hemiola::array::synthetic::Lda::new(120, 100, 5, 50, 3);
        let rows = lda.rows().map(|row| row.into_iter().map(|(word, count)| (word as u32, count)).collect());
        corpus(100, rows.collect())
    };
    let seeds = 1..=5_u64;
    let textbook: Vec<Vec<f64>> =
        seeds.clone().map(|seed| Textbook::new(&corpus, 8, (0.2, 0.05)).sample(seed, 40)).collect();
    for form in [Form::Rows, Form::Lists] {
        let ours = seeds.clone().map(|seed| {
            alone(2, |cluster| {
                let mut state = begun(cluster, &corpus, form, 8, 3, seed)?;
                let mut words = vec![Word::new(8); 2];
                let mut trajectory = Vec::new();
                for _ in 0..40 {
                    state.pass(cluster, &mut words, Machine::Best)?;
                    trajectory.push(state.likelihood(cluster)?);
                }
                Ok(trajectory)
            })
        });
        let ours: Vec<Vec<f64>> = ours.collect();
        for pass in [1, 2, 4, 9, 19, 39] {
            let at = |all: &[Vec<f64>]| mean_and_error(&all.iter().map(|one| one[pass]).collect::<Vec<_>>());
            let ((ours, our_error), (theirs, their_error)) = (at(&ours), at(&textbook));
            // Four standard errors, and what rotation in three parts takes a little longer for in the first passes.
            let noise = 4.0 * (our_error.powi(2) + their_error.powi(2)).sqrt() + 0.01;
            assert!((ours - theirs).abs() < noise, "{form:?} pass {}: {ours} and {theirs} ± {noise}", pass + 1);
        }
    }
}

/// How often pairs of tokens have the same topic, and the mean likelihood: over all assignments, by their probabilities.
fn enumerated(textbook: &mut Textbook) -> (Vec<f64>, f64) {
    let count = textbook.tokens.len();
    let mut likelihoods = Vec::new();
    for number in 0..textbook.topics.pow(count as u32) {
        assign(textbook, number);
        likelihoods.push(textbook.likelihood());
    }
    let most = likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let all: f64 = likelihoods.iter().map(|likelihood| (likelihood - most).exp()).sum();
    let (mut same, mut mean) = (vec![0.0; count * count], 0.0);
    for (number, likelihood) in likelihoods.iter().enumerate() {
        assign(textbook, number);
        let share = (likelihood - most).exp() / all;
        mean += share * likelihood;
        add_pairs(&mut same, &textbook.assigned, share);
    }
    (same, mean)
}

fn assign(textbook: &mut Textbook, mut number: usize) {
    for topic in &mut textbook.assigned {
        *topic = number % textbook.topics;
        number /= textbook.topics;
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
fn samplers_have_the_distribution_of_all_assignments() {
    // Words that occur once and words that occur often, in documents that share some.
    let two = corpus(4, vec![vec![(0, 2), (1, 1), (2, 1)], vec![(0, 1), (2, 2), (3, 1)]]);
    let one = corpus(4, vec![vec![(0, 3), (1, 1), (2, 3), (3, 1)]]);
    // In one document and with a block for each word nothing is done at the same time, so rows are exact; two words that are drawn side by side go by the same totals of topics, which with
    // eight tokens in all would show. So does, a little, that proposals go by counts of words that are a few tokens old.
    for (form, corpus, parts, bound) in [
        (Form::Rows, &one, 4, 0.015),
        (Form::Lists, &two, 1, 0.015),
        (Form::Tables, &two, 1, 0.05),
        (Form::Tables, &one, 4, 0.05),
    ] {
        let (expected, mean) = enumerated(&mut Textbook::new(corpus, 3, (0.2, 0.05)));
        let passes = 30_000;
        let (same, found) = alone(1, |cluster| {
            let mut state = begun(cluster, corpus, form, 3, parts, 7)?;
            let mut words = vec![Word::new(3)];
            let mut same = vec![0.0; expected.len()];
            let mut sum = 0.0;
            for _ in 0..passes {
                state.pass(cluster, &mut words, Machine::Best)?;
                let topics = state.parts.iter().map(|part| &part.topics).find(|topics| topics.len() == 8).unwrap();
                // Blocks are in the order of words by frequency, as in the textbook.
                let assigned: Vec<usize> = (0..8).map(|token| topics.get(token)).collect();
                add_pairs(&mut same, &assigned, 1.0 / f64::from(passes));
                sum += state.likelihood(cluster)? * 8.0 / f64::from(passes);
            }
            Ok((same, sum))
        });
        let far = same.iter().zip(&expected).map(|(same, expected)| (same - expected).abs()).fold(0.0, f64::max);
        assert!(far < bound, "{form:?} in {parts} parts: off by {far}");
        assert!((found - mean).abs() < 10.0 * bound, "{form:?} in {parts} parts: {found} and not {mean}");
    }
}
