//! Choice among the legal parallelizations of a loop: each is cut, placed and priced; the cheapest
//! wins.

use super::cost::{CostInputs, PlanCost, unit_times};
use super::predict::{PredictionMemo, RatioPrediction, default_ratio, loop_schedule, predict};
use super::{ArrayPlacement, ArrayPlan, Cuts, LoopPlan, LoopSchedule, PlanAlternative, SkewedCuts};
use crate::arrays::array_rows;
use hemiola_analysis::{
    Analysis, ArrayPartitioning, LoopSpec, Parallelization, Subscript, WriteMode, offset_range, place_arrays,
};
use hemiola_array::{Histogram, JointHistogram, Partitioner};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Arrays up to this size in bytes are replicated instead of served: the copy costs less than the
/// requests.
const MAX_REPLICATED_BYTES: u64 = 64 << 10;

/// Input of the planner.
pub(crate) struct PlannerInput<'a> {
    pub(crate) title: String,
    pub(crate) space_text: &'a str,
    pub(crate) extents: Vec<Range<usize>>,
    pub(crate) entries: u64,
    /// Distribution of entries, by dimension. `None` if it is uniform.
    pub(crate) histograms: Vec<Option<Arc<Histogram>>>,
    /// Bounds of near-equal parts, by dimension and number of parts.
    pub(crate) bounds: BTreeMap<(usize, usize), Vec<usize>>,
    /// Entries by ranges of two dimensions, where they are not uniform.
    pub(crate) joints: Vec<Arc<JointHistogram>>,
    /// Largest number of time blocks per part.
    pub(crate) max_ratio: usize,
    /// Earlier predictions for the same array.
    pub(crate) memo: &'a PredictionMemo,
    /// The planner may choose the order in which entries are stored.
    pub(crate) sortable: bool,
    /// The entries are the rows of a dense array, so that peers can divide them along the first
    /// dimension only.
    pub(crate) rows_only: bool,
    /// Extents and bytes per cell, by array.
    pub(crate) arrays: Vec<(Vec<usize>, usize)>,
    /// Groups of arrays that one buffer updates together.
    pub(crate) buffer_groups: Vec<Vec<usize>>,
    pub(crate) peers: usize,
    pub(crate) workers: usize,
}

/// One legal parallelization with its cuts, placements and cost.
struct PlanCandidate {
    parallelization: Parallelization,
    dimensions: (usize, Option<usize>),
    cuts: Cuts,
    arrays: Vec<ArrayPlan>,
    cost: PlanCost,
    prediction: Option<RatioPrediction>,
}

/// Selection of a plan among the legal ones. Tests replace it.
#[derive(Clone, Copy)]
pub struct PlanSelector<'a> {
    /// Returns the index of the chosen alternative.
    pub select: &'a dyn Fn(&[PlanAlternative]) -> usize,
    /// Number of time blocks per part. `None` uses the prediction.
    pub ratio: Option<usize>,
}

impl PlanSelector<'static> {
    /// Selects the cheapest plan: the default of all loops.
    pub(crate) const CHEAPEST: Self = Self { select: &cheapest, ratio: None };
}

impl fmt::Debug for PlanSelector<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PlanSelector").field("ratio", &self.ratio).finish_non_exhaustive()
    }
}

/// Index of the cheapest alternative. The kind is chosen by its cost on this cluster; within a
/// kind, the alternative that would be cheapest if every part were a peer of its own. The first of
/// equals wins: alternatives are sorted by simplicity.
fn cheapest(options: &[PlanAlternative]) -> usize {
    let kind = |at: usize| std::mem::discriminant(&options[at].parallelization);
    let least = |numbers: &mut dyn Iterator<Item = usize>, seconds: fn(&PlanCost) -> f64| {
        numbers.min_by(|a, b| seconds(&options[*a].cost).total_cmp(&seconds(&options[*b].cost)))
    };
    let overall = least(&mut (0..options.len()), |cost| cost.seconds).expect("serial execution is always legal");
    let mut alike = (0..options.len()).filter(|at| kind(*at) == kind(overall));
    least(&mut alike, |cost| cost.seconds_distributed).unwrap_or(overall)
}

