//! Metropolis-Hastings sampler (Yuan et al., *LightLDA*, 2015): the time of a draw grows neither
//! with the number of topics nor with those of a document.
//!
//! A token's topic `s` gets four pairs of proposals (with two, 500 sweeps of NIPS end 1.1 % below
//! the exact samplers, with four 0.5 %; eight from the hundredth sweep on reach 0.4 % in twice the
//! time of four). Each is accepted with the probability that leaves the target `(n_dk + alpha_k)
//! q_k` invariant (see [`WordState`]):
//!
//! - *word proposal*: a topic `t` proportional to the value of `q` when the word was entered, drawn
//!   from alias tables (Walker 1977): one for the topics of the word, and one shared by all words
//!   for the part that `beta` gives to all topics. Accepted with `target(t) p(s) / (target(s)
//!   p(t))`, where `p` are the weights **of the tables** (LightLDA uses the current counts, which
//!   leaves another distribution invariant) **without this token**: the weight that a token adds to
//!   its own topic is rejected and drawn again. Otherwise a word that occurs once would propose
//!   little but its own topic, and every move away from it would be accepted whatever the document
//!   says.
//! - *document proposal*: the topic of a random token of the document, or, in proportion to
//!   `alpha`, one drawn from `alpha`. That is proportional to `n_dt + alpha_t` with all tokens
//!   counted, this one with its current topic; so the document terms of `s` and `t` cancel, and the
//!   acceptance ratio is `q_t / q_s`.

use super::super::block::WordBlock;
use super::super::hash_tables::DocumentHashTables;
use super::super::rng::{CounterRng, unit};
use super::super::topic_count::TopicCount;
use super::prefetch::prefetch;
use super::word_state::WordState;
use super::{SweepWork, TokenCell};

/// Pairs of a word proposal and a document proposal per token.
const MH_STEPS: usize = 4;
/// Maximum number of redraws before the token keeps its topic.
const MAX_REDRAWS: usize = 32;
/// Random numbers reserved per token, rounded up.
const RANDOM_WORDS_PER_TOKEN: u64 = 32;
/// Prefetch distance, in tokens, of document tables and of picked tokens.
const PREFETCH_FAR: usize = 10;
/// Prefetch distance, in tokens, of the topics of picked tokens.
const PREFETCH_NEAR: usize = 5;

/// Tokens of each document, contiguous.
pub(super) struct DocumentTokens<'a> {
    pub(super) tokens: &'a [u32],
    pub(super) firsts: &'a [u32],
    pub(super) lengths: &'a [u32],
}

impl DocumentTokens<'_> {
    /// Returns the token that the document proposal of a round picks.
    #[inline(always)]
    fn picked(&self, document: usize, token: usize, round: usize, key: CounterRng) -> usize {
        let (first, length) = (self.firsts[document], self.lengths[document]);
        first as usize + key.below(token as u64 * RANDOM_WORDS_PER_TOKEN + round as u64, u64::from(length)) as usize
    }
}

/// Alias table: weighted sampling in constant time (Walker's alias method, built as in Vose 1991).
#[derive(Clone, Debug, Default)]
struct AliasTable {
    /// Per slot: below this threshold the draw is the slot itself, otherwise its alias.
    shares: Vec<f32>,
    others: Vec<u32>,
    sum: f32,
    small: Vec<u32>,
    large: Vec<u32>,
}

impl AliasTable {
    fn build(&mut self, weights: impl ExactSizeIterator<Item = f32>) {
        let count = weights.len();
        self.shares.clear();
        self.shares.extend(weights);
        self.others.clear();
        self.others.extend(0..count as u32);
        self.sum = self.shares.iter().map(|weight| f64::from(*weight)).sum::<f64>() as f32;
        let scale = count as f32 / self.sum;
        self.small.clear();
        self.large.clear();
        for (index, share) in self.shares.iter_mut().enumerate() {
            *share *= scale;
            if *share < 1.0 { &mut self.small } else { &mut self.large }.push(index as u32);
        }
        while let (Some(small), Some(large)) = (self.small.pop(), self.large.last().copied()) {
            self.others[small as usize] = large;
            let rest = self.shares[large as usize] - (1.0 - self.shares[small as usize]);
            self.shares[large as usize] = rest;
            if rest < 1.0 {
                self.large.pop();
                self.small.push(large);
            }
        }
        // Slots left over by rounding are full.
        for index in self.small.drain(..).chain(self.large.drain(..)) {
            self.shares[index as usize] = 1.0;
        }
    }

