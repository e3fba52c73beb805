//! Weights of training examples: a number per row, and one per class.
//!
//! **Invariant:** an example of weight 2 contributes to the objective as two copies of it do. The
//! weight of an example is that of its row times that of its class.

use crate::Error;
use hemiola_core::rng::mix64;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Weights of classes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ClassWeights {
    /// Weight 1 for all classes.
    #[default]
    Equal,
    /// `examples / (classes · examples of the class)`: all classes have the same total weight.
    Balanced,
    /// Weights of some classes, by name or label; the others have weight 1.
    Named(Vec<(String, f64)>),
}

/// Weights of training examples.
///
/// ```
/// use hemiola_models::linear::{LinearLoss, data};
/// use hemiola_models::prelude::*;
/// use hemiola_models::{ClassWeights, ExampleWeights};
///
/// hemiola::standalone(1).run(|cluster| {
///     let examples = data::synthetic(cluster, 500, Seed(1))?;
///     let weights = ExampleWeights::default().of_classes(ClassWeights::Balanced);
///     let svm = LinearClassifier::builder(LinearLoss::Hinge).build()?.weighted(weights);
///     assert!(svm.fit(cluster, &examples)?.report.result.objective > 0.0);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExampleWeights {
    rows: Option<Arc<Vec<f32>>>,
    classes: ClassWeights,
}

impl ExampleWeights {
    /// Sets the weight of each row: finite numbers of 0 or more.
    #[must_use]
    pub fn of_rows(mut self, weights: Option<Vec<f32>>) -> Self {
        self.rows = weights.map(Arc::new);
        self
    }

    /// Sets the weights of classes.
    #[must_use]
    pub fn of_classes(mut self, weights: ClassWeights) -> Self {
        self.classes = weights;
        self
    }

    /// Returns the weight of each example by row; `None` if all are 1. `labels` are those of all
    /// examples, `names` the names of classes by label, and `classes` the labels of the classes. Class
    /// weights depend on the training rows.
    pub(crate) fn of(
        &self,
        labels: &[f32],
        (classes, names): (&[f32], &[String]),
        is_training: impl Fn(usize) -> bool,
    ) -> Result<Option<Arc<Vec<f64>>>, Error> {
        if let Some(rows) = &self.rows {
            if rows.len() != labels.len() {
                return Err(Error::WeightCount { weights: rows.len(), examples: labels.len() });
            }
            if let Some(row) = rows.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
                return Err(Error::InvalidWeight { row: row + 1 });
            }
            if rows.iter().enumerate().all(|(row, weight)| *weight == 0.0 || !is_training(row)) {
                return Err(Error::NoWeight);
            }
        }
        let class_of = |label: f32| classes.iter().position(|class| class.total_cmp(&(label + 0.0)).is_eq());
        let of_class: Vec<f64> = match &self.classes {
            ClassWeights::Equal if self.rows.is_none() => return Ok(None),
            ClassWeights::Equal => vec![1.0; classes.len()],
            ClassWeights::Balanced => {
                let mut counts = vec![0_u64; classes.len()];
                let training = labels.iter().enumerate().filter(|(row, _)| is_training(*row));
                training.filter_map(|(_, label)| class_of(*label)).for_each(|class| counts[class] += 1);
                let all: u64 = counts.iter().sum();
                counts.iter().map(|count| all as f64 / (classes.len() as f64 * (*count).max(1) as f64)).collect()
            }
            ClassWeights::Named(named) => {
                let mut weights = vec![1.0; classes.len()];
                for (name, weight) in named {
                    let label = names.iter().position(|known| known == name).map(|index| index as f32);
                    let label = label.or_else(|| name.parse::<f32>().ok().filter(|_| names.is_empty()));
                    let Some(class) = label.and_then(class_of) else {
                        let title =
                            |label: &f32| names.get(*label as usize).cloned().unwrap_or_else(|| label.to_string());
                        return Err(Error::UnknownClass {
                            class: name.clone(),
                            classes: classes.iter().map(title).collect(),
                        });
                    };
                    if !weight.is_finite() || *weight < 0.0 {
                        let (found, expected) = (format!("{name}={weight}"), "a class and a weight of 0 or more");
                        return Err(Error::InvalidSetting { setting: "class_weight", found, expected });
                    }
                    weights[class] = *weight;
                }
                weights
            }
        };
        let weight = |(row, label): (usize, &f32)| {
            let of_row = self.rows.as_ref().map_or(1.0, |rows| f64::from(rows[row]));
            of_row * class_of(*label).map_or(1.0, |class| of_class[class])
        };
        Ok(Some(Arc::new(labels.iter().enumerate().map(weight).collect())))
    }
}

/// Returns a digest of the weights of examples, 0 if there are none.
pub(crate) fn weights_digest(weights: Option<&[f64]>) -> u64 {
    weights.map_or(0, |weights| weights.iter().fold(1, |digest, weight| mix64(digest ^ weight.to_bits())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_products_of_those_of_rows_and_classes() {
        let (labels, classes) = ([3.0, -1.0, 3.0, 3.0], [-1.0, 3.0]);
        let of = |weights: ExampleWeights, names: &[String]| weights.of(&labels, (&classes, names), |_| true);
        assert_eq!(of(ExampleWeights::default(), &[]), Ok(None));
        let balanced = ExampleWeights::default().of_classes(ClassWeights::Balanced);
        let expected = [2.0 / 3.0, 2.0, 2.0 / 3.0, 2.0 / 3.0];
        assert_eq!(**of(balanced.clone(), &[]).unwrap().unwrap(), expected);
        let rows = balanced.of_rows(Some(vec![3.0, 0.5, 0.0, 1.0]));
        assert_eq!(**of(rows, &[]).unwrap().unwrap(), [2.0, 1.0, 0.0, 2.0 / 3.0]);
        let named =
            |text: &str| ExampleWeights::default().of_classes(ClassWeights::Named(vec![(text.to_owned(), 4.0)]));
        assert_eq!(**of(named("-1"), &[]).unwrap().unwrap(), [1.0, 4.0, 1.0, 1.0]);
        assert!(matches!(of(named("2"), &[]), Err(Error::UnknownClass { classes, .. }) if classes == ["-1", "3"]));
        let short = ExampleWeights::default().of_rows(Some(vec![1.0]));
        assert_eq!(of(short, &[]), Err(Error::WeightCount { weights: 1, examples: 4 }));
        let zero = ExampleWeights::default().of_rows(Some(vec![0.0; 4]));
        assert_eq!(of(zero, &[]), Err(Error::NoWeight));
    }
}