/// Evaluates all legal parallelizations and returns the plan that `selector` picks.
pub(crate) fn choose(
    spec: &LoopSpec,
    analysis: Analysis,
    input: &PlannerInput<'_>,
    selector: PlanSelector<'_>,
) -> LoopPlan {
    let mut options: Vec<PlanCandidate> =
        analysis.legal().map(|parallelization| evaluate(spec, parallelization, input, selector.ratio)).collect();
    let mut alternatives: Vec<PlanAlternative> = options
        .iter()
        .map(|option| PlanAlternative {
            parallelization: option.parallelization.clone(),
            text: analysis.describe(&option.parallelization),
            cost: option.cost,
        })
        .collect();
    let chosen = (selector.select)(&alternatives);
    alternatives.remove(chosen);
    let PlanCandidate { parallelization, dimensions, cuts, arrays, cost, prediction } = options.swap_remove(chosen);
    let entry_order = entry_order(&analysis, input, dimensions.0, &cuts);
    LoopPlan {
        title: input.title.clone(),
        space_text: input.space_text.to_owned(),
        extents: input.extents.clone(),
        entries: input.entries,
        analysis,
        parallelization,
        dimensions,
        entry_order,
        cuts,
        arrays,
        tables: Vec::new(),
        cost,
        prediction,
        alternatives,
        peers: input.peers,
        workers: input.workers,
    }
}

/// Order of entries inside a block: the space dimension first, which keeps the rows of one space
/// index in the nearest cache. The source order is kept where it matters or cannot be changed.
fn entry_order(analysis: &Analysis, input: &PlannerInput<'_>, space: usize, cuts: &Cuts) -> Vec<usize> {
    let all = 0..analysis.dimensions;
    if analysis.ordered || !input.sortable || cuts.skew.is_some() {
        return all.collect();
    }
    std::iter::once(space).chain(all.filter(|dimension| *dimension != space)).collect()
}

/// Cuts, placements and cost of one parallelization.
fn evaluate(
    spec: &LoopSpec,
    parallelization: &Parallelization,
    input: &PlannerInput<'_>,
    ratio: Option<usize>,
) -> PlanCandidate {
    let mut arrays = plan_arrays(spec, parallelization, input);
    align_buffer_targets(&mut arrays, input);
    let (space, time) = match parallelization {
        Parallelization::OneD { space } => (Some(*space), None),
        Parallelization::TwoD { space, time, .. } => (Some(*space), Some(*time)),
        Parallelization::Transformed { matrix, space, .. } => (matrix.unchanged(*space), None),
        Parallelization::Serial => (Some(0), None),
    };
    let cut = |peers_used, ratio| {
        let parts = if *parallelization == Parallelization::Serial { 1 } else { peers_used * input.workers };
        cut(parallelization, input, (parts, ratio), peers_used, (space, time))
    };
    let mut cuts = cut(input.peers, 1);
    let several = input.peers > 1 && *parallelization != Parallelization::Serial;
    if input.peers > 1 && !(several && place_for_all_peers(spec, &mut arrays, input, &cuts, space)) {
        cuts = cut(1, 1);
        for array in &mut arrays {
            array.reason += "; one peer runs the whole loop";
        }
    }
    let (parts, peers_used) = (cuts.parts(), cuts.peers_used);
    let mut prediction = None;
    if cuts.schedule != LoopSchedule::Independent && parts > 1 {
        let has_barriers = input.buffer_groups.iter().any(|group| {
            !matches!(arrays[group[0]].placement, ArrayPlacement::Local { .. } | ArrayPlacement::Rotating { .. })
        });
        let unit_times = unit_times(&arrays, cells_per_entry(spec, &arrays), parts, has_barriers);
        prediction = predict(input, parallelization, parts, unit_times, |ratio| cut(peers_used, ratio));
        if let (Some(ratio), Some(prediction)) = (ratio, &mut prediction) {
            prediction.ratio = ratio.min(input.max_ratio);
        }
        let ratio = prediction.as_ref().map_or(default_ratio(cuts.schedule), |prediction| prediction.ratio);
        cuts = cut(peers_used, ratio);
    }
    let space = space.unwrap_or(0);
    let cost = plan_cost(spec, &arrays, &cuts, input, (space, prediction.as_ref()));
    PlanCandidate {
        parallelization: parallelization.clone(),
        dimensions: (space, time),
        cuts,
        arrays,
        cost,
        prediction,
    }
}

