//! Choosing among the legal ways to run a loop: each is cut, placed and priced; the cheapest wins.

use super::cost::{Cost, Work, prices};
use super::predict::{Prediction, Predictions, predict, schedule, usual};
use super::{Alternative, ArrayPlan, Cuts, Placement, Plan, Schedule, Skew};
use crate::arrays::array_rows;
use hemiola_analysis::{Analysis, Home, LoopSpec, Strategy, Subscript, Usage, place, reach};
use hemiola_array::{Cut, Histogram, JointHistogram};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Arrays of up to this many bytes are copied whole rather than served: the copy costs less than the requests.
const COPIED_BYTES: u64 = 64 << 10;

/// What a planner knows of a loop.
pub(crate) struct Facts<'a> {
    pub(crate) title: String,
    pub(crate) space_text: &'a str,
    pub(crate) extents: Vec<Range<u64>>,
    pub(crate) entries: u64,
    /// By dimension: how entries are spread, where that is not even.
    pub(crate) histograms: Vec<Option<Arc<Histogram>>>,
    /// By dimension and number of parts: ends of near-equal parts.
    pub(crate) bounds: BTreeMap<(usize, usize), Vec<u64>>,
    /// Entries by ranges of two dimensions, where they are not spread evenly.
    pub(crate) joints: Vec<Arc<JointHistogram>>,
    /// The most blocks of time for each part.
    pub(crate) most: usize,
    /// What was predicted before.
    pub(crate) known: &'a Predictions,
    /// Entries are stored in an order of our choice.
    pub(crate) sortable: bool,
    /// The entries lie in rows of a dense array, so that peers can have them cut along the first dimension only.
    pub(crate) rows_only: bool,
    /// By array: extents and bytes per cell.
    pub(crate) arrays: Vec<(Vec<u64>, usize)>,
    /// Arrays that a buffer updates together.
    pub(crate) together: Vec<Vec<usize>>,
    pub(crate) peers: usize,
    pub(crate) workers: usize,
}

/// One way to run the loop, worked out.
struct Worked {
    strategy: Strategy,
    dimensions: (usize, Option<usize>),
    cuts: Cuts,
    arrays: Vec<ArrayPlan>,
    cost: Cost,
    prediction: Option<Prediction>,
}

/// What is left to whoever plans.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// Which of the legal ways to take: the number of one of them.
    pub way: &'a dyn Fn(&[Alternative]) -> usize,
    /// Blocks of time for each part, whatever is predicted.
    pub ratio: Option<usize>,
}

impl Choice<'static> {
    /// What loops do unless tests want something else.
    pub(crate) const BEST: Self = Self { way: &cheapest, ratio: None };
}

impl fmt::Debug for Choice<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Choice").field("ratio", &self.ratio).finish_non_exhaustive()
    }
}

/// The cheapest kind, and of that kind the one that would be cheapest if every part were a peer of its own. The first of
/// equals: strategies come in the order of their simplicity.
fn cheapest(options: &[Alternative]) -> usize {
    let kind = |at: usize| std::mem::discriminant(&options[at].strategy);
    let least = |numbers: &mut dyn Iterator<Item = usize>, seconds: fn(&Cost) -> f64| {
        numbers.min_by(|a, b| seconds(&options[*a].cost).total_cmp(&seconds(&options[*b].cost)))
    };
    let overall = least(&mut (0..options.len()), |cost| cost.seconds).expect("serial is always legal");
    let mut alike = (0..options.len()).filter(|at| kind(*at) == kind(overall));
    least(&mut alike, |cost| cost.seconds_apart).unwrap_or(overall)
}

