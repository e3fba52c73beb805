//! What was measured of a loop on one machine: enough to plan it for a cluster one does not have, and to predict what it takes there.
//!
//! A profile holds the [`Subject`], how entries are spread, and how long workers have computed with the blocks of some passes. From that
//! [`Profile::plan`] makes the very plan that a cluster of so many peers would, and [`Profile::entries_of`] says how many entries its blocks have; `hemiola simulate` runs such a plan in virtual time.
//!
//! ```
//! use hemiola_loops::Profile;
//! # use hemiola_array::{MakeArrays, Accumulate};
//! # fn example(run: &hemiola_loops::Run, ratings: &hemiola_array::DistArray<f32, 2>) -> hemiola_cluster::Result<()> {
//! // `run` is what `parallel_for!` returned for a loop over `ratings`, on one peer.
//! let mut profile = Profile::of_entries(run, ratings)?;
//! profile.add(run); // for each pass
//! println!("{}", profile.to_json());
//! # Ok(())
//! # }
//! ```
//!
//! Times are those in which threads computed, so a busy machine disturbs a profile little. **Invariant:** a profile that was read is sound: counts add up to the entries, shapes fit the loop,
//! times are positive.

mod check;
mod regrid;
pub mod subject;

pub use check::Unsound;
pub use hemiola_array::{Histogram, JointHistogram};
pub use subject::{Cells, Follows, Subject};

use crate::Error;
use crate::arrays::array_rows;
use crate::plan::{ArrayPlan, Choice, Placement, Plan, Predictions, choose, count, fine, ways};
use crate::run::Run;
use crate::space::equal_cut;
use hemiola_analysis::{Analysis, analyze};
use hemiola_array::{Cut, DistArray, Element};
use regrid::regrid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use subject::Counted;

/// Ranges of a dimension in which entries are counted together with another dimension.
const RANGES: usize = 128;

/// What is in a file of a profile, and in which version.
pub const FORMAT: &str = "hemiola profile 1";

/// A loop as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// [`FORMAT`].
    pub format: String,
    /// The loop.
    pub subject: Subject,
    /// By dimension: how many entries each index has, where that is not even.
    pub histograms: Vec<Option<Histogram>>,
    /// Entries by ranges of two dimensions.
    pub joints: Vec<JointHistogram>,
    /// What was measured, pass by pass.
    pub passes: Vec<Measured>,
}

/// One pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Workers that ran it.
    pub workers: usize,
    /// Seconds from the beginning to the end of it, planning included.
    pub seconds: f64,
    /// Its blocks.
    pub blocks: Vec<MeasuredBlock>,
}

/// One block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredBlock {
    /// Its part.
    pub part: usize,
    /// Its time.
    pub time: usize,
    /// Its entries.
    pub entries: u64,
    /// Seconds that a worker computed with it.
    pub computing: f64,
}

/// An array whose rows travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Travels {
    /// As the loop calls it.
    pub name: String,
    /// Bytes of a row.
    pub row_bytes: u64,
    /// By time block: its rows.
    pub rows: Vec<Range<u64>>,
}

impl Profile {
    /// *Collective.* Of a loop over the entries of `array`. Passes are yet to be [added](Self::add).
    pub fn of_entries<T: Element, const N: usize>(run: &Run, array: &DistArray<T, N>) -> hemiola_cluster::Result<Self> {
        let mut new = Self::new(run.subject.clone());
        new.count(array)?;
        Ok(new)
    }

    /// Of a loop over ranges of indices.
    #[must_use]
    pub fn of_indices(run: &Run) -> Self {
        Self::new(run.subject.clone())
    }

