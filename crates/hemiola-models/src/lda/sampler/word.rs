//! The word at hand: its counts, and what each topic says of it.
//!
//! A token of word `w` in document `d` has topic `k` with probability proportional to `(n_dk + alpha_k) q_k`, where `q_k = (n_wk + beta) / (n_k + V beta)` and counts are those of all other tokens.
//! It is the sum of `n_dk q_k`, which only the document's topics have, and of `alpha_k q_k`, the *smooth* part, which hardly changes from token to token; its sum is kept, in blocks.
//!
//! **Invariant:** `q` is that of the counts at hand. Sums drift by rounding alone and are made anew from time to time.

use super::super::block::{Block, Row};
use super::super::layout::NARROW;

/// Topics that a sum of the smooth part covers.
const SPAN: usize = 32;
/// After so many tokens sums are made anew.
pub(super) const FRESH: usize = 2048;

/// What all tokens of a pass have in common.
#[derive(Clone, Debug)]
pub(in crate::lda) struct Prior {
    pub(in crate::lda) topics: usize,
    pub(in crate::lda) alpha: Vec<f32>,
    pub(in crate::lda) beta: f32,
    /// `beta` times the number of words that occur.
    pub(in crate::lda) betas: f32,
}

/// What a worker keeps of a word while it draws. Tables have room for all topics of 16 bits, so that those need no checks.
#[derive(Clone, Debug)]
pub(in crate::lda) struct Word {
    pub(super) prior: Prior,
    /// Tokens by topic, as far as this worker knows.
    pub(in crate::lda) totals: Vec<i32>,
    /// Tokens of this word by topic.
    pub(super) counts: Vec<i32>,
    pub(super) q: Vec<f32>,
    sums: Vec<f32>,
    pub(super) smooth: f32,
    /// Topics that this word has or had, if its row is a list.
    touched: Vec<u32>,
    marks: Vec<u32>,
    turn: u32,
    /// Whether `counts` are those of a word with a place for every topic.
    full: bool,
    /// Room for running sums.
    pub(super) steps: Vec<[f32; 8]>,
}

impl Word {
    pub(in crate::lda) fn new(topics: usize) -> Self {
        let room = (topics.div_ceil(SPAN) * SPAN + SPAN).max(NARROW + 1);
        let prior = Prior { topics, alpha: vec![0.0; room], beta: 0.0, betas: 0.0 };
        Self {
            prior,
            totals: vec![0; room],
            counts: vec![0; room],
            q: vec![0.0; room],
            sums: vec![0.0; topics.div_ceil(SPAN)],
            smooth: 0.0,
            touched: Vec::new(),
            marks: vec![0; room],
            turn: 0,
            full: true,
            steps: vec![[0.0; 8]; topics.div_ceil(8) + 2],
        }
    }

    /// Begins a cell.
    pub(in crate::lda) fn begin(&mut self, alpha: &[f64], beta: f64, occurring: usize, totals: &[i32]) {
        self.prior.alpha.iter_mut().zip(alpha).for_each(|(to, from)| *to = *from as f32);
        self.prior.beta = beta as f32;
        self.prior.betas = (beta * occurring as f64) as f32;
        self.totals[..totals.len()].copy_from_slice(totals);
        self.full = true;
    }

    #[inline(always)]
    pub(super) fn quotient(&self, topic: usize) -> f32 {
        (self.counts[topic] as f32 + self.prior.beta) / (self.totals[topic] as f32 + self.prior.betas)
    }

    /// `q` of a token that has this topic, without that token.
    #[inline(always)]
    pub(super) fn without(&self, topic: usize) -> f32 {
        (self.counts[topic] as f32 - 1.0 + self.prior.beta) / (self.totals[topic] as f32 - 1.0 + self.prior.betas)
    }

    /// Makes `q` and all sums anew.
    #[inline(always)]
    fn rebuild(&mut self) {
        let Prior { topics, beta, betas, .. } = self.prior;
        let counts = self.counts[..topics].iter().zip(&self.totals[..topics]);
        for (q, (count, total)) in self.q[..topics].iter_mut().zip(counts) {
            *q = (*count as f32 + beta) / (*total as f32 + betas);
        }
        self.sum();
    }

    /// Makes all sums anew.
    #[inline(always)]
    pub(super) fn sum(&mut self) {
        self.smooth = 0.0;
        let spans = self.prior.alpha.as_chunks::<SPAN>().0.iter().zip(self.q.as_chunks::<SPAN>().0);
        for (sum, (alpha, q)) in self.sums.iter_mut().zip(spans) {
            let mut lanes = [0.0_f32; 8];
            for (alpha, q) in alpha.as_chunks::<8>().0.iter().zip(q.as_chunks::<8>().0) {
                for lane in 0..8 {
                    lanes[lane] += alpha[lane] * q[lane];
                }
            }
            *sum = lanes.iter().sum();
            self.smooth += *sum;
        }
    }

