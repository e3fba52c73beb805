//! How many blocks of time a plan should have: each number is tried on the real counts of entries, and the one whose pass
//! is predicted to be shortest is taken.
//!
//! More blocks mean that workers wait less for each other, and hand over more often. Two for each part of a rotation (one to
//! work on while another travels) and eight for each of a wavefront are the custom, and kept unless another number is
//! predicted to be shorter by more than [`WORTH`]: what the prediction does not know of, workers that are interrupted
//! above all, costs most where there is least slack.
//!
//! What is counted is remembered with the array: its keys never change. So are predictions, so that planning a pass that
//! was planned before costs next to nothing.

use super::makespan::{Blocks, Flow, Prices, even, makespan};
use super::{Block, Cuts, Facts, Schedule, part_at};
use hemiola_analysis::{Analysis, Order, Strategy};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Numbers of blocks that are tried.
const TRIED: [usize; 5] = [1, 2, 4, 8, 16];
/// Blocks of time for each part in a rotation, if nothing speaks for another number.
const RATIO: usize = 2;
/// The same for a wavefront.
const WAVES: usize = 8;
/// Another number than the custom must be this many percent shorter.
const WORTH: u64 = 2;
/// Cells of the grid in which entries are counted, at most.
const GRID: usize = 1 << 20;
/// Where blocks are slanted, so many lines of the space are looked at.
const LINES: u64 = 64;

/// How many blocks of time were tried, and what a pass would take with each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Blocks of time for each part: what was chosen.
    pub ratio: usize,
    /// What was tried, in ascending order.
    pub tried: Vec<Tried>,
    /// The share of a pass that workers compute, if a body takes what the planner thinks it does, not as little as it may.
    pub utilization: f64,
}

/// One number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Blocks of time for each part.
    pub ratio: usize,
    /// The predicted time of a pass over that of the same work shared evenly, with nothing to hand over. 1 is perfect.
    pub over_even: f64,
}

impl Prediction {
    /// What a pass takes with the number that was chosen, over evenly shared work.
    #[must_use]
    pub fn over_even(&self) -> f64 {
        self.tried.iter().find(|tried| tried.ratio == self.ratio).map_or(1.0, |tried| tried.over_even)
    }
}

/// What a prediction depends on, besides the entries.
#[derive(Clone, Debug, PartialEq)]
struct Question {
    strategy: Strategy,
    parts: usize,
    most: usize,
    prices: Prices,
}

/// Predictions that were made for a loop over one array.
#[derive(Debug, Default)]
pub(crate) struct Predictions(Mutex<Vec<(Question, Prediction)>>);

/// What has to be known of the entries before the ways to run a loop can be compared.
#[derive(Debug)]
pub(crate) struct Ways {
    /// Dimensions and the numbers of parts they may be cut into.
    pub(crate) cuts: BTreeSet<(usize, usize)>,
    /// Dimensions that may be space and time to each other, the lower first.
    pub(crate) pairs: BTreeSet<[usize; 2]>,
    /// The most blocks of time for each part that can be told apart.
    pub(crate) most: usize,
}

/// The cuts that legal ways need.
pub(crate) fn ways(analysis: &Analysis, peers: usize, workers: usize, sparse: bool) -> Ways {
    let mut parts = vec![workers, peers * workers];
    parts.dedup();
    // At most, on any number of peers that have as many workers together: what is tried must not depend on that.
    let ranges = 2 * peers * workers;
    let mut most = TRIED[TRIED.len() - 1];
    // As many ranges of a dimension as all numbers of blocks have together.
    let cells = |most: usize| (ranges * TRIED.iter().filter(|ratio| **ratio <= most).sum::<usize>()).pow(2);
    while sparse && most > RATIO && cells(most) > GRID {
        most /= 2;
    }
    let (mut cuts, mut pairs) = (BTreeSet::from([(0, 1)]), BTreeSet::new());
    for strategy in analysis.legal() {
        let space = match strategy {
            Strategy::OneD { space } | Strategy::TwoD { space, .. } => Some(*space),
            Strategy::Transformed { matrix, space, .. } => matrix.unchanged(*space),
            Strategy::Serial => None,
        };
        cuts.extend(space.into_iter().flat_map(|space| parts.iter().map(move |parts| (space, *parts))));
        if let Strategy::TwoD { space, time, .. } = strategy {
            // Where nothing can be predicted, the custom is followed, however many parts there are.
            let ratios = TRIED.into_iter().filter(|ratio| *ratio <= most || [RATIO, WAVES].contains(ratio));
            cuts.extend(ratios.flat_map(|ratio| parts.iter().map(move |parts| (*time, ratio * parts))));
            // A worker that is alone waits for nobody.
            if sparse && peers * workers > 1 && cells(most) <= GRID {
                pairs.insert([*space.min(time), *space.max(time)]);
            }
        }
    }
    Ways { cuts, pairs, most }
}

