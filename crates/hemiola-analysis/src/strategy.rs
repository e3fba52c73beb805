//! The ways to run a loop in parallel, and the rules that say which of them keep its dependences.
//!
//! Every way cuts the iterations into *parts* along a dimension called space, one part per worker, and perhaps into
//! *blocks of time* along a second one. A block is run by one worker, its iterations in the order of the source. With `d`
//! for a dependence vector, `s` and `t` for its elements along space and time:
//!
//! - **1D**: `s = 0` in all vectors. Iterations in different parts never touch the same element.
//! - **2D, rotation** (unordered loops only): in each vector `s = 0` or `t = 0`. Blocks that differ in part *and* time share
//!   nothing. Blocks of one part are run by one worker, blocks of one time are passed on from part to part.
//! - **2D, wavefront**: a block waits for its neighbours before it in space and before it in time, hence for all blocks that
//!   are not behind it in both. *Ordered* loops: `s >= 0` and `t >= 0` for certain. *Unordered* loops: `s` and `t` never have
//!   opposite signs, so that of two blocks that share something one waits for the other; which one is all the same.
//! - **transformed**: a wavefront along other coordinates (`skew`), the same rule applied to them.
//! - **serial**: always.
//!
//! # Why nothing is asked of further dimensions
//!
//! Let iteration `a` come before `b` in the source, both touching an element that one writes; so `d = b - a` is in some
//! vector. In an ordered wavefront `s >= 0` and `t >= 0`, hence the part of `a` is not behind that of `b` and neither is its
//! time. If both are equal, `a` and `b` are in one block, which one worker runs in the order of the source: `a` first. If
//! not, the block of `b` waits, by a chain of neighbours, for the block of `a`. Blocks span the further dimensions
//! whole, so their elements of `d` decide nothing but the order inside a block, and that is the source's. The argument
//! uses two functions of the iteration that do not decrease along `d`; so it holds for transformed coordinates, too, as
//! long as blocks keep the order of the *original* iterations. 1D is the case of one such function whose difference is zero.
//!
//! The thesis on Orion asks for rotation that both elements be zero, which is more than its own argument needs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::depend::Dependence;
use crate::names::IndexNames;
use crate::skew::{self, ObstacleKind};
use crate::transform::Matrix;
use crate::vector::{Element, Vector};

/// In which order the blocks of a 2D strategy run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Order {
    /// Each worker starts at another time block and goes round.
    Rotation,
    /// A block waits for the one before it in space and the one before it in time.
    Wavefront,
}

/// A way to run a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// Parts along one dimension that know nothing of each other.
    OneD {
        /// The dimension that is cut into parts.
        space: usize,
    },
    /// Parts along one dimension, blocks of time along another.
    TwoD {
        /// The dimension that is cut into parts.
        space: usize,
        /// The dimension that is cut into blocks of time.
        time: usize,
        /// The order of the blocks.
        order: Order,
    },
    /// A wavefront along the coordinates `matrix * iteration`.
    Transformed {
        /// The change of coordinates.
        matrix: Matrix,
        /// The new coordinate that is cut into parts.
        space: usize,
        /// The new coordinate that is cut into blocks of time.
        time: usize,
    },
    /// One iteration after the other.
    Serial,
}

/// A way that was considered: what a refused [`Strategy`] would have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Attempt {
    /// [`Strategy::OneD`].
    OneD {
        /// The dimension to be cut into parts.
        space: usize,
    },
    /// [`Strategy::TwoD`].
    TwoD {
        /// The dimension to be cut into parts.
        space: usize,
        /// The dimension to be cut into blocks of time.
        time: usize,
        /// The order of the blocks.
        order: Order,
    },
    /// [`Strategy::Transformed`], with whatever matrix.
    Transformed {
        /// The new coordinate to be cut into parts.
        space: usize,
        /// The new coordinate to be cut into blocks of time.
        time: usize,
    },
}

