//! Cluster-independent description of a loop: the input of the planner, except entry counts, peers
//! and workers.

use crate::plan::{PlannerInput, PredictionMemo};
use hemiola_analysis::{Access, AccessMode, ArrayAccesses, LoopSpec, Subscript};
use hemiola_array::{Histogram, JointHistogram};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Description of a loop, independent of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopDescription {
    /// Name of the loop in messages.
    pub title: String,
    /// Source text of the iteration space.
    pub space_text: String,
    /// Names of the loop indices.
    pub indices: Vec<String>,
    /// Index ranges of the iteration space, by dimension.
    pub extents: Vec<Range<usize>>,
    /// Number of entries, over all peers.
    pub entries: u64,
    /// Arrays of the loop and their accesses.
    pub spec: LoopSpec,
    /// Shape and cell size of each array of `spec`.
    pub arrays: Vec<ArraySize>,
    /// Groups of arrays that one buffer updates together.
    pub buffer_groups: Vec<Vec<usize>>,
    /// Names of the tables that the body uses.
    pub tables: Vec<String>,
    /// The planner may choose the order in which entries are stored.
    pub sortable: bool,
    /// Peers can divide the entries along the first dimension only.
    pub rows_only: bool,
}

/// Shape and cell size of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySize {
    /// Extents of all dimensions.
    pub shape: Vec<usize>,
    /// Size of a cell in bytes.
    pub cell_bytes: usize,
}

impl ArraySize {
    /// Size of all cells in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.shape.iter().product::<usize>() * self.cell_bytes) as u64
    }
}

/// Entry counts for one cluster.
pub(crate) struct EntryCounts {
    /// Distribution of entries, by dimension. `None` if it is uniform.
    pub(crate) histograms: Vec<Option<Arc<Histogram>>>,
    /// Bounds of near-equal parts, by dimension and number of parts.
    pub(crate) bounds: BTreeMap<(usize, usize), Vec<usize>>,
    /// Entries by ranges of two dimensions.
    pub(crate) joints: Vec<Arc<JointHistogram>>,
}

impl LoopDescription {
    /// Input of the planner for a cluster. `max_ratio` and `memo` are as in [`PlannerInput`].
    pub(crate) fn planner_input<'a>(
        &'a self,
        counts: EntryCounts,
        (max_ratio, memo): (usize, &'a PredictionMemo),
        (peers, workers): (usize, usize),
    ) -> PlannerInput<'a> {
        let EntryCounts { histograms, bounds, joints } = counts;
        PlannerInput {
            title: self.title.clone(),
            space_text: &self.space_text,
            extents: self.extents.clone(),
            entries: self.entries,
            histograms,
            bounds,
            joints,
            max_ratio,
            memo,
            sortable: self.sortable,
            rows_only: self.rows_only,
            arrays: self.arrays.iter().map(|array| (array.shape.clone(), array.cell_bytes)).collect(),
            buffer_groups: self.buffer_groups.clone(),
            peers,
            workers,
        }
    }
}

/// An array of a custom loop, whose rows are aligned with one dimension of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlignedArray<'a> {
    /// Name of the array.
    pub name: &'a str,
    /// Dimension of the entries that selects the row.
    pub dimension: usize,
    /// Number of columns of a row.
    pub width: usize,
    /// Size of a cell in bytes.
    pub cell_bytes: usize,
}

impl LoopDescription {
    /// Describes a program that visits every entry of an array and updates, in each of `arrays`,
    /// the row that the entry's key selects.
    pub(super) fn custom<const N: usize>(
        title: &str,
        extents: [usize; N],
        entries: u64,
        arrays: &[AlignedArray<'_>],
    ) -> Self {
        let used = |(number, array): (usize, &AlignedArray<'_>)| ArrayAccesses {
            name: array.name.to_owned(),
            dimensions: 2,
            accesses: vec![Access {
                name: number,
                subscripts: vec![Subscript::index(array.dimension)].into(),
                mode: AccessMode::Update,
                text: Cow::Owned(format!("{}[i{}]", array.name, array.dimension)),
                line: 0,
                column: 0,
            }],
            buffered: Vec::new(),
        };
        Self {
            title: title.to_owned(),
            space_text: "entries".to_owned(),
            indices: (0..N).map(|dimension| format!("i{dimension}")).collect(),
            extents: extents.map(|extent| 0..extent).to_vec(),
            entries,
            spec: LoopSpec { dimensions: N, ordered: false, arrays: arrays.iter().enumerate().map(used).collect() },
            arrays: arrays
                .iter()
                .map(|array| ArraySize {
                    shape: vec![extents[array.dimension], array.width],
                    cell_bytes: array.cell_bytes,
                })
                .collect(),
            buffer_groups: Vec::new(),
            tables: Vec::new(),
            sortable: true,
            rows_only: false,
        }
    }
}
