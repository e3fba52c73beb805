//! Where each array of a loop can live while a strategy runs.
//!
//! If all accesses of an array follow the space dimension of the loop, `a[i + c]` with one and the same `c`, the part of the array
//! that a worker needs is known before it starts and is nobody else's: the array is *local*. If they follow the time
//! dimension in the same way, the part goes where the time block goes: it *rotates*. Anything else needs the array
//! *whole*, served or copied. Buffered accesses count as well: a write-back buffer is applied where its array is.
//!
//! The thesis on Orion (section 3.4.3) gives the idea. Its code asks for an offset of zero; any offset will do, as long as it
//! is the same everywhere.
//!
//! **Invariant:** for an array that is local or rotating along array dimension `m` with offset `c`, every access of an
//! iteration with index `i` along the loop dimension in question touches only places `i + c` of dimension `m`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::access::{Access, ArrayUse, LoopSpec, Subscript};
use crate::strategy::Strategy;

/// What a loop does with an array, in terms of what has to be kept in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Usage {
    /// Read only: copies stay true.
    ReadOnly,
    /// Written only through write-back buffers.
    Buffered,
    /// Written in place.
    Written,
}

/// Where an array can live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Home {
    /// Cut like the parts of the loop; each worker keeps its own.
    Local {
        /// The dimension of the array that is cut.
        array_dimension: usize,
        /// Index of the loop plus this is the place in that dimension.
        offset: i64,
    },
    /// Cut like the time blocks of the loop, and passed on with them.
    Rotating {
        /// The dimension of the array that is cut.
        array_dimension: usize,
        /// Index of the loop plus this is the place in that dimension.
        offset: i64,
    },
    /// Everyone may need all of it.
    Whole(Reason),
}

/// Why an array is neither local nor rotating.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The body does not use it.
    Unused,
    /// The strategy does not cut the loop along one of its own dimensions.
    NotCut,
    /// An access follows neither dimension along which the loop is cut.
    Misfit {
        /// The first access that does not follow space; `None` if the loop is not cut along a dimension of its own there.
        space: Option<Box<Access>>,
        /// The first access that does not follow time; `None` if nothing rotates in this strategy.
        time: Option<Box<Access>>,
    },
}

/// Where one array can live, and what is done to it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// The array's name.
    pub array: String,
    /// Where it can live.
    pub home: Home,
    /// What the loop does with it.
    pub usage: Usage,
}

/// A placement for each array of the loop, in the order of [`LoopSpec::arrays`].
#[must_use]
pub fn place(spec: &LoopSpec, strategy: &Strategy) -> Vec<Placement> {
    let (space, time) = match strategy {
        Strategy::OneD { space } => (Some(*space), None),
        Strategy::TwoD { space, time, .. } => (Some(*space), Some(*time)),
        // A slanted coordinate is no dimension of any array. Space is often left as it was.
        Strategy::Transformed { matrix, space, .. } => (matrix.unchanged(*space), None),
        Strategy::Serial => (None, None),
    };
    let place_one =
        |array: &ArrayUse| Placement { array: array.name.clone(), home: home(array, space, time), usage: usage(array) };
    spec.arrays.iter().map(place_one).collect()
}

/// The least and the greatest offset, if every access of an array has the index of a loop dimension plus a constant as its
/// subscript of one array dimension: an iteration with index `i` touches places `i + least` to `i + greatest` there, and
/// no others. `None` if some access has another subscript, or there is none.
///
/// An array that follows the loop at one offset has it twice. A stencil, `a[i - 1] + a[i + 1]`, has -1 and 1: whoever has
/// the iterations of a range needs that range of the array, and a few places on both sides.
#[must_use]
pub fn reach(array: &ArrayUse, array_dimension: usize, loop_dimension: usize) -> Option<(i64, i64)> {
    let mut found = None;
    for access in array.all() {
        let &Subscript::Index { dimension, offset } = access.subscript(array_dimension) else { return None };
        if dimension != loop_dimension {
            return None;
        }
        let (least, greatest) = found.unwrap_or((offset, offset));
        found = Some((offset.min(least), offset.max(greatest)));
    }
    found
}

fn usage(array: &ArrayUse) -> Usage {
    let written = |accesses: &[Access]| accesses.iter().any(|access| access.mode.writes());
    if written(&array.accesses) {
        Usage::Written
    } else if written(&array.buffered) {
        Usage::Buffered
    } else {
        Usage::ReadOnly
    }
}

fn home(array: &ArrayUse, space: Option<usize>, time: Option<usize>) -> Home {
    let Some(first) = array.all().next() else { return Home::Whole(Reason::Unused) };
    let along_space = space.map(|space| follow(array, first, space));
    if let Some(Ok((array_dimension, offset))) = along_space {
        return Home::Local { array_dimension, offset };
    }
    let along_time = time.map(|time| follow(array, first, time));
    if let Some(Ok((array_dimension, offset))) = along_time {
        return Home::Rotating { array_dimension, offset };
    }
    let misfit = |followed: Option<Result<_, &Access>>| followed.and_then(Result::err).cloned().map(Box::new);
    match (misfit(along_space), misfit(along_time)) {
        (None, None) => Home::Whole(Reason::NotCut),
        (space, time) => Home::Whole(Reason::Misfit { space, time }),
    }
}