/// A rule that an attempt breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Rule {
    /// 1D: the distance along space must be zero.
    ZeroInSpace,
    /// Rotation changes the order of iterations.
    Unordered,
    /// Rotation: the distance along space or along time must be zero.
    ZeroInSpaceOrTime,
    /// Wavefront of an ordered loop: no step back along space or time.
    Forward,
    /// Wavefront of an unordered loop: never forward along one and backward along the other.
    SameDirection,
    /// Skewing: a step back along one dimension must come with a step forward along another that makes up for it.
    Skewable,
    /// Skewing: no weight above [`MAX_WEIGHT`](crate::skew::MAX_WEIGHT).
    GentleSlope,
}

/// Why a way is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What was considered.
    pub attempt: Attempt,
    /// The rule it breaks.
    pub rule: Rule,
    /// The first dependence that breaks the rule, counted in [`Analysis::dependences`](crate::Analysis::dependences);
    /// `None` if it is the loop itself.
    pub dependence: Option<usize>,
}

/// The verdict on one way to run a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Candidate {
    /// Keeps all dependences.
    Legal(Strategy),
    /// Does not.
    Refused(Refusal),
}

/// The verdicts on all ways to run a loop with these dependences: 1D for each dimension, rotation and wavefront for each
/// pair, a transformation for each pair whose wavefront needs one, and serial.
#[must_use]
pub fn candidates(dimensions: usize, ordered: bool, dependences: &[Dependence]) -> Vec<Candidate> {
    let judge =
        Judge { dimensions, ordered, vectors: dependences.iter().map(|dependence| &dependence.vector).collect() };
    let one = (0..dimensions).map(|space| judge.one_d(space));
    let pairs = || {
        (0..dimensions).flat_map(move |space| (0..dimensions).map(move |time| (space, time))).filter(|(s, t)| s != t)
    };
    let rotations = pairs().map(|pair| judge.rotation(pair));
    let wavefronts: Vec<_> = pairs().map(|pair| judge.wavefront(pair)).collect();
    let transformed: Vec<_> = pairs()
        .zip(&wavefronts)
        .filter(|(_, wavefront)| matches!(wavefront, Candidate::Refused(_)))
        .map(|(pair, _)| judge.transformed(pair))
        .collect();
    one.chain(rotations).chain(wavefronts).chain(transformed).chain([Candidate::Legal(Strategy::Serial)]).collect()
}

struct Judge<'a> {
    dimensions: usize,
    ordered: bool,
    vectors: Vec<&'a Vector>,
}

impl Judge<'_> {
    /// Legal if every vector follows the rule.
    fn judge(&self, strategy: Strategy, attempt: Attempt, rule: Rule, follows: impl Fn(&Vector) -> bool) -> Candidate {
        match self.vectors.iter().position(|vector| !follows(vector)) {
            None => Candidate::Legal(strategy),
            Some(dependence) => Candidate::Refused(Refusal { attempt, rule, dependence: Some(dependence) }),
        }
    }

    fn one_d(&self, space: usize) -> Candidate {
        self.judge(Strategy::OneD { space }, Attempt::OneD { space }, Rule::ZeroInSpace, |vector| {
            vector.at(space).is_zero()
        })
    }

    fn two_d(
        &self,
        (space, time): (usize, usize),
        order: Order,
        rule: Rule,
        follows: impl Fn(Element, Element) -> bool,
    ) -> Candidate {
        let attempt = Attempt::TwoD { space, time, order };
        self.judge(Strategy::TwoD { space, time, order }, attempt, rule, |vector| {
            follows(vector.at(space), vector.at(time))
        })
    }

    fn rotation(&self, (space, time): (usize, usize)) -> Candidate {
        let order = Order::Rotation;
        if self.ordered {
            let attempt = Attempt::TwoD { space, time, order };
            return Candidate::Refused(Refusal { attempt, rule: Rule::Unordered, dependence: None });
        }
        self.two_d((space, time), order, Rule::ZeroInSpaceOrTime, |s, t| s.is_zero() || t.is_zero())
    }

    fn wavefront(&self, pair: (usize, usize)) -> Candidate {
        if self.ordered {
            self.two_d(pair, Order::Wavefront, Rule::Forward, skew::runs_forward)
        } else {
            self.two_d(pair, Order::Wavefront, Rule::SameDirection, skew::is_comparable)
        }
    }

    fn transformed(&self, (space, time): (usize, usize)) -> Candidate {
        match skew::find(self.dimensions, (space, time), self.ordered, &self.vectors) {
            Ok(matrix) => Candidate::Legal(Strategy::Transformed { matrix, space, time }),
            Err(obstacle) => {
                let rule = match obstacle.kind {
                    ObstacleKind::NoSkew => Rule::Skewable,
                    ObstacleKind::TooSteep => Rule::GentleSlope,
                };
                let attempt = Attempt::Transformed { space, time };
                Candidate::Refused(Refusal { attempt, rule, dependence: Some(obstacle.vector) })
            }
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rotation => "rotation",
            Self::Wavefront => "wavefront",
        })
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&IndexNames(&[]).strategy(self))
    }
}

