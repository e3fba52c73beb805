//! Figures of predictions: how much is explained and how far off they are, or those of classifiers.

use crate::linear::Figures;
use crate::training::Metrics;
use hemiola::{Cluster, Result};

/// *Collective.* How many examples all peers have, and figures on them: `rmse`, `mae` and `r2` of quantities, `accuracy`, `logloss` and `auc` of
/// two classes. `scores` are quantities or logarithms of odds; none if there are no examples.
pub(super) fn of(
    cluster: &Cluster,
    classes: Option<[f32; 2]>,
    target: &[f64],
    scores: &[f64],
) -> Result<(u64, Metrics)> {
    if let Some(classes) = classes {
        let mut figures = Figures::with_scores();
        for (target, score) in target.iter().zip(scores) {
            let class = classes.iter().position(|class| f64::from(*class).total_cmp(target).is_eq());
            figures.add(&[*score], class.map_or(crate::linear::UNKNOWN, |class| class as u32));
        }
        return Figures::settle(&[figures], cluster, true);
    }
    let off = || target.iter().zip(scores).map(|(target, score)| target - score);
    let mine = (
        target.len() as u64,
        off().map(|off| off * off).sum::<f64>(),
        off().map(f64::abs).sum::<f64>(),
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