/// The plan that `choice` takes.
pub(crate) fn choose(spec: &LoopSpec, analysis: Analysis, facts: &Facts<'_>, choice: Choice<'_>) -> Plan {
    let mut options: Vec<Worked> =
        analysis.legal().map(|strategy| work_out(spec, strategy, facts, choice.ratio)).collect();
    let mut alternatives: Vec<Alternative> = options
        .iter()
        .map(|option| Alternative {
            strategy: option.strategy.clone(),
            text: analysis.describe(&option.strategy),
            cost: option.cost,
        })
        .collect();
    let chosen = (choice.way)(&alternatives);
    alternatives.remove(chosen);
    let Worked { strategy, dimensions, cuts, arrays, cost, prediction } = options.swap_remove(chosen);
    let entry_order = entry_order(&analysis, facts, dimensions.0, &cuts);
    Plan {
        title: facts.title.clone(),
        space_text: facts.space_text.to_owned(),
        extents: facts.extents.clone(),
        entries: facts.entries,
        analysis,
        strategy,
        dimensions,
        entry_order,
        cuts,
        arrays,
        tables: Vec::new(),
        cost,
        prediction,
        alternatives,
        peers: facts.peers,
        workers: facts.workers,
    }
}

/// Entries of one index of space one after the other, because that keeps its rows in the nearest cache; in the order of the
/// source, where that matters or cannot be changed.
fn entry_order(analysis: &Analysis, facts: &Facts<'_>, space: usize, cuts: &Cuts) -> Vec<usize> {
    let all = 0..analysis.dimensions;
    if analysis.ordered || !facts.sortable || cuts.skew.is_some() {
        return all.collect();
    }
    std::iter::once(space).chain(all.filter(|dimension| *dimension != space)).collect()
}

fn work_out(spec: &LoopSpec, strategy: &Strategy, facts: &Facts<'_>, ratio: Option<usize>) -> Worked {
    let mut arrays = placed(spec, strategy, facts);
    keep_together(&mut arrays, facts);
    let (space, time) = match strategy {
        Strategy::OneD { space } => (Some(*space), None),
        Strategy::TwoD { space, time, .. } => (Some(*space), Some(*time)),
        Strategy::Transformed { matrix, space, .. } => (matrix.unchanged(*space), None),
        Strategy::Serial => (Some(0), None),
    };
    let cut = |peers_used, ratio| {
        let parts = if *strategy == Strategy::Serial { 1 } else { peers_used * facts.workers };
        cut(strategy, facts, (parts, ratio), peers_used, (space, time))
    };
    let mut cuts = cut(facts.peers, 1);
    let several = facts.peers > 1 && *strategy != Strategy::Serial;
    if facts.peers > 1 && !(several && all_peers(spec, &mut arrays, facts, &cuts, space)) {
        cuts = cut(1, 1);
        for array in &mut arrays {
            array.reason += "; one peer runs the whole loop";
        }
    }
    let (parts, peers_used) = (cuts.parts(), cuts.peers_used);
    let mut prediction = None;
    if cuts.schedule != Schedule::Independent && parts > 1 {
        let meets = facts.together.iter().any(|together| {
            !matches!(arrays[together[0]].placement, Placement::Local { .. } | Placement::Rotating { .. })
        });
        let prices = prices(&arrays, cells_per_entry(spec, &arrays), parts, meets);
        prediction = predict(facts, strategy, parts, prices, |ratio| cut(peers_used, ratio));
        if let (Some(ratio), Some(prediction)) = (ratio, &mut prediction) {
            prediction.ratio = ratio.min(facts.most);
        }
        let ratio = prediction.as_ref().map_or(usual(cuts.schedule), |prediction| prediction.ratio);
        cuts = cut(peers_used, ratio);
    }
    let space = space.unwrap_or(0);
    let cost = price(spec, &arrays, &cuts, facts, (space, prediction.as_ref()));
    Worked { strategy: strategy.clone(), dimensions: (space, time), cuts, arrays, cost, prediction }
}