/// Adjusts placements so that several peers can run the loop. Returns false if this is impossible.
fn place_for_all_peers(
    spec: &LoopSpec,
    arrays: &mut [ArrayPlan],
    input: &PlannerInput<'_>,
    cuts: &Cuts,
    space: Option<usize>,
) -> bool {
    // Peers divide the loop, and its entries, along a dimension of the loop.
    let Some(space) = space.filter(|space| *space == 0 || !input.rows_only) else { return false };
    let halos: Vec<_> =
        (0..arrays.len()).map(|number| halo_placement(spec, arrays, input, cuts, (number, space))).collect();
    // Other peers than the first can run blocks only if every written array is partitioned.
    let stays =
        |array: &ArrayPlan| array.write_mode == WriteMode::Written && array.placement == ArrayPlacement::Replicated;
    let mut movable = true;
    for (array, halos) in arrays.iter_mut().zip(&halos) {
        if let (true, Err(Some(problem))) = (stays(array), halos) {
            array.reason.clone_from(problem);
        }
        movable &= !stays(array) || halos.is_ok();
    }
    if !movable {
        return false;
    }
    for (array, halos) in arrays.iter_mut().zip(halos) {
        if let Ok((placement, reason)) = halos {
            (array.placement, array.reason) = (placement, reason);
        }
    }
    choose_served(spec, arrays, input);
    true
}

/// Halo placement of an array of which neighbouring peers share some rows, with its reason. The
/// error contains the reason, if the array would be a candidate for a halo.
fn halo_placement(
    spec: &LoopSpec,
    arrays: &[ArrayPlan],
    input: &PlannerInput<'_>,
    cuts: &Cuts,
    (number, space): (usize, usize),
) -> Result<(ArrayPlacement, String), Option<String>> {
    let (array, used) = (&arrays[number], &spec.arrays[number]);
    let buffered = !used.buffered.is_empty() || input.buffer_groups.iter().any(|group| group.contains(&number));
    let (low, high) = offset_range(used, 0, space)
        .filter(|_| array.placement == ArrayPlacement::Replicated && !buffered)
        .ok_or(None)?;
    let sent = array.write_mode == WriteMode::Written;
    if sent && cuts.schedule != LoopSchedule::Wavefront {
        // Changes of shared rows move forward, in the direction of a wavefront.
        return Err(None);
    }
    let width = low.abs_diff(high) as usize;
    // Wide parts ensure that peers share rows only with their neighbours, and that only the last
    // part of a peer accesses the rows shared with the next peer.
    let wide = |peer: usize| {
        let last = (peer + 1) * cuts.parts() / cuts.peers_used;
        cuts.space[last] - cuts.space[last - 1] >= width
    };
    if !(0..cuts.peers_used - 1).all(wide) {
        let rows = if width == 1 { "row that".to_owned() } else { format!("{width} rows that") };
        return Err(Some(format!("parts are narrower than the {rows} peers would share")));
    }
    let reason = format!("its dimension 0 follows space at offsets {low} to {high}, so that neighbours share {width}");
    Ok((ArrayPlacement::Halo { low, high, written: sent }, reason))
}

/// Placements that the analysis suggests.
fn plan_arrays(spec: &LoopSpec, parallelization: &Parallelization, input: &PlannerInput<'_>) -> Vec<ArrayPlan> {
    let skewed = matches!(parallelization, Parallelization::Transformed { matrix, space, .. } if matrix.unchanged(*space).is_none());
    place_arrays(spec, parallelization)
        .into_iter()
        .zip(&input.arrays)
        .map(|(placed, (shape, cell_bytes))| {
            let (placement, reason) = match &placed.partitioning {
                _ if skewed => (ArrayPlacement::Replicated, "the loop is cut along sums of its indices".to_owned()),
                ArrayPartitioning::Local { array_dimension: 0, offset } => {
                    (ArrayPlacement::Local { offset: *offset }, placed.partitioning.to_string())
                }
                ArrayPartitioning::Rotating { array_dimension: 0, offset } => {
                    (ArrayPlacement::Rotating { offset: *offset }, placed.partitioning.to_string())
                }
                ArrayPartitioning::Local { array_dimension, .. }
                | ArrayPartitioning::Rotating { array_dimension, .. } => {
                    let reason =
                        format!("its dimension {array_dimension} follows the loop, and arrays are cut along 0");
                    (ArrayPlacement::Replicated, reason)
                }
                ArrayPartitioning::Whole(reason) => (ArrayPlacement::Replicated, reason.to_string()),
            };
            let bytes = (shape.iter().product::<usize>() * *cell_bytes) as u64;
            ArrayPlan {
                name: placed.array,
                shape: shape.clone(),
                bytes,
                placement,
                reason,
                write_mode: placed.write_mode,
            }
        })
        .collect()
}

