//! Exact draws for few topics: documents are rows with a place for every topic.
//!
//! All topics are weighed, eight at a time: running sums in eight lanes, then the lane, then the place in it. That has no branches that depend on data, but a long chain of steps that wait for
//! each other; so two words are drawn side by side, a token of each, and the machine overlaps them. Should both tokens be of the same document, they are drawn one after the other.
//!
//! What a token's own topic must lose before the draw is taken from its lane's sum, and from the running sums of that lane past it, instead of from the row.
//!
//! **Invariant:** the two words have rows of their own, and their tokens documents of their own: either would be drawn the same without the other, up to the totals of topics.

use super::super::counts::Rows;
use super::super::random::Key;
use super::eight::Eight;
use super::prefetch::soon;
use super::word::{FRESH, Word};
use super::{Cell, Done};
use crate::lda::block::{Block, Row};

/// The most topics for which this is the fastest.
pub(in crate::lda) const MOST: usize = 128;
/// So far ahead rows are asked for.
const AHEAD: usize = 6;

/// A word and how far its tokens are.
struct Stream {
    place: usize,
    at: usize,
    to: usize,
    since: usize,
    counts: Vec<i32>,
    q: Vec<[f32; 8]>,
    /// Running sums, the first of them 0: that of a topic without it is where the topic would be.
    steps: Vec<[f32; 8]>,
}

/// What is shared by all tokens of a cell.
struct Shared<'a> {
    word: &'a mut Word,
    alpha: Vec<[f32; 8]>,
    cells: &'a mut [[u16; 8]],
    width: usize,
    handles: &'a [u32],
    topics: &'a mut [u16],
    key: Key,
}

impl Stream {
    fn new(width: usize) -> Self {
        let (counts, q, steps) = (vec![0; width * 8], vec![[0.0; 8]; width], vec![[0.0; 8]; width + 1]);
        Self { place: 0, at: 0, to: 0, since: 0, counts, q, steps }
    }

    #[inline(always)]
    fn refresh(&mut self, word: &Word) {
        let topics = word.prior.topics;
        let (beta, betas) = (word.prior.beta, word.prior.betas);
        let counts = self.counts[..topics].iter().zip(&word.totals[..topics]);
        for (q, (count, total)) in self.q.as_flattened_mut().iter_mut().zip(counts) {
            *q = (*count as f32 + beta) / (*total as f32 + betas);
        }
        self.since = 0;
    }

    #[inline(always)]
    fn enter(&mut self, word: &Word, block: &mut Block, place: usize, (at, to): (usize, usize)) {
        (self.place, self.at, self.to) = (place, at, to);
        if let Row::Dense(row) = block.row(place) {
            self.counts.iter_mut().zip(&*row).for_each(|(to, from)| *to = from.cast_signed());
        } else {
            self.counts.fill(0);
            block.each(place, |topic, count| self.counts[topic] = count.cast_signed());
        }
        self.refresh(word);
    }

    #[inline(always)]
    fn leave(&self, block: &mut Block) {
        if let Row::Dense(row) = block.row(self.place) {
            row.iter_mut().zip(&self.counts).for_each(|(to, from)| *to = from.cast_unsigned());
        } else {
            let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
            block.fill(self.place, counts.map(|(topic, count)| (topic, count.cast_unsigned())));
        }
    }
}

/// Draws all tokens of a cell anew.
#[inline(always)]
pub(super) fn draw<E: Eight>(
    eight: E,
    word: &mut Word,
    rows: &mut Rows,
    topics: &mut [u16],
    cell: &mut Cell<'_>,
    key: Key,
) -> Done {
    // Loops of a known length have no ends to look for: round numbers of topics have code of their own.
    match rows.width {
        7 => draw_wide::<E, 7>(eight, word, rows, topics, cell, key),
        13 => draw_wide::<E, 13>(eight, word, rows, topics, cell, key),
        _ => draw_wide::<E, 0>(eight, word, rows, topics, cell, key),
    }
}

/// The same for rows of `W` lines, or of any number if that is 0.
#[inline(always)]
fn draw_wide<E: Eight, const W: usize>(
    eight: E,
    word: &mut Word,
    rows: &mut Rows,
    topics: &mut [u16],
    cell: &mut Cell<'_>,
    key: Key,
) -> Done {
    let width = rows.width;
    let mut done = Done::default();
    let alpha = word.prior.alpha.as_chunks::<8>().0[..width].to_vec();
    let mut shared = Shared { word, alpha, cells: &mut rows.cells, width, handles: cell.handles, topics, key };
    let mut streams = [Stream::new(width), Stream::new(width)];
    let (starts, block) = (cell.starts, &mut *cell.block);
    let mut words = starts.windows(2).enumerate().filter(|(_, bounds)| bounds[0] < bounds[1]);
    let mut live = [false; 2];
    'cell: loop {
        for (stream, live) in streams.iter_mut().zip(&mut live) {
            if *live && stream.at < stream.to {
                continue;
            }
            if std::mem::take(live) {
                stream.leave(block);
            }
            let Some((place, bounds)) = words.next() else { break 'cell };
            stream.enter(shared.word, block, place, (bounds[0] as usize, bounds[1] as usize));
            *live = true;
            done.words += 1;
        }
        let [left, right] = &mut streams;
        let steps = (left.to - left.at).min(right.to - right.at).min(FRESH);
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
            if stream.since >= FRESH {
                stream.refresh(shared.word);
            }
        }
    }
    for (stream, live) in streams.iter_mut().zip(live) {
        if live {
            while stream.at < stream.to {
                step::<E, _, W>(eight, &mut shared, [stream]);
                stream.since += 1;
                if stream.since >= FRESH {
                    stream.refresh(shared.word);
                }
            }
            stream.leave(block);
        }
    }
    done.visited = u64::from(starts[starts.len() - 1] - starts[0]) * width as u64;
    done
}

/// Draws the next token of each stream.
#[inline(always)]
fn step<E: Eight, const S: usize, const W: usize>(eight: E, shared: &mut Shared<'_>, mut streams: [&mut Stream; S]) {
    let Shared { word, alpha, cells, width, handles, topics, key } = shared;
    let (width, last) = (if W > 0 { W } else { *width }, handles.len() - 1);
    let mut sums = [eight.splat(0.0); S];
    for (stream, sum) in streams.iter_mut().zip(&mut sums) {
        let ahead = handles[(stream.at + AHEAD).min(last)] as usize * width;
        (0..width).step_by(4).for_each(|line| soon(cells, ahead + line));
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
        // Past the old topic in its lane, running sums are too large by the change. As a number: a branch would be a coin toss.
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
        // No branch, again: about half of all tokens stay.
        let same = u32::from(new == old).wrapping_neg();
        q[new] = f32::from_bits(before.to_bits() & same | value.to_bits() & !same);
        stream.at += 1;
    }
}
