//! Logistic regression on sparse samples.
//!
//! A sample names the features it has, so which weights it reads is known only from the data. Weights are read as they are and
//! gradients go to a buffer: then no sample depends on another, and workers share out the samples. On several peers each peer
//! owns some of the weights; the part of the body that computes subscripts runs ahead of it, so that a block's weights are
//! fetched together and not one by one. The loop is `repeated`, so the subscripts are computed in the first pass alone.
//!
//! `cargo run --release --example sparse_logistic`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/sparse_logistic`

use hemiola::array::synthetic::Logistic;
use hemiola::loops::Run;
use hemiola::prelude::*;

const FEATURES: u64 = 17_000;
const STEP: f32 = 0.1;
/// Samples that a worker uses before gradients are applied.
const LATE: u64 = 64;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let made_up = made_up(20_000);
        let samples = cluster.from_fn([20_000], |[row]| made_up[row as usize].clone())?;
        let weights = cluster.zeros([FEATURES])?;
        for epoch in 0..10 {
            let (loss, right, _) = pass(cluster, &samples, &weights)?;
            let count = samples.len() as f64;
            let (loss, right) = (loss / count, 100.0 * right as f64 / count);
            cluster.println(format_args!("epoch {epoch}: loss {loss:.4}, {right:.1} % of the samples right"));
        }
        Ok(())
    })
}

/// A label, 0 or 1, and features with their values.
type Sample = (f32, Vec<(u32, f32)>);

/// One pass over all samples: the sum of their losses and how many were classified rightly, before their own step.
fn pass(
    cluster: &Cluster,
    samples: &DistArray<Sample, 1>,
    weights: &DistArray<f32, 1>,
) -> hemiola::Result<(f64, u64, Run)> {
    let (loss, right) = (cluster.accumulator::<f64>(), cluster.accumulator::<u64>());
    let gradient = weights.buffered(|weight, gradient: f32| *weight -= STEP * gradient).every(LATE);
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

/// Samples with six features each, and labels that follow from hidden weights by chance (+1 and -1, made 1 and 0).
fn made_up(count: u64) -> Vec<Sample> {
    let synthetic = Logistic::new(count, FEATURES, 6, 5);
    let narrow =
        |features: Vec<(u64, f32)>| features.into_iter().map(|(feature, value)| (feature as u32, value)).collect();
    (0..count).map(|row| synthetic.row(row)).map(|(label, features)| (label.max(0.0), narrow(features))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::Plan;
    use hemiola::loops::plan::Placement;
    use std::collections::BTreeMap;

    /// The same loop in plain Rust: every part uses some samples, then their gradients are applied, part after part.
    fn serial(plan: &Plan, samples: Vec<([u64; 1], &Sample)>, weights: &mut [f32]) {
        for parts in plan.in_steps(samples) {
            let largest = parts.iter().map(Vec::len).max().unwrap_or(0);
            for start in (0..largest).step_by(LATE as usize) {
                let mut handed_in = Vec::new();
                for part in &parts {
                    let mut gradient = BTreeMap::new();
                    for (_, (label, features)) in part.iter().skip(start).take(LATE as usize) {
                        let mut margin = 0.0;
                        for (feature, value) in features {
                            margin += weights[*feature as usize] * value;
                        }
                        let probability = 1.0 / (1.0 + (-margin).exp());
                        for (feature, value) in features {
                            *gradient.entry(*feature).or_insert(0.0) += (probability - label) * value;
                        }
                    }
                    handed_in.push(gradient);
                }
                for (feature, gradient) in handed_in.into_iter().flatten() {
                    weights[feature as usize] -= STEP * gradient;
                }
            }
        }
    }

    #[test]
    fn equals_the_serial_loop_with_equally_late_gradients() {
        let made_up = made_up(1500);
        let all: Vec<_> = made_up.iter().enumerate().map(|(row, sample)| ([row as u64], sample)).collect();
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let samples = cluster.from_fn([1500], |[row]| made_up[row as usize].clone())?;
                let weights = cluster.zeros([FEATURES])?;
                let mut twin = vec![0.0; FEATURES as usize];
                let mut losses = Vec::new();
                for _ in 0..2 {
                    let (loss, _, run) = pass(cluster, &samples, &weights)?;
                    let placement = run.plan().arrays[0].placement;
                    assert_eq!(placement == Placement::Served, peers > 1, "{}", run.plan());
                    assert!(run.unforeseen().iter().all(|(_, count)| *count == 0), "{:?}", run.unforeseen());
                    if cluster.is_root() {
                        serial(run.plan(), all.clone(), &mut twin);
                    }
                    losses.push(loss);
                }
                assert!(losses[1] < losses[0], "it learns: {losses:?}");
                Ok(weights.collect()?.into_iter().map(|(_, weight)| weight).eq(twin))
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }
}