/// Gives the arrays of one buffer the same placement: the worker that has a row of one has it of
/// all, or all are replicated.
fn align_buffer_targets(arrays: &mut [ArrayPlan], input: &PlannerInput<'_>) {
    // Replicating one array may separate it from the arrays of another buffer.
    while let Some(split) = input.buffer_groups.iter().find(|group| {
        let first = arrays[group[0]].placement;
        group.iter().any(|array| arrays[*array].placement != first)
    }) {
        for array in split {
            let array = &mut arrays[*array];
            if array.placement != ArrayPlacement::Replicated {
                array.placement = ArrayPlacement::Replicated;
                "updated together with a replicated array".clone_into(&mut array.reason);
            }
        }
    }
}

/// Serves large arrays that would be replicated on every peer, unless the loop writes them
/// directly.
fn choose_served(spec: &LoopSpec, arrays: &mut [ArrayPlan], input: &PlannerInput<'_>) {
    // A range of rows may have several owners, so it cannot be borrowed as one slice.
    let by_row = |number: usize| {
        let mut accesses = spec.arrays[number].all_accesses();
        accesses.all(|access| !matches!(access.subscript(0), Subscript::Range { .. }))
    };
    let may = |number: usize| {
        let array = &arrays[number];
        let large = array.bytes > MAX_REPLICATED_BYTES;
        large
            && array.placement == ArrayPlacement::Replicated
            && array.write_mode != WriteMode::Written
            && by_row(number)
    };
    let mut chosen: Vec<bool> = (0..arrays.len()).map(may).collect();
    // Arrays of one buffer have the same placement. Rejecting one may separate it from the arrays
    // of another buffer.
    while let Some(split) = input
        .buffer_groups
        .iter()
        .find(|group| group.iter().any(|array| chosen[*array]) && !group.iter().all(|array| chosen[*array]))
    {
        for array in split {
            chosen[*array] = false;
        }
    }
    for (array, _) in arrays.iter_mut().zip(chosen).filter(|(_, chosen)| *chosen) {
        array.placement = ArrayPlacement::Served;
    }
}

/// Cuts of a parallelization into `parts` parts and `ratio` time blocks per part.
fn cut(
    parallelization: &Parallelization,
    input: &PlannerInput<'_>,
    (parts, ratio): (usize, usize),
    peers_used: usize,
    (space, time): (Option<usize>, Option<usize>),
) -> Cuts {
    let (schedule, times) = loop_schedule(parallelization, parts, ratio);
    // If the loop is not cut along one of its own dimensions, arrays are replicated, and only the
    // numbers of parts and time blocks matter.
    let nothing = |count| vec![0; count + 1];
    let own = space.filter(|space| *space < input.extents.len()).map(|space| dimension_bounds(input, space, parts));
    if let Parallelization::Transformed { matrix, space, time } = parallelization {
        let (space, time) = (matrix.row(*space).to_vec(), matrix.row(*time).to_vec());
        let signed = |bounds: &Vec<usize>| bounds.iter().map(|bound| bound.cast_signed() as i64).collect();
        let space_bounds = own.as_ref().map_or_else(|| weighted_bounds(&space, input, parts), signed);
        let (time_bounds, own_space) = (weighted_bounds(&time, input, times), own.is_some());
        let skew = SkewedCuts { space, time, space_bounds, time_bounds, unskewed_space: own_space };
        let space = own.unwrap_or_else(|| nothing(parts));
        return Cuts { space, time: nothing(times), skew: Some(skew), peers_used, schedule };
    }
    let space = own.unwrap_or_else(|| nothing(parts));
    let time = time.map_or_else(|| vec![0, 0], |time| dimension_bounds(input, time, times));
    Cuts { space, time, skew: None, peers_used, schedule }
}

/// Bounds of near-equal parts of a dimension.
fn dimension_bounds(input: &PlannerInput<'_>, dimension: usize, parts: usize) -> Vec<usize> {
    input.bounds.get(&(dimension, parts)).expect("candidate cuts cover all legal parallelizations").clone()
}

/// Bounds of equal parts of a weighted sum of indices.
fn weighted_bounds(weights: &[i64], input: &PlannerInput<'_>, parts: usize) -> Vec<i64> {
    let (mut low, mut high) = (0, 0);
    for (weight, range) in weights.iter().zip(&input.extents) {
        let (start, end) = (range.start.cast_signed() as i64, range.end.cast_signed() as i64);
        let ends = [start * weight, (end - 1).max(start) * weight];
        low += ends[0].min(ends[1]);
        high += ends[0].max(ends[1]);
    }
    let length = (high - low + 1) as usize;
    let end = |range: Range<usize>| low + range.end.cast_signed() as i64;
    let ends = Partitioner::equal(length, parts).ranges().map(end).collect::<Vec<_>>();
    std::iter::once(low).chain(ends).collect()
}

