//! State of the current word: its counts, and its weight in each topic.
//!
//! A token of word `w` in document `d` has topic `k` with probability proportional to `(n_dk +
//! alpha_k) q_k`, where `q_k = (n_wk + beta) / (n_k + V beta)` and counts exclude the token. This
//! is the sum of `n_dk q_k`, which is nonzero only for the document's topics, and of `alpha_k q_k`,
//! the *smoothing* part, which hardly changes from token to token; its sum is maintained in blocks.
//!
//! **Invariant:** `q` matches the current counts. Sums drift by rounding only and are recomputed
//! periodically.

use super::super::block::{WordBlock, WordRow};
use super::super::layout::MAX_NARROW;
use hemiola_cluster::StopRequest;

/// Topics per block sum of the smoothing part.
const SPAN: usize = 32;
/// Tokens between recomputations of the sums.
pub(super) const REFRESH_INTERVAL: usize = 2048;

/// Priors in single precision, shared by all tokens of a sweep.
#[derive(Clone, Debug)]
pub(in crate::lda) struct SamplerPrior {
    pub(in crate::lda) topics: usize,
    pub(in crate::lda) alpha: Vec<f32>,
    pub(in crate::lda) beta: f32,
    /// `beta` times the number of words that occur.
    pub(in crate::lda) betas: f32,
}

/// Sampler state of a worker for the current word. Buffers have room for all 16-bit topics, so that
/// those need no bounds checks.
#[derive(Clone, Debug)]
pub(in crate::lda) struct WordState {
    pub(super) prior: SamplerPrior,
    /// Topic totals as known to this worker.
    pub(in crate::lda) totals: Vec<i32>,
    /// Topic counts of the current word.
    pub(super) counts: Vec<i32>,
    pub(super) q: Vec<f32>,
    sums: Vec<f32>,
    pub(super) smooth: f32,
    /// Topics that the current word has or had, if its row is a list.
    touched: Vec<u32>,
    marks: Vec<u32>,
    generation: u32,
    /// True if `counts` are of a word with a dense row.
    dense_row: bool,
    /// Scratch for running sums.
    pub(super) steps: Vec<[f32; 8]>,
    /// Request after which samplers leave out the rest of the words.
    pub(super) stop: StopRequest,
}

impl WordState {
    /// Sets the request after which samplers leave out the rest of the words.
    pub(in crate::lda) fn stopping_at(self, stop: &StopRequest) -> Self {
        Self { stop: stop.clone(), ..self }
    }

    pub(in crate::lda) fn new(topics: usize) -> Self {
        let room = (topics.div_ceil(SPAN) * SPAN + SPAN).max(MAX_NARROW + 1);
        let prior = SamplerPrior { topics, alpha: vec![0.0; room], beta: 0.0, betas: 0.0 };
        Self {
            prior,
            totals: vec![0; room],
            counts: vec![0; room],
            q: vec![0.0; room],
            sums: vec![0.0; topics.div_ceil(SPAN)],
            smooth: 0.0,
            touched: Vec::new(),
            marks: vec![0; room],
            generation: 0,
            dense_row: true,
            steps: vec![[0.0; 8]; topics.div_ceil(8) + 2],
            stop: StopRequest::default(),
        }
    }

    /// Begins a cell: sets priors and totals.
    pub(in crate::lda) fn begin(&mut self, alpha: &[f64], beta: f64, occurring: usize, totals: &[i32]) {
        self.prior.alpha.iter_mut().zip(alpha).for_each(|(to, from)| *to = *from as f32);
        self.prior.beta = beta as f32;
        self.prior.betas = (beta * occurring as f64) as f32;
        self.totals[..totals.len()].copy_from_slice(totals);
        self.dense_row = true;
    }

    #[inline(always)]
    pub(super) fn quotient(&self, topic: usize) -> f32 {
        (self.counts[topic] as f32 + self.prior.beta) / (self.totals[topic] as f32 + self.prior.betas)
    }

    /// Returns `q` of a topic without one token of it.
    #[inline(always)]
    pub(super) fn without(&self, topic: usize) -> f32 {
        (self.counts[topic] as f32 - 1.0 + self.prior.beta) / (self.totals[topic] as f32 - 1.0 + self.prior.betas)
    }

