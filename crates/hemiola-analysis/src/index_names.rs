//! Texts about parallelizations that use the names of the loop's indices.

use crate::parallelization::{CandidateSchedule, LegalityRule, LegalityViolation, Parallelization};
use crate::skew::MAX_WEIGHT;

/// Names of the loop's indices, for messages. An index without a name is shown as `dimension 2`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexNames<'a>(pub(crate) &'a [String]);

impl IndexNames<'_> {
    fn of(&self, dimension: usize) -> String {
        match self.0.get(dimension).map(String::as_str) {
            None | Some("" | "_") => format!("dimension {dimension}"),
            Some(name) => format!("`{name}`"),
        }
    }

    /// Formats one new coordinate as an expression of the old indices.
    fn coordinate(&self, weights: &[i64]) -> String {
        let mut text = String::new();
        for (dimension, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0) {
            let sign = match (text.is_empty(), weight < 0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            let times = if weight.abs() == 1 { String::new() } else { format!("{} ", weight.unsigned_abs()) };
            text = text + sign + &times + &self.of(dimension);
        }
        text
    }

    /// Describes a parallelization in one line.
    pub(crate) fn describe(&self, parallelization: &Parallelization) -> String {
        match parallelization {
            Parallelization::OneD { space } => self.describe_candidate(&CandidateSchedule::OneD { space: *space }),
            Parallelization::TwoD { space, time, order } => {
                self.describe_candidate(&CandidateSchedule::TwoD { space: *space, time: *time, order: *order })
            }
            Parallelization::Transformed { matrix, space, time } => format!(
                "transformed: parts along {}, wavefront along {}",
                self.coordinate(matrix.row(*space)),
                self.coordinate(matrix.row(*time))
            ),
            Parallelization::Serial => "serial".to_owned(),
        }
    }

    /// Describes a candidate schedule in one line.
    pub(crate) fn describe_candidate(&self, candidate: &CandidateSchedule) -> String {
        match *candidate {
            CandidateSchedule::OneD { space } => format!("1D: parts along {}", self.of(space)),
            CandidateSchedule::TwoD { space, time, order } => {
                format!("2D: parts along {}, {order} along {}", self.of(space), self.of(time))
            }
            CandidateSchedule::Transformed { space, time } => {
                format!("transformed: parts along {}, wavefront along {}, skewed", self.of(space), self.of(time))
            }
        }
    }

    /// Explains which rule a candidate schedule breaks.
    pub(crate) fn explain_violation(&self, violation: &LegalityViolation) -> String {
        let (space, time) = match violation.candidate {
            CandidateSchedule::OneD { space } => (space, None),
            CandidateSchedule::TwoD { space, time, .. } | CandidateSchedule::Transformed { space, time } => {
                (space, Some(time))
            }
        };
        let (space, time) = (self.of(space), time.map(|time| self.of(time)).unwrap_or_default());
        match violation.rule {
            LegalityRule::ZeroInSpace => format!("is not 0 along {space}"),
            LegalityRule::Unordered => "rotation changes the order of iterations, and the loop is ordered".to_owned(),
            LegalityRule::ZeroInSpaceOrTime => format!("is not 0 along {space} nor along {time}"),
            LegalityRule::Forward => format!("may go backward along {space} or {time}"),
            LegalityRule::SameDirection => {
                format!("may go forward along one of {space} and {time}, and backward along the other")
            }
            LegalityRule::Skewable => {
                format!("may go back along {space} or {time} further than any skew makes up for")
            }
            LegalityRule::SkewWeightLimit => format!("needs a skew with a weight above {MAX_WEIGHT}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unimodular::UnimodularMatrix;

    #[test]
    fn transformations_are_named_in_terms_of_the_loop() {
        let matrix = UnimodularMatrix::try_new(vec![vec![1, 0], vec![-2, 1]]).unwrap();
        let parallelization = Parallelization::Transformed { matrix, space: 0, time: 1 };
        assert_eq!(
            parallelization.to_string(),
            "transformed: parts along dimension 0, wavefront along -2 dimension 0 + dimension 1"
        );
        let names = ["t".to_owned(), "x".to_owned()];
        assert_eq!(
            IndexNames(&names).describe(&parallelization),
            "transformed: parts along `t`, wavefront along -2 `t` + `x`"
        );
    }
}
