//! Number of time blocks of a plan: each candidate is evaluated on the real entry counts, and the
//! one with the shortest predicted pass is chosen.
//!
//! With more blocks, workers wait less for each other, but hand over more often. The defaults are
//! two blocks per part for a rotation (one to work on while another is in flight) and eight for a
//! wavefront. They are kept unless another number is predicted to be shorter by more than
//! [`MIN_GAIN_PERCENT`]: effects that the prediction does not know, above all preempted workers,
//! cost most where there is least slack.
//!
//! Entry counts are cached with the array, because its keys never change. So are predictions, so
//! that replanning a pass costs almost nothing.

use super::makespan::{BlockCounts, BlockOrder, UnitTimes, balanced_time, makespan};
use super::{Cuts, LoopBlock, LoopSchedule, PlannerInput, part_at};
use hemiola_analysis::{Analysis, BlockTraversal, Parallelization};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Candidate numbers of time blocks per part.
const RATIO_CANDIDATES: [usize; 5] = [1, 2, 4, 8, 16];
/// Default number of time blocks per part in a rotation.
const DEFAULT_ROTATION_RATIO: usize = 2;
/// Default number of time blocks per part in a wavefront.
const DEFAULT_WAVEFRONT_RATIO: usize = 8;
/// Gain in percent that another number than the default must bring.
const MIN_GAIN_PERCENT: u64 = 2;
/// Limit of the cells of the grid in which entries are counted.
const MAX_GRID_CELLS: usize = 1 << 20;
/// Number of lines of the iteration space that are sampled to count skewed blocks.
const SAMPLED_LINES: u64 = 64;

/// Predicted pass times for several numbers of time blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioPrediction {
    /// Chosen number of time blocks per part.
    pub ratio: usize,
    /// Evaluated numbers, in ascending order.
    pub trials: Vec<RatioTrial>,
    /// Share of a pass that workers compute, at the nominal time per entry (not the light one that
    /// compares numbers of blocks).
    pub utilization: f64,
}

/// Prediction for one number of time blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RatioTrial {
    /// Time blocks per part.
    pub ratio: usize,
    /// Predicted time of a pass over that of perfectly balanced work without hand-offs. 1 is
    /// perfect.
    pub relative_time: f64,
}

impl RatioPrediction {
    /// Relative time of the chosen number of blocks.
    #[must_use]
    pub fn relative_time(&self) -> f64 {
        self.trials.iter().find(|trial| trial.ratio == self.ratio).map_or(1.0, |trial| trial.relative_time)
    }
}

/// Inputs of a prediction, besides the entries.
#[derive(Clone, Debug, PartialEq)]
struct PredictionKey {
    parallelization: Parallelization,
    parts: usize,
    max_ratio: usize,
    unit_times: UnitTimes,
}

/// Predictions for a loop over one array, by input.
#[derive(Debug, Default)]
pub(crate) struct PredictionMemo(Mutex<Vec<(PredictionKey, RatioPrediction)>>);

/// Cuts and entry counts that are needed to compare the legal parallelizations of a loop.
#[derive(Debug)]
pub(crate) struct CandidateCuts {
    /// Dimensions and the numbers of parts they may be cut into.
    pub(crate) cuts: BTreeSet<(usize, usize)>,
    /// Pairs of dimensions that may be space and time, the lower first.
    pub(crate) pairs: BTreeSet<[usize; 2]>,
    /// Largest number of time blocks per part whose entries can be counted.
    pub(crate) max_ratio: usize,
}

/// Cuts that the legal parallelizations need.
pub(crate) fn candidate_cuts(analysis: &Analysis, peers: usize, workers: usize, sparse: bool) -> CandidateCuts {
    let mut parts = vec![workers, peers * workers];
    parts.dedup();
    // Upper limit over all divisions of the same workers among peers: the candidates must not
    // depend on it.
    let ranges = 2 * peers * workers;
    let mut max_ratio = RATIO_CANDIDATES[RATIO_CANDIDATES.len() - 1];
    // The grid has as many ranges per dimension as all candidates together.
    let cells = |max_ratio: usize| {
        (ranges * RATIO_CANDIDATES.iter().filter(|ratio| **ratio <= max_ratio).sum::<usize>()).pow(2)
    };
    while sparse && max_ratio > DEFAULT_ROTATION_RATIO && cells(max_ratio) > MAX_GRID_CELLS {
        max_ratio /= 2;
    }
    let (mut cuts, mut pairs) = (BTreeSet::from([(0, 1)]), BTreeSet::new());
    for parallelization in analysis.legal() {
        let space = match parallelization {
            Parallelization::OneD { space } | Parallelization::TwoD { space, .. } => Some(*space),
            Parallelization::Transformed { matrix, space, .. } => matrix.unchanged(*space),
            Parallelization::Serial => None,
        };
        cuts.extend(space.into_iter().flat_map(|space| parts.iter().map(move |parts| (space, *parts))));
        if let Parallelization::TwoD { space, time, .. } = parallelization {
            // Without a prediction the default is used, however many parts there are.
            let ratios = RATIO_CANDIDATES.into_iter().filter(|ratio| {
                *ratio <= max_ratio || [DEFAULT_ROTATION_RATIO, DEFAULT_WAVEFRONT_RATIO].contains(ratio)
            });
            cuts.extend(ratios.flat_map(|ratio| parts.iter().map(move |parts| (*time, ratio * parts))));
            // A single worker never waits.
            if sparse && peers * workers > 1 && cells(max_ratio) <= MAX_GRID_CELLS {
                pairs.insert([*space.min(time), *space.max(time)]);
            }
        }
    }
    CandidateCuts { cuts, pairs, max_ratio }
}

