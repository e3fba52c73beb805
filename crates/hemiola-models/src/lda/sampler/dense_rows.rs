//! Exact Gibbs sampler for few topics: documents have dense rows of counts.
//!
//! All topics are weighed, eight at a time: running sums in eight lanes, then the lane, then the
//! position in it. There are no data-dependent branches, but a long dependency chain; so two words
//! are sampled side by side, one token each, and the processor overlaps them. If both tokens are of
//! the same document, they are sampled one after the other.
//!
//! The token's own contribution to its topic is subtracted from the sum of its lane, and from the
//! running sums past it, instead of from the row.
//!
//! **Invariant:** the two words have separate rows, and their tokens separate documents: either
//! would be sampled the same without the other, up to the topic totals.

use super::super::counts::CountRows;
use super::super::rng::CounterRng;
use super::prefetch::prefetch;
use super::simd8::Simd8;
use super::word_state::{REFRESH_INTERVAL, WordState};
use super::{SweepWork, TokenCell};
use crate::lda::block::{WordBlock, WordRow};

/// Largest number of topics for which this sampler is the fastest.
pub(in crate::lda) const MAX_TOPICS: usize = 128;
/// Prefetch distance of rows, in tokens.
const PREFETCH_DISTANCE: usize = 6;

/// Word under sampling, and its position in its tokens.
struct WordStream {
    index: usize,
    at: usize,
    to: usize,
    since: usize,
    counts: Vec<i32>,
    q: Vec<[f32; 8]>,
    /// Running sums, starting with 0: the sum before a topic is its lower bound.
    steps: Vec<[f32; 8]>,
}

/// State shared by all tokens of a cell.
struct CellContext<'a> {
    word: &'a mut WordState,
    alpha: Vec<[f32; 8]>,
    cells: &'a mut [[u16; 8]],
    width: usize,
    handles: &'a [u32],
    topics: &'a mut [u16],
    key: CounterRng,
}

impl WordStream {
    fn new(width: usize) -> Self {
        let (counts, q, steps) = (vec![0; width * 8], vec![[0.0; 8]; width], vec![[0.0; 8]; width + 1]);
        Self { index: 0, at: 0, to: 0, since: 0, counts, q, steps }
    }

    #[inline(always)]
    fn refresh(&mut self, word: &WordState) {
        let topics = word.prior.topics;
        let (beta, betas) = (word.prior.beta, word.prior.betas);
        let counts = self.counts[..topics].iter().zip(&word.totals[..topics]);
        for (q, (count, total)) in self.q.as_flattened_mut().iter_mut().zip(counts) {
            *q = (*count as f32 + beta) / (*total as f32 + betas);
        }
        self.since = 0;
    }

    #[inline(always)]
    fn enter(&mut self, word: &WordState, block: &mut WordBlock, index: usize, (at, to): (usize, usize)) {
        (self.index, self.at, self.to) = (index, at, to);
        if let WordRow::Dense(row) = block.row(index) {
            self.counts.iter_mut().zip(&*row).for_each(|(to, from)| *to = from.cast_signed());
        } else {
            self.counts.fill(0);
            block.each(index, |topic, count| self.counts[topic] = count.cast_signed());
        }
        self.refresh(word);
    }

    #[inline(always)]
    fn leave(&self, block: &mut WordBlock) {
        if let WordRow::Dense(row) = block.row(self.index) {
            row.iter_mut().zip(&self.counts).for_each(|(to, from)| *to = from.cast_unsigned());
        } else {
            let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
            block.fill(self.index, counts.map(|(topic, count)| (topic, count.cast_unsigned())));
        }
    }
}

/// Samples all tokens of a cell once.
#[inline(always)]
pub(super) fn draw<E: Simd8>(
    eight: E,
    word: &mut WordState,
    rows: &mut CountRows,
    topics: &mut [u16],
    cell: &mut TokenCell<'_>,
    key: CounterRng,
) -> SweepWork {
    // Loops of constant length are faster: round numbers of topics get specialized code.
    match rows.width {
        7 => draw_wide::<E, 7>(eight, word, rows, topics, cell, key),
        13 => draw_wide::<E, 13>(eight, word, rows, topics, cell, key),
        _ => draw_wide::<E, 0>(eight, word, rows, topics, cell, key),
    }
}