#[cfg(test)]
mod tests {
    use super::Element::{Any, Distance, Positive};
    use super::*;

    fn legal<const N: usize, const M: usize>(ordered: bool, vectors: [[Element; N]; M]) -> Vec<Strategy> {
        let dependences: Vec<_> =
            vectors.map(|vector| Dependence { vector: Vector::new(vector), pairs: Vec::new() }).into();
        candidates(N, ordered, &dependences)
            .into_iter()
            .filter_map(|candidate| match candidate {
                Candidate::Legal(strategy) => Some(strategy),
                Candidate::Refused(_) => None,
            })
            .collect()
    }

    fn two(space: usize, time: usize, order: Order) -> Strategy {
        Strategy::TwoD { space, time, order }
    }

    const ZERO: Element = Element::ZERO;

    #[test]
    fn a_loop_without_dependences_may_run_anyhow() {
        assert_eq!(legal::<1, 0>(true, []), [Strategy::OneD { space: 0 }, Strategy::Serial]);
        let open = legal::<2, 0>(false, []);
        assert_eq!(open.len(), 2 + 2 + 2 + 1);
    }

    #[test]
    fn matrix_factorization_rotates_and_when_ordered_makes_waves() {
        let vectors = [[ZERO, Positive], [Positive, ZERO]];
        let [rotation, wavefront] = [Order::Rotation, Order::Wavefront];
        assert_eq!(
            legal(false, vectors),
            [two(0, 1, rotation), two(1, 0, rotation), two(0, 1, wavefront), two(1, 0, wavefront), Strategy::Serial]
        );
        assert_eq!(legal(true, vectors), [two(0, 1, wavefront), two(1, 0, wavefront), Strategy::Serial]);
    }

    #[test]
    fn one_dimension_is_enough_where_all_vectors_agree() {
        assert_eq!(legal(true, [[Positive, ZERO]])[0], Strategy::OneD { space: 1 });
    }

    #[test]
    fn an_unordered_wavefront_may_run_dependences_backward() {
        // Back along both of the last two dimensions.
        let vectors = [[Distance(1), Distance(-1), Distance(-2)], [ZERO, Distance(1), Distance(1)]];
        let pair = two(1, 2, Order::Wavefront);
        assert!(legal(false, vectors).contains(&pair));
        assert!(!legal(true, vectors).contains(&pair));
    }

    #[test]
    fn a_dependence_on_everything_leaves_only_serial() {
        let vectors = [[Positive, Any], [ZERO, Positive]];
        for ordered in [false, true] {
            assert_eq!(legal(ordered, vectors), [Strategy::Serial]);
        }
    }
}
