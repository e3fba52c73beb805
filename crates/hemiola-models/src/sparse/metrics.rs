//! Metrics of predictions: regression errors, or classification metrics.

use crate::linear::{ClassificationMetrics, ConfusionCounts, ConfusionMatrix, UNKNOWN_CLASS, predicted_class};
use crate::metrics::ErrorSums;
use crate::training::Metrics;
use hemiola_cluster::{Cluster, Result};

/// *Collective.* Returns the examples of all peers by true and predicted class. `names` are those of
/// the classes.
pub(crate) fn confusion_of(
    cluster: &Cluster,
    (classes, names): ([f32; 2], Vec<String>),
    target: &[f64],
    scores: &[f64],
) -> Result<Option<ConfusionMatrix>> {
    let mut counts = ConfusionCounts::default();
    for (target, score) in target.iter().zip(scores) {
        counts.add(class_of(classes, *target), predicted_class(&[*score]));
    }
    ConfusionCounts::gather([&counts], cluster, names)
}

/// Returns the index of the class with this label.
fn class_of(classes: [f32; 2], label: f64) -> u32 {
    let class = classes.iter().position(|class| f64::from(*class).total_cmp(&label).is_eq());
    class.map_or(UNKNOWN_CLASS, |class| class as u32)
}

/// *Collective.* Returns the number of examples of all peers and their metrics: `rmse`, `mae` and
/// `r2` of quantities, or those of two classes. `scores` are quantities
/// or log-odds. There are no metrics without examples.
pub(crate) fn metrics_of(
    cluster: &Cluster,
    classes: Option<[f32; 2]>,
    target: &[f64],
    scores: &[f64],
) -> Result<(u64, Metrics)> {
    if let Some(classes) = classes {
        let mut metrics = ClassificationMetrics::with_scores();
        for (target, score) in target.iter().zip(scores) {
            metrics.add(&[*score], class_of(classes, *target));
        }
        return ClassificationMetrics::gather(&[metrics], cluster, true);
    }
    ErrorSums::gather(cluster, target.iter().copied().zip(scores.iter().copied()))
}
