//! Draws by proposals (Metropolis and Hastings; Yuan et al., *LightLDA*, 2015): the time of a draw grows neither with topics nor with those of a document.
//!
//! A token's topic `s` goes through four rounds of two proposals each (with two, 500 passes of NIPS end 1.1 % below the exact samplers, with four 0.5; eight from the hundredth pass on come to 0.4 in twice the time of four), either accepted with the probability that keeps the target, `(n_dk + alpha_k) q_k` (see [`Word`]), what it is:
//!
//! - *of the word*: a topic `t` proportional to what `q` was when the word was taken at hand, drawn from alias tables (Walker 1977): one for the topics the word has, and one that all words share for the
//!   part that `beta` gives to all. Accepted with `target(t) p(s) / (target(s) p(t))`, where `p` are the weights **of the tables** (LightLDA takes the counts of the moment for them, which keeps something else
//!   than the target) **without this token**: what a token adds to the weight of its own topic is rejected and drawn again. Otherwise a word that occurs once would propose little but the topic it has, and every
//!   move away from that would be accepted whatever the document says.
//! - *of the document*: the topic of a random token of the document, or, as often as `alpha` says, one proportional to `alpha`. That is proportional to `n_dt + alpha_t` with all tokens counted, this one
//!   with the topic it has now; so what the document says of `s` and `t` cancels, and `q_t / q_s` is left to accept with.

use super::super::block::Block;
use super::super::entry::Entry;
use super::super::hashed::Hashed;
use super::super::random::{Key, unit};
use super::prefetch::soon;
use super::word::Word;
use super::{Cell, Done};

/// Rounds of a proposal of the word and one of the document.
const ROUNDS: usize = 4;
/// So often a topic is drawn again before the token stays where it is.
const TRIES: usize = 32;
/// Random numbers of a token, rounded up.
const DRAWS: u64 = 32;
/// So far ahead tables of documents are asked for, and the tokens that will be picked.
const FAR: usize = 10;
/// So far ahead topics of those tokens are asked for.
const NEAR: usize = 5;

/// The tokens of each document.
pub(super) struct OfDocuments<'a> {
    pub(super) tokens: &'a [u32],
    pub(super) firsts: &'a [u32],
    pub(super) lengths: &'a [u32],
}

impl OfDocuments<'_> {
    /// The token of a document that the proposal of a round takes.
    #[inline(always)]
    fn picked(&self, document: usize, token: usize, round: usize, key: Key) -> usize {
        let (first, length) = (self.firsts[document], self.lengths[document]);
        first as usize + key.below(token as u64 * DRAWS + round as u64, u64::from(length)) as usize
    }
}

/// Numbers drawn with given weights, in constant time (Walker's alias method, built as Vose 1991).
#[derive(Clone, Debug, Default)]
struct Alias {
    /// Of each place: below this share it is itself, from there on the other.
    shares: Vec<f32>,
    others: Vec<u32>,
    sum: f32,
    small: Vec<u32>,
    large: Vec<u32>,
}

impl Alias {
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
        for (place, share) in self.shares.iter_mut().enumerate() {
            *share *= scale;
            if *share < 1.0 { &mut self.small } else { &mut self.large }.push(place as u32);
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
        // What rounding left over is full.
        for place in self.small.drain(..).chain(self.large.drain(..)) {
            self.shares[place as usize] = 1.0;
        }
    }

    /// A place by 64 random bits.
    #[inline(always)]
    fn draw(&self, bits: u64) -> usize {
        let place = (((bits & 0xffff_ffff) * self.shares.len() as u64) >> 32) as usize;
        if unit(bits) < self.shares[place] { place } else { self.others[place] as usize }
    }
}

/// What words propose.
struct Proposals {
    /// The part of `beta`, with the totals as they were when the cell began.
    base: Vec<f32>,
    shared: Alias,
    /// What each topic has beyond that, for the topics of the word at hand.
    own: Alias,
    topics: Vec<u32>,
    extras: Vec<f32>,
    /// All of it: the weights of the tables together.
    weights: Vec<f32>,
    /// The same without one token of the word.
    lessened: Vec<f32>,
}

impl Proposals {
    /// For a cell that begins. `word` has no counts at hand.
    fn new(word: &Word) -> Self {
        let base: Vec<f32> = (0..word.prior.topics).map(|topic| word.quotient(topic)).collect();
        let mut shared = Alias::default();
        shared.build(base.iter().copied());
        let (weights, lessened) = (base.clone(), base.clone());
        Self { base, shared, own: Alias::default(), topics: Vec::new(), extras: Vec::new(), weights, lessened }
    }