/// All bounds that the parts of a dimension may have, merged.
pub(crate) fn finest_bounds(bounds: &BTreeMap<(usize, usize), Vec<usize>>, dimension: usize) -> Vec<usize> {
    let ends = bounds.iter().filter(|((of, _), _)| *of == dimension).flat_map(|(_, bounds)| bounds);
    let mut ends: Vec<usize> = ends.copied().collect::<BTreeSet<_>>().into_iter().collect();
    if let [end] = ends[..] {
        // A dimension without indices.
        ends.push(end);
    }
    ends
}

/// Default number of time blocks per part.
pub(crate) fn default_ratio(schedule: LoopSchedule) -> usize {
    match schedule {
        LoopSchedule::Independent => 1,
        LoopSchedule::Rotation { .. } => DEFAULT_ROTATION_RATIO,
        LoopSchedule::Wavefront => DEFAULT_WAVEFRONT_RATIO,
    }
}

/// Evaluates the candidate numbers of time blocks; `cut` makes the cuts for one. `None` if the
/// distribution of the entries is unknown.
pub(crate) fn predict(
    input: &PlannerInput<'_>,
    parallelization: &Parallelization,
    parts: usize,
    unit_times: UnitTimes,
    cut: impl Fn(usize) -> Cuts,
) -> Option<RatioPrediction> {
    let default = default_ratio(cut(1).schedule).min(input.max_ratio);
    let key = PredictionKey { parallelization: parallelization.clone(), parts, max_ratio: input.max_ratio, unit_times };
    let mut memo = input.memo.0.lock();
    if let Some((_, prediction)) = memo.iter().find(|(known, _)| *known == key) {
        return Some(prediction.clone());
    }
    let unit_times = &key.unit_times;
    let mut trials = Vec::new();
    for ratio in RATIO_CANDIDATES.into_iter().filter(|ratio| *ratio <= input.max_ratio) {
        let cuts = cut(ratio);
        let blocks = count_entries(input, parallelization, &cuts)?;
        trials.push((ratio, makespan(&blocks, block_order(&cuts), unit_times), balanced_time(&blocks, unit_times)));
    }
    let ratio = best_ratio(&trials, default);
    let (cuts, nominal) = (cut(ratio), UnitTimes { entry: unit_times.nominal_entry, ..unit_times.clone() });
    let blocks = count_entries(input, parallelization, &cuts)?;
    let utilization = balanced_time(&blocks, &nominal) as f64 / makespan(&blocks, block_order(&cuts), &nominal) as f64;
    let trials = trials
        .into_iter()
        .map(|(ratio, time, balanced)| RatioTrial { ratio, relative_time: time as f64 / balanced as f64 });
    let prediction = RatioPrediction { ratio, trials: trials.collect(), utilization };
    memo.push((key, prediction.clone()));
    Some(prediction)
}

fn block_order(cuts: &Cuts) -> BlockOrder {
    match cuts.schedule {
        LoopSchedule::Rotation { ratio } => BlockOrder::Rotation { ratio },
        LoopSchedule::Wavefront | LoopSchedule::Independent => BlockOrder::Wavefront,
    }
}

/// Number of blocks with the shortest pass; the default, if it is about as short.
fn best_ratio(trials: &[(usize, u64, u64)], default: usize) -> usize {
    let shortest =
        trials.iter().min_by_key(|(_, takes, _)| *takes).map_or((default, 0), |(ratio, takes, _)| (*ratio, *takes));
    let default_trial = trials.iter().find(|(ratio, ..)| *ratio == default);
    match default_trial {
        Some((_, takes, _)) if takes.saturating_mul(100 - MIN_GAIN_PERCENT) <= shortest.1.saturating_mul(100) => {
            default
        }
        _ => shortest.0,
    }
}

