//! What of a loop does not depend on the cluster it runs on: all that a planner has to know but counts of entries, peers and workers.

use crate::plan::{Facts, Predictions};
use hemiola_analysis::{Access, ArrayUse, LoopSpec, Mode, Subscript};
use hemiola_array::{Histogram, JointHistogram};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A loop, wherever it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// How messages call it.
    pub title: String,
    /// What it iterates over, as written.
    pub space_text: String,
    /// Names of its indices.
    pub indices: Vec<String>,
    /// Extents of the iteration space.
    pub extents: Vec<Range<u64>>,
    /// How many entries there are.
    pub entries: u64,
    /// The arrays it uses, and how.
    pub spec: LoopSpec,
    /// By array of the specification: its cells.
    pub arrays: Vec<Cells>,
    /// Arrays that a buffer updates together.
    pub together: Vec<Vec<usize>>,
    /// Names of the tables that its body uses.
    pub tables: Vec<String>,
    /// Entries are stored in an order of our choice.
    pub sortable: bool,
    /// Peers can have the entries cut along the first dimension only.
    pub rows_only: bool,
}

/// The cells of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cells {
    /// Its extents.
    pub shape: Vec<u64>,
    /// Bytes of a cell.
    pub cell_bytes: usize,
}

impl Cells {
    /// Bytes of all cells.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.cell_bytes as u64
    }
}

/// What was counted of the entries, for one cluster.
pub(crate) struct Counted {
    /// By dimension: how entries are spread, where that is not even.
    pub(crate) histograms: Vec<Option<Arc<Histogram>>>,
    /// By dimension and number of parts: ends of near-equal parts.
    pub(crate) bounds: BTreeMap<(usize, usize), Vec<u64>>,
    /// Entries by ranges of two dimensions.
    pub(crate) joints: Vec<Arc<JointHistogram>>,
}

impl Subject {
    /// All that a planner knows. `most` and `known` are as in [`Facts`].
    pub(crate) fn facts<'a>(
        &'a self,
        counted: Counted,
        (most, known): (usize, &'a Predictions),
        (peers, workers): (usize, usize),
    ) -> Facts<'a> {
        let Counted { histograms, bounds, joints } = counted;
        Facts {
            title: self.title.clone(),
            space_text: &self.space_text,
            extents: self.extents.clone(),
            entries: self.entries,
            histograms,
            bounds,
            joints,
            most,
            known,
            sortable: self.sortable,
            rows_only: self.rows_only,
            arrays: self.arrays.iter().map(|array| (array.shape.clone(), array.cell_bytes)).collect(),
            together: self.together.clone(),
            peers,
            workers,
        }
    }
}

/// An array of a program that is no loop of `parallel_for!`: its rows follow one of the dimensions that entries have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follows<'a> {
    /// Its name.
    pub name: &'a str,
    /// The dimension.
    pub dimension: usize,
    /// Columns of a row.
    pub width: u64,
    /// Bytes of a cell.
    pub cell_bytes: usize,
}

impl Subject {
    /// A program that does something with every entry of an array, and changes the row of each of `arrays` that the entry's key names.
    pub(super) fn by_hand<const N: usize>(
        title: &str,
        extents: [u64; N],
        entries: u64,
        arrays: &[Follows<'_>],
    ) -> Self {
        let used = |(number, array): (usize, &Follows<'_>)| ArrayUse {
            name: array.name.to_owned(),
            dimensions: 2,
            accesses: vec![Access {
                name: number,
                subscripts: vec![Subscript::index(array.dimension)].into(),
                mode: Mode::Update,
                text: Cow::Owned(format!("{}[i{}]", array.name, array.dimension)),
                line: 0,
                column: 0,
            }],
            buffered: Vec::new(),
        };
        Self {
            title: title.to_owned(),
            space_text: "its entries".to_owned(),
            indices: (0..N).map(|dimension| format!("i{dimension}")).collect(),
            extents: extents.map(|extent| 0..extent).to_vec(),
            entries,
            spec: LoopSpec { dimensions: N, ordered: false, arrays: arrays.iter().enumerate().map(used).collect() },
            arrays: arrays
                .iter()
                .map(|array| Cells { shape: vec![extents[array.dimension], array.width], cell_bytes: array.cell_bytes })
                .collect(),
            together: Vec::new(),
            tables: Vec::new(),
            sortable: true,
            rows_only: false,
        }
    }
}