    /// Sets `q` of a topic, and keeps the sums.
    #[inline(always)]
    pub(super) fn set(&mut self, topic: usize, value: f32) {
        let change = self.prior.alpha[topic] * (value - self.q[topic]);
        self.q[topic] = value;
        self.change(topic, change);
    }

    /// Changes the smooth part of a topic.
    #[inline(always)]
    pub(super) fn change(&mut self, topic: usize, change: f32) {
        self.sums[topic / SPAN] += change;
        self.smooth += change;
    }

    /// Remembers that the word has a topic.
    #[inline(always)]
    pub(super) fn touch(&mut self, topic: usize) {
        if !self.full && self.marks[topic] != self.turn {
            self.marks[topic] = self.turn;
            self.touched.push(topic as u32);
        }
    }

    /// A topic by the smooth part: that in which the sum of `alpha_k q_k` comes to `at`. That of `topic` is smaller by `less` than the sums say.
    #[inline(never)]
    pub(super) fn draw_smooth(&self, mut at: f32, topic: usize, less: f32) -> usize {
        let mut span = 0;
        for (number, sum) in self.sums.iter().enumerate() {
            let sum = if number == topic / SPAN { *sum + less } else { *sum };
            span = number;
            if at < sum || number + 1 == self.sums.len() {
                break;
            }
            at -= sum;
        }
        let range = span * SPAN..((span + 1) * SPAN).min(self.prior.topics);
        let last = range.end - 1;
        let mut weights = self.prior.alpha[range.clone()].iter().zip(&self.q[range.clone()]);
        let found = weights.position(|(alpha, q)| {
            at -= alpha * q;
            at < 0.0
        });
        found.map_or(last, |place| range.start + place)
    }

    /// Takes a word of a block at hand.
    #[inline(always)]
    pub(super) fn enter(&mut self, block: &mut Block, word: usize) {
        match block.row(word) {
            Row::Dense(row) => {
                self.counts.iter_mut().zip(&*row).for_each(|(to, from)| *to = from.cast_signed());
                self.rebuild();
                self.full = true;
            }
            Row::List(_) => {
                if self.full {
                    self.counts[..self.prior.topics].fill(0);
                    self.rebuild();
                    self.full = false;
                }
                self.turn = self.turn.wrapping_add(1);
                self.touched.clear();
                block.each(word, |topic, count| {
                    self.counts[topic] = count.cast_signed();
                    self.touch(topic);
                    self.set(topic, self.quotient(topic));
                });
            }
        }
    }

    /// Writes a word back.
    #[inline(always)]
    pub(super) fn leave(&mut self, block: &mut Block, word: usize) {
        if let Row::Dense(row) = block.row(word) {
            row.iter_mut().zip(&self.counts).for_each(|(to, from)| *to = from.cast_unsigned());
            return;
        }
        self.fill(block, word);
        for at in 0..self.touched.len() {
            let topic = self.touched[at] as usize;
            self.counts[topic] = 0;
            self.set(topic, self.quotient(topic));
        }
    }

    /// No counts at hand: for those who look at counts alone and keep no sums.
    pub(super) fn clear_counts(&mut self) {
        self.counts[..self.prior.topics].fill(0);
        self.full = false;
    }

    /// Takes the counts of a word at hand, where there are none, and tells of every topic it has.
    #[inline(always)]
    pub(super) fn enter_counts(&mut self, block: &Block, word: usize, mut with: impl FnMut(&Self, usize)) {
        self.turn = self.turn.wrapping_add(1);
        self.touched.clear();
        block.each(word, |topic, count| {
            self.counts[topic] = count.cast_signed();
            self.touch(topic);
            with(self, topic);
        });
    }

    /// Writes the counts of a word back, and has none at hand.
    #[inline(always)]
    pub(super) fn leave_counts(&mut self, block: &mut Block, word: usize) {
        if let Row::Dense(row) = block.row(word) {
            self.touched.iter().for_each(|topic| row[*topic as usize] = self.counts[*topic as usize].cast_unsigned());
        } else {
            self.fill(block, word);
        }
        self.touched.iter().for_each(|topic| self.counts[*topic as usize] = 0);
    }

    /// Writes a list.
    #[inline(always)]
    fn fill(&mut self, block: &mut Block, word: usize) {
        self.touched.sort_unstable();
        let entries = self.touched.iter().map(|topic| (*topic as usize, self.counts[*topic as usize].cast_unsigned()));
        block.fill(word, entries.filter(|(_, count)| *count > 0));
    }
}
