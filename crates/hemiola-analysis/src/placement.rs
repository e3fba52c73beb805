//! Placement of the arrays of a loop that fits a parallelization.
//!
//! - *Local*: all accesses follow the space dimension of the loop, `a[i + c]` with one and the same
//!   `c`. The part of the array that a worker needs is known before it starts, and no other worker
//!   needs it.
//! - *Rotating*: all accesses follow the time dimension in this manner. The part travels with the
//!   time block.
//! - *Whole*: everything else. The array is served or copied.
//!
//! Buffered accesses count as well, because a write-back buffer is applied where its array is.
//!
//! The idea is from the thesis on Orion (section 3.4.3). Its code requires an offset of zero; any
//! offset works, as long as all accesses have it.
//!
//! **Invariant:** let an array be local or rotating along array dimension `m` with offset `c`.
//! Every access of an iteration with index `i` along the matching loop dimension touches only index
//! `i + c` of dimension `m`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::{Access, ArrayAccesses, LoopSpec, Subscript};
use crate::parallelization::Parallelization;

/// Writes of a loop to an array, which decide how copies are kept consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WriteMode {
    /// Only read: copies stay valid.
    ReadOnly,
    /// Written only through write-back buffers.
    Buffered,
    /// Written in place by the loop body.
    Written,
}

/// Partitioning of an array that a parallelization allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ArrayPartitioning {
    /// Cut like the parts of the loop; each worker keeps its own part.
    Local {
        /// Dimension of the array that is cut.
        array_dimension: usize,
        /// Array index minus loop index.
        offset: i64,
    },
    /// Cut like the time blocks of the loop, and passed on with them.
    Rotating {
        /// Dimension of the array that is cut.
        array_dimension: usize,
        /// Array index minus loop index.
        offset: i64,
    },
    /// Not partitioned: every worker may need all of it.
    Whole(UnpartitionedReason),
}

/// Reason why an array is neither local nor rotating.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnpartitionedReason {
    /// The body has no access to it.
    Unused,
    /// The parallelization does not cut the loop along one of its own dimensions.
    LoopNotCut,
    /// An access follows neither dimension along which the loop is cut.
    Misaligned {
        /// First access that does not follow space; `None` if space is not a dimension of the loop.
        space: Option<Box<Access>>,
        /// First access that does not follow time; `None` if nothing rotates in this
        /// parallelization.
        time: Option<Box<Access>>,
    },
}

/// Partitioning that one array allows, and the writes to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementConstraint {
    /// Name of the array.
    pub array: String,
    /// Partitioning that all accesses allow.
    pub partitioning: ArrayPartitioning,
    /// Writes of the loop to the array.
    pub write_mode: WriteMode,
}

/// Derives the placement of each array of the loop, in the order of [`LoopSpec::arrays`].
#[must_use]
pub fn place_arrays(spec: &LoopSpec, parallelization: &Parallelization) -> Vec<PlacementConstraint> {
    let (space, time) = match parallelization {
        Parallelization::OneD { space } => (Some(*space), None),
        Parallelization::TwoD { space, time, .. } => (Some(*space), Some(*time)),
        // A slanted coordinate is no dimension of any array. Space is often unchanged.
        Parallelization::Transformed { matrix, space, .. } => (matrix.unchanged(*space), None),
        Parallelization::Serial => (None, None),
    };
    let place_one = |array: &ArrayAccesses| PlacementConstraint {
        array: array.name.clone(),
        partitioning: array_partitioning(array, space, time),
        write_mode: write_mode(array),
    };
    spec.arrays.iter().map(place_one).collect()
}

/// Returns the least and the greatest offset of the accesses to an array along a loop dimension.
///
/// Every access must have the index of `loop_dimension` plus a constant as its subscript of
/// `array_dimension`. An iteration with index `i` then touches indices `i + least` to
/// `i + greatest`, and no others. `None` if some access has another subscript, or there is no
/// access.
///
/// Both offsets are equal if the array follows the loop at one offset. A stencil,
/// `a[i - 1] + a[i + 1]`, has -1 and 1: the worker of a range of iterations needs that range of the
/// array and a halo on both sides.
#[must_use]
pub fn offset_range(array: &ArrayAccesses, array_dimension: usize, loop_dimension: usize) -> Option<(i64, i64)> {
    let mut found = None;
    for access in array.all_accesses() {
        let &Subscript::Index { dimension, offset } = access.subscript(array_dimension) else { return None };
        if dimension != loop_dimension {
            return None;
        }
        let (least, greatest) = found.unwrap_or((offset, offset));
        found = Some((offset.min(least), offset.max(greatest)));
    }
    found
}