    /// Takes a word at hand.
    #[inline(always)]
    fn enter(&mut self, word: &mut Word, block: &Block, place: usize) {
        self.topics.clear();
        self.extras.clear();
        word.enter_counts(block, place, |word, topic| {
            // Totals may have grown since the base was made: no weight is below that.
            self.lessened[topic] = word.without(topic).max(self.base[topic]);
            self.weights[topic] = word.quotient(topic).max(self.lessened[topic]);
            self.topics.push(topic as u32);
            self.extras.push(self.weights[topic] - self.base[topic]);
        });
        self.own.build(self.extras.iter().copied());
    }

    /// There is no word at hand.
    #[inline(always)]
    fn leave(&mut self) {
        for topic in &self.topics {
            self.weights[*topic as usize] = self.base[*topic as usize];
            self.lessened[*topic as usize] = self.base[*topic as usize];
        }
    }

    /// What a token of topic `old`, which has topic `now` at the moment, is proposed by two random numbers: never what it adds to `old` itself.
    #[inline(always)]
    fn draw(&self, old: usize, now: usize, which: f32, mut bits: u64) -> usize {
        let others = self.own.sum - (self.weights[old] - self.lessened[old]);
        if which * (others + self.shared.sum) >= others {
            return self.shared.draw(bits);
        }
        for _ in 0..TRIES {
            let place = self.own.draw(bits);
            let topic = self.topics[place] as usize;
            bits = Key::new(&[bits]).bits(0);
            if topic != old || unit(bits) * self.extras[place] < self.lessened[old] - self.base[old] {
                return topic;
            }
        }
        now
    }

    /// How likely a topic is to be proposed to a token of topic `old`, up to a factor.
    #[inline(always)]
    fn weight(&self, topic: usize, old: usize) -> f32 {
        if topic == old { self.lessened[old] } else { self.weights[topic] }
    }
}

/// Draws all tokens of a cell anew.
#[inline(always)]
pub(super) fn draw<E: Entry>(
    word: &mut Word,
    tables: &mut Hashed<E>,
    topics: &mut [E::Topic],
    cell: &mut Cell<'_>,
    of_documents: &OfDocuments<'_>,
    key: Key,
) -> Done {
    let mut done = Done::default();
    let handles = cell.handles;
    let Some(last) = handles.len().checked_sub(1) else { return done };
    word.clear_counts();
    let mut proposals = Proposals::new(word);
    let mut by_alpha = Alias::default();
    by_alpha.build(word.prior.alpha[..word.prior.topics].iter().copied());
    for (place, bounds) in cell.starts.windows(2).enumerate() {
        let (from, to) = (bounds[0] as usize, bounds[1] as usize);
        if from == to {
            continue;
        }
        proposals.enter(word, cell.block, place);
        for token in from..to {
            let far = (token + FAR).min(last);
            let ahead = handles[far] as usize;
            soon(tables.entries(), tables.start(ahead));
            let near = (token + NEAR).min(last);
            for round in 0..ROUNDS {
                soon(of_documents.tokens, of_documents.picked(ahead, far, round, key));
                let picked = of_documents.picked(handles[near] as usize, near, round, key);
                soon(topics, of_documents.tokens[picked] as usize);
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
            for round in 0..ROUNDS {
                let draws = token as u64 * DRAWS + ROUNDS as u64 + 6 * round as u64;
                // Of the word.
                let proposed = proposals.draw(old, now, key.unit(draws), key.bits(draws + 1));
                if proposed != now {
                    let to = by_document(proposed) * by_word(proposed) * proposals.weight(now, old);
                    let from = by_document(now) * by_word(now) * proposals.weight(proposed, old);
                    if key.unit(draws + 2) * from < to {
                        now = proposed;
                    }
                }
                // Of the document.
                let proposed = if key.unit(draws + 3) * (length + by_alpha.sum) < length {
                    let picked = of_documents.tokens[of_documents.picked(document, token, round, key)] as usize;
                    if picked == token { now } else { E::of(topics[picked]) }
                } else {
                    by_alpha.draw(key.bits(draws + 4))
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
        word.leave_counts(cell.block, place);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_as_often_as_their_weights_say() {
        let weights = [0.5_f32, 0.0, 3.0, 1.0, 0.25, 5.25];
        let mut alias = Alias::default();
        for _ in 0..2 {
            alias.build(weights.into_iter());
        }
        assert!((alias.sum - 10.0).abs() < 1e-6);
        let key = Key::new(&[3]);
        let mut seen = [0.0; 6];
        (0..200_000).for_each(|at| seen[alias.draw(key.bits(at))] += 1.0 / 20_000.0);
        for (seen, weight) in seen.into_iter().zip(weights) {
            assert!((seen - f64::from(weight)).abs() < 0.03, "{seen} {weight}");
        }
    }
}