/// Every end of a part that a dimension may have.
pub(crate) fn fine(bounds: &BTreeMap<(usize, usize), Vec<u64>>, dimension: usize) -> Vec<u64> {
    let ends = bounds.iter().filter(|((of, _), _)| *of == dimension).flat_map(|(_, bounds)| bounds);
    let mut ends: Vec<u64> = ends.copied().collect::<BTreeSet<_>>().into_iter().collect();
    if let [end] = ends[..] {
        // A dimension without indices.
        ends.push(end);
    }
    ends
}

/// The custom.
pub(crate) fn usual(schedule: Schedule) -> usize {
    match schedule {
        Schedule::Independent => 1,
        Schedule::Rotation { .. } => RATIO,
        Schedule::Wavefront => WAVES,
    }
}

/// Tries numbers of blocks of time; `cut` makes the cuts for one. `None` where nothing is known of the entries.
pub(crate) fn predict(
    facts: &Facts<'_>,
    strategy: &Strategy,
    parts: usize,
    prices: Prices,
    cut: impl Fn(usize) -> Cuts,
) -> Option<Prediction> {
    let custom = usual(cut(1).schedule).min(facts.most);
    let question = Question { strategy: strategy.clone(), parts, most: facts.most, prices };
    let mut known = facts.known.0.lock();
    if let Some((_, known)) = known.iter().find(|(asked, _)| *asked == question) {
        return Some(known.clone());
    }
    let prices = &question.prices;
    let mut tried = Vec::new();
    for ratio in TRIED.into_iter().filter(|ratio| *ratio <= facts.most) {
        let cuts = cut(ratio);
        let blocks = count(facts, strategy, &cuts)?;
        tried.push((ratio, makespan(&blocks, flow(&cuts), prices), even(&blocks, prices)));
    }
    let ratio = least(&tried, custom);
    let (cuts, nominal) = (cut(ratio), Prices { entry: prices.nominal_entry, ..prices.clone() });
    let blocks = count(facts, strategy, &cuts)?;
    let utilization = even(&blocks, &nominal) as f64 / makespan(&blocks, flow(&cuts), &nominal) as f64;
    let tried = tried.into_iter().map(|(ratio, takes, even)| Tried { ratio, over_even: takes as f64 / even as f64 });
    let prediction = Prediction { ratio, tried: tried.collect(), utilization };
    known.push((question, prediction.clone()));
    Some(prediction)
}

fn flow(cuts: &Cuts) -> Flow {
    match cuts.schedule {
        Schedule::Rotation { ratio } => Flow::Rotation { ratio },
        Schedule::Wavefront | Schedule::Independent => Flow::Wavefront,
    }
}

/// The number with the shortest pass; the custom, if that is about as short.
fn least(tried: &[(usize, u64, u64)], custom: usize) -> usize {
    let shortest =
        tried.iter().min_by_key(|(_, takes, _)| *takes).map_or((custom, 0), |(ratio, takes, _)| (*ratio, *takes));
    let usual = tried.iter().find(|(ratio, ..)| *ratio == custom);
    match usual {
        Some((_, takes, _)) if takes.saturating_mul(100 - WORTH) <= shortest.1.saturating_mul(100) => custom,
        _ => shortest.0,
    }
}

