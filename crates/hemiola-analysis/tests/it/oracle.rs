//! A loop small enough to look at every pair of its iterations.
//!
//! The oracle knows what the analysis does not: how far the loop goes, what invariants are worth, and what data-dependent
//! subscripts turn out to be. It never looks at dependence vectors.

use std::collections::BTreeMap;
use std::ops::Range;

use hemiola_analysis::{Access, ArrayUse, LoopSpec, Subscript};

/// A loop with everything that is known only when it runs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) spec: LoopSpec,
    /// The range of each index.
    pub(crate) ranges: Vec<Range<i64>>,
    pub(crate) invariants: BTreeMap<String, i64>,
    /// Decides the values of data-dependent subscripts.
    pub(crate) seed: u64,
}

/// Two different iterations that touch the same element, at least one writing; `first` comes first in the source.
#[derive(Clone, Debug)]
pub(crate) struct Conflict {
    pub(crate) first: Vec<i64>,
    pub(crate) second: Vec<i64>,
}

impl Conflict {
    pub(crate) fn distance(&self) -> Vec<i64> {
        self.first.iter().zip(&self.second).map(|(first, second)| second - first).collect()
    }
}

impl Program {
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
    pub(crate) fn conflicts(&self) -> Vec<Conflict> {
        let iterations = self.iterations();
        let touched: Vec<Vec<Touched>> = iterations.iter().map(|iteration| self.touched(iteration)).collect();
        let mut conflicts = Vec::new();
        for later in 0..iterations.len() {
            for earlier in 0..later {
                let meets = touched[earlier].iter().any(|one| touched[later].iter().any(|other| one.conflicts(other)));
                if meets {
                    conflicts.push(Conflict { first: iterations[earlier].clone(), second: iterations[later].clone() });
                }
            }
        }
        conflicts
    }

    /// What one iteration touches.
    pub(crate) fn touched(&self, iteration: &[i64]) -> Vec<Touched> {
        let arrays = self.spec.arrays.iter().enumerate();
        arrays
            .flat_map(|(position, array)| {
                let accesses = array.accesses.iter().enumerate();
                accesses.map(move |(number, access)| Touched {
                    array: position,
                    writes: access.mode.writes(),
                    places: self.places(array, access, (position, number), iteration),
                })
            })
            .collect()
    }

    fn places(
        &self,
        array: &ArrayUse,
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
                let mut state = mix(self.seed, (position * 64 + number * 8 + dimension) as u64);
                for &index in iteration {
                    state = mix(state, index.cast_unsigned());
                }
                one((state % 5).cast_signed())
            }
        };
        (0..array.dimensions).map(value).collect()
    }
}

/// The elements of an array that one access of one iteration touches: a box.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub(crate) array: usize,
    pub(crate) writes: bool,
    pub(crate) places: Vec<Range<i64>>,
}

impl Touched {
    fn conflicts(&self, other: &Self) -> bool {
        self.array == other.array
            && (self.writes || other.writes)
            && self
                .places
                .iter()
                .zip(&other.places)
                .all(|(one, other)| one.start.max(other.start) < one.end.min(other.end))
    }
}

fn one(place: i64) -> Range<i64> {
    place..place + 1
}

/// A number that depends on both arguments in no simple way.
pub(crate) fn mix(state: u64, value: u64) -> u64 {
    let mut mixed = (state ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x632b_e59b_d9b4_e019);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