    /// Recomputes `q` and all sums.
    #[inline(always)]
    fn rebuild(&mut self) {
        let SamplerPrior { topics, beta, betas, .. } = self.prior;
        let counts = self.counts[..topics].iter().zip(&self.totals[..topics]);
        for (q, (count, total)) in self.q[..topics].iter_mut().zip(counts) {
            *q = (*count as f32 + beta) / (*total as f32 + betas);
        }
        self.sum();
    }

    /// Recomputes all sums from `q`.
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

    /// Sets `q` of a topic and updates the sums.
    #[inline(always)]
    pub(super) fn set(&mut self, topic: usize, value: f32) {
        let change = self.prior.alpha[topic] * (value - self.q[topic]);
        self.q[topic] = value;
        self.change(topic, change);
    }

    /// Adds a change to the smoothing part of a topic.
    #[inline(always)]
    pub(super) fn change(&mut self, topic: usize, change: f32) {
        self.sums[topic / SPAN] += change;
        self.smooth += change;
    }

    /// Records that the word has a topic.
    #[inline(always)]
    pub(super) fn touch(&mut self, topic: usize) {
        if !self.dense_row && self.marks[topic] != self.generation {
            self.marks[topic] = self.generation;
            self.touched.push(topic as u32);
        }
    }

    /// Draws a topic from the smoothing part: the one in which the prefix sum of `alpha_k q_k`
    /// reaches `at`. The weight of `topic` differs from the sums by `less`.
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
        found.map_or(last, |index| range.start + index)
    }

    /// Enters a word of a block.
    #[inline(always)]
    pub(super) fn enter(&mut self, block: &mut WordBlock, word: usize) {
        match block.row(word) {
            WordRow::Dense(row) => {
                self.counts.iter_mut().zip(&*row).for_each(|(to, from)| *to = from.cast_signed());
                self.rebuild();
                self.dense_row = true;
            }
            WordRow::List(_) => {
                if self.dense_row {
                    self.counts[..self.prior.topics].fill(0);
                    self.rebuild();
                    self.dense_row = false;
                }
                self.generation = self.generation.wrapping_add(1);
                self.touched.clear();
                block.each(word, |topic, count| {
                    self.counts[topic] = count.cast_signed();
                    self.touch(topic);
                    self.set(topic, self.quotient(topic));
                });
            }
        }
    }

    /// Writes the counts of the word back.
    #[inline(always)]
    pub(super) fn leave(&mut self, block: &mut WordBlock, word: usize) {
        if let WordRow::Dense(row) = block.row(word) {
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

    /// Clears the counts, for samplers that use counts alone and keep no sums.
    pub(super) fn clear_counts(&mut self) {
        self.counts[..self.prior.topics].fill(0);
        self.dense_row = false;
    }

    /// Enters the counts of a word after a clear, and calls `with` for each of its topics.
    #[inline(always)]
    pub(super) fn enter_counts(&mut self, block: &WordBlock, word: usize, mut with: impl FnMut(&Self, usize)) {
        self.generation = self.generation.wrapping_add(1);
        self.touched.clear();
        block.each(word, |topic, count| {
            self.counts[topic] = count.cast_signed();
            self.touch(topic);
            with(self, topic);
        });
    }

    /// Writes the counts of a word back and clears them.
    #[inline(always)]
    pub(super) fn leave_counts(&mut self, block: &mut WordBlock, word: usize) {
        if let WordRow::Dense(row) = block.row(word) {
            self.touched.iter().for_each(|topic| row[*topic as usize] = self.counts[*topic as usize].cast_unsigned());
        } else {
            self.fill(block, word);
        }
        self.touched.iter().for_each(|topic| self.counts[*topic as usize] = 0);
    }

    /// Writes the counts back as a list.
    #[inline(always)]
    fn fill(&mut self, block: &mut WordBlock, word: usize) {
        self.touched.sort_unstable();
        let entries = self.touched.iter().map(|topic| (*topic as usize, self.counts[*topic as usize].cast_unsigned()));
        block.fill(word, entries.filter(|(_, count)| *count > 0));
    }
}