/// Puts arrays where several peers can run the loop, if they can.
fn all_peers(spec: &LoopSpec, arrays: &mut [ArrayPlan], facts: &Facts<'_>, cuts: &Cuts, space: Option<usize>) -> bool {
    // Peers divide the loop along a dimension of its own, and the entries they iterate over with it.
    let Some(space) = space.filter(|space| *space == 0 || !facts.rows_only) else { return false };
    let edges: Vec<_> = (0..arrays.len()).map(|number| edges(spec, arrays, facts, cuts, (number, space))).collect();
    // A peer other than the first can only run blocks if all it writes comes to it and goes from it with the plan.
    let stays = |array: &ArrayPlan| array.usage == Usage::Written && array.placement == Placement::Whole;
    let mut here = true;
    for (array, edges) in arrays.iter_mut().zip(&edges) {
        if let (true, Err(Some(problem))) = (stays(array), edges) {
            array.reason.clone_from(problem);
        }
        here &= !stays(array) || edges.is_ok();
    }
    if !here {
        return false;
    }
    for (array, edges) in arrays.iter_mut().zip(edges) {
        if let Ok((placement, reason)) = edges {
            (array.placement, array.reason) = (placement, reason);
        }
    }
    serve(spec, arrays, facts);
    true
}

/// The placement of an array of which neighbouring peers share some rows, and why; or why it has none, if it could.
fn edges(
    spec: &LoopSpec,
    arrays: &[ArrayPlan],
    facts: &Facts<'_>,
    cuts: &Cuts,
    (number, space): (usize, usize),
) -> Result<(Placement, String), Option<String>> {
    let (array, used) = (&arrays[number], &spec.arrays[number]);
    let buffered = !used.buffered.is_empty() || facts.together.iter().any(|together| together.contains(&number));
    let (low, high) = reach(used, 0, space).filter(|_| array.placement == Placement::Whole && !buffered).ok_or(None)?;
    let sent = array.usage == Usage::Written;
    if sent && cuts.schedule != Schedule::Wavefront {
        // What crosses an edge goes forward, as waves do.
        return Err(None);
    }
    let width = low.abs_diff(high);
    // Then peers share rows with their neighbours alone, and only the last part of a peer touches what it shares with the next.
    let wide = |peer: usize| {
        let last = (peer + 1) * cuts.parts() / cuts.peers_used;
        cuts.space[last] - cuts.space[last - 1] >= width
    };
    if !(0..cuts.peers_used - 1).all(wide) {
        let rows = if width == 1 { "row that".to_owned() } else { format!("{width} rows that") };
        return Err(Some(format!("parts are narrower than the {rows} peers would share")));
    }
    let reason = format!("its dimension 0 follows space at offsets {low} to {high}, so that neighbours share {width}");
    Ok((Placement::Halo { low, high, sent }, reason))
}

fn placed(spec: &LoopSpec, strategy: &Strategy, facts: &Facts<'_>) -> Vec<ArrayPlan> {
    let skewed = matches!(strategy, Strategy::Transformed { matrix, space, .. } if matrix.unchanged(*space).is_none());
    place(spec, strategy)
        .into_iter()
        .zip(&facts.arrays)
        .map(|(placed, (shape, cell_bytes))| {
            let (placement, reason) = match &placed.home {
                _ if skewed => (Placement::Whole, "the loop is cut along sums of its indices".to_owned()),
                Home::Local { array_dimension: 0, offset } => {
                    (Placement::Local { offset: *offset }, placed.home.to_string())
                }
                Home::Rotating { array_dimension: 0, offset } => {
                    (Placement::Rotating { offset: *offset }, placed.home.to_string())
                }
                Home::Local { array_dimension, .. } | Home::Rotating { array_dimension, .. } => {
                    let reason =
                        format!("its dimension {array_dimension} follows the loop, and arrays are cut along 0");
                    (Placement::Whole, reason)
                }
                Home::Whole(reason) => (Placement::Whole, reason.to_string()),
            };
            let bytes = shape.iter().product::<u64>() * *cell_bytes as u64;
            ArrayPlan { name: placed.array, shape: shape.clone(), bytes, placement, reason, usage: placed.usage }
        })
        .collect()
}

