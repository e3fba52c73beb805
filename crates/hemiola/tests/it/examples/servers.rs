//! Programs on the parameter server: serial references where one worker runs them, and invariants
//! where several do.

use super::programs::lda::{self, WORDS};
use super::programs::sparse_logistic::{self, EXAMPLES, LEARNING_RATE};
use super::programs::update_rule;
use crate::with_watchdog;
use hemiola::array::synthetic::SyntheticLogistic;
use hemiola::prelude::*;

#[test]
fn logistic_regression_on_one_worker_equals_serial_sgd() {
    let examples = SyntheticLogistic { rows: EXAMPLES, scale: 3.0, ..SyntheticLogistic::default() }.generator();
    let mut weights = vec![0.0_f32; 500];
    let epoch = |_| {
        let mut loss = 0.0;
        for (label, features) in (0..EXAMPLES).map(|row| examples.row(row)) {
            let margin = label * features.iter().map(|(feature, value)| weights[*feature] * value).sum::<f32>();
            for (feature, value) in features {
                weights[feature] += -LEARNING_RATE * (-label / (1.0 + margin.exp()) * value);
            }
            loss += f64::from((-margin).exp().ln_1p());
        }
        loss / EXAMPLES as f64
    };
    let expected: Vec<f64> = (0..2).map(epoch).collect();
    let train = |cluster: &Cluster| sparse_logistic::train(cluster, 2);
    let found = with_watchdog(|| hemiola::standalone(1).workers(1).run(train)).unwrap().remove(0);
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?} {expected:?}");
    for losses in with_watchdog(|| hemiola::standalone(3).workers(2).run(train)).unwrap() {
        assert!(losses[1] < losses[0] && losses[1] < 1.1 * expected[1], "{losses:?}, serial {expected:?}");
    }
}

#[test]
fn topic_counts_are_conserved() {
    let train = |cluster: &Cluster| {
        let (counts, perplexity) = lda::train(cluster, 5)?;
        assert!(perplexity[4] < perplexity[1], "topics are found: {perplexity:?}");
        let mut rows = counts.collect()?;
        let totals = rows.remove(&WORDS).unwrap_or_default();
        assert!(rows.values().flatten().all(|count| *count >= 0));
        assert_eq!(totals.iter().sum::<i32>() as usize, 1200 * cluster.size() * cluster.workers());
        for (topic, total) in totals.iter().enumerate() {
            assert_eq!(rows.values().map(|row| row[topic]).sum::<i32>(), *total, "topic {topic}");
        }
        Ok(())
    };
    for (peers, workers) in [(1, 1), (1, 3), (3, 2)] {
        with_watchdog(|| hemiola::standalone(peers).workers(workers).run(train)).unwrap();
    }
}

#[test]
fn the_update_rule_equals_serial_sgd_with_momentum() {
    let (mut x, mut velocity) = ([0.0_f32; 2], [0.0_f32; 2]);
    for _ in 0..50 {
        let gradient = [2.0 * (x[0] - 3.0), 20.0 * (x[1] + 1.0)];
        for k in 0..2 {
            velocity[k] = 0.8 * velocity[k] + gradient[k];
            x[k] -= 0.02 * velocity[k];
        }
    }
    let minimize = |cluster: &Cluster| update_rule::minimize(cluster, 50);
    let found = with_watchdog(|| hemiola::standalone(1).workers(1).run(minimize)).unwrap().remove(0);
    assert!(found.iter().eq(&x), "bit for bit: {found:?}, serial {x:?}");
}
