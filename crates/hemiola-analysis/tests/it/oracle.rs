//! A loop small enough to examine every pair of its iterations.
//!
//! The oracle knows the facts that the analysis does not: the ranges of the loop, the values of
//! invariants, and the values of data-dependent subscripts. It never uses dependence vectors.

use std::collections::BTreeMap;
use std::ops::Range;

use hemiola_analysis::{Access, ArrayAccesses, LoopSpec, Subscript};

/// A loop with all values that are known only at run time.
#[derive(Clone, Debug)]
pub(crate) struct ConcreteLoop {
    pub(crate) spec: LoopSpec,
    /// The range of each index.
    pub(crate) ranges: Vec<Range<i64>>,
    pub(crate) invariants: BTreeMap<String, i64>,
    /// Seed of the values of data-dependent subscripts.
    pub(crate) seed: u64,
}

/// Two different iterations that touch the same element, at least one of them writing; `first` is
/// earlier in the source.
#[derive(Clone, Debug)]
pub(crate) struct IterationConflict {
    pub(crate) first: Vec<i64>,
    pub(crate) second: Vec<i64>,
}

impl IterationConflict {
    pub(crate) fn distance(&self) -> Vec<i64> {
        self.first.iter().zip(&self.second).map(|(first, second)| second - first).collect()
    }
}

impl ConcreteLoop {
    /// All iterations in the order of the source.
    pub(crate) fn iterations(&self) -> Vec<Vec<i64>> {
        let mut iterations = vec![Vec::new()];
        for range in &self.ranges {
            iterations = iterations
                .into_iter()
                .flat_map(|outer| {
                    range.clone().map(move |index| {
                        let mut iteration = outer.clone();
                        iteration.push(index);
                        iteration
                    })
                })
                .collect();
        }
        iterations
    }

    /// All pairs of iterations that depend on each other.
    pub(crate) fn conflicts(&self) -> Vec<IterationConflict> {
        let iterations = self.iterations();
        let touched: Vec<Vec<TouchedBox>> = iterations.iter().map(|iteration| self.touched(iteration)).collect();
        let mut conflicts = Vec::new();
        for later in 0..iterations.len() {
            for earlier in 0..later {
                let meets = touched[earlier].iter().any(|one| touched[later].iter().any(|other| one.conflicts(other)));
                if meets {
                    conflicts.push(IterationConflict {
                        first: iterations[earlier].clone(),
                        second: iterations[later].clone(),
                    });
                }
            }
        }
        conflicts
    }

    /// Elements that one iteration touches.
    pub(crate) fn touched(&self, iteration: &[i64]) -> Vec<TouchedBox> {
        let arrays = self.spec.arrays.iter().enumerate();
        arrays
            .flat_map(|(position, array)| {
                let accesses = array.accesses.iter().enumerate();
                accesses.map(move |(number, access)| TouchedBox {
                    array: position,
                    writes: access.mode.writes(),
                    indices: self.indices(array, access, (position, number), iteration),
                })
            })
            .collect()
    }

    fn indices(
        &self,
        array: &ArrayAccesses,
        access: &Access,
        (position, number): (usize, usize),
        iteration: &[i64],
    ) -> Vec<Range<i64>> {
        let value = |dimension: usize| match access.subscript(dimension) {
            Subscript::Index { dimension, offset } => one(iteration[*dimension] + offset),
            Subscript::Constant(value) => one(*value),
            Subscript::Invariant(text) => one(self.invariants[text.as_ref()]),
            Subscript::Range { from, to } => from.unwrap_or(i64::MIN)..to.unwrap_or(i64::MAX),
            Subscript::Unknown => {
                let mut state = hash(self.seed, (position * 64 + number * 8 + dimension) as u64);
                for &index in iteration {
                    state = hash(state, index.cast_unsigned());
                }
                one((state % 5).cast_signed())
            }
        };
        (0..array.dimensions).map(value).collect()
    }
}

/// Elements of an array that one access of one iteration touches: a box.
#[derive(Clone, Debug)]
pub(crate) struct TouchedBox {
    pub(crate) array: usize,
    pub(crate) writes: bool,
    pub(crate) indices: Vec<Range<i64>>,
}

impl TouchedBox {
    fn conflicts(&self, other: &Self) -> bool {
        self.array == other.array
            && (self.writes || other.writes)
            && self
                .indices
                .iter()
                .zip(&other.indices)
                .all(|(one, other)| one.start.max(other.start) < one.end.min(other.end))
    }
}

fn one(index: i64) -> Range<i64> {
    index..index + 1
}

/// A hash of both arguments.
pub(crate) fn hash(state: u64, value: u64) -> u64 {
    let mut hashed = (state ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x632b_e59b_d9b4_e019);
    hashed = (hashed ^ (hashed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hashed = (hashed ^ (hashed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hashed ^ (hashed >> 31)
}
