//! Profiles: measurements of a loop on one machine, which suffice to plan it for another cluster
//! and to predict its time there.
//!
//! A profile holds the [`LoopDescription`], the distribution of entries, and the compute times of
//! the blocks of some passes. From these [`LoopProfile::plan`] makes the plan of a cluster with any
//! number of peers, and [`LoopProfile::entries_of`] returns the number of entries in its blocks.
//! `hemiola simulate` runs such a plan in virtual time.
//!
//! ```
//! use hemiola_loops::LoopProfile;
//! # use hemiola_array::DistArray;
//! # use hemiola_loops::LoopReport;
//! # fn example(run: &LoopReport, ratings: &DistArray<f32, 2>) -> hemiola_cluster::Result<()> {
//! // `run` is the result of a `parallel_for!` loop over `ratings`, on one peer.
//! let mut profile = LoopProfile::from_entries(run, ratings)?;
//! profile.add_run(run); // for each pass
//! println!("{}", profile.to_json());
//! # Ok(())
//! # }
//! ```
//!
//! Times are CPU times of threads, so other load on the machine disturbs a profile little.
//!
//! **Invariant:** a profile that was read is valid: counts add up to the entries, shapes fit the
//! loop, times are positive.

mod check;
pub mod description;
mod regrid;

pub use check::InvalidProfile;
pub use description::{AlignedArray, ArraySize, LoopDescription};
pub use hemiola_array::{Histogram, JointHistogram};

use crate::Error;
use crate::arrays::array_rows;
use crate::plan::{
    ArrayPlacement, ArrayPlan, LoopPlan, PlanSelector, PredictionMemo, candidate_cuts, choose, count_entries,
    finest_bounds,
};
use crate::run::LoopReport;
use crate::space::equal_cut;
use description::EntryCounts;
use hemiola_analysis::{Analysis, analyze};
use hemiola_array::{DistArray, Element, Partitioner};
use regrid::regrid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Number of ranges per dimension of a joint histogram.
const MAX_JOINT_RANGES: usize = 128;

/// Name and version of the file format.
pub const PROFILE_FORMAT: &str = "hemiola profile 1";

/// Profile of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopProfile {
    /// Format of the file: [`PROFILE_FORMAT`].
    pub format: String,
    /// Description of the loop.
    pub description: LoopDescription,
    /// Number of entries per index, by dimension. `None` if it is uniform.
    pub histograms: Vec<Option<Histogram>>,
    /// Entries by ranges of two dimensions.
    pub joints: Vec<JointHistogram>,
    /// Measured passes, in order.
    pub passes: Vec<ProfiledPass>,
}

/// Measurements of one pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfiledPass {
    /// Number of workers that ran the pass.
    pub workers: usize,
    /// Duration of the pass in seconds, planning included.
    pub seconds: f64,
    /// Measurements of all blocks.
    pub blocks: Vec<ProfiledBlock>,
}

/// Measurements of one block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfiledBlock {
    /// Part that the block belongs to.
    pub part: usize,
    /// Time block that it belongs to.
    pub time: usize,
    /// Number of entries in the block.
    pub entries: u64,
    /// CPU time of the worker in seconds.
    pub compute_seconds: f64,
}

/// An array whose rows move between peers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RotatingArray {
    /// Name of the array in the loop.
    pub name: String,
    /// Size of a row in bytes.
    pub row_bytes: u64,
    /// Rows of each time block.
    pub rows: Vec<Range<usize>>,
}

impl LoopProfile {
    /// *Collective.* Profile of a loop over the entries of `array`. Passes are
    /// [added](Self::add_run) later.
    pub fn from_entries<T: Element, const N: usize>(
        run: &LoopReport,
        array: &DistArray<T, N>,
    ) -> hemiola_cluster::Result<Self> {
        let mut new = Self::new(run.description.clone());
        new.count_entries(array)?;
        Ok(new)
    }

    /// Profile of a loop over ranges of indices.
    #[must_use]
    pub fn from_ranges(run: &LoopReport) -> Self {
        Self::new(run.description.clone())
    }

