//! Matrix factorization with AdaRevision: buffers whose updates change four arrays at once.
//!
//! AdaRevision ("Delay-tolerant algorithms for asynchronous distributed online learning", NIPS
//! 2014) keeps the sum of all gradients of a cell. A gradient carries the sum that its worker saw.
//! The difference of the two sums is the part that the worker missed, and the step is revised by it.

use crate::with_watchdog;
use hemiola::loops::plan::ArrayPlacement;
use hemiola::loops::{LoopPlan, LoopReport};
use hemiola::prelude::*;
use std::collections::BTreeMap;

const RANK: usize = 16;
const LEARNING_RATE: f32 = 0.1;
const LAMBDA: f32 = 0.01;
/// Ratings that a worker processes before its gradients are applied.
const FLUSH_INTERVAL: u64 = 50;

type Matrix = DistArray<f32, 2>;

/// A factor matrix with the AdaRevision state of each cell.
struct Parameters {
    values: Matrix,
    /// Sum of all gradients applied so far.
    sums: Matrix,
    /// Accumulator of squared gradients, with the correction for missed gradients.
    z: Matrix,
    /// Running maximum of `z`, which determines the step size.
    largest: Matrix,
}

impl Parameters {
    fn new(cluster: &Cluster, rows: usize, seed: u64) -> hemiola::Result<Self> {
        let shape = [rows, RANK];
        Ok(Self {
            values: cluster.uniform(shape, 0.0..0.5, Seed(seed))?,
            sums: cluster.zeros(shape)?,
            z: cluster.from_fn(shape, |_| 1.0)?,
            largest: cluster.from_fn(shape, |_| 1.0)?,
        })
    }
}

/// Applies a gradient that was computed when the gradient sum was `seen`.
fn revise(value: &mut f32, sum: &mut f32, z: &mut f32, largest: &mut f32, (gradient, seen): (f32, f32)) {
    let missed = *sum - seen;
    let before = LEARNING_RATE / largest.sqrt();
    *z += gradient * gradient + 2.0 * gradient * missed;
    *largest = largest.max(*z);
    let after = LEARNING_RATE / largest.sqrt();
    *value += (before - after) * missed - after * gradient;
    *sum += gradient;
}

/// Runs one epoch. Returns the sum of squared errors, each taken before its own step.
fn run_epoch(
    cluster: &Cluster,
    ratings: &Matrix,
    w: &Parameters,
    h: &Parameters,
) -> hemiola::Result<(f64, LoopReport)> {
    let loss = cluster.accumulator::<f64>();
    let w_gradients = w.values.buffered_with3(&w.sums, &w.z, &w.largest, revise).flush_every(FLUSH_INTERVAL);
    let h_gradients = h.values.buffered_with3(&h.sums, &h.z, &h.largest, revise).flush_every(FLUSH_INTERVAL);
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let (wu, hi) = (&w.values[u], &h.values[i]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                // Pending gradients of a worker add up; all of them saw the same gradient sum.
                let gradient = &mut w_gradients[u][k];
                *gradient = (gradient.0 + LAMBDA * wu[k] - error * hi[k], w.sums[u][k]);
                let gradient = &mut h_gradients[i][k];
                *gradient = (gradient.0 + LAMBDA * hi[k] - error * wu[k], h.sums[i][k]);
            }
            loss += f64::from(error * error);
        }
    )?;
    Ok((loss.take()?, run))
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Synthetic ratings of users for items; one rating in five is known.
fn synthetic_ratings(cluster: &Cluster, shape: [usize; 2]) -> hemiola::Result<Matrix> {
    let all = cluster.from_fn(shape, |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
    Ok(all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 5 == 0).materialize()?)
}

type Ratings = Vec<([usize; 2], f32)>;
type Cells = Vec<Vec<f32>>;
/// Pending gradients, by row.
type PendingGradients = BTreeMap<usize, Vec<(f32, f32)>>;

/// Values, sums, z and largest z.
#[derive(PartialEq)]
struct SerialParameters([Cells; 4]);

impl SerialParameters {
    fn of(parameters: &Parameters) -> hemiola::Result<Self> {
        let rows = |array: &Matrix| {
            let cells: Vec<f32> = array.collect()?.into_iter().map(|(_, value)| value).collect();
            Ok::<_, hemiola::Error>(cells.chunks_exact(RANK).map(<[f32]>::to_vec).collect())
        };
        let Parameters { values, sums, z, largest } = parameters;
        Ok(Self([rows(values)?, rows(sums)?, rows(z)?, rows(largest)?]))
    }

