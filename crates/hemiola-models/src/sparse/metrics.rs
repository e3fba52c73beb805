//! Metrics of predictions: regression errors, or classification metrics.

use crate::linear::{ClassificationMetrics, ConfusionCounts, ConfusionMatrix, UNKNOWN_CLASS, predicted_class};
use crate::training::Metrics;
use hemiola_cluster::{Cluster, Result};

/// *Collective.* Returns the examples of all peers by true and predicted class.
pub(super) fn confusion_of(
    cluster: &Cluster,
    classes: [f32; 2],
    target: &[f64],
    scores: &[f64],
) -> Result<Option<ConfusionMatrix>> {
    let mut counts = ConfusionCounts::default();
    for (target, score) in target.iter().zip(scores) {
        counts.add(class_of(classes, *target), predicted_class(&[*score]));
    }
    ConfusionCounts::gather([&counts], cluster, classes.iter().map(f32::to_string).collect())
}

/// Returns the index of the class with this label.
fn class_of(classes: [f32; 2], label: f64) -> u32 {
    let class = classes.iter().position(|class| f64::from(*class).total_cmp(&label).is_eq());
    class.map_or(UNKNOWN_CLASS, |class| class as u32)
}

/// *Collective.* Returns the number of examples of all peers and their metrics: `rmse`, `mae` and
/// `r2` of quantities, or `accuracy`, `logloss` and `auc` of two classes. `scores` are quantities
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
    let errors = || target.iter().zip(scores).map(|(target, score)| target - score);
    let mine = (
        target.len() as u64,
        errors().map(|error| error * error).sum::<f64>(),
        errors().map(f64::abs).sum::<f64>(),
        target.iter().sum::<f64>(),
    );
    let all: Vec<(u64, f64, f64, f64)> = cluster.all_gather(mine)?;
    let sums = all
        .iter()
        .fold((0, 0.0, 0.0, 0.0), |sum, peer| (sum.0 + peer.0, sum.1 + peer.1, sum.2 + peer.2, sum.3 + peer.3));
    let count = sums.0 as f64;
    let mean = sums.3 / count;
    let spread: f64 = target.iter().map(|target| (target - mean) * (target - mean)).sum();
    let spread: f64 = cluster.all_gather(spread)?.into_iter().sum();
    let mut metrics = Metrics::new();
    if sums.0 > 0 {
        metrics.insert("rmse".to_owned(), (sums.1 / count).sqrt());
        metrics.insert("mae".to_owned(), sums.2 / count);
        if spread > 0.0 {
            metrics.insert("r2".to_owned(), 1.0 - sums.1 / spread);
        }
    }
    Ok((sums.0, metrics))
}