    /// *Collective.* Profile of a program that iterates over the entries of a sparse `array`
    /// without `parallel_for!`, and updates one row of each of `arrays` per entry.
    pub fn from_custom_loop<T: Element, const N: usize>(
        title: &str,
        array: &DistArray<T, N>,
        arrays: &[AlignedArray<'_>],
    ) -> hemiola_cluster::Result<Self> {
        let mut new = Self::new(LoopDescription::custom(title, array.shape().extents(), array.len() as u64, arrays));
        new.count_entries(array)?;
        Ok(new)
    }

    fn new(description: LoopDescription) -> Self {
        let histograms = vec![None; description.extents.len()];
        Self { format: PROFILE_FORMAT.to_owned(), description, histograms, joints: Vec::new(), passes: Vec::new() }
    }

    /// *Collective.* Counts the entries of a sparse array, by dimension and by pairs of dimensions.
    fn count_entries<T: Element, const N: usize>(&mut self, array: &DistArray<T, N>) -> hemiola_cluster::Result<()> {
        if !array.is_sparse() {
            return Ok(());
        }
        for dimension in 0..N {
            self.histograms[dimension] = Some(array.histogram(dimension)?);
        }
        for pair in candidate_cuts(&self.analysis()?, 2, 1, true).pairs {
            let bounds = |dimension: usize| {
                let parts = MAX_JOINT_RANGES.min(array.shape().extent(dimension).max(1));
                array.balanced_partitioner(dimension, parts).map(|cut| bounds_of_cut(&cut))
            };
            let joint = array.joint_histogram(pair, [bounds(pair[0])?, bounds(pair[1])?])?;
            self.joints.push((*joint).clone());
        }
        Ok(())
    }

    /// Adds the measurements of a pass on this peer.
    pub fn add_run(&mut self, run: &LoopReport) {
        let blocks = run.block_timings().iter().map(|timing| ProfiledBlock {
            part: timing.block.part,
            time: timing.block.time,
            entries: timing.entries,
            compute_seconds: timing.compute_time.as_secs_f64(),
        });
        let times = run.times();
        self.passes.push(ProfiledPass {
            workers: run.plan().workers,
            seconds: (times.planning + times.arranging + times.running).as_secs_f64(),
            blocks: blocks.collect(),
        });
    }

    /// Adds the measurements of a pass of a custom loop: its duration in seconds, and the entries
    /// and compute seconds of each worker.
    pub fn add_pass(&mut self, seconds: f64, workers: &[(u64, f64)]) {
        let block = |(part, &(entries, computing)): (usize, &(u64, f64))| ProfiledBlock {
            part,
            time: 0,
            entries,
            compute_seconds: computing,
        };
        let blocks = workers.iter().enumerate().map(block).collect();
        self.passes.push(ProfiledPass { workers: workers.len(), seconds, blocks });
    }

    /// Profile as JSON.
    ///
    /// # Panics
    /// Never: a profile is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a profile is plain data")
    }

    /// Reads and validates a profile.
    pub fn from_json(text: &str) -> Result<Self, InvalidProfile> {
        let read: Self = serde_json::from_str(text).map_err(|error| InvalidProfile::unreadable(&error))?;
        read.check()?;
        Ok(read)
    }

    /// Passes that represent the speed of the loop. The first one is left out, if there are others:
    /// it moves entries to their places and has cold caches.
    fn steady_passes(&self) -> &[ProfiledPass] {
        if self.passes.len() > 1 { &self.passes[1..] } else { &self.passes }
    }

    /// Compute seconds per entry: the median over passes.
    #[must_use]
    pub fn seconds_per_entry(&self) -> f64 {
        let rate = |pass: &ProfiledPass| {
            let entries: u64 = pass.blocks.iter().map(|block| block.entries).sum();
            pass.blocks.iter().map(|block| block.compute_seconds).sum::<f64>() / entries.max(1) as f64
        };
        median(self.steady_passes().iter().map(rate).collect())
    }

    /// Variation of the time of a block between passes: the standard deviation of its logarithm.
    #[must_use]
    pub fn time_spread(&self) -> f64 {
        let mut by_block: BTreeMap<(usize, usize, usize), Vec<f64>> = BTreeMap::new();
        for pass in self.steady_passes() {
            for block in pass.blocks.iter().filter(|block| block.compute_seconds > 0.0) {
                by_block.entry((pass.workers, block.part, block.time)).or_default().push(block.compute_seconds);
            }
        }
        let (mut squares, mut count) = (0.0, 0_usize);
        for times in by_block.into_values().filter(|times| times.len() > 1) {
            let median_time = median(times.clone());
            squares += times.iter().map(|time| (time / median_time).ln().powi(2)).sum::<f64>();
            count += times.len() - 1;
        }
        (squares / count.max(1) as f64).sqrt()
    }

    /// Plan for a cluster of `peers` peers with `workers` workers each.
    pub fn plan(&self, peers: usize, workers: usize) -> Result<LoopPlan, Error> {
        let description = &self.description;
        let analysis = self.analysis()?;
        let memo = PredictionMemo::default();
        let (counts, max_ratio) = self.entry_counts(&analysis, peers, workers);
        let input = description.planner_input(counts, (max_ratio, &memo), (peers, workers));
        Ok(choose(&description.spec, analysis, &input, PlanSelector::CHEAPEST))
    }