    /// *Collective.* Of a program that goes through the entries of a sparse `array` by other means than `parallel_for!`, and changes rows of `arrays` with each.
    pub fn by_hand<T: Element, const N: usize>(
        title: &str,
        array: &DistArray<T, N>,
        arrays: &[Follows<'_>],
    ) -> hemiola_cluster::Result<Self> {
        let mut new = Self::new(Subject::by_hand(title, array.shape().extents(), array.len(), arrays));
        new.count(array)?;
        Ok(new)
    }

    fn new(subject: Subject) -> Self {
        let histograms = vec![None; subject.extents.len()];
        Self { format: FORMAT.to_owned(), subject, histograms, joints: Vec::new(), passes: Vec::new() }
    }

    /// *Collective.* Counts the entries of an array, if it is sparse.
    fn count<T: Element, const N: usize>(&mut self, array: &DistArray<T, N>) -> hemiola_cluster::Result<()> {
        if !array.is_sparse() {
            return Ok(());
        }
        for dimension in 0..N {
            self.histograms[dimension] = Some(array.histogram(dimension)?);
        }
        for pair in ways(&self.analysis()?, 2, 1, true).pairs {
            let bounds = |dimension: usize| {
                let parts = RANGES.min(array.shape().extent(dimension).max(1) as usize);
                array.balanced_cut(dimension, parts).map(|cut| ends(&cut))
            };
            let joint = array.joint_histogram(pair, [bounds(pair[0])?, bounds(pair[1])?])?;
            self.joints.push((*joint).clone());
        }
        Ok(())
    }

    /// Adds what this peer has measured of a pass.
    pub fn add(&mut self, run: &Run) {
        let blocks = run.worked().iter().map(|worked| MeasuredBlock {
            part: worked.block.part,
            time: worked.block.time,
            entries: worked.entries,
            computing: worked.computing.as_secs_f64(),
        });
        let times = run.times();
        self.passes.push(Measured {
            workers: run.plan().workers,
            seconds: (times.planning + times.arranging + times.running).as_secs_f64(),
            blocks: blocks.collect(),
        });
    }

    /// Adds what was measured of a pass of a program: how long all of it took, and by worker, its entries and the seconds it computed.
    pub fn add_pass(&mut self, seconds: f64, workers: &[(u64, f64)]) {
        let block =
            |(part, &(entries, computing)): (usize, &(u64, f64))| MeasuredBlock { part, time: 0, entries, computing };
        let blocks = workers.iter().enumerate().map(block).collect();
        self.passes.push(Measured { workers: workers.len(), seconds, blocks });
    }

    /// The profile as JSON.
    ///
    /// # Panics
    /// Never: a profile is plain data.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a profile is plain data")
    }

    /// Reads a profile, and checks that it is sound.
    pub fn from_json(text: &str) -> Result<Self, Unsound> {
        let read: Self = serde_json::from_str(text).map_err(|error| Unsound::unreadable(&error))?;
        read.check()?;
        Ok(read)
    }

    /// The passes that say how fast it is: without the first, if there are others. It moves entries to where they are wanted, and meets cold memory.
    fn telling(&self) -> &[Measured] {
        if self.passes.len() > 1 { &self.passes[1..] } else { &self.passes }
    }

    /// Seconds of computing for an entry: of the middle pass.
    #[must_use]
    pub fn seconds_per_entry(&self) -> f64 {
        let rate = |pass: &Measured| {
            let entries: u64 = pass.blocks.iter().map(|block| block.entries).sum();
            pass.blocks.iter().map(|block| block.computing).sum::<f64>() / entries.max(1) as f64
        };
        middle(self.telling().iter().map(rate).collect())
    }

