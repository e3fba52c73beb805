//! Sentences about strategies, in the words of the loop: its indices have names, and messages use them.

use crate::skew::MAX_WEIGHT;
use crate::strategy::{Attempt, Refusal, Rule, Strategy};

/// The names of the loop's indices, for messages: `dimension 2` where there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexNames<'a>(pub(crate) &'a [String]);

impl IndexNames<'_> {
    fn of(&self, dimension: usize) -> String {
        match self.0.get(dimension).map(String::as_str) {
            None | Some("" | "_") => format!("dimension {dimension}"),
            Some(name) => format!("`{name}`"),
        }
    }

    /// One new coordinate as an expression of the old ones.
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

    /// A sentence about a strategy.
    pub(crate) fn strategy(&self, strategy: &Strategy) -> String {
        match strategy {
            Strategy::OneD { space } => self.attempt(&Attempt::OneD { space: *space }),
            Strategy::TwoD { space, time, order } => {
                self.attempt(&Attempt::TwoD { space: *space, time: *time, order: *order })
            }
            Strategy::Transformed { matrix, space, time } => format!(
                "transformed: parts along {}, wavefront along {}",
                self.coordinate(matrix.row(*space)),
                self.coordinate(matrix.row(*time))
            ),
            Strategy::Serial => "serial".to_owned(),
        }
    }

    /// A sentence about an attempt.
    pub(crate) fn attempt(&self, attempt: &Attempt) -> String {
        match *attempt {
            Attempt::OneD { space } => format!("1D: parts along {}", self.of(space)),
            Attempt::TwoD { space, time, order } => {
                format!("2D: parts along {}, {order} along {}", self.of(space), self.of(time))
            }
            Attempt::Transformed { space, time } => {
                format!("transformed: parts along {}, wavefront along {}, skewed", self.of(space), self.of(time))
            }
        }
    }

    /// What is wrong with an attempt.
    pub(crate) fn refusal(&self, refusal: &Refusal) -> String {
        let (space, time) = match refusal.attempt {
            Attempt::OneD { space } => (space, None),
            Attempt::TwoD { space, time, .. } | Attempt::Transformed { space, time } => (space, Some(time)),
        };
        let (space, time) = (self.of(space), time.map(|time| self.of(time)).unwrap_or_default());
        match refusal.rule {
            Rule::ZeroInSpace => format!("is not 0 along {space}"),
            Rule::Unordered => "rotation changes the order of iterations, and the loop is ordered".to_owned(),
            Rule::ZeroInSpaceOrTime => format!("is not 0 along {space} nor along {time}"),
            Rule::Forward => format!("may go backward along {space} or {time}"),
            Rule::SameDirection => {
                format!("may go forward along one of {space} and {time}, and backward along the other")
            }
            Rule::Skewable => {
                format!("may go back along {space} or {time} further than any skew makes up for")
            }
            Rule::GentleSlope => format!("needs a skew with a weight above {MAX_WEIGHT}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::Matrix;

    #[test]
    fn transformations_are_named_in_terms_of_the_loop() {
        let matrix = Matrix::try_new(vec![vec![1, 0], vec![-2, 1]]).unwrap();
        let strategy = Strategy::Transformed { matrix, space: 0, time: 1 };
        assert_eq!(
            strategy.to_string(),
            "transformed: parts along dimension 0, wavefront along -2 dimension 0 + dimension 1"
        );
        let names = ["t".to_owned(), "x".to_owned()];
        assert_eq!(
            IndexNames(&names).strategy(&strategy),
            "transformed: parts along `t`, wavefront along -2 `t` + `x`"
        );
    }
}