    /// Number of entries in each block of a plan, by part, then by time block. As exact as the
    /// joint histograms.
    pub fn entries_of(&self, plan: &LoopPlan) -> Result<Vec<u64>, Error> {
        let (parts, times) = (plan.cuts.parts(), plan.cuts.times());
        let memo = PredictionMemo::default();
        let (counts, max_ratio) = self.entry_counts(&plan.analysis, plan.peers, plan.workers);
        let input = self.description.planner_input(counts, (max_ratio, &memo), (plan.peers, plan.workers));
        if let Some(blocks) = count_entries(&input, &plan.parallelization, &plan.cuts) {
            let all = (0..parts)
                .flat_map(|part| (0..times).map(move |time| hemiola_analysis::block_order::LoopBlock { part, time }));
            return Ok(all.map(|block| blocks.of(block)).collect());
        }
        // Independent parts: by the histogram of their dimension, or uniformly.
        let cut = Partitioner::from_bounds(plan.cuts.space.clone());
        Ok(match &self.histograms[plan.dimensions.0] {
            Some(histogram) if histogram.is_exact() && times == 1 => cut.weights(histogram),
            _ => {
                let share = |at: usize| self.description.entries * at as u64 / (parts * times) as u64;
                (0..parts * times).map(|at| share(at + 1) - share(at)).collect()
            }
        })
    }

    /// Reason why the traffic of a plan cannot be predicted from a profile, if there is one.
    #[must_use]
    pub fn unsupported(&self, plan: &LoopPlan) -> Option<String> {
        if let Some(table) = self.description.tables.first() {
            return Some(format!("it uses the table `{table}`, and the rows that blocks read are not in a profile"));
        }
        let other = plan.arrays.iter().find(|array| {
            plan.cuts.peers_used > 1
                && !matches!(array.placement, ArrayPlacement::Local { .. } | ArrayPlacement::Rotating { .. })
        })?;
        let how = match other.placement {
            ArrayPlacement::Halo { .. } => "has a halo",
            ArrayPlacement::Served => "is served row by row",
            _ => "is replicated on every peer",
        };
        Some(format!("`{}` {how} ({}), and its traffic is not in a profile", other.name, other.reason))
    }

    /// Arrays that rotate in a plan, with the rows of each time block.
    #[must_use]
    pub fn rotating_arrays(&self, plan: &LoopPlan) -> Vec<RotatingArray> {
        let rotating = |array: &ArrayPlan| {
            let ArrayPlacement::Rotating { offset } = array.placement else { return None };
            let rows = array.shape.first().copied().unwrap_or(0);
            let times = 0..plan.cuts.times();
            Some(RotatingArray {
                name: array.name.clone(),
                row_bytes: array.bytes / rows.max(1) as u64,
                rows: times.map(|time| array_rows(&plan.cuts.time, offset, rows, time)).collect(),
            })
        };
        plan.arrays.iter().filter_map(rotating).collect()
    }

    fn analysis(&self) -> Result<Analysis, Error> {
        let description = &self.description;
        let not_understood = |error: hemiola_analysis::Error| Error::Unanalyzable {
            site: description.title.clone(),
            problem: error.to_string(),
        };
        Ok(analyze(&description.spec).map_err(not_understood)?.with_indices(description.indices.iter().cloned()))
    }

    /// Entry counts that a cluster of this size would make, and the largest number of time blocks
    /// per part.
    fn entry_counts(&self, analysis: &Analysis, peers: usize, workers: usize) -> (EntryCounts, usize) {
        let sparse = self.histograms.iter().any(Option::is_some);
        let candidates = candidate_cuts(analysis, peers, workers, sparse);
        let cut = |(dimension, parts): (usize, usize)| match &self.histograms[dimension] {
            Some(histogram) => bounds_of_cut(&Partitioner::balanced(histogram, parts)),
            None => equal_cut(&self.description.extents[dimension], parts),
        };
        let bounds: BTreeMap<(usize, usize), Vec<usize>> =
            candidates.cuts.iter().map(|key| (*key, cut(*key))).collect();
        let joint = |pair: &[usize; 2]| {
            let counts = self.joints.iter().find(|joint| joint.dimensions() == *pair)?;
            let histograms = pair.map(|dimension| self.histograms[dimension].as_ref());
            Some(Arc::new(regrid(counts, pair.map(|dimension| finest_bounds(&bounds, dimension)), histograms)))
        };
        let counts = EntryCounts {
            histograms: self.histograms.iter().map(|histogram| histogram.clone().map(Arc::new)).collect(),
            joints: candidates.pairs.iter().filter_map(joint).collect(),
            bounds,
        };
        (counts, candidates.max_ratio)
    }
}

/// Bounds of the parts of a cut, starting with 0.
fn bounds_of_cut(cut: &Partitioner) -> Vec<usize> {
    std::iter::once(0).chain(cut.ranges().map(|range| range.end)).collect()
}

/// Median of the values; the mean of the two middle ones if their number is even.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}
