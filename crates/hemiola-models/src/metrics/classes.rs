//! Metrics of predicted classes, from the number of examples by true and predicted class.

use serde::{Deserialize, Serialize};

/// Number of examples by true and predicted class: `counts[true][predicted]`.
///
/// ```
/// use hemiola_models::metrics::{Averaging, ClassCounts};
/// let counts = [vec![5, 1], vec![2, 4]];
/// let second = ClassCounts::new(&counts).scores(Averaging::Binary);
/// assert_eq!((second.precision, second.recall), (0.8, 4.0 / 6.0));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClassCounts<'a> {
    counts: &'a [Vec<u64>],
    /// Number of examples of no class of the model, by predicted class.
    unknown: &'a [u64],
}

/// Average over classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Averaging {
    /// The second of two classes alone.
    Binary,
    /// Mean over classes.
    Macro,
    /// Sums over classes; equals the accuracy if each example has a known class.
    Micro,
    /// Mean over classes, weighted by their numbers of examples.
    Weighted,
}

/// Precision, recall and F1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassScores {
    /// Fraction of the examples predicted as the class that are of it; 0 if there are none.
    pub precision: f64,
    /// Fraction of the examples of the class that are predicted as it; 0 if there are none.
    pub recall: f64,
    /// Harmonic mean of both: `2 tp / (2 tp + fp + fn)`; 0 if there are none.
    pub f1: f64,
}

/// Counts of one class, or of several added.
#[derive(Clone, Copy, Debug, Default)]
struct Outcomes {
    right: u64,
    predicted: u64,
    of_class: u64,
}

impl Outcomes {
    fn scores(self) -> ClassScores {
        let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        ClassScores {
            precision: ratio(self.right, self.predicted),
            recall: ratio(self.right, self.of_class),
            f1: ratio(2 * self.right, self.predicted + self.of_class),
        }
    }
}

impl<'a> ClassCounts<'a> {
    /// Wraps a square matrix of counts.
    #[must_use]
    pub fn new(counts: &'a [Vec<u64>]) -> Self {
        Self { counts, unknown: &[] }
    }

    /// Adds examples of no class of the model, by predicted class. They count as errors.
    #[must_use]
    pub fn with_unknown(self, unknown: &'a [u64]) -> Self {
        Self { unknown, ..self }
    }

    /// Returns the fraction of examples with the right class; 0 without examples.
    #[must_use]
    pub fn accuracy(&self) -> f64 {
        let right: u64 = (0..self.counts.len()).map(|class| self.counts[class][class]).sum();
        let all: u64 = self.counts.iter().flatten().chain(self.unknown).sum();
        if all == 0 { 0.0 } else { right as f64 / all as f64 }
    }

    /// Returns precision, recall and F1 of each class.
    #[must_use]
    pub fn by_class(&self) -> Vec<ClassScores> {
        self.outcomes().map(Outcomes::scores).collect()
    }

    /// Returns an average of precision, recall and F1 over the classes that have an example or a
    /// prediction, as scikit-learn does with `zero_division=0`.
    #[must_use]
    pub fn scores(&self, averaging: Averaging) -> ClassScores {
        let present = self.outcomes().filter(|class| class.predicted + class.of_class > 0);
        match averaging {
            Averaging::Binary => self.outcomes().nth(1).unwrap_or_default().scores(),
            Averaging::Micro => {
                let add = |sum: Outcomes, class: Outcomes| Outcomes {
                    right: sum.right + class.right,
                    predicted: sum.predicted + class.predicted,
                    of_class: sum.of_class + class.of_class,
                };
                let mut all = present.fold(Outcomes::default(), add);
                all.of_class += self.unknown.iter().sum::<u64>();
                all.scores()
            }
            Averaging::Macro => mean(present.map(|class| (1, class.scores()))),
            Averaging::Weighted => mean(present.map(|class| (class.of_class, class.scores()))),
        }
    }

    fn outcomes(&self) -> impl Iterator<Item = Outcomes> + '_ {
        (0..self.counts.len()).map(|class| Outcomes {
            right: self.counts[class][class],
            predicted: self.counts.iter().map(|row| row[class]).sum::<u64>()
                + self.unknown.get(class).copied().unwrap_or(0),
            of_class: self.counts[class].iter().sum(),
        })
    }
}

fn mean(classes: impl Iterator<Item = (u64, ClassScores)>) -> ClassScores {
    let (mut total, mut sum) = (0, ClassScores::default());
    for (weight, scores) in classes {
        total += weight;
        let weight = weight as f64;
        sum.precision += weight * scores.precision;
        sum.recall += weight * scores.recall;
        sum.f1 += weight * scores.f1;
    }
    let total = total.max(1) as f64;
    ClassScores { precision: sum.precision / total, recall: sum.recall / total, f1: sum.f1 / total }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: ClassScores, expected: [f64; 3]) {
        let found = [found.precision, found.recall, found.f1];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?} {expected:?}");
    }

    #[test]
    fn averages_are_those_of_their_definitions() {
        // True classes 0 0 0 0, 1 1, 2 2 2; predicted 0 0 1 2, 1 0, 2 2 1.
        let counts = [vec![2, 1, 1], vec![1, 1, 0], vec![0, 1, 2]];
        let all = ClassCounts::new(&counts);
        assert!((all.accuracy() - 5.0 / 9.0).abs() < 1e-15);
        let [p, r, f] = [[2.0 / 3.0, 1.0 / 3.0, 2.0 / 3.0], [0.5, 0.5, 2.0 / 3.0], [4.0 / 7.0, 0.4, 2.0 / 3.0]];
        for (class, scores) in all.by_class().into_iter().enumerate() {
            close(scores, [p[class], r[class], f[class]]);
        }
        let third = |values: [f64; 3]| values.iter().sum::<f64>() / 3.0;
        close(all.scores(Averaging::Macro), [third(p), third(r), third(f)]);
        let weighted = |values: [f64; 3]| (4.0 * values[0] + 2.0 * values[1] + 3.0 * values[2]) / 9.0;
        close(all.scores(Averaging::Weighted), [weighted(p), weighted(r), weighted(f)]);
        close(all.scores(Averaging::Micro), [5.0 / 9.0; 3]);
        close(all.scores(Averaging::Binary), [1.0 / 3.0, 0.5, 0.4]);
    }

    #[test]
    fn absent_classes_and_unknown_labels_are_counted_as_scikit_learn_does() {
        // Class 2 neither occurs nor is predicted; class 1 is never predicted.
        let counts = [vec![3, 0, 0], vec![1, 0, 0], vec![0, 0, 0]];
        let all = ClassCounts::new(&counts);
        close(all.scores(Averaging::Macro), [0.375, 0.5, 3.0 / 7.0]);
        close(all.scores(Averaging::Binary), [0.0; 3]);
        let with_unknown = all.with_unknown(&[2, 0, 0]);
        assert!((with_unknown.accuracy() - 0.5).abs() < 1e-15);
        close(with_unknown.by_class()[0], [0.5, 1.0, 2.0 / 3.0]);
        close(with_unknown.scores(Averaging::Micro), [0.5; 3]);
        assert!(ClassCounts::new(&[]).accuracy() == 0.0);
    }
}
