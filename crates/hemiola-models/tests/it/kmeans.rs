//! K-means: known optima, an objective that never increases, any cluster, unusual data.

use crate::{bits, resumed_bits};
use hemiola_array::{ArrayExt as _, DistArray};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::rng::PhiloxRng;
use hemiola_models::kmeans::{KMeansBuilder, KMeansModel};
use hemiola_models::prelude::*;

const GROUPS: usize = 6;
const COLUMNS: usize = 4;

/// Groups around corners that are far apart, of different sizes.
fn value([row, column]: [usize; 2]) -> f32 {
    let corner = if group(row) >> column & 1 == 1 { 50.0 } else { 0.0 };
    corner + PhiloxRng::new(4).normal((row * COLUMNS + column) as u64, 0, 0.0, 1.0) as f32
}

fn group(row: usize) -> usize {
    if row % 10 < 5 { 0 } else { 1 + row % 5 }
}

fn rows(cluster: &Cluster) -> Result<DistArray<f32, 2>> {
    cluster.from_fn([200, COLUMNS], value)
}

/// Rows without any structure.
fn noise(cluster: &Cluster) -> Result<DistArray<f32, 2>> {
    let random = PhiloxRng::new(6);
    let all = cluster.from_fn([300, 5], |[row, column]| random.uniform_f32((row * 5 + column) as u64, 0, 0.0..1.0))?;
    all.entries().filter(|_, value| *value > 0.3).materialize()
}

fn centers(model: &KMeansModel) -> Vec<f64> {
    (0..model.clusters()).flat_map(|cluster| model.center(cluster).to_vec()).collect()
}

fn fit(builder: &KMeansBuilder, data: fn(&Cluster) -> Result<DistArray<f32, 2>>) -> Fit<KMeansModel> {
    let fitted =
        hemiola_cluster::standalone(2).workers(2).run(|cluster| builder.clone().build()?.fit(cluster, &data(cluster)?));
    fitted.unwrap().swap_remove(0)
}

#[test]
fn separated_groups_are_found() {
    for batch_size in [0, 40] {
        for seed in 1..=5 {
            let trained = hemiola_cluster::standalone(2).run(|cluster| {
                let data = rows(cluster)?;
                let fit = KMeans::builder(GROUPS as u32)
                    .batch_size(batch_size)
                    .epochs(20)
                    .seed(seed)
                    .build()?
                    .fit(cluster, &data)?;
                Ok((fit.model.predict(cluster, &data)?, fit))
            });
            let (predictions, Fit { model, report, .. }) = trained.unwrap().swap_remove(0);
            for wanted in 0..GROUPS {
                let own: Vec<usize> = (0..200).filter(|row| group(*row) == wanted).collect();
                let cluster = predictions[own[0]].cluster;
                assert!(own.iter().all(|row| predictions[*row].cluster == cluster), "seed {seed}, group {wanted}");
                if batch_size > 0 {
                    continue;
                }
                for column in 0..COLUMNS {
                    let mean = own.iter().map(|row| f64::from(value([*row, column]))).sum::<f64>() / own.len() as f64;
                    let found = model.center(cluster as usize)[column];
                    assert!((found - mean).abs() < 1e-9, "seed {seed}, group {wanted}: {found} {mean}");
                }
            }
            if batch_size == 0 {
                assert_eq!(report.result.stop_reason, "converged");
                let inertia: f64 = predictions.iter().map(|prediction| prediction.distance.powi(2)).sum();
                assert!((report.result.objective / inertia - 1.0).abs() < 1e-9);
            }
        }
    }
}

#[test]
fn the_objective_never_increases_and_is_that_of_a_serial_run() {
    let trained = fit(&KMeans::builder(7).epochs(30).tolerance(0.0), noise);
    let objectives: Vec<f64> = trained.report.progress.iter().map(|progress| progress.objective).collect();
    // Rounding of double precision.
    assert!(objectives.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12)), "{objectives:?}");
    assert!(objectives.len() > 4);
    // Lloyd's algorithm in plain code, from the centers after the first epoch.
    let first = fit(&KMeans::builder(7).epochs(1), noise);
    let all = hemiola_cluster::standalone(1).run(|cluster| noise(cluster)?.collect()).unwrap().swap_remove(0);
    let mut points = vec![[0.0_f64; 5]; 300];
    for ([row, column], value) in all {
        points[row][column] = f64::from(value);
    }
    let mut means: Vec<Vec<f64>> = (0..7).map(|cluster| first.model.center(cluster).to_vec()).collect();
    let square = |point: &[f64; 5], mean: &[f64]| point.iter().zip(mean).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let nearest = |point: &[f64; 5], means: &[Vec<f64>]| {
        let closer = |a: &usize, b: &usize| square(point, &means[*a]).total_cmp(&square(point, &means[*b]));
        (0..7).min_by(closer).unwrap()
    };
    for _ in 1..objectives.len() {
        let owner: Vec<usize> = points.iter().map(|point| nearest(point, &means)).collect();
        for (cluster, mean) in means.iter_mut().enumerate() {
            let own: Vec<&[f64; 5]> =
                points.iter().zip(&owner).filter(|(_, to)| **to == cluster).map(|(point, _)| point).collect();
            for (column, mean) in mean.iter_mut().enumerate() {
                *mean = own.iter().map(|point| point[column]).sum::<f64>() / own.len() as f64;
            }
        }
    }
    for (found, expected) in centers(&trained.model).iter().zip(means.concat()) {
        assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    }
    let inertia: f64 = points.iter().map(|point| square(point, &means[nearest(point, &means)])).sum();
    assert!((objectives[objectives.len() - 1] / inertia - 1.0).abs() < 1e-9);
}