/// Number of entries in each block. `None` if the joint distribution is unknown.
pub(crate) fn count_entries(
    input: &PlannerInput<'_>,
    parallelization: &Parallelization,
    cuts: &Cuts,
) -> Option<BlockCounts> {
    if let Some(skew) = &cuts.skew {
        return Some(count_skewed(input, cuts, (&skew.space, &skew.space_bounds), (&skew.time, &skew.time_bounds)));
    }
    let Parallelization::TwoD { space, time, .. } = parallelization else { return None };
    let mut blocks = BlockCounts::new(cuts.parts(), cuts.times());
    if input.histograms.iter().all(Option::is_none) {
        // A dense space: all keys of a box.
        let length = |bounds: &[usize], at: usize| bounds[at + 1] - bounds[at];
        let others = (0..input.extents.len()).filter(|dimension| dimension != space && dimension != time);
        let others: usize =
            others.map(|dimension| input.extents[dimension].end - input.extents[dimension].start).product();
        for part in 0..cuts.parts() {
            for at in 0..cuts.times() {
                let entries = length(&cuts.space, part) * length(&cuts.time, at) * others;
                blocks.add(LoopBlock { part, time: at }, entries as u64);
            }
        }
        return Some(blocks);
    }
    let joint = input.joints.iter().find(|joint| joint.dimensions() == [*space.min(time), *space.max(time)])?;
    let [first, second] = joint.bounds();
    let parts_of = |bounds: &[usize], of: &[usize]| -> Vec<usize> {
        of[..of.len() - 1].iter().map(|start| part_at(bounds, start)).collect()
    };
    let transposed = space > time;
    let (by_first, by_second) = if transposed {
        (parts_of(&cuts.time, first), parts_of(&cuts.space, second))
    } else {
        (parts_of(&cuts.space, first), parts_of(&cuts.time, second))
    };
    for (a, first) in by_first.iter().enumerate() {
        for (b, second) in by_second.iter().enumerate() {
            let (part, time) = if transposed { (*second, *first) } else { (*first, *second) };
            blocks.add(LoopBlock { part, time }, joint.count(a, b));
        }
    }
    Some(blocks)
}

/// A skewed coordinate: its weights and the bounds of its parts.
type SkewAxis<'a> = (&'a [i64], &'a [i64]);

/// Number of keys in each skewed block, estimated from sampled lines along the last dimension.
fn count_skewed(input: &PlannerInput<'_>, cuts: &Cuts, space: SkewAxis<'_>, time: SkewAxis<'_>) -> BlockCounts {
    let mut blocks = BlockCounts::new(cuts.parts(), cuts.times());
    let last = input.extents.len() - 1;
    let outer: Vec<u64> = input.extents[..last].iter().map(|range| (range.end - range.start) as u64).collect();
    let lines: u64 = outer.iter().product();
    let sampled = lines.min(SAMPLED_LINES);
    for line in 0..sampled {
        // Evenly spaced lines; each represents the lines around it.
        let share = |at: u64| (u128::from(at) * u128::from(lines) / u128::from(sampled)) as u64;
        let (number, represented) = (share(line).midpoint(share(line + 1)), share(line + 1) - share(line));
        let mut left = number;
        let mut fixed = (0, 0);
        for dimension in (0..last).rev() {
            let index = (input.extents[dimension].start as u64 + left % outer[dimension]).cast_signed();
            left /= outer[dimension];
            fixed = (fixed.0 + space.0[dimension] * index, fixed.1 + time.0[dimension] * index);
        }
        let Range { start, end } = input.extents[last];
        let (mut at, end) = (start.cast_signed() as i64, end.cast_signed() as i64);
        while at < end {
            let part_and_next = |fixed: i64, (weights, bounds): SkewAxis<'_>| {
                let weight = weights[last];
                let part = part_at(bounds, &(fixed + weight * at));
                // First index of this line that lies in another part.
                let next = match weight {
                    0 => i64::MAX,
                    weight if weight > 0 => at + (bounds[part + 1] - fixed - weight * at + weight - 1) / weight,
                    weight => at + (fixed + weight * at - bounds[part]) / -weight + 1,
                };
                (part, next.max(at + 1))
            };
            let ((part, by_space), (time, by_time)) = (part_and_next(fixed.0, space), part_and_next(fixed.1, time));
            let to = by_space.min(by_time).min(end);
            blocks.add(LoopBlock { part, time }, (to - at).cast_unsigned() * represented);
            at = to;
        }
    }
    blocks
}

/// Schedule and number of time blocks of a parallelization, with `ratio` time blocks per part.
pub(crate) fn loop_schedule(parallelization: &Parallelization, parts: usize, ratio: usize) -> (LoopSchedule, usize) {
    // A single worker needs no time blocks.
    let ratio = if parts == 1 { 1 } else { ratio };
    match parallelization {
        Parallelization::OneD { .. } | Parallelization::Serial => (LoopSchedule::Independent, 1),
        Parallelization::TwoD { order: BlockTraversal::Rotation, .. } => {
            (LoopSchedule::Rotation { ratio }, ratio * parts)
        }
        Parallelization::TwoD { order: BlockTraversal::Wavefront, .. } | Parallelization::Transformed { .. } => {
            (LoopSchedule::Wavefront, ratio * parts)
        }
    }
}

#[cfg(test)]
mod tests;