/// The entries of each block.
pub(crate) fn count(facts: &Facts<'_>, strategy: &Strategy, cuts: &Cuts) -> Option<Blocks> {
    if let Some(skew) = &cuts.skew {
        return Some(slanted(facts, cuts, (&skew.space, &skew.space_bounds), (&skew.time, &skew.time_bounds)));
    }
    let Strategy::TwoD { space, time, .. } = strategy else { return None };
    let mut blocks = Blocks::new(cuts.parts(), cuts.times());
    if facts.histograms.iter().all(Option::is_none) {
        // All keys of a box.
        let length = |bounds: &[u64], at: usize| bounds[at + 1] - bounds[at];
        let others = (0..facts.extents.len()).filter(|dimension| dimension != space && dimension != time);
        let others: u64 =
            others.map(|dimension| facts.extents[dimension].end - facts.extents[dimension].start).product();
        for part in 0..cuts.parts() {
            for at in 0..cuts.times() {
                let entries = length(&cuts.space, part) * length(&cuts.time, at) * others;
                blocks.add(Block { part, time: at }, entries);
            }
        }
        return Some(blocks);
    }
    let joint = facts.joints.iter().find(|joint| joint.dimensions() == [*space.min(time), *space.max(time)])?;
    let [first, second] = joint.bounds();
    let parts_of = |bounds: &[u64], of: &[u64]| -> Vec<usize> {
        of[..of.len() - 1].iter().map(|start| part_at(bounds, start)).collect()
    };
    let turned = space > time;
    let (by_first, by_second) = if turned {
        (parts_of(&cuts.time, first), parts_of(&cuts.space, second))
    } else {
        (parts_of(&cuts.space, first), parts_of(&cuts.time, second))
    };
    for (a, first) in by_first.iter().enumerate() {
        for (b, second) in by_second.iter().enumerate() {
            let (part, time) = if turned { (*second, *first) } else { (*first, *second) };
            blocks.add(Block { part, time }, joint.count(a, b));
        }
    }
    Some(blocks)
}

/// A coordinate that is cut: its weights and the ends of its parts.
type Slant<'a> = (&'a [i64], &'a [i64]);

/// The keys of a box by parts of two weighted sums of their indices, told from some of its lines along the last dimension.
fn slanted(facts: &Facts<'_>, cuts: &Cuts, space: Slant<'_>, time: Slant<'_>) -> Blocks {
    let mut blocks = Blocks::new(cuts.parts(), cuts.times());
    let last = facts.extents.len() - 1;
    let outer: Vec<u64> = facts.extents[..last].iter().map(|range| range.end - range.start).collect();
    let lines: u64 = outer.iter().product();
    let looked_at = lines.min(LINES);
    for line in 0..looked_at {
        // Evenly spread, each for the lines around it.
        let share = |at: u64| (u128::from(at) * u128::from(lines) / u128::from(looked_at)) as u64;
        let (number, stands_for) = (share(line).midpoint(share(line + 1)), share(line + 1) - share(line));
        let mut left = number;
        let mut fixed = (0, 0);
        for dimension in (0..last).rev() {
            let index = (facts.extents[dimension].start + left % outer[dimension]).cast_signed();
            left /= outer[dimension];
            fixed = (fixed.0 + space.0[dimension] * index, fixed.1 + time.0[dimension] * index);
        }
        let Range { start, end } = facts.extents[last].clone();
        let mut at = start.cast_signed();
        while at < end.cast_signed() {
            let place = |fixed: i64, (weights, bounds): Slant<'_>| {
                let weight = weights[last];
                let part = part_at(bounds, &(fixed + weight * at));
                // The first index of this line that is in another part.
                let next = match weight {
                    0 => i64::MAX,
                    weight if weight > 0 => at + (bounds[part + 1] - fixed - weight * at + weight - 1) / weight,
                    weight => at + (fixed + weight * at - bounds[part]) / -weight + 1,
                };
                (part, next.max(at + 1))
            };
            let ((part, by_space), (time, by_time)) = (place(fixed.0, space), place(fixed.1, time));
            let to = by_space.min(by_time).min(end.cast_signed());
            blocks.add(Block { part, time }, (to - at).cast_unsigned() * stands_for);
            at = to;
        }
    }
    blocks
}

/// How the blocks of a strategy follow each other, `ratio` of time for each of several parts.
pub(crate) fn schedule(strategy: &Strategy, parts: usize, ratio: usize) -> (Schedule, usize) {
    // A worker that is alone need not divide its time.
    let ratio = if parts == 1 { 1 } else { ratio };
    match strategy {
        Strategy::OneD { .. } | Strategy::Serial => (Schedule::Independent, 1),
        Strategy::TwoD { order: Order::Rotation, .. } => (Schedule::Rotation { ratio }, ratio * parts),
        Strategy::TwoD { order: Order::Wavefront, .. } | Strategy::Transformed { .. } => {
            (Schedule::Wavefront, ratio * parts)
        }
    }
}

#[cfg(test)]
mod tests;