    /// Draws a slot from 64 random bits.
    #[inline(always)]
    fn draw(&self, bits: u64) -> usize {
        let index = (((bits & 0xffff_ffff) * self.shares.len() as u64) >> 32) as usize;
        if unit(bits) < self.shares[index] { index } else { self.others[index] as usize }
    }
}

/// Proposal distribution of the current word.
struct WordProposals {
    /// Weights from `beta`, with the totals at the start of the cell.
    base: Vec<f32>,
    shared: AliasTable,
    /// Weights beyond that, for the topics of the current word.
    own: AliasTable,
    topics: Vec<u32>,
    extras: Vec<f32>,
    /// Total weights of both tables.
    weights: Vec<f32>,
    /// Total weights without one token of the word.
    weights_without: Vec<f32>,
}

impl WordProposals {
    /// Creates the proposals for a new cell. `word` must have zero counts.
    fn new(word: &WordState) -> Self {
        let base: Vec<f32> = (0..word.prior.topics).map(|topic| word.quotient(topic)).collect();
        let mut shared = AliasTable::default();
        shared.build(base.iter().copied());
        let (weights, weights_without) = (base.clone(), base.clone());
        Self {
            base,
            shared,
            own: AliasTable::default(),
            topics: Vec::new(),
            extras: Vec::new(),
            weights,
            weights_without,
        }
    }

    /// Enters a word and builds its alias table.
    #[inline(always)]
    fn enter(&mut self, word: &mut WordState, block: &WordBlock, index: usize) {
        self.topics.clear();
        self.extras.clear();
        word.enter_counts(block, index, |word, topic| {
            // Totals may have grown since the base was computed: no weight is below the base.
            self.weights_without[topic] = word.without(topic).max(self.base[topic]);
            self.weights[topic] = word.quotient(topic).max(self.weights_without[topic]);
            self.topics.push(topic as u32);
            self.extras.push(self.weights[topic] - self.base[topic]);
        });
        self.own.build(self.extras.iter().copied());
    }

    /// Leaves the current word.
    #[inline(always)]
    fn leave(&mut self) {
        for topic in &self.topics {
            self.weights[*topic as usize] = self.base[*topic as usize];
            self.weights_without[*topic as usize] = self.base[*topic as usize];
        }
    }

    /// Draws a proposal for a token of original topic `old` and current topic `now`, excluding the
    /// weight that the token itself adds to `old`.
    #[inline(always)]
    fn draw(&self, old: usize, now: usize, which: f32, mut bits: u64) -> usize {
        let others = self.own.sum - (self.weights[old] - self.weights_without[old]);
        if which * (others + self.shared.sum) >= others {
            return self.shared.draw(bits);
        }
        for _ in 0..MAX_REDRAWS {
            let index = self.own.draw(bits);
            let topic = self.topics[index] as usize;
            bits = CounterRng::new(&[bits]).random_u64(0);
            if topic != old || unit(bits) * self.extras[index] < self.weights_without[old] - self.base[old] {
                return topic;
            }
        }
        now
    }

    /// Returns the proposal probability of a topic for a token of original topic `old`, up to a
    /// factor.
    #[inline(always)]
    fn weight(&self, topic: usize, old: usize) -> f32 {
        if topic == old { self.weights_without[old] } else { self.weights[topic] }
    }
}

