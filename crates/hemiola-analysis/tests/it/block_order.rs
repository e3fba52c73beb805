//! Model of a parallelization: which blocks wait for which, and which may run concurrently.
//! Soundness is checked in this model.
//!
//! It is written from the definition of each order and does not use
//! `hemiola_analysis::block_order`, so that the two are checked against each other
//! (`the_block_order_matches_the_model`).

use hemiola_analysis::{BlockTraversal, Parallelization};

use crate::oracle::hash;

/// Iterations of a loop in blocks, and the order of the blocks.
#[derive(Debug)]
pub(crate) struct BlockModel {
    parallelization: Parallelization,
    /// Starts of the parts and time blocks, without the first.
    space_cuts: Vec<i64>,
    time_cuts: Vec<i64>,
    /// `before[x][y]`: block `x` has ended when block `y` begins. `BlockModel` are numbered part by part.
    before: Vec<Vec<bool>>,
}

impl BlockModel {
    /// Cuts the loop at positions that depend on `seed`. `None` for serial, which has no cuts.
    pub(crate) fn cut(parallelization: &Parallelization, iterations: &[Vec<i64>], seed: u64) -> Option<Self> {
        let parts = 1 + (hash(seed, 1) % 4) as usize;
        let free = 1 + (hash(seed, 2) % 5) as usize;
        let ratio = 1 + (hash(seed, 3) % 2) as usize;
        let (times, before) = match parallelization {
            Parallelization::Serial => return None,
            Parallelization::OneD { .. } => (1, vec![vec![false; parts]; parts]),
            Parallelization::TwoD { order: BlockTraversal::Rotation, .. } => (ratio * parts, rotation(parts, ratio)),
            Parallelization::TwoD { order: BlockTraversal::Wavefront, .. } | Parallelization::Transformed { .. } => {
                (free, wavefront(parts, free))
            }
        };
        let mut blocks =
            Self { parallelization: parallelization.clone(), space_cuts: Vec::new(), time_cuts: Vec::new(), before };
        let coordinates: Vec<_> = iterations.iter().map(|iteration| blocks.coordinates(iteration)).collect();
        blocks.space_cuts = cuts(parts, coordinates.iter().map(|coordinate| coordinate.0), hash(seed, 4));
        blocks.time_cuts = cuts(times, coordinates.iter().map(|coordinate| coordinate.1), hash(seed, 5));
        Some(blocks)
    }

    fn coordinates(&self, iteration: &[i64]) -> (i64, i64) {
        match &self.parallelization {
            Parallelization::OneD { space } => (iteration[*space], 0),
            Parallelization::TwoD { space, time, .. } => (iteration[*space], iteration[*time]),
            Parallelization::Transformed { matrix, space, time } => {
                (matrix.coordinate(*space, iteration), matrix.coordinate(*time, iteration))
            }
            Parallelization::Serial => (0, 0),
        }
    }

    fn block(&self, iteration: &[i64]) -> usize {
        let (space, time) = self.coordinates(iteration);
        let find = |cuts: &[i64], coordinate| cuts.partition_point(|&cut| cut <= coordinate);
        find(&self.space_cuts, space) * (self.time_cuts.len() + 1) + find(&self.time_cuts, time)
    }

    /// Returns whether `first` ends before `second` begins, or, if the loop is unordered, the
    /// reverse.
    pub(crate) fn keep(&self, first: &[i64], second: &[i64], ordered: bool) -> bool {
        let (first, second) = (self.block(first), self.block(second));
        // Inside a block the order is that of the source.
        first == second || self.before[first][second] || (!ordered && self.before[second][first])
    }
}

/// Cuts a range of values into `count` pieces, some of them possibly empty.
fn cuts(count: usize, values: impl Iterator<Item = i64> + Clone, seed: u64) -> Vec<i64> {
    let (least, most) = (values.clone().min().unwrap_or(0), values.max().unwrap_or(0));
    let width = most.abs_diff(least) + 2;
    let mut cuts: Vec<i64> =
        (1..count).map(|number| least + (hash(seed, number as u64) % width).cast_signed()).collect();
    cuts.sort_unstable();
    cuts
}

/// Part `p` runs time block `(r p + s) mod (r P)` as its step `s`. Steps of one part and visits of
/// one time block are ordered, with the transitive closure.
pub(crate) fn rotation(parts: usize, ratio: usize) -> Vec<Vec<bool>> {
    let times = parts * ratio;
    let step = |block: usize| (0..times).find(|step| (ratio * (block / times) + step) % times == block % times);
    let direct = |x: usize, y: usize| (x / times == y / times || x % times == y % times) && step(x) < step(y);
    closure(parts * times, direct)
}

/// Block `(p, t)` waits for `(p - 1, t)` and `(p, t - 1)`, with the transitive closure.
pub(crate) fn wavefront(parts: usize, times: usize) -> Vec<Vec<bool>> {
    let direct = |x: usize, y: usize| {
        let ((xp, xt), (yp, yt)) = ((x / times, x % times), (y / times, y % times));
        (xp + 1 == yp && xt == yt) || (xp == yp && xt + 1 == yt)
    };
    closure(parts * times, direct)
}

fn closure(blocks: usize, direct: impl Fn(usize, usize) -> bool) -> Vec<Vec<bool>> {
    let mut before: Vec<Vec<bool>> = (0..blocks).map(|x| (0..blocks).map(|y| direct(x, y)).collect()).collect();
    for middle in 0..blocks {
        let after = before[middle].clone();
        for row in before.iter_mut().filter(|row| row[middle]) {
            row.iter_mut().zip(&after).for_each(|(known, &new)| *known |= new);
        }
    }
    before
}
