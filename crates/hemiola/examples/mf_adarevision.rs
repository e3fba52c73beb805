//! Matrix factorization with AdaRevision: late gradients, corrected for what happened in between.
//!
//! Nothing here depends on anything: rows are only read, and gradients go to buffers, so any division of the ratings among
//! workers will do, and the cheapest is taken. The price is that a gradient is applied later than it was computed. AdaRevision
//! ("Delay-tolerant algorithms for asynchronous distributed online learning", NIPS 2014) keeps the sum of
//! all gradients of a cell; a gradient comes with the sum that its worker saw, the difference is what it did not know of, and
//! the step is revised accordingly.
//!
//! `cargo run --release --example mf_adarevision`, or on several peers:
//! `hemiola run -n 2 -- target/release/examples/mf_adarevision`

use hemiola::loops::Run;
use hemiola::prelude::*;

const RANK: usize = 16;
const STEP: f32 = 0.1;
const LAMBDA: f32 = 0.01;
/// Ratings that a worker uses before gradients are applied.
const LATE: u64 = 50;

fn main() -> hemiola::Result<()> {
    hemiola::run(|cluster| {
        let ratings = made_up(cluster, [1000, 400])?;
        let w = Parameters::new(cluster, 1000, 1)?;
        let h = Parameters::new(cluster, 400, 2)?;
        for epoch in 0..20 {
            let (loss, _) = pass(cluster, &ratings, &w, &h)?;
            cluster.println(format_args!("epoch {epoch}: rmse {:.4}", (loss / ratings.len() as f64).sqrt()));
        }
        Ok(())
    })
}

type Matrix = DistArray<f32, 2>;

/// A matrix and what AdaRevision keeps of each of its cells.
struct Parameters {
    values: Matrix,
    /// The sum of all gradients.
    sums: Matrix,
    /// What the step size comes from, as it is and at its largest.
    z: Matrix,
    largest: Matrix,
}

impl Parameters {
    fn new(cluster: &Cluster, rows: u64, seed: u64) -> hemiola::Result<Self> {
        let shape = [rows, RANK as u64];
        Ok(Self {
            values: cluster.uniform(shape, 0.0..0.5, seed)?,
            sums: cluster.zeros(shape)?,
            z: cluster.from_fn(shape, |_| 1.0)?,
            largest: cluster.from_fn(shape, |_| 1.0)?,
        })
    }
}

/// Applies a gradient that was computed when the sum was `seen`.
fn revise(value: &mut f32, sum: &mut f32, z: &mut f32, largest: &mut f32, (gradient, seen): (f32, f32)) {
    let missed = *sum - seen;
    let before = STEP / largest.sqrt();
    *z += gradient * gradient + 2.0 * gradient * missed;
    *largest = largest.max(*z);
    let after = STEP / largest.sqrt();
    *value += (before - after) * missed - after * gradient;
    *sum += gradient;
}