/// The array dimension and offset by which all accesses follow a loop dimension, or the first that does not. `first` is the
/// first access.
fn follow<'a>(array: &'a ArrayUse, first: &'a Access, loop_dimension: usize) -> Result<(usize, i64), &'a Access> {
    let mut misfit = None;
    for array_dimension in 0..array.dimensions {
        let &Subscript::Index { dimension, offset } = first.subscript(array_dimension) else { continue };
        if dimension != loop_dimension {
            continue;
        }
        match array.all().find(|access| access.subscript(array_dimension) != first.subscript(array_dimension)) {
            None => return Ok((array_dimension, offset)),
            Some(other) => misfit = misfit.or(Some(other)),
        }
    }
    Err(misfit.unwrap_or(first))
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = match self.usage {
            Usage::ReadOnly => "read only",
            Usage::Buffered => "written through buffers",
            Usage::Written => "written",
        };
        write!(f, "array {}, {usage}: {}", self.array, self.home)
    }
}

impl fmt::Display for Home {
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

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unused => f.write_str("no access says where it is needed"),
            Self::NotCut => f.write_str("the loop is not cut along a dimension of its own"),
            Self::Misfit { space, time } => {
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
    use crate::sample::{array, read, spec, update};
    use crate::strategy::Order;
    use crate::transform::Matrix;

    const ROTATION: Strategy = Strategy::TwoD { space: 0, time: 1, order: Order::Rotation };

    fn homes(spec: &LoopSpec, strategy: &Strategy) -> Vec<Home> {
        place(spec, strategy).into_iter().map(|placement| placement.home).collect()
    }

    fn index(dimension: usize) -> Subscript {
        Subscript::index(dimension)
    }

    #[test]
    fn factors_are_local_and_rotating() {
        let spec = spec(2, [array("w", 1, [update(&[index(0)])]), array("h", 1, [update(&[index(1)])])]);
        let local = Home::Local { array_dimension: 0, offset: 0 };
        let rotating = Home::Rotating { array_dimension: 0, offset: 0 };
        assert_eq!(homes(&spec, &ROTATION), [local.clone(), rotating]);
        let one = homes(&spec, &Strategy::OneD { space: 0 });
        assert_eq!(one[0], local);
        assert!(matches!(&one[1], Home::Whole(Reason::Misfit { space: Some(_), time: None })));
        assert_eq!(homes(&spec, &Strategy::Serial), [Home::Whole(Reason::NotCut), Home::Whole(Reason::NotCut)]);
    }

    #[test]
    fn one_offset_in_one_dimension_is_asked_of_all_accesses() {
        let row = |offset| [Subscript::Unknown, Subscript::shifted(0, offset)];
        let same = array("a", 2, [read(&row(1)), update(&row(1))]);
        let other = array("b", 2, [read(&row(1)), update(&row(0))]);
        let found = homes(&spec(2, [same, other]), &Strategy::OneD { space: 0 });
        assert_eq!(found[0], Home::Local { array_dimension: 1, offset: 1 });
        let Home::Whole(reason) = &found[1] else { panic!("{:?}", found[1]) };
        assert_eq!(reason.to_string(), "`a[?, #0]` (line 1, update) does not follow space as the other accesses do");
    }

    #[test]
    fn a_later_dimension_serves_where_the_first_does_not() {
        let accesses = [read(&[index(0), index(0)]), read(&[Subscript::Unknown, index(0)])];
        let found = homes(&spec(1, [array("a", 2, accesses)]), &Strategy::OneD { space: 0 });
        assert_eq!(found, [Home::Local { array_dimension: 1, offset: 0 }]);
    }

    #[test]
    fn buffered_accesses_count_for_the_place_and_only_then_for_the_usage() {
        let mut weights = array("w", 1, [read(&[index(0)])]);
        weights.buffered.push(update(&[Subscript::Unknown]));
        let found = place(&spec(1, [weights.clone()]), &Strategy::OneD { space: 0 });
        assert_eq!(found[0].usage, Usage::Buffered);
        assert!(matches!(found[0].home, Home::Whole(Reason::Misfit { .. })));
        weights.accesses.push(update(&[index(0)]));
        assert_eq!(place(&spec(1, [weights]), &Strategy::Serial)[0].usage, Usage::Written);
        assert_eq!(place(&spec(1, [array("r", 1, [])]), &Strategy::Serial)[0].usage, Usage::ReadOnly);
    }

    #[test]
    fn a_skewed_loop_keeps_arrays_local_along_an_unchanged_space() {
        let spec = spec(2, [array("w", 1, [update(&[index(0)])]), array("h", 1, [update(&[index(1)])])]);
        let matrix = Matrix::try_new(vec![vec![1, 0], vec![1, 1]]).unwrap();
        let found = homes(&spec, &Strategy::Transformed { matrix: matrix.clone(), space: 0, time: 1 });
        assert_eq!(found[0], Home::Local { array_dimension: 0, offset: 0 });
        assert!(matches!(found[1], Home::Whole(Reason::Misfit { .. })));
        let found = homes(&spec, &Strategy::Transformed { matrix, space: 1, time: 0 });
        assert_eq!(found, [Home::Whole(Reason::NotCut), Home::Whole(Reason::NotCut)]);
    }
}
