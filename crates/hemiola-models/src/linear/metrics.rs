//! Classification metrics of scored examples, distributed over workers and peers.
//!
//! **Invariant:** the metrics do not depend on the distribution: sums are exact, and areas under
//! curves are computed from all scores in order.

use super::confusion::ConfusionCounts;
use super::shard::UNKNOWN_CLASS;
use crate::metrics::{ExactSum, average_precision, brier_of, log_loss_of, roc_auc};
use crate::training::Metrics;
use hemiola_cluster::{Cluster, Result};

/// Sums of a peer: examples, correct ones, log loss, Brier score, scores.
type PeerSums = (u64, u64, ExactSum, ExactSum, Vec<(f64, bool)>);

/// Accumulator of classification metrics over scored examples.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassificationMetrics {
    examples: u64,
    right: u64,
    logloss: ExactSum,
    brier: ExactSum,
    /// With two classes: score of each example, and whether it is of the second class.
    scores: Option<Vec<(f64, bool)>>,
    /// Counts by true and predicted class, for evaluations.
    pub(crate) confusion: Option<ConfusionCounts>,
}

impl ClassificationMetrics {
    /// Creates an accumulator that also keeps scores, for the area under the curve.
    pub(crate) fn with_scores() -> Self {
        Self { scores: Some(Vec::new()), ..Self::default() }
    }

    /// Creates an accumulator that also keeps scores, and counts by true and predicted class.
    pub(crate) fn with_confusion() -> Self {
        Self { confusion: Some(ConfusionCounts::default()), ..Self::with_scores() }
    }

    pub(crate) fn add(&mut self, scores: &[f64], class: u32) {
        self.examples += 1;
        let predicted = predicted_class(scores);
        self.right += u64::from(predicted == class);
        if let Some(confusion) = &mut self.confusion {
            confusion.add(class, predicted);
        }
        self.add_errors(&probabilities(scores).collect::<Vec<f64>>(), class);
        if let (Some(all), [score]) = (&mut self.scores, scores)
            && class != UNKNOWN_CLASS
        {
            all.push((*score, class == 1));
        }
    }

    /// Adds an example by the probabilities of its classes, which sum to 1.
    pub(crate) fn add_probabilities(&mut self, probabilities: &[f64], class: u32) {
        self.examples += 1;
        let better = |best: usize, class: usize| if probabilities[class] > probabilities[best] { class } else { best };
        let predicted = (0..probabilities.len()).fold(0, better) as u32;
        self.right += u64::from(predicted == class);
        if let Some(confusion) = &mut self.confusion {
            confusion.add(class, predicted);
        }
        self.add_errors(probabilities, class);
        if let (Some(all), [_, second]) = (&mut self.scores, probabilities)
            && class != UNKNOWN_CLASS
        {
            all.push((*second, class == 1));
        }
    }

    fn add_errors(&mut self, probabilities: &[f64], class: u32) {
        self.logloss.add(log_loss_of(probabilities.get(class as usize).copied().unwrap_or(0.0)));
        self.brier.add(brier_of(probabilities, class as usize));
    }

    /// *Collective.* Returns the number of examples of all peers and their metrics, none without
    /// examples. Log loss and Brier score are included only where scores are log-odds
    /// (`probabilities`).
    pub(crate) fn gather(all: &[Self], cluster: &Cluster, probabilities: bool) -> Result<(u64, Metrics)> {
        let mut mine: PeerSums = PeerSums::default();
        for Self { examples, right, logloss, brier, scores, .. } in all {
            mine.0 += examples;
            mine.1 += right;
            mine.2.merge(logloss);
            mine.3.merge(brier);
            mine.4.extend(scores.iter().flatten().copied());
        }
        let mut sums = PeerSums::default();
        for peer in cluster.all_gather(mine)? {
            sums.0 += peer.0;
            sums.1 += peer.1;
            sums.2.merge(&peer.2);
            sums.3.merge(&peer.3);
            sums.4.extend(peer.4);
        }
        let (examples, right, logloss, brier, scores) = sums;
        let mut metrics = Metrics::new();
        if examples > 0 {
            let count = examples as f64;
            metrics.insert("accuracy".to_owned(), right as f64 / count);
            if probabilities {
                metrics.insert("logloss".to_owned(), logloss.value() / count);
                metrics.insert("brier".to_owned(), brier.value() / count);
            }
        }
        metrics.extend(roc_auc(&scores).map(|area| ("auc".to_owned(), area)));
        metrics.extend(
            average_precision(&scores).filter(|_| metrics.contains_key("auc")).map(|area| ("pr-auc".to_owned(), area)),
        );
        Ok((examples, metrics))
    }
}

/// Returns the predicted class; ties go to the first.
pub(crate) fn predicted_class(scores: &[f64]) -> u32 {
    if let [score] = scores {
        return u32::from(*score > 0.0);
    }
    let better = |best: usize, class: usize| if scores[class] > scores[best] { class } else { best };
    (0..scores.len()).fold(0, better) as u32
}

/// Returns the probability of each class, where scores are log-odds. With more than two classes,
/// one-versus-rest probabilities are normalized to sum to 1.
pub(crate) fn probabilities(scores: &[f64]) -> impl Iterator<Item = f64> {
    let sigmoid = |score: f64| 1.0 / (1.0 + (-score).exp());
    let (two, sum): (_, f64) = match scores {
        [score] => (Some([sigmoid(-score), sigmoid(*score)]), 1.0),
        _ => (None, scores.iter().map(|score| sigmoid(*score)).sum()),
    };
    let scaled = move |score: &f64| sigmoid(*score) / sum.max(f64::MIN_POSITIVE);
    two.into_iter().flatten().chain(scores.iter().filter(move |_| two.is_none()).map(scaled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_sum_to_one() {
        for scores in [&[0.3][..], &[-900.0], &[1.0, -2.0, 0.5]] {
            let all: Vec<f64> = probabilities(scores).collect();
            assert_eq!(all.len(), scores.len().max(2));
            assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{all:?}");
        }
        assert!(probabilities(&[2.0]).nth(1).unwrap() > 0.8);
    }

    #[test]
    fn ties_predict_the_first_class() {
        assert_eq!((predicted_class(&[0.0]), predicted_class(&[0.1])), (0, 1));
        assert_eq!(predicted_class(&[-1.0, 2.0, 2.0]), 1);
    }

    #[test]
    fn metrics_cover_all_peers() {
        let all = hemiola_cluster::standalone(3)
            .run(|cluster| {
                let mut metrics = ClassificationMetrics::with_scores();
                let rank = cluster.rank().index();
                metrics.add(&[[-1.0, 2.0, 3.0][rank]], [0, 1, 0][rank]);
                ClassificationMetrics::gather(&[metrics], cluster, true)
            })
            .unwrap();
        assert!(all.iter().all(|one| *one == all[0]));
        assert_eq!(all[0].0, 3);
        assert!((all[0].1["accuracy"] - 2.0 / 3.0).abs() < 1e-12 && (all[0].1["auc"] - 0.5).abs() < 1e-12);
    }
}
