//! Sparse logistic regression between two processes: rows prefetched in bulk, beside one request per read.
//!
//! Every feature occurs once, so without prefetching every read of a remote row is a request.

use super::timed;
use hemiola::loops::BufferExt;
use hemiola::loops::expand::probing::{CapturePlain as _, CaptureShared as _};
use hemiola::loops::expand::{Access, AccessMode, CaptureProbe, LoopSite, Subscript, for_each_entry};
use hemiola::parallel_for;
use hemiola_array::{ArrayExt, DistArray};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Seed;
use hemiola_core::rng::Permutation;
use std::borrow::Cow;
use std::time::Duration;

const SAMPLES: usize = 2_000;
const FEATURES_PER_SAMPLE: usize = 100;
const FEATURES: usize = SAMPLES * FEATURES_PER_SAMPLE;
const STEP: f32 = 0.1;

/// The features of a sample and their values.
type Sample = Vec<(u32, f32)>;

fn samples(cluster: &Cluster) -> Result<DistArray<Sample, 1>> {
    let numbers = Permutation::new(FEATURES as u64, Seed(5));
    cluster.from_fn([SAMPLES], |[sample]| {
        let features = sample * FEATURES_PER_SAMPLE..(sample + 1) * FEATURES_PER_SAMPLE;
        features.map(|at| (numbers.apply(at as u64) as u32, 1.0 + (at % 3) as f32)).collect()
    })
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// Speed-up of an epoch by prefetching rows in bulk.
pub(super) fn prefetch_speedup(cluster: &Cluster, rounds: u32) -> Result<f64> {
    let samples = samples(cluster)?;
    let w = cluster.zeros::<f32, 1>([FEATURES])?;
    let mut best = [Duration::MAX; 2];
    // One request per read takes long: few rounds are enough to see a factor.
    for round in 0..=rounds.min(3) {
        cluster.barrier()?;
        let ((), bulk) = timed(cluster, || in_bulk(cluster, &samples, &w))?;
        cluster.barrier()?;
        let ((), one_by_one) = timed(cluster, || one_by_one(cluster, &samples, &w))?;
        if round > 0 {
            best = [best[0].min(bulk), best[1].min(one_by_one)];
        }
    }
    Ok(best[1].as_secs_f64() / best[0].as_secs_f64())
}

fn in_bulk(cluster: &Cluster, samples: &DistArray<Sample, 1>, w: &DistArray<f32, 1>) -> Result<()> {
    let gradient = w.buffered(|w: &mut f32, g: f32| *w -= STEP * g);
    let run = parallel_for!(
        cluster,
        for (sample, features) in samples {
            let mut margin = 0.0;
            for &(j, x) in features {
                margin += w[j as usize] * x;
            }
            let error = sigmoid(margin) - (sample % 2) as f32;
            for &(j, x) in features {
                gradient[j as usize] += error * x;
            }
        }
    )?;
    assert!(
        run.prefetch_misses().iter().all(|(_, count)| *count == 0),
        "every read was foreseen: {:?}",
        run.prefetch_misses()
    );
    Ok(())
}

/// Expansion of `parallel_for!` for the same loop, without the slice that prefetches its reads.
static ONE_BY_ONE: LoopSite = LoopSite {
    file: file!(),
    line: line!(),
    column: column!(),
    ordered: false,
    repeated: false,
    explain: false,
    indices: &["sample"],
    space: "samples",
    names: &["w", "gradient", "step"],
    accesses: &[
        Access {
            name: 0,
            subscripts: Cow::Borrowed(&[Subscript::Unknown]),
            mode: AccessMode::Read,
            text: Cow::Borrowed("w[j]"),
            line: 0,
            column: 0,
        },
        Access {
            name: 1,
            subscripts: Cow::Borrowed(&[Subscript::Unknown]),
            mode: AccessMode::Update,
            text: Cow::Borrowed("gradient[j]"),
            line: 0,
            column: 0,
        },
    ],
};

fn one_by_one(cluster: &Cluster, samples: &DistArray<Sample, 1>, w: &DistArray<f32, 1>) -> Result<()> {
    let gradient = w.buffered(|w: &mut f32, g: f32| *w -= STEP * g);
    let captures = (
        CaptureProbe::<_, false>(w).capture(0),
        (CaptureProbe::<_, true>(&gradient).capture(1), ((&CaptureProbe::<_, false>(&STEP)).capture(2), ())),
    );
    let run = for_each_entry(
        cluster,
        &ONE_BY_ONE,
        samples,
        captures,
        |(w, (gradient, _)), [sample], features| {
            let margin: f32 = features.iter().map(|(j, x)| w[*j as usize] * x).sum();
            let error = sigmoid(margin) - (sample % 2) as f32;
            for (j, x) in features {
                gradient[*j as usize] += error * x;
            }
        },
        |_, _, _| {},
    )?;
    assert!(run.prefetch_misses().iter().any(|(_, count)| *count > 0), "no read was foreseen");
    Ok(())
}