/// Number of cells that an iteration accesses, as far as subscripts tell.
fn cells_per_entry(spec: &LoopSpec, arrays: &[ArrayPlan]) -> u64 {
    let cells = |array: &ArrayPlan, subscripts: usize| {
        array.shape.iter().skip(subscripts).product::<usize>().min(1 << 20) as u64
    };
    let used = spec.arrays.iter().zip(arrays);
    used.flat_map(|(used, array)| used.all_accesses().map(|access| cells(array, access.subscripts.len()))).sum()
}

/// Cost of a candidate.
fn plan_cost(
    spec: &LoopSpec,
    arrays: &[ArrayPlan],
    cuts: &Cuts,
    input: &PlannerInput<'_>,
    (space, prediction): (usize, Option<&RatioPrediction>),
) -> PlanCost {
    let parts = cuts.parts();
    let even = || vec![input.entries.div_ceil(parts as u64); parts];
    let weights = match input.histograms.get(space).and_then(Option::as_ref) {
        Some(histogram) if cuts.skew.as_ref().is_none_or(|skew| skew.unskewed_space) && histogram.is_exact() => {
            let counts = histogram.counts();
            cuts.space.windows(2).map(|ends| counts[ends[0]..ends[1]].iter().sum()).collect()
        }
        _ => even(),
    };
    let utilization = match cuts.schedule {
        _ if prediction.is_some() => prediction.map(|prediction| prediction.utilization),
        LoopSchedule::Wavefront => Some(cuts.times() as f64 / (cuts.times() + parts - 1) as f64),
        LoopSchedule::Independent | LoopSchedule::Rotation { .. } => None,
    };
    let (mut wire_bytes, mut bytes_apart, mut memory_traffic, mut memory_bytes) = (0, 0, 0, 0);
    let others = cuts.peers_used as u64 - 1;
    for array in arrays {
        let rows = array.shape.first().copied().unwrap_or(0).max(1);
        let row_bytes = array.bytes / rows as u64;
        bytes_apart += match array.placement {
            ArrayPlacement::Local { .. } => 0,
            ArrayPlacement::Rotating { .. } => array.bytes * parts as u64,
            // On one peer a halo array is replicated; it counts the same.
            ArrayPlacement::Replicated | ArrayPlacement::Served | ArrayPlacement::Halo { .. } => {
                array.bytes * (parts as u64 - 1)
            }
        };
        match array.placement {
            ArrayPlacement::Local { offset } => {
                let held = (0..parts).map(|part| array_rows(&cuts.space, offset, rows, part));
                let most = held.map(|rows| rows.end - rows.start).max().unwrap_or(0);
                memory_bytes += row_bytes * (most * (parts / cuts.peers_used)) as u64;
            }
            ArrayPlacement::Rotating { .. } => {
                // Every block moves from peer to peer once per peer, and from worker to worker.
                wire_bytes += if others > 0 { array.bytes * cuts.peers_used as u64 } else { 0 };
                memory_traffic += if parts > 1 { array.bytes * parts as u64 } else { 0 };
                memory_bytes += array.bytes / cuts.peers_used as u64;
            }
            ArrayPlacement::Halo { low, high, written: sent } => {
                let shared = row_bytes * low.abs_diff(high);
                wire_bytes += shared * others * if sent { 2 } else { 1 };
                let held = (0..parts).map(|part| array_rows(&cuts.space, low, rows, part));
                let most = held.map(|rows| rows.end - rows.start).max().unwrap_or(0);
                memory_bytes += row_bytes * (most * (parts / cuts.peers_used)) as u64 + shared;
            }
            ArrayPlacement::Replicated => {
                wire_bytes += array.bytes * others;
                memory_bytes += array.bytes;
            }
            // The rows that a body reads are unknown before it runs. The model assumes half of all
            // rows, per peer.
            ArrayPlacement::Served => {
                wire_bytes += array.bytes * others / 2;
                memory_bytes += array.bytes / cuts.peers_used as u64;
            }
        }
    }
    let cells_per_entry = cells_per_entry(spec, arrays);
    CostInputs {
        weights,
        cells_per_entry,
        utilization,
        wire_bytes,
        bytes_distributed: bytes_apart,
        memory_traffic,
        memory_bytes,
    }
    .cost()
}