fn write_mode(array: &ArrayAccesses) -> WriteMode {
    let written = |accesses: &[Access]| accesses.iter().any(|access| access.mode.writes());
    if written(&array.accesses) {
        WriteMode::Written
    } else if written(&array.buffered) {
        WriteMode::Buffered
    } else {
        WriteMode::ReadOnly
    }
}

fn array_partitioning(array: &ArrayAccesses, space: Option<usize>, time: Option<usize>) -> ArrayPartitioning {
    let Some(first) = array.all_accesses().next() else { return ArrayPartitioning::Whole(UnpartitionedReason::Unused) };
    let along_space = space.map(|space| aligned_dimension(array, first, space));
    if let Some(Ok((array_dimension, offset))) = along_space {
        return ArrayPartitioning::Local { array_dimension, offset };
    }
    let along_time = time.map(|time| aligned_dimension(array, first, time));
    if let Some(Ok((array_dimension, offset))) = along_time {
        return ArrayPartitioning::Rotating { array_dimension, offset };
    }
    let misfit = |followed: Option<Result<_, &Access>>| followed.and_then(Result::err).cloned().map(Box::new);
    match (misfit(along_space), misfit(along_time)) {
        (None, None) => ArrayPartitioning::Whole(UnpartitionedReason::LoopNotCut),
        (space, time) => ArrayPartitioning::Whole(UnpartitionedReason::Misaligned { space, time }),
    }
}

/// Finds the array dimension and offset by which all accesses follow a loop dimension. The error is
/// the first access that does not follow it. `first` is the first access.
fn aligned_dimension<'a>(
    array: &'a ArrayAccesses,
    first: &'a Access,
    loop_dimension: usize,
) -> Result<(usize, i64), &'a Access> {
    let mut misfit = None;
    for array_dimension in 0..array.dimensions {
        let &Subscript::Index { dimension, offset } = first.subscript(array_dimension) else { continue };
        if dimension != loop_dimension {
            continue;
        }
        match array.all_accesses().find(|access| access.subscript(array_dimension) != first.subscript(array_dimension))
        {
            None => return Ok((array_dimension, offset)),
            Some(other) => misfit = misfit.or(Some(other)),
        }
    }
    Err(misfit.unwrap_or(first))
}

impl fmt::Display for PlacementConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = match self.write_mode {
            WriteMode::ReadOnly => "read only",
            WriteMode::Buffered => "written through buffers",
            WriteMode::Written => "written",
        };
        write!(f, "array {}, {usage}: {}", self.array, self.partitioning)
    }
}

impl fmt::Display for ArrayPartitioning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { array_dimension, offset } => {
                write!(f, "local, cut along its dimension {array_dimension} at offset {offset}")
            }
            Self::Rotating { array_dimension, offset } => {
                write!(f, "rotating, cut along its dimension {array_dimension} at offset {offset}")
            }
            Self::Whole(reason) => write!(f, "whole, because {reason}"),
        }
    }
}