#[test]
fn the_model_has_the_same_bits_on_any_cluster() {
    for batch_size in [0, 32] {
        let trained = |peers: usize, workers: usize| {
            let models = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
                let builder = KMeans::builder(9).batch_size(batch_size).epochs(6).validation(0.1);
                let data = noise(cluster)?;
                let fit = builder.build()?.fit(cluster, &data)?;
                let distances = fit.model.predict(cluster, &data)?.into_iter().map(|one| one.distance);
                Ok((bits(&centers(&fit.model)), bits(&distances.collect::<Vec<_>>())))
            });
            let models = models.unwrap();
            assert!(models.iter().all(|model| *model == models[0]), "{peers} peers differ");
            models.into_iter().next().unwrap()
        };
        let serial = trained(1, 1);
        for (peers, workers) in [(1, 3), (2, 1), (4, 1), (3, 2)] {
            assert!(trained(peers, workers) == serial, "{peers} peers of {workers} workers");
        }
    }
}

#[test]
fn resumed_training_has_the_same_bits_on_other_clusters_too() {
    for batch_size in [0, 50] {
        let kmeans =
            |epochs: u32| KMeans::builder(8).batch_size(batch_size).tolerance(0.0).epochs(epochs).build().unwrap();
        let of = |model: &KMeansModel| bits(&centers(model));
        let whole = resumed_bits(noise, &kmeans, &[(5, 1, 2)], of);
        for runs in [&[(2, 1, 2), (5, 1, 2)][..], &[(1, 1, 1), (3, 2, 1), (5, 4, 1)]] {
            assert_eq!(resumed_bits(noise, &kmeans, runs, of), whole, "{runs:?}");
        }
    }
}

#[test]
fn clusters_without_rows_get_the_farthest_ones() {
    // 40 rows at the origin and three far away: all first centers but one may be at the origin.
    let data = |cluster: &Cluster| {
        cluster.from_fn([43, 2], |[row, column]| match (row, column) {
            (40, 0) | (41, 1) => 100.0,
            (42, _) => 70.0,
            _ => 0.0,
        })
    };
    for seed in 1..=6 {
        let fitted = hemiola_cluster::standalone(2).run(|cluster| {
            let data = data(cluster)?;
            let model = KMeans::builder(4).seed(seed).build()?.fit(cluster, &data)?.model;
            Ok(model.evaluate(cluster, &data)?.metrics["inertia"])
        });
        assert!(fitted.unwrap()[0] < 1e-9, "seed {seed}");
    }
    // Fewer different rows than clusters: the rest of the clusters stay empty.
    let fitted = hemiola_cluster::standalone(2).run(|cluster| {
        let data = cluster.from_fn([30, 2], |[row, column]| ((row % 2) * (column + 1)) as f32)?;
        Ok(KMeans::builder(5).build()?.fit(cluster, &data)?.report.result.objective)
    });
    assert!(fitted.unwrap()[0] < 1e-12);
}

#[test]
fn unsuitable_data_are_refused_with_a_reason() {
    let error = |clusters: u32, value: fn([usize; 2]) -> f32| {
        let fitted = hemiola_cluster::standalone(2)
            .run(|cluster| KMeans::builder(clusters).build()?.fit(cluster, &cluster.from_fn([12, 3], value)?));
        fitted.unwrap_err().to_string()
    };
    assert!(error(13, |[row, _]| row as f32).contains("13 clusters need as many rows, and there are 12"));
    let nan = |[row, column]: [usize; 2]| if [row, column] == [7, 2] { f32::NAN } else { 1.0 };
    assert!(error(2, nan).contains("the feature of example `8` in column `3` is not a finite"));
    // A column of zeros has no effect.
    let fitted = hemiola_cluster::standalone(1).run(|cluster| {
        let data = cluster.from_fn([20, 3], |[row, column]| if column == 1 { 0.0 } else { (row % 2) as f32 })?;
        Ok(KMeans::builder(2).build()?.fit(cluster, &data)?.model)
    });
    let model = fitted.unwrap().swap_remove(0);
    assert!((0..2).all(|cluster| model.center(cluster)[1] == 0.0));
}