    fn apply(&mut self, pending: PendingGradients) {
        let [values, sums, z, largest] = &mut self.0;
        for (row, gradients) in pending {
            for (k, gradient) in gradients.into_iter().enumerate() {
                let cell = (&mut values[row][k], &mut sums[row][k], &mut z[row][k], &mut largest[row][k]);
                revise(cell.0, cell.1, cell.2, cell.3, gradient);
            }
        }
    }
}

fn placement(plan: &LoopPlan, name: &str) -> ArrayPlacement {
    plan.arrays.iter().find(|array| array.name == name).expect("it is in the loop").placement
}

/// Serial reference in plain Rust: every part processes some ratings, then all gradients are
/// applied, part after part.
fn serial(plan: &LoopPlan, ratings: Ratings, w: &mut SerialParameters, h: &mut SerialParameters) {
    let exclusive =
        |name| matches!(placement(plan, name), ArrayPlacement::Local { .. } | ArrayPlacement::Rotating { .. });
    let (w_exclusive, h_exclusive) = (exclusive("w.values"), exclusive("h.values"));
    for parts in plan.in_steps(ratings) {
        let largest = parts.iter().map(Vec::len).max().unwrap_or(0);
        for start in (0..largest).step_by(FLUSH_INTERVAL as usize) {
            let mut submitted = Vec::new();
            for part in &parts {
                let (mut w_pending, mut h_pending) = (PendingGradients::new(), PendingGradients::new());
                for ([u, i], rating) in part.iter().skip(start).take(FLUSH_INTERVAL as usize) {
                    let (u, i) = (*u, *i);
                    let (wu, hi) = (&w.0[0][u], &h.0[0][i]);
                    let error = rating - dot(wu, hi);
                    let w_row = w_pending.entry(u).or_insert_with(|| vec![(0.0, 0.0); RANK]);
                    let h_row = h_pending.entry(i).or_insert_with(|| vec![(0.0, 0.0); RANK]);
                    for k in 0..RANK {
                        w_row[k] = (w_row[k].0 + LAMBDA * wu[k] - error * hi[k], w.0[1][u][k]);
                        h_row[k] = (h_row[k].0 + LAMBDA * hi[k] - error * wu[k], h.0[1][i][k]);
                    }
                }
                // Rows of one worker alone are updated at once; the others wait for all
                // workers.
                if w_exclusive {
                    w.apply(std::mem::take(&mut w_pending));
                }
                if h_exclusive {
                    h.apply(std::mem::take(&mut h_pending));
                }
                submitted.push((w_pending, h_pending));
            }
            for (w_pending, h_pending) in submitted {
                w.apply(w_pending);
                h.apply(h_pending);
            }
        }
    }
}

#[test]
fn equals_a_serial_loop_with_equally_delayed_gradients() {
    for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
        let program = |cluster: &Cluster| {
            let ratings = synthetic_ratings(cluster, [60, 80])?;
            let (w, h) = (Parameters::new(cluster, 60, 1)?, Parameters::new(cluster, 80, 2)?);
            let (mut expected_w, mut expected_h) = (SerialParameters::of(&w)?, SerialParameters::of(&h)?);
            let mut losses = Vec::new();
            for _ in 0..2 {
                let (loss, run) = run_epoch(cluster, &ratings, &w, &h)?;
                assert_eq!(run.plan().cuts.parts(), peers * workers, "{}", run.plan());
                let ratings = ratings.collect()?;
                if cluster.is_root() {
                    serial(run.plan(), ratings, &mut expected_w, &mut expected_h);
                }
                losses.push(loss);
            }
            assert!(losses[1] < losses[0], "it learns: {losses:?}");
            Ok((SerialParameters::of(&w)?, SerialParameters::of(&h)?) == (expected_w, expected_h))
        };
        let equal = with_watchdog(|| hemiola::standalone(peers).workers(workers).run(program)).expect("it runs");
        assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
    }
}

#[test]
fn a_gradient_that_missed_nothing_takes_the_step_of_adagrad() {
    let (mut value, mut sum, mut z, mut largest) = (1.0, 5.0, 2.0, 2.0);
    revise(&mut value, &mut sum, &mut z, &mut largest, (3.0, 5.0));
    assert_eq!((value, sum, z, largest), (1.0 - LEARNING_RATE / 11.0_f32.sqrt() * 3.0, 8.0, 11.0, 11.0));
}