impl fmt::Display for UnpartitionedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused => f.write_str("no access says where it is needed"),
            Self::LoopNotCut => f.write_str("the loop is not cut along a dimension of its own"),
            Self::Misaligned { space, time } => {
                let mut separator = "";
                for (access, what) in [(space, "space"), (time, "time")] {
                    if let Some(access) = access {
                        write!(f, "{separator}{access} does not follow {what} as the other accesses do")?;
                        separator = " and ";
                    }
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{array, read, spec, update};
    use crate::parallelization::BlockTraversal;
    use crate::unimodular::UnimodularMatrix;

    const ROTATION: Parallelization = Parallelization::TwoD { space: 0, time: 1, order: BlockTraversal::Rotation };

    fn partitionings(spec: &LoopSpec, parallelization: &Parallelization) -> Vec<ArrayPartitioning> {
        place_arrays(spec, parallelization).into_iter().map(|placement| placement.partitioning).collect()
    }

    fn index(dimension: usize) -> Subscript {
        Subscript::index(dimension)
    }

    #[test]
    fn factors_are_local_and_rotating() {
        let spec = spec(2, [array("w", 1, [update(&[index(0)])]), array("h", 1, [update(&[index(1)])])]);
        let local = ArrayPartitioning::Local { array_dimension: 0, offset: 0 };
        let rotating = ArrayPartitioning::Rotating { array_dimension: 0, offset: 0 };
        assert_eq!(partitionings(&spec, &ROTATION), [local.clone(), rotating]);
        let one = partitionings(&spec, &Parallelization::OneD { space: 0 });
        assert_eq!(one[0], local);
        assert!(matches!(
            &one[1],
            ArrayPartitioning::Whole(UnpartitionedReason::Misaligned { space: Some(_), time: None })
        ));
        assert_eq!(
            partitionings(&spec, &Parallelization::Serial),
            [
                ArrayPartitioning::Whole(UnpartitionedReason::LoopNotCut),
                ArrayPartitioning::Whole(UnpartitionedReason::LoopNotCut)
            ]
        );
    }

    #[test]
    fn all_accesses_need_one_offset_in_one_dimension() {
        let row = |offset| [Subscript::Unknown, Subscript::shifted(0, offset)];
        let same = array("a", 2, [read(&row(1)), update(&row(1))]);
        let other = array("b", 2, [read(&row(1)), update(&row(0))]);
        let found = partitionings(&spec(2, [same, other]), &Parallelization::OneD { space: 0 });
        assert_eq!(found[0], ArrayPartitioning::Local { array_dimension: 1, offset: 1 });
        let ArrayPartitioning::Whole(reason) = &found[1] else { panic!("{:?}", found[1]) };
        assert_eq!(reason.to_string(), "`a[?, #0]` (line 1, update) does not follow space as the other accesses do");
    }

    #[test]
    fn a_later_dimension_is_used_if_the_first_is_misaligned() {
        let accesses = [read(&[index(0), index(0)]), read(&[Subscript::Unknown, index(0)])];
        let found = partitionings(&spec(1, [array("a", 2, accesses)]), &Parallelization::OneD { space: 0 });
        assert_eq!(found, [ArrayPartitioning::Local { array_dimension: 1, offset: 0 }]);
    }

    #[test]
    fn buffered_accesses_count_for_the_partitioning_and_the_write_mode() {
        let mut weights = array("w", 1, [read(&[index(0)])]);
        weights.buffered.push(update(&[Subscript::Unknown]));
        let found = place_arrays(&spec(1, [weights.clone()]), &Parallelization::OneD { space: 0 });
        assert_eq!(found[0].write_mode, WriteMode::Buffered);
        assert!(matches!(found[0].partitioning, ArrayPartitioning::Whole(UnpartitionedReason::Misaligned { .. })));
        weights.accesses.push(update(&[index(0)]));
        assert_eq!(place_arrays(&spec(1, [weights]), &Parallelization::Serial)[0].write_mode, WriteMode::Written);
        assert_eq!(
            place_arrays(&spec(1, [array("r", 1, [])]), &Parallelization::Serial)[0].write_mode,
            WriteMode::ReadOnly
        );
    }

    #[test]
    fn a_skewed_loop_keeps_arrays_local_along_an_unchanged_space() {
        let spec = spec(2, [array("w", 1, [update(&[index(0)])]), array("h", 1, [update(&[index(1)])])]);
        let matrix = UnimodularMatrix::try_new(vec![vec![1, 0], vec![1, 1]]).unwrap();
        let found = partitionings(&spec, &Parallelization::Transformed { matrix: matrix.clone(), space: 0, time: 1 });
        assert_eq!(found[0], ArrayPartitioning::Local { array_dimension: 0, offset: 0 });
        assert!(matches!(found[1], ArrayPartitioning::Whole(UnpartitionedReason::Misaligned { .. })));
        let found = partitionings(&spec, &Parallelization::Transformed { matrix, space: 1, time: 0 });
        assert_eq!(
            found,
            [
                ArrayPartitioning::Whole(UnpartitionedReason::LoopNotCut),
                ArrayPartitioning::Whole(UnpartitionedReason::LoopNotCut)
            ]
        );
    }
}
