//! Logistic regression on sparse examples: weights are served and prefetched, gradients buffered.
//!
//! An example lists its features, so the weights it reads are known only from the data. The slice
//! of the body that computes the subscripts runs first, so that the weights of a block are
//! prefetched in bulk. The loop is `repeated`, so the slice runs in the first epoch only.

use crate::with_watchdog;
use hemiola::array::synthetic::SyntheticLogistic;
use hemiola::loops::plan::ArrayPlacement;
use hemiola::loops::{LoopPlan, LoopReport};
use hemiola::prelude::*;
use std::collections::BTreeMap;

const FEATURES: usize = 17_000;
const LEARNING_RATE: f32 = 0.1;
/// Examples that a worker processes before its gradients are applied.
const FLUSH_INTERVAL: u64 = 64;

/// A label (0 or 1), and the features with their values.
type Sample = (f32, Vec<(usize, f32)>);

/// Runs one epoch. Returns the sum of the losses and the number of correct predictions, each taken
/// before the example's own step.
fn run_epoch(
    cluster: &Cluster,
    samples: &DistArray<Sample, 1>,
    weights: &DistArray<f32, 1>,
) -> hemiola::Result<(f64, u64, LoopReport)> {
    let (loss, right) = (cluster.accumulator::<f64>(), cluster.accumulator::<u64>());
    let gradient =
        weights.buffered(|weight, gradient: f32| *weight -= LEARNING_RATE * gradient).flush_every(FLUSH_INTERVAL);
    let run = parallel_for!(
        cluster,
        repeated,
        for (_, (label, features)) in samples {
            let mut margin = 0.0;
            for &(feature, value) in features {
                margin += weights[feature] * value;
            }
            let probability = 1.0 / (1.0 + (-margin).exp());
            for &(feature, value) in features {
                gradient[feature] += (probability - label) * value;
            }
            let truth = if *label > 0.5 { probability } else { 1.0 - probability };
            loss += -f64::from(truth.max(1e-6)).ln();
            right += u64::from(truth > 0.5);
        }
    )?;
    Ok((loss.take()?, right.take()?, run))
}

/// Synthetic examples with six features each. Labels are drawn from a logistic model with hidden
/// weights; the generator's +1 and -1 become 1 and 0.
fn synthetic_examples(count: usize) -> Vec<Sample> {
    let set = SyntheticLogistic { rows: count, columns: FEATURES, features_per_row: 6, seed: 5, ..Default::default() };
    let generator = set.generator();
    (0..count).map(|row| generator.row(row)).map(|(label, features)| (label.max(0.0), features)).collect()
}

/// Serial reference in plain Rust: every part processes some examples, then their gradients are
/// applied, part after part.
fn serial(plan: &LoopPlan, samples: Vec<([usize; 1], &Sample)>, weights: &mut [f32]) {
    for parts in plan.in_steps(samples) {
        let largest = parts.iter().map(Vec::len).max().unwrap_or(0);
        for start in (0..largest).step_by(FLUSH_INTERVAL as usize) {
            let mut submitted = Vec::new();
            for part in &parts {
                let mut gradient = BTreeMap::new();
                for (_, (label, features)) in part.iter().skip(start).take(FLUSH_INTERVAL as usize) {
                    let mut margin = 0.0;
                    for (feature, value) in features {
                        margin += weights[*feature] * value;
                    }
                    let probability = 1.0 / (1.0 + (-margin).exp());
                    for (feature, value) in features {
                        *gradient.entry(*feature).or_insert(0.0) += (probability - label) * value;
                    }
                }
                submitted.push(gradient);
            }
            for (feature, gradient) in submitted.into_iter().flatten() {
                weights[feature] -= LEARNING_RATE * gradient;
            }
        }
    }
}

#[test]
fn equals_a_serial_loop_with_equally_delayed_gradients() {
    let synthetic = synthetic_examples(1500);
    let all: Vec<_> = synthetic.iter().enumerate().map(|(row, sample)| ([row], sample)).collect();
    for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
        let program = |cluster: &Cluster| {
            let samples = cluster.from_fn([1500], |[row]| synthetic[row].clone())?;
            let weights = cluster.zeros([FEATURES])?;
            let mut expected = vec![0.0; FEATURES];
            let mut losses = Vec::new();
            for _ in 0..2 {
                let (loss, _, run) = run_epoch(cluster, &samples, &weights)?;
                let placement = run.plan().arrays[0].placement;
                assert_eq!(placement == ArrayPlacement::Served, peers > 1, "{}", run.plan());
                assert!(run.prefetch_misses().iter().all(|(_, count)| *count == 0), "{:?}", run.prefetch_misses());
                if cluster.is_root() {
                    serial(run.plan(), all.clone(), &mut expected);
                }
                losses.push(loss);
            }
            assert!(losses[1] < losses[0], "it learns: {losses:?}");
            Ok(weights.collect()?.into_iter().map(|(_, weight)| weight).eq(expected))
        };
        let equal = with_watchdog(|| hemiola::standalone(peers).workers(workers).run(program)).expect("it runs");
        assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
    }
}