/// Samples with rows of `W` lines, or of any number if `W` is 0.
#[inline(always)]
fn draw_wide<E: Simd8, const W: usize>(
    eight: E,
    word: &mut WordState,
    rows: &mut CountRows,
    topics: &mut [u16],
    cell: &mut TokenCell<'_>,
    key: CounterRng,
) -> SweepWork {
    let width = rows.width;
    let mut done = SweepWork::default();
    let alpha = word.prior.alpha.as_chunks::<8>().0[..width].to_vec();
    let mut shared = CellContext { word, alpha, cells: &mut rows.cells, width, handles: cell.handles, topics, key };
    let mut streams = [WordStream::new(width), WordStream::new(width)];
    let (starts, block) = (cell.starts, &mut *cell.block);
    let stop = shared.word.stop.clone();
    let words = starts.windows(2).enumerate().filter(|(_, bounds)| bounds[0] < bounds[1]);
    let mut words = words.take_while(|_| !stop.is_accepted());
    let mut live = [false; 2];
    'cell: loop {
        for (stream, live) in streams.iter_mut().zip(&mut live) {
            if *live && stream.at < stream.to {
                continue;
            }
            if std::mem::take(live) {
                stream.leave(block);
            }
            let Some((index, bounds)) = words.next() else { break 'cell };
            stream.enter(shared.word, block, index, (bounds[0] as usize, bounds[1] as usize));
            *live = true;
            done.words += 1;
        }
        let [left, right] = &mut streams;
        let steps = (left.to - left.at).min(right.to - right.at).min(REFRESH_INTERVAL);
        for _ in 0..steps {
            if shared.handles[left.at] == shared.handles[right.at] {
                step::<E, _, W>(eight, &mut shared, [left]);
                step::<E, _, W>(eight, &mut shared, [right]);
            } else {
                step::<E, _, W>(eight, &mut shared, [left, right]);
            }
        }
        for stream in &mut streams {
            stream.since += steps;
            if stream.since >= REFRESH_INTERVAL {
                stream.refresh(shared.word);
            }
        }
    }
    for (stream, live) in streams.iter_mut().zip(live) {
        if live {
            while stream.at < stream.to {
                step::<E, _, W>(eight, &mut shared, [stream]);
                stream.since += 1;
                if stream.since >= REFRESH_INTERVAL {
                    stream.refresh(shared.word);
                }
            }
            stream.leave(block);
        }
    }
    done.visited = u64::from(starts[starts.len() - 1] - starts[0]) * width as u64;
    done
}

/// Samples the next token of each stream.
#[inline(always)]
fn step<E: Simd8, const S: usize, const W: usize>(
    eight: E,
    shared: &mut CellContext<'_>,
    mut streams: [&mut WordStream; S],
) {
    let CellContext { word, alpha, cells, width, handles, topics, key } = shared;
    let (width, last) = (if W > 0 { W } else { *width }, handles.len() - 1);
    let mut sums = [eight.splat(0.0); S];
    for (stream, sum) in streams.iter_mut().zip(&mut sums) {
        let ahead = handles[(stream.at + PREFETCH_DISTANCE).min(last)] as usize * width;
        (0..width).step_by(4).for_each(|line| prefetch(cells, ahead + line));
        let row = &cells[handles[stream.at] as usize * width..][..width];
        for (((row, alpha), q), step) in
            row.iter().zip(&alpha[..width]).zip(&stream.q[..width]).zip(&mut stream.steps[1..=width])
        {
            let count = eight.add(eight.widen(row), eight.load(alpha));
            *sum = eight.add(*sum, eight.multiply(count, eight.load(q)));
            eight.store(*sum, step);
        }
    }
    let mut drawn = [(0, 0.0); S];
    for ((stream, sum), drawn) in streams.iter_mut().zip(sums).zip(&mut drawn) {
        let row = cells[handles[stream.at] as usize * width..][..width].as_flattened();
        let old = topics[stream.at] as usize;
        let without =
            (stream.counts[old] as f32 - 1.0 + word.prior.beta) / (word.totals[old] as f32 - 1.0 + word.prior.betas);
        let (count, q) = (f32::from(row[old]) + alpha.as_flattened()[old], stream.q.as_flattened()[old]);
        let change = (count - 1.0) * without - count * q;
        let sum = eight.add_to_lane(sum, old & 7, change);
        let running = eight.running(sum);
        let at = key.unit(stream.at as u64) * eight.lane(running, 7);
        let lane = eight.first_above(running, at).min(7);
        let own = eight.lane(sum, lane);
        let mut rest = (at - (eight.lane(running, lane) - own)).max(0.0).min(own * 0.999_999_9);
        // Past the old topic in its lane, running sums are too large by the change. Branch-free: a
        // branch would be unpredictable.
        let past = (lane == old & 7) & (rest >= stream.steps.as_flattened()[old]);
        rest -= f32::from_bits(change.to_bits() & u32::from(past).wrapping_neg());
        let new = eight.count_up_to(&stream.steps[1..=width], lane, rest) * 8 + lane;
        *drawn = (if new < word.prior.topics { new } else { old }, without);
    }
    for (stream, (new, without)) in streams.into_iter().zip(drawn) {
        let row = cells[handles[stream.at] as usize * width..][..width].as_flattened_mut();
        let old = topics[stream.at] as usize;
        let q = stream.q.as_flattened_mut();
        let before = q[old];
        topics[stream.at] = new as u16;
        row[old] -= 1;
        row[new] += 1;
        stream.counts[old] -= 1;
        word.totals[old] -= 1;
        stream.counts[new] += 1;
        word.totals[new] += 1;
        let value = (stream.counts[new] as f32 + word.prior.beta) / (word.totals[new] as f32 + word.prior.betas);
        q[old] = without;
        // Branch-free again: about half of all tokens keep their topic.
        let same = u32::from(new == old).wrapping_neg();
        q[new] = f32::from_bits(before.to_bits() & same | value.to_bits() & !same);
        stream.at += 1;
    }
}