/// Arrays that a buffer updates together lie alike: the worker that has a row of one has it of all, or all are whole.
fn keep_together(arrays: &mut [ArrayPlan], facts: &Facts<'_>) {
    // Making one array whole may part it from those of another buffer.
    while let Some(parted) = facts.together.iter().find(|together| {
        let first = arrays[together[0]].placement;
        together.iter().any(|array| arrays[*array].placement != first)
    }) {
        for array in parted {
            let array = &mut arrays[*array];
            if array.placement != Placement::Whole {
                array.placement = Placement::Whole;
                "it is updated together with an array that is whole".clone_into(&mut array.reason);
            }
        }
    }
}

/// Serves large arrays that would be copied whole to every peer, unless the loop writes them at once.
fn serve(spec: &LoopSpec, arrays: &mut [ArrayPlan], facts: &Facts<'_>) {
    // A range of rows may have several owners, and cannot be lent as one.
    let by_row = |number: usize| {
        let mut accesses = spec.arrays[number].all();
        accesses.all(|access| !matches!(access.subscript(0), Subscript::Range { .. }))
    };
    let may = |number: usize| {
        let array = &arrays[number];
        let large = array.bytes > COPIED_BYTES;
        large && array.placement == Placement::Whole && array.usage != Usage::Written && by_row(number)
    };
    let mut chosen: Vec<bool> = (0..arrays.len()).map(may).collect();
    // Arrays that a buffer updates together lie alike; refusing one may part it from those of another buffer.
    while let Some(parted) = facts
        .together
        .iter()
        .find(|together| together.iter().any(|array| chosen[*array]) && !together.iter().all(|array| chosen[*array]))
    {
        for array in parted {
            chosen[*array] = false;
        }
    }
    for (array, _) in arrays.iter_mut().zip(chosen).filter(|(_, chosen)| *chosen) {
        array.placement = Placement::Served;
    }
}

fn cut(
    strategy: &Strategy,
    facts: &Facts<'_>,
    (parts, ratio): (usize, usize),
    peers_used: usize,
    (space, time): (Option<usize>, Option<usize>),
) -> Cuts {
    let (schedule, times) = schedule(strategy, parts, ratio);
    // Where the loop is not cut along a dimension of its own, arrays are whole: only the number of parts or times matters.
    let nothing = |count| vec![0; count + 1];
    let own = space.filter(|space| *space < facts.extents.len()).map(|space| bounds(facts, space, parts));
    if let Strategy::Transformed { matrix, space, time } = strategy {
        let (space, time) = (matrix.row(*space).to_vec(), matrix.row(*time).to_vec());
        let signed = |bounds: &Vec<u64>| bounds.iter().map(|bound| bound.cast_signed()).collect();
        let space_bounds = own.as_ref().map_or_else(|| bounds_of(&space, facts, parts), signed);
        let (time_bounds, own_space) = (bounds_of(&time, facts, times), own.is_some());
        let skew = Skew { space, time, space_bounds, time_bounds, own_space };
        let space = own.unwrap_or_else(|| nothing(parts));
        return Cuts { space, time: nothing(times), skew: Some(skew), peers_used, schedule };
    }
    let space = own.unwrap_or_else(|| nothing(parts));
    let time = time.map_or_else(|| vec![0, 0], |time| bounds(facts, time, times));
    Cuts { space, time, skew: None, peers_used, schedule }
}

/// Ends of near-equal parts of a dimension.
fn bounds(facts: &Facts<'_>, dimension: usize, parts: usize) -> Vec<u64> {
    facts.bounds.get(&(dimension, parts)).expect("all cuts of legal ways were made").clone()
}

/// Ends of equal parts of a weighted sum of indices.
fn bounds_of(weights: &[i64], facts: &Facts<'_>, parts: usize) -> Vec<i64> {
    let (mut low, mut high) = (0, 0);
    for (weight, range) in weights.iter().zip(&facts.extents) {
        let ends =
            [range.start.cast_signed() * weight, (range.end.cast_signed() - 1).max(range.start.cast_signed()) * weight];
        low += ends[0].min(ends[1]);
        high += ends[0].max(ends[1]);
    }
    let length = (high - low + 1) as u64;
    let ends = Cut::equal(length, parts).ranges().map(|range| low + range.end.cast_signed()).collect::<Vec<_>>();
    std::iter::once(low).chain(ends).collect()
}

