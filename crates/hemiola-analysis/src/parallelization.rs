//! Parallelizations of a loop, and the legality rules that decide which of them keep its
//! dependences.
//!
//! Every parallelization cuts the iterations into *parts* along a dimension called space, one part
//! per worker. A 2D parallelization also cuts them into *time blocks* along a second dimension. One
//! worker runs a block, its iterations in the order of the source. Let `d` be a dependence vector,
//! and `s` and `t` its elements along space and time:
//!
//! - **1D**: `s = 0` in all vectors. Iterations in different parts never touch the same element.
//! - **2D, rotation** (unordered loops only): in each vector `s = 0` or `t = 0`. Blocks that differ
//!   in part *and* time share nothing. One worker runs all blocks of a part; blocks of one time are
//!   passed on from part to part.
//! - **2D, wavefront**: a block waits for its predecessor in space and its predecessor in time,
//!   hence for all blocks whose part and time are both at most its own. *Ordered* loops: `s >= 0`
//!   and `t >= 0` in every distance. *Unordered* loops: `s` and `t` never have opposite signs, so
//!   of two blocks that share an element one waits for the other, in either order.
//! - **transformed**: a wavefront along other coordinates (`skew`), under the wavefront rule in
//!   these coordinates.
//! - **serial**: always legal.
//!
//! # Proof that further dimensions need no rule
//!
//! Let iteration `a` come before `b` in the source, both touching an element that one of them
//! writes. Then `d = b - a` is in some vector. In an ordered wavefront `s >= 0` and `t >= 0`, so
//! neither the part nor the time of `a` is after that of `b`. If both are equal, `a` and `b` are in
//! one block, and its worker runs `a` first, in the order of the source. Otherwise the block of `b`
//! waits, by a chain of neighbours, for the block of `a`. Blocks span the further dimensions
//! completely, so the other elements of `d` decide only the order inside a block, which is the
//! order of the source. The argument uses two functions of the iteration that do not decrease along
//! `d`. It therefore holds for transformed coordinates, as long as blocks keep the order of the
//! *original* iterations. 1D is the case of one such function whose difference is zero.
//!
//! For rotation the thesis on Orion requires both elements to be zero, which is more than its own
//! argument needs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dependence::Dependence;
use crate::index_names::IndexNames;
use crate::skew::{self, SkewObstacleKind};
use crate::unimodular::UnimodularMatrix;
use crate::vector::{DependenceDistance, DependenceVector};

/// Order in which the blocks of a 2D parallelization run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BlockTraversal {
    /// Each worker starts at a different time block and cycles through all of them.
    Rotation,
    /// A block waits for its predecessor in space and its predecessor in time.
    Wavefront,
}

/// Parallel execution order of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parallelization {
    /// Independent parts along one dimension.
    OneD {
        /// Loop dimension that is cut into parts.
        space: usize,
    },
    /// Parts along one dimension, time blocks along another.
    TwoD {
        /// Loop dimension that is cut into parts.
        space: usize,
        /// Loop dimension that is cut into time blocks.
        time: usize,
        /// Order in which the blocks run.
        order: BlockTraversal,
    },
    /// A wavefront along the coordinates `matrix * iteration`.
    Transformed {
        /// Change of coordinates that is applied.
        matrix: UnimodularMatrix,
        /// New coordinate that is cut into parts.
        space: usize,
        /// New coordinate that is cut into time blocks.
        time: usize,
    },
    /// One iteration after the other, on one worker.
    Serial,
}

/// A [`Parallelization`] under consideration, before a matrix is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CandidateSchedule {
    /// Candidate for a 1D parallelization ([`Parallelization::OneD`]).
    OneD {
        /// Loop dimension to cut into parts.
        space: usize,
    },
    /// Candidate for a 2D parallelization ([`Parallelization::TwoD`]).
    TwoD {
        /// Loop dimension to cut into parts.
        space: usize,
        /// Loop dimension to cut into time blocks.
        time: usize,
        /// Order in which the blocks would run.
        order: BlockTraversal,
    },
    /// Candidate for [`Parallelization::Transformed`], with any matrix.
    Transformed {
        /// New coordinate to cut into parts.
        space: usize,
        /// New coordinate to cut into time blocks.
        time: usize,
    },
}

