//! Confusion matrix: evaluated examples by true and predicted class.

use super::shard::UNKNOWN_CLASS;
use crate::metrics::{Averaging, ClassCounts};
use crate::training::Metrics;
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of examples by true and predicted class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfusionMatrix {
    /// Names or labels of the classes, by ascending label.
    pub classes: Vec<String>,
    /// For each true class, the number of its examples by predicted class.
    pub counts: Vec<Vec<u64>>,
    /// Number of examples whose label the model does not know, by predicted class. Empty if there
    /// are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<u64>,
}

impl ConfusionMatrix {
    /// Maximum number of classes: the matrix has a count for each pair, and is written to reports.
    pub const MAX_CLASSES: usize = 500;

    /// Returns precision, recall and F1: those of the second of two classes, or the macro and the
    /// weighted averages over more classes.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let counts = ClassCounts::new(&self.counts).with_unknown(&self.unknown);
        let averages: &[(&str, Averaging)] = match self.classes.len() {
            2 => &[("", Averaging::Binary)],
            _ => &[("-macro", Averaging::Macro), ("-weighted", Averaging::Weighted)],
        };
        let of = |(name, averaging): &(&str, Averaging)| {
            let scores = counts.scores(*averaging);
            let named = [("precision", scores.precision), ("recall", scores.recall), ("f1", scores.f1)];
            named.map(|(metric, value)| (format!("{metric}{name}"), value))
        };
        averages.iter().flat_map(of).collect()
    }
}

/// Counts of examples by true and predicted class, of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfusionCounts(BTreeMap<(u32, u32), u64>);

impl ConfusionCounts {
    pub(crate) fn add(&mut self, class: u32, predicted: u32) {
        *self.0.entry((class, predicted)).or_default() += 1;
    }

    /// *Collective.* Returns the matrix of all workers and peers, or `None` for more than
    /// [`ConfusionMatrix::MAX_CLASSES`] classes.
    pub(crate) fn gather<'a>(
        all: impl IntoIterator<Item = &'a Self>,
        cluster: &Cluster,
        classes: Vec<String>,
    ) -> Result<Option<ConfusionMatrix>> {
        if classes.len() > ConfusionMatrix::MAX_CLASSES {
            return Ok(None);
        }
        let mine: Vec<((u32, u32), u64)> =
            all.into_iter().flat_map(|counts| &counts.0).map(|(pair, count)| (*pair, *count)).collect();
        let gathered: Vec<Vec<((u32, u32), u64)>> = cluster.all_gather(mine)?;
        let mut counts = vec![vec![0; classes.len()]; classes.len()];
        let mut unknown = Vec::new();
        for ((class, predicted), count) in gathered.into_iter().flatten() {
            let row = if class == UNKNOWN_CLASS {
                unknown.resize(classes.len(), 0);
                &mut unknown
            } else {
                &mut counts[class as usize]
            };
            row[predicted as usize] += count;
        }
        Ok(Some(ConfusionMatrix { classes, counts, unknown }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_all_peers_add_up_and_unknown_labels_have_their_row() {
        let all = hemiola_cluster::standalone(3).run(|cluster| {
            let mut counts = ConfusionCounts::default();
            counts.add(1, 0);
            if cluster.rank().index() == 2 {
                counts.add(0, 0);
                counts.add(UNKNOWN_CLASS, 1);
            }
            let names = vec!["-1".to_owned(), "1".to_owned()];
            let many = ConfusionCounts::gather([&counts], cluster, vec![String::new(); 501])?;
            Ok((ConfusionCounts::gather([&counts, &counts], cluster, names)?.unwrap(), many))
        });
        for (matrix, many) in all.unwrap() {
            assert_eq!((matrix.counts, matrix.unknown), (vec![vec![2, 0], vec![6, 0]], vec![0, 2]));
            assert_eq!(many, None);
        }
    }
}