    /// How much the same block takes longer or shorter from pass to pass: the deviation of the logarithm.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let mut by_block: BTreeMap<(usize, usize, usize), Vec<f64>> = BTreeMap::new();
        for pass in self.telling() {
            for block in pass.blocks.iter().filter(|block| block.computing > 0.0) {
                by_block.entry((pass.workers, block.part, block.time)).or_default().push(block.computing);
            }
        }
        let (mut squares, mut count) = (0.0, 0_usize);
        for times in by_block.into_values().filter(|times| times.len() > 1) {
            let usual = middle(times.clone());
            squares += times.iter().map(|time| (time / usual).ln().powi(2)).sum::<f64>();
            count += times.len() - 1;
        }
        (squares / count.max(1) as f64).sqrt()
    }

    /// The plan that a cluster of so many peers with so many workers each would make.
    pub fn plan(&self, peers: usize, workers: usize) -> Result<Plan, Error> {
        let subject = &self.subject;
        let analysis = self.analysis()?;
        let known = Predictions::default();
        let (counted, most) = self.counted(&analysis, peers, workers);
        let facts = subject.facts(counted, (most, &known), (peers, workers));
        Ok(choose(&subject.spec, analysis, &facts, Choice::BEST))
    }

    /// The entries of each block of a plan: by part, then by time. As exact as entries were counted.
    pub fn entries_of(&self, plan: &Plan) -> Result<Vec<u64>, Error> {
        let (parts, times) = (plan.cuts.parts(), plan.cuts.times());
        let known = Predictions::default();
        let (counted, most) = self.counted(&plan.analysis, plan.peers, plan.workers);
        let facts = self.subject.facts(counted, (most, &known), (plan.peers, plan.workers));
        if let Some(blocks) = count(&facts, &plan.strategy, &plan.cuts) {
            let all = (0..parts)
                .flat_map(|part| (0..times).map(move |time| hemiola_analysis::schedule::Block { part, time }));
            return Ok(all.map(|block| blocks.of(block)).collect());
        }
        // Parts alone: by the histogram of their dimension, or evenly.
        let cut = Cut::at(plan.cuts.space.clone());
        Ok(match &self.histograms[plan.dimensions.0] {
            Some(histogram) if histogram.is_exact() && times == 1 => cut.weights(histogram),
            _ => {
                let share = |at: usize| self.subject.entries * at as u64 / (parts * times) as u64;
                (0..parts * times).map(|at| share(at + 1) - share(at)).collect()
            }
        })
    }

    /// What a plan does that cannot be told from a profile, if so.
    #[must_use]
    pub fn beyond(&self, plan: &Plan) -> Option<String> {
        if let Some(table) = self.subject.tables.first() {
            return Some(format!("it uses the table `{table}`, and which rows blocks read is not in a profile"));
        }
        let other = plan.arrays.iter().find(|array| {
            plan.cuts.peers_used > 1 && !matches!(array.placement, Placement::Local { .. } | Placement::Rotating { .. })
        })?;
        let how = match other.placement {
            Placement::Halo { .. } => "is shared at the edges of parts",
            Placement::Served => "is served row by row",
            _ => "is whole on every peer",
        };
        Some(format!("`{}` {how} ({}), and what that sends is not in a profile", other.name, other.reason))
    }

    /// Ranges of rows of the arrays that travel with each time block of a plan, by array: name, bytes of a row, and ends of the ranges.
    #[must_use]
    pub fn travelling(&self, plan: &Plan) -> Vec<Travels> {
        let travels = |array: &ArrayPlan| {
            let Placement::Rotating { offset } = array.placement else { return None };
            let rows = array.shape.first().copied().unwrap_or(0);
            let times = 0..plan.cuts.times();
            Some(Travels {
                name: array.name.clone(),
                row_bytes: array.bytes / rows.max(1),
                rows: times.map(|time| array_rows(&plan.cuts.time, offset, rows, time)).collect(),
            })
        };
        plan.arrays.iter().filter_map(travels).collect()
    }

    fn analysis(&self) -> Result<Analysis, Error> {
        let subject = &self.subject;
        let not_understood = |error: hemiola_analysis::Error| Error::NotUnderstood {
            site: subject.title.clone(),
            problem: error.to_string(),
        };
        Ok(analyze(&subject.spec).map_err(not_understood)?.with_indices(subject.indices.iter().cloned()))
    }

    /// What peers would have counted, and the most blocks of time for each part.
    fn counted(&self, analysis: &Analysis, peers: usize, workers: usize) -> (Counted, usize) {
        let sparse = self.histograms.iter().any(Option::is_some);
        let ways = ways(analysis, peers, workers, sparse);
        let cut = |(dimension, parts): (usize, usize)| match &self.histograms[dimension] {
            Some(histogram) => ends(&Cut::balanced(histogram, parts)),
            None => equal_cut(&self.subject.extents[dimension], parts),
        };
        let bounds: BTreeMap<(usize, usize), Vec<u64>> = ways.cuts.iter().map(|way| (*way, cut(*way))).collect();
        let joint = |pair: &[usize; 2]| {
            let counted = self.joints.iter().find(|joint| joint.dimensions() == *pair)?;
            let histograms = pair.map(|dimension| self.histograms[dimension].as_ref());
            Some(Arc::new(regrid(counted, pair.map(|dimension| fine(&bounds, dimension)), histograms)))
        };
        let counted = Counted {
            histograms: self.histograms.iter().map(|histogram| histogram.clone().map(Arc::new)).collect(),
            joints: ways.pairs.iter().filter_map(joint).collect(),
            bounds,
        };
        (counted, ways.most)
    }
}

/// The ends of a cut's parts, from 0 on.
fn ends(cut: &Cut) -> Vec<u64> {
    std::iter::once(0).chain(cut.ranges().map(|range| range.end)).collect()
}

/// The middle one, or the mean of the two in the middle.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count => f64::midpoint(values[(count - 1) / 2], values[count / 2]),
    }
}