/// Legality rule that a candidate breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LegalityRule {
    /// 1D: the distance along space must be zero.
    ZeroInSpace,
    /// Rotation: the loop must be unordered, because rotation changes the order of iterations.
    Unordered,
    /// Rotation: the distance along space or along time must be zero.
    ZeroInSpaceOrTime,
    /// Wavefront of an ordered loop: no step back along space or time.
    Forward,
    /// Wavefront of an unordered loop: never forward along one and backward along the other.
    SameDirection,
    /// Skewing: a step back along one dimension needs a step forward along another that compensates
    /// for it.
    Skewable,
    /// Skewing: no weight above [`MAX_WEIGHT`](crate::skew::MAX_WEIGHT).
    SkewWeightLimit,
}

/// Reason why a candidate is illegal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LegalityViolation {
    /// Candidate that breaks the rule.
    pub candidate: CandidateSchedule,
    /// Rule that the candidate breaks.
    pub rule: LegalityRule,
    /// First dependence that breaks the rule, as an index into
    /// [`Analysis::dependences`](crate::Analysis::dependences). `None` if the loop itself breaks
    /// it.
    pub dependence: Option<usize>,
}

/// Verdict on one parallelization of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScheduleVerdict {
    /// The parallelization keeps all dependences.
    Legal(Parallelization),
    /// The candidate breaks a legality rule.
    Illegal(LegalityViolation),
}

/// Tests all parallelizations of a loop with these dependences.
///
/// The result has 1D for each dimension, rotation and wavefront for each pair, a transformation for
/// each pair whose wavefront is illegal, and serial.
#[must_use]
pub fn schedule_verdicts(dimensions: usize, ordered: bool, dependences: &[Dependence]) -> Vec<ScheduleVerdict> {
    let test = LegalityTest {
        dimensions,
        ordered,
        vectors: dependences.iter().map(|dependence| &dependence.vector).collect(),
    };
    let one = (0..dimensions).map(|space| test.one_d(space));
    let pairs = || {
        (0..dimensions).flat_map(move |space| (0..dimensions).map(move |time| (space, time))).filter(|(s, t)| s != t)
    };
    let rotations = pairs().map(|pair| test.rotation(pair));
    let wavefronts: Vec<_> = pairs().map(|pair| test.wavefront(pair)).collect();
    let transformed: Vec<_> = pairs()
        .zip(&wavefronts)
        .filter(|(_, wavefront)| matches!(wavefront, ScheduleVerdict::Illegal(_)))
        .map(|(pair, _)| test.transformed(pair))
        .collect();
    one.chain(rotations)
        .chain(wavefronts)
        .chain(transformed)
        .chain([ScheduleVerdict::Legal(Parallelization::Serial)])
        .collect()
}

struct LegalityTest<'a> {
    dimensions: usize,
    ordered: bool,
    vectors: Vec<&'a DependenceVector>,
}

impl LegalityTest<'_> {
    /// Returns a legal verdict if every vector follows the rule.
    fn verdict(
        &self,
        parallelization: Parallelization,
        candidate: CandidateSchedule,
        rule: LegalityRule,
        follows: impl Fn(&DependenceVector) -> bool,
    ) -> ScheduleVerdict {
        match self.vectors.iter().position(|vector| !follows(vector)) {
            None => ScheduleVerdict::Legal(parallelization),
            Some(dependence) => {
                ScheduleVerdict::Illegal(LegalityViolation { candidate, rule, dependence: Some(dependence) })
            }
        }
    }

    fn one_d(&self, space: usize) -> ScheduleVerdict {
        self.verdict(
            Parallelization::OneD { space },
            CandidateSchedule::OneD { space },
            LegalityRule::ZeroInSpace,
            |vector| vector.at(space).is_zero(),
        )
    }

    fn two_d(
        &self,
        (space, time): (usize, usize),
        order: BlockTraversal,
        rule: LegalityRule,
        follows: impl Fn(DependenceDistance, DependenceDistance) -> bool,
    ) -> ScheduleVerdict {
        let candidate = CandidateSchedule::TwoD { space, time, order };
        self.verdict(Parallelization::TwoD { space, time, order }, candidate, rule, |vector| {
            follows(vector.at(space), vector.at(time))
        })
    }

    fn rotation(&self, (space, time): (usize, usize)) -> ScheduleVerdict {
        let order = BlockTraversal::Rotation;
        if self.ordered {
            let candidate = CandidateSchedule::TwoD { space, time, order };
            return ScheduleVerdict::Illegal(LegalityViolation {
                candidate,
                rule: LegalityRule::Unordered,
                dependence: None,
            });
        }
        self.two_d((space, time), order, LegalityRule::ZeroInSpaceOrTime, |s, t| s.is_zero() || t.is_zero())
    }

    fn wavefront(&self, pair: (usize, usize)) -> ScheduleVerdict {
        if self.ordered {
            self.two_d(pair, BlockTraversal::Wavefront, LegalityRule::Forward, skew::runs_forward)
        } else {
            self.two_d(pair, BlockTraversal::Wavefront, LegalityRule::SameDirection, skew::is_comparable)
        }
    }

    fn transformed(&self, (space, time): (usize, usize)) -> ScheduleVerdict {
        match skew::find(self.dimensions, (space, time), self.ordered, &self.vectors) {
            Ok(matrix) => ScheduleVerdict::Legal(Parallelization::Transformed { matrix, space, time }),
            Err(obstacle) => {
                let rule = match obstacle.kind {
                    SkewObstacleKind::NoSkew => LegalityRule::Skewable,
                    SkewObstacleKind::TooSteep => LegalityRule::SkewWeightLimit,
                };
                let candidate = CandidateSchedule::Transformed { space, time };
                ScheduleVerdict::Illegal(LegalityViolation { candidate, rule, dependence: Some(obstacle.vector) })
            }
        }
    }
}