/// One pass over all ratings: the sum of squared errors, each before its own step.
fn pass(cluster: &Cluster, ratings: &Matrix, w: &Parameters, h: &Parameters) -> hemiola::Result<(f64, Run)> {
    let loss = cluster.accumulator::<f64>();
    let w_gradients = w.values.buffered_with3(&w.sums, &w.z, &w.largest, revise).every(LATE);
    let h_gradients = h.values.buffered_with3(&h.sums, &h.z, &h.largest, revise).every(LATE);
    let run = parallel_for!(
        cluster,
        for ([u, i], rating) in ratings {
            let (wu, hi) = (&w.values[u], &h.values[i]);
            let error = rating - dot(wu, hi);
            for k in 0..RANK {
                // What a worker has not applied yet it adds up; the sum it has seen is the same for all of that.
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

/// Ratings of users for items, one in five known.
fn made_up(cluster: &Cluster, shape: [u64; 2]) -> hemiola::Result<Matrix> {
    let all = cluster.from_fn(shape, |[u, i]| 3.0 + ((u % 7) * (i % 5)) as f32 / 12.0)?;
    all.entries().filter(|[u, i], _| (u * 31 + i * 17) % 5 == 0).materialize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola::loops::Plan;
    use hemiola::loops::plan::Placement;
    use std::collections::BTreeMap;

    type Ratings = Vec<([u64; 2], f32)>;
    type Cells = Vec<Vec<f32>>;
    /// Gradients that wait, by row.
    type Waiting = BTreeMap<usize, Vec<(f32, f32)>>;

    /// Values, sums, z and largest z.
    #[derive(PartialEq)]
    struct Twin([Cells; 4]);

    impl Twin {
        fn of(parameters: &Parameters) -> hemiola::Result<Self> {
            let rows = |array: &Matrix| {
                let cells: Vec<f32> = array.collect()?.into_iter().map(|(_, value)| value).collect();
                Ok::<_, hemiola::Error>(cells.chunks_exact(RANK).map(<[f32]>::to_vec).collect())
            };
            let Parameters { values, sums, z, largest } = parameters;
            Ok(Self([rows(values)?, rows(sums)?, rows(z)?, rows(largest)?]))
        }

        fn apply(&mut self, waiting: Waiting) {
            let [values, sums, z, largest] = &mut self.0;
            for (row, gradients) in waiting {
                for (k, gradient) in gradients.into_iter().enumerate() {
                    let cell = (&mut values[row][k], &mut sums[row][k], &mut z[row][k], &mut largest[row][k]);
                    revise(cell.0, cell.1, cell.2, cell.3, gradient);
                }
            }
        }
    }

    fn placement(plan: &Plan, name: &str) -> Placement {
        plan.arrays.iter().find(|array| array.name == name).expect("it is in the loop").placement
    }

    /// The same loop in plain Rust: every part uses some ratings, then all gradients are applied, part after part.
    fn serial(plan: &Plan, ratings: Ratings, w: &mut Twin, h: &mut Twin) {
        let own = |name| matches!(placement(plan, name), Placement::Local { .. } | Placement::Rotating { .. });
        let (w_own, h_own) = (own("w.values"), own("h.values"));
        for parts in plan.in_steps(ratings) {
            let largest = parts.iter().map(Vec::len).max().unwrap_or(0);
            for start in (0..largest).step_by(LATE as usize) {
                let mut handed_in = Vec::new();
                for part in &parts {
                    let (mut w_waiting, mut h_waiting) = (Waiting::new(), Waiting::new());
                    for ([u, i], rating) in part.iter().skip(start).take(LATE as usize) {
                        let (u, i) = (*u as usize, *i as usize);
                        let (wu, hi) = (&w.0[0][u], &h.0[0][i]);
                        let error = rating - dot(wu, hi);
                        let w_row = w_waiting.entry(u).or_insert_with(|| vec![(0.0, 0.0); RANK]);
                        let h_row = h_waiting.entry(i).or_insert_with(|| vec![(0.0, 0.0); RANK]);
                        for k in 0..RANK {
                            w_row[k] = (w_row[k].0 + LAMBDA * wu[k] - error * hi[k], w.0[1][u][k]);
                            h_row[k] = (h_row[k].0 + LAMBDA * hi[k] - error * wu[k], h.0[1][i][k]);
                        }
                    }
                    // Rows that nobody else has are up to date at once; the others wait for all workers.
                    if w_own {
                        w.apply(std::mem::take(&mut w_waiting));
                    }
                    if h_own {
                        h.apply(std::mem::take(&mut h_waiting));
                    }
                    handed_in.push((w_waiting, h_waiting));
                }
                for (w_waiting, h_waiting) in handed_in {
                    w.apply(w_waiting);
                    h.apply(h_waiting);
                }
            }
        }
    }

    #[test]
    fn equals_the_serial_loop_with_equally_late_gradients() {
        for (peers, workers) in (1..=3).flat_map(|peers| (1..=4).map(move |workers| (peers, workers))) {
            let program = |cluster: &Cluster| {
                let ratings = made_up(cluster, [60, 80])?;
                let (w, h) = (Parameters::new(cluster, 60, 1)?, Parameters::new(cluster, 80, 2)?);
                let (mut w_twin, mut h_twin) = (Twin::of(&w)?, Twin::of(&h)?);
                let mut losses = Vec::new();
                for _ in 0..2 {
                    let (loss, run) = pass(cluster, &ratings, &w, &h)?;
                    assert_eq!(run.plan().cuts.parts(), peers * workers, "{}", run.plan());
                    let ratings = ratings.collect()?;
                    if cluster.is_root() {
                        serial(run.plan(), ratings, &mut w_twin, &mut h_twin);
                    }
                    losses.push(loss);
                }
                assert!(losses[1] < losses[0], "it learns: {losses:?}");
                Ok((Twin::of(&w)?, Twin::of(&h)?) == (w_twin, h_twin))
            };
            let equal = hemiola::standalone(peers).workers(workers).run(program).expect("it runs");
            assert!(equal[0], "not the same bits on {peers} peers with {workers} workers");
        }
    }

    #[test]
    fn a_gradient_that_missed_nothing_takes_the_step_of_adagrad() {
        let (mut value, mut sum, mut z, mut largest) = (1.0, 5.0, 2.0, 2.0);
        revise(&mut value, &mut sum, &mut z, &mut largest, (3.0, 5.0));
        assert_eq!((value, sum, z, largest), (1.0 - STEP / 11.0_f32.sqrt() * 3.0, 8.0, 11.0, 11.0));
    }
}
