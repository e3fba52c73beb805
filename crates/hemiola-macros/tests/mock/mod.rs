//! A run time for tests: `hemiola::loops::expand` on one thread, in the order of the source.
//!
//! A test crate declares `extern crate self as hemiola;` and
//! `#[path = "../mock/mod.rs"] pub mod loops;`. The paths of the expansion then lead here. The
//! tests prove that expansions compile, run and fail as documented, which does not depend on the
//! schedule of the iterations.
#![allow(missing_docs, unreachable_pub, dead_code, unused_imports, clippy::all, clippy::pedantic)]

pub mod captures;
pub mod kinds;
pub mod probe;

pub use kinds::{Accumulator, Buffer, Cluster, DistArray};

pub type Result<T> = std::result::Result<T, String>;

/// Result of a loop.
#[derive(Debug)]
pub struct LoopReport {
    pub site: &'static expand::LoopSite,
    /// Indices that the slice touched, in order: name and subscript.
    pub touched: Vec<(usize, String)>,
}

pub mod expand {
    use super::captures::{Captures, Log};
    use super::kinds::{Cluster, DistArray, Element};
    use super::{LoopReport, Result};
    use std::ops::{Range, RangeInclusive};

    pub use super::probe::CaptureProbe;

    /// The traits with the methods of probes.
    pub mod probing {
        pub use super::super::probe::{AllowCopy, CapturePlain, CaptureShared, RefuseMove};
    }
    pub use hemiola_analysis::{Access, AccessMode, Subscript};

    #[derive(Debug)]
    pub struct LoopSite {
        pub file: &'static str,
        pub line: u32,
        pub column: u32,
        pub ordered: bool,
        pub repeated: bool,
        pub explain: bool,
        pub indices: &'static [&'static str],
        pub space: &'static str,
        pub names: &'static [&'static str],
        pub accesses: &'static [Access],
    }

    pub fn half_open(range: RangeInclusive<usize>) -> Range<usize> {
        *range.start()..range.end() + 1
    }

    fn run<C: Captures>(
        site: &'static LoopSite,
        captures: &C,
        iterations: impl FnOnce(&mut C::States, &Log),
    ) -> Result<LoopReport> {
        let (mut states, log) = (captures.begin(), Log::default());
        iterations(&mut states, &log);
        captures.end(states);
        Ok(LoopReport { site, touched: log.take() })
    }

    pub fn for_each_entry<T: Element, const N: usize, C: Captures>(
        _: &Cluster,
        site: &'static LoopSite,
        array: &DistArray<T, N>,
        captures: C,
        body: impl for<'v> Fn(C::Views<'v>, [usize; N], &T),
        slice: impl for<'v> Fn(C::Recorders<'v>, [usize; N], &T),
    ) -> Result<LoopReport> {
        run(site, &captures, |states, log| {
            for (place, value) in array.values().iter().enumerate() {
                let key = key(place, array.shape);
                slice(captures.recorders(0, log), key, value);
                body(captures.views(states), key, value);
            }
        })
    }

    pub fn for_each_entry_mut<T: Element, const N: usize, C: Captures>(
        _: &Cluster,
        site: &'static LoopSite,
        array: &mut DistArray<T, N>,
        captures: C,
        body: impl for<'v> Fn(C::Views<'v>, [usize; N], &mut T),
        slice: impl for<'v> Fn(C::Recorders<'v>, [usize; N], &T),
    ) -> Result<LoopReport> {
        let mut values = array.values();
        let result = run(site, &captures, |states, log| {
            for (place, value) in values.iter_mut().enumerate() {
                let key = key(place, array.shape);
                slice(captures.recorders(0, log), key, value);
                body(captures.views(states), key, value);
            }
        });
        array.put(values);
        result
    }

    pub fn for_each_index<const N: usize, C: Captures>(
        _: &Cluster,
        site: &'static LoopSite,
        ranges: [Range<usize>; N],
        captures: C,
        body: impl for<'v> Fn(C::Views<'v>, [usize; N]),
        slice: impl for<'v> Fn(C::Recorders<'v>, [usize; N]),
    ) -> Result<LoopReport> {
        let shape = ranges.clone().map(|range| range.len());
        run(site, &captures, |states, log| {
            for place in 0..shape.iter().product() {
                let relative = key(place, shape);
                let key = std::array::from_fn(|d| relative[d] + ranges[d].start);
                slice(captures.recorders(0, log), key);
                body(captures.views(states), key);
            }
        })
    }

    fn key<const N: usize>(mut place: usize, shape: [usize; N]) -> [usize; N] {
        let mut key = [0; N];
        for d in (0..N).rev() {
            key[d] = place % shape[d];
            place /= shape[d];
        }
        key
    }
}