impl fmt::Display for BlockTraversal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rotation => "rotation",
            Self::Wavefront => "wavefront",
        })
    }
}

impl fmt::Display for Parallelization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&IndexNames(&[]).describe(self))
    }
}

#[cfg(test)]
mod tests {
    use super::DependenceDistance::{Any, Exact, Positive};
    use super::*;

    fn legal<const N: usize, const M: usize>(
        ordered: bool,
        vectors: [[DependenceDistance; N]; M],
    ) -> Vec<Parallelization> {
        let dependences: Vec<_> =
            vectors.map(|vector| Dependence { vector: DependenceVector::new(vector), pairs: Vec::new() }).into();
        schedule_verdicts(N, ordered, &dependences)
            .into_iter()
            .filter_map(|verdict| match verdict {
                ScheduleVerdict::Legal(parallelization) => Some(parallelization),
                ScheduleVerdict::Illegal(_) => None,
            })
            .collect()
    }

    fn two(space: usize, time: usize, order: BlockTraversal) -> Parallelization {
        Parallelization::TwoD { space, time, order }
    }

    const ZERO: DependenceDistance = DependenceDistance::ZERO;

    #[test]
    fn a_loop_without_dependences_allows_every_parallelization() {
        assert_eq!(legal::<1, 0>(true, []), [Parallelization::OneD { space: 0 }, Parallelization::Serial]);
        let open = legal::<2, 0>(false, []);
        assert_eq!(open.len(), 2 + 2 + 2 + 1);
    }

    #[test]
    fn matrix_factorization_rotates_or_runs_as_a_wavefront_if_ordered() {
        let vectors = [[ZERO, Positive], [Positive, ZERO]];
        let [rotation, wavefront] = [BlockTraversal::Rotation, BlockTraversal::Wavefront];
        assert_eq!(
            legal(false, vectors),
            [
                two(0, 1, rotation),
                two(1, 0, rotation),
                two(0, 1, wavefront),
                two(1, 0, wavefront),
                Parallelization::Serial
            ]
        );
        assert_eq!(legal(true, vectors), [two(0, 1, wavefront), two(1, 0, wavefront), Parallelization::Serial]);
    }

    #[test]
    fn one_dimension_is_enough_if_all_vectors_are_zero_there() {
        assert_eq!(legal(true, [[Positive, ZERO]])[0], Parallelization::OneD { space: 1 });
    }

    #[test]
    fn an_unordered_wavefront_may_run_dependences_backward() {
        // Back along both of the last two dimensions.
        let vectors = [[Exact(1), Exact(-1), Exact(-2)], [ZERO, Exact(1), Exact(1)]];
        let pair = two(1, 2, BlockTraversal::Wavefront);
        assert!(legal(false, vectors).contains(&pair));
        assert!(!legal(true, vectors).contains(&pair));
    }

    #[test]
    fn a_dependence_on_everything_leaves_only_serial() {
        let vectors = [[Positive, Any], [ZERO, Positive]];
        for ordered in [false, true] {
            assert_eq!(legal(ordered, vectors), [Parallelization::Serial]);
        }
    }
}