/// Cells that an iteration touches, as far as subscripts tell.
fn cells_per_entry(spec: &LoopSpec, arrays: &[ArrayPlan]) -> u64 {
    let cells =
        |array: &ArrayPlan, subscripts: usize| array.shape.iter().skip(subscripts).product::<u64>().min(1 << 20);
    let used = spec.arrays.iter().zip(arrays);
    used.flat_map(|(used, array)| used.all().map(|access| cells(array, access.subscripts.len()))).sum()
}

fn price(
    spec: &LoopSpec,
    arrays: &[ArrayPlan],
    cuts: &Cuts,
    facts: &Facts<'_>,
    (space, prediction): (usize, Option<&Prediction>),
) -> Cost {
    let parts = cuts.parts();
    let even = || vec![facts.entries.div_ceil(parts as u64); parts];
    let weights = match facts.histograms.get(space).and_then(Option::as_ref) {
        Some(histogram) if cuts.skew.as_ref().is_none_or(|skew| skew.own_space) && histogram.is_exact() => {
            let counts = histogram.counts();
            cuts.space.windows(2).map(|ends| counts[ends[0] as usize..ends[1] as usize].iter().sum()).collect()
        }
        _ => even(),
    };
    let utilization = match cuts.schedule {
        _ if prediction.is_some() => prediction.map(|prediction| prediction.utilization),
        Schedule::Wavefront => Some(cuts.times() as f64 / (cuts.times() + parts - 1) as f64),
        Schedule::Independent | Schedule::Rotation { .. } => None,
    };
    let (mut wire_bytes, mut bytes_apart, mut memory_traffic, mut memory_bytes) = (0, 0, 0, 0);
    let others = cuts.peers_used as u64 - 1;
    for array in arrays {
        let rows = array.shape.first().copied().unwrap_or(0).max(1);
        bytes_apart += match array.placement {
            Placement::Local { .. } => 0,
            Placement::Rotating { .. } => array.bytes * parts as u64,
            // Where there is one peer, what could be shared at the edges is whole: it counts alike.
            Placement::Whole | Placement::Served | Placement::Halo { .. } => array.bytes * (parts as u64 - 1),
        };
        match array.placement {
            Placement::Local { offset } => {
                let held = (0..parts).map(|part| array_rows(&cuts.space, offset, rows, part));
                let most = held.map(|rows| rows.end - rows.start).max().unwrap_or(0);
                memory_bytes += array.bytes / rows * most * (parts / cuts.peers_used) as u64;
            }
            Placement::Rotating { .. } => {
                // Every block crosses from peer to peer once for each peer, and from worker to worker.
                wire_bytes += if others > 0 { array.bytes * cuts.peers_used as u64 } else { 0 };
                memory_traffic += if parts > 1 { array.bytes * parts as u64 } else { 0 };
                memory_bytes += array.bytes / cuts.peers_used as u64;
            }
            Placement::Halo { low, high, sent } => {
                let shared = array.bytes / rows * low.abs_diff(high);
                wire_bytes += shared * others * if sent { 2 } else { 1 };
                let held = (0..parts).map(|part| array_rows(&cuts.space, low, rows, part));
                let most = held.map(|rows| rows.end - rows.start).max().unwrap_or(0);
                memory_bytes += array.bytes / rows * most * (parts / cuts.peers_used) as u64 + shared;
            }
            Placement::Whole => {
                wire_bytes += array.bytes * others;
                memory_bytes += array.bytes;
            }
            // Nobody knows which rows are read before the body has run: half of them, from every peer.
            Placement::Served => {
                wire_bytes += array.bytes * others / 2;
                memory_bytes += array.bytes / cuts.peers_used as u64;
            }
        }
    }
    let cells_per_entry = cells_per_entry(spec, arrays);
    Work { weights, cells_per_entry, utilization, wire_bytes, bytes_apart, memory_traffic, memory_bytes }.cost()
}