/// Samples all tokens of a cell once.
#[inline(always)]
pub(super) fn draw<E: TopicCount>(
    word: &mut WordState,
    tables: &mut DocumentHashTables<E>,
    topics: &mut [E::Topic],
    cell: &mut TokenCell<'_>,
    of_documents: &DocumentTokens<'_>,
    key: CounterRng,
) -> SweepWork {
    let mut done = SweepWork::default();
    let handles = cell.handles;
    let Some(last) = handles.len().checked_sub(1) else { return done };
    word.clear_counts();
    let mut proposals = WordProposals::new(word);
    let mut by_alpha = AliasTable::default();
    by_alpha.build(word.prior.alpha[..word.prior.topics].iter().copied());
    for (index, bounds) in cell.starts.windows(2).enumerate() {
        let (from, to) = (bounds[0] as usize, bounds[1] as usize);
        if from == to {
            continue;
        }
        if word.stop.is_accepted() {
            break;
        }
        proposals.enter(word, cell.block, index);
        for token in from..to {
            let far = (token + PREFETCH_FAR).min(last);
            let ahead = handles[far] as usize;
            prefetch(tables.entries(), tables.start(ahead));
            let near = (token + PREFETCH_NEAR).min(last);
            for round in 0..MH_STEPS {
                prefetch(of_documents.tokens, of_documents.picked(ahead, far, round, key));
                let picked = of_documents.picked(handles[near] as usize, near, round, key);
                prefetch(topics, of_documents.tokens[picked] as usize);
            }

            let document = handles[token] as usize;
            let old = E::of(topics[token]);
            let mut table = tables.of(document);
            let length = of_documents.lengths[document] as f32;
            let without = word.without(old);
            let by_word = |topic: usize| if topic == old { without } else { word.quotient(topic) };
            let by_document =
                |topic: usize| (table.count(topic) - u32::from(topic == old)) as f32 + word.prior.alpha[topic];
            let mut now = old;
            for round in 0..MH_STEPS {
                let draws = token as u64 * RANDOM_WORDS_PER_TOKEN + MH_STEPS as u64 + 6 * round as u64;
                // Word proposal.
                let proposed = proposals.draw(old, now, key.unit(draws), key.random_u64(draws + 1));
                if proposed != now {
                    let to = by_document(proposed) * by_word(proposed) * proposals.weight(now, old);
                    let from = by_document(now) * by_word(now) * proposals.weight(proposed, old);
                    if key.unit(draws + 2) * from < to {
                        now = proposed;
                    }
                }
                // Document proposal.
                let proposed = if key.unit(draws + 3) * (length + by_alpha.sum) < length {
                    let picked = of_documents.tokens[of_documents.picked(document, token, round, key)] as usize;
                    if picked == token { now } else { E::of(topics[picked]) }
                } else {
                    by_alpha.draw(key.random_u64(draws + 4))
                };
                if proposed != now && key.unit(draws + 5) * by_word(now) < by_word(proposed) {
                    now = proposed;
                }
            }
            if now != old {
                table.less(old);
                table.more(now);
                topics[token] = E::kept(now);
                word.counts[old] -= 1;
                word.totals[old] -= 1;
                word.counts[now] += 1;
                word.totals[now] += 1;
                word.touch(now);
            }
        }
        done.words += 1;
        done.visited += proposals.topics.len() as u64;
        proposals.leave();
        word.leave_counts(cell.block, index);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alias_draws_follow_the_weights() {
        let weights = [0.5_f32, 0.0, 3.0, 1.0, 0.25, 5.25];
        let mut alias = AliasTable::default();
        for _ in 0..2 {
            alias.build(weights.into_iter());
        }
        assert!((alias.sum - 10.0).abs() < 1e-6);
        let key = CounterRng::new(&[3]);
        let mut seen = [0.0; 6];
        (0..200_000).for_each(|at| seen[alias.draw(key.random_u64(at))] += 1.0 / 20_000.0);
        for (seen, weight) in seen.into_iter().zip(weights) {
            assert!((seen - f64::from(weight)).abs() < 0.03, "{seen} {weight}");
        }
    }
}
