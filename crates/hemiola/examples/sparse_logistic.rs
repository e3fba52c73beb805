//! Logistic regression on sparse examples.
//!
//! An example lists its features, so the weights it reads are known only from the data. Weights are
//! read, and gradients are written to a buffer. So no example depends on another, and the examples
//! are divided among the workers. On several peers each peer owns some of the weights. The slice of
//! the body that computes the subscripts runs before the body, so that the weights of a block are
//! prefetched in bulk instead of one by one. The loop is `repeated`, so the slice runs in the first
//! epoch only.
//!
//! `cargo run --release --example sparse_logistic`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/sparse_logistic`

use hemiola::array::synthetic::SyntheticLogistic;
use hemiola::loops::LoopReport;
use hemiola::prelude::*;

const FEATURES: u64 = 17_000;
const LEARNING_RATE: f32 = 0.1;
/// Examples that a worker processes before its gradients are applied.
const FLUSH_INTERVAL: u64 = 64;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let synthetic = synthetic_examples(20_000);
        let samples = cluster.from_fn([20_000], |[row]| synthetic[row as usize].clone())?;
        let weights = cluster.zeros([FEATURES])?;
        for epoch in 0..10 {
            let (loss, right, _) = run_epoch(cluster, &samples, &weights)?;
            let count = samples.len() as f64;
            let (loss, right) = (loss / count, 100.0 * right as f64 / count);
            cluster.println(format_args!("epoch {epoch}: loss {loss:.4}, {right:.1} % accuracy"));
        }
        Ok(())
    })
}

/// A label (0 or 1), and the features with their values.
type Sample = (f32, Vec<(u32, f32)>);

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
                margin += weights[feature as usize] * value;
            }
            let probability = 1.0 / (1.0 + (-margin).exp());
            for &(feature, value) in features {
                gradient[feature as usize] += (probability - label) * value;
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
fn synthetic_examples(count: u64) -> Vec<Sample> {
    let generator = SyntheticLogistic::new(count, FEATURES, 6, 5);
    let narrow =
        |features: Vec<(u64, f32)>| features.into_iter().map(|(feature, value)| (feature as u32, value)).collect();
    (0..count).map(|row| generator.row(row)).map(|(label, features)| (label.max(0.0), narrow(features))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::LoopPlan;
    use hemiola::loops::plan::ArrayPlacement;
    use std::collections::BTreeMap;

    /// Serial reference in plain Rust: every part processes some examples, then their gradients are
    /// applied, part after part.
    fn serial(plan: &LoopPlan, samples: Vec<([u64; 1], &Sample)>, weights: &mut [f32]) {
        for parts in plan.in_steps(samples) {
            let largest = parts.iter().map(Vec::len).max().unwrap_or(0);
            for start in (0..largest).step_by(FLUSH_INTERVAL as usize) {
                let mut submitted = Vec::new();
                for part in &parts {
                    let mut gradient = BTreeMap::new();
                    for (_, (label, features)) in part.iter().skip(start).take(FLUSH_INTERVAL as usize) {
                        let mut margin = 0.0;
                        for (feature, value) in features {
                            margin += weights[*feature as usize] * value;
                        }
                        let probability = 1.0 / (1.0 + (-margin).exp());
                        for (feature, value) in features {
                            *gradient.entry(*feature).or_insert(0.0) += (probability - label) * value;
                        }
                    }
                    submitted.push(gradient);
                }
                for (feature, gradient) in submitted.into_iter().flatten() {
                    weights[feature as usize] -= LEARNING_RATE * gradient;
                }
            }
        }
    }

    #[test]
    fn equals_a_serial_loop_with_equally_delayed_gradients() {
        let synthetic = synthetic_examples(1500);
        let all: Vec<_> = synthetic.iter().enumerate().map(|(row, sample)| ([row as u64], sample)).collect();
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let samples = cluster.from_fn([1500], |[row]| synthetic[row as usize].clone())?;
                let weights = cluster.zeros([FEATURES])?;
                let mut expected = vec![0.0; FEATURES as usize];
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
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
