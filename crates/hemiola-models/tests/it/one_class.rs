//! Implicit feedback: objective, reproducibility, quality, unusual data.

use hemiola_array::{ArrayExt, DistArray};
use hemiola_cluster::Cluster;
use hemiola_core::rng::PhiloxRng;
use hemiola_loops::parallel_for;
use hemiola_models::mf::{MfBuilder, MfLoss, MfModel, data};
use hemiola_models::prelude::*;
use hemiola_models::training::CheckpointInterval;

const USERS: usize = 90;
const ITEMS: usize = 70;

/// Users and items of four kinds; users pick items of their own kind, the first ones more often,
/// some of them twice.
pub(crate) fn events(cluster: &Cluster) -> hemiola_cluster::Result<DistArray<f32, 2>> {
    let random = PhiloxRng::new(5);
    let all = cluster.from_fn([USERS, ITEMS], |[user, item]| {
        let chance = if user % 4 == item % 4 { 0.8 } else { 0.05 } * 30.0 / (item + 30) as f64;
        if random.random_f64((user * ITEMS + item) as u64, 0) < chance { 1.0 + (item % 2) as f32 } else { 0.0 }
    })?;
    all.entries().filter(|_, weight| *weight > 0.0).materialize()
}

pub(crate) fn builder() -> MfBuilder {
    MatrixFactorization::builder().loss(MfLoss::OneClass).rank(5).epochs(6).validation(0.0)
}

fn rows(array: &DistArray<f32, 2>) -> hemiola_cluster::Result<Vec<Vec<f64>>> {
    let width = array.shape().extent(1);
    let cells: Vec<f64> = array.collect()?.into_iter().map(|(_, value)| f64::from(value)).collect();
    Ok(cells.chunks(width).map(<[f64]>::to_vec).collect())
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The objective, summed over all pairs one by one.
fn objective(model: &MfModel, events: &[([usize; 2], f32)]) -> hemiola_cluster::Result<f64> {
    let (w, h) = (rows(&model.user_factors)?, rows(&model.item_factors)?);
    let settings = &model.settings;
    let (unobserved, l2, nu) =
        (f64::from(settings.unobserved_weight), f64::from(settings.l2), f64::from(settings.frequency_exponent));
    let mut sum = 0.0;
    for ([user, item], weight) in events {
        sum += f64::from(*weight) * (1.0 - product(&w[*user], &h[*item])).powi(2);
    }
    for w in &w {
        sum += h.iter().map(|h| unobserved * product(w, h).powi(2)).sum::<f64>();
    }
    for (side, rows, others) in [(0, &w, h.len()), (1, &h, w.len())] {
        for (number, row) in rows.iter().enumerate() {
            let count = events.iter().filter(|(key, _)| key[side] == number).count();
            sum += l2 * (count as f64 + unobserved * others as f64).powf(nu) * product(row, row);
        }
    }
    Ok(sum)
}

#[test]
fn the_objective_covers_all_pairs_and_decreases() {
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let events = events(cluster)?;
            // Exact solver, and conjugate gradients.
            for (nu, rank) in [(1.0, 5), (0.5, 16), (1.0, 70), (0.5, 100)] {
                let trained = builder().rank(rank).frequency_exponent(nu).build()?.fit(cluster, &events)?;
                let expected = objective(&trained.model, &events.collect()?)? / events.len() as f64;
                let last = trained.report.progress.last().unwrap().objective;
                // Tolerance of single precision.
                assert!((last / expected - 1.0).abs() < 1e-5, "{last} {expected}");
                let falls = |pair: &[f64]| pair[1] <= pair[0] * (1.0 + 1e-6);
                let objectives: Vec<f64> = trained.report.progress.iter().map(|epoch| epoch.objective).collect();
                assert!(objectives.windows(2).all(falls), "{objectives:?}");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_row_is_optimal_for_the_other_side() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let events = events(cluster)?;
            let model = builder().build()?.fit(cluster, &events)?.model;
            let all = events.collect()?;
            let least = objective(&model, &all)?;
            // Items were solved last: no perturbation of any of them, in any direction, decreases
            // the objective.
            for (at, change) in [([0, 0], 1e-2), ([3, 4], -1e-2), ([69, 2], 1e-2), ([20, 1], -1e-2)] {
                let mut moved = model.clone();
                let [row, factor] = at;
                moved.item_factors = model.item_factors.entries().map(|_, value| value).materialize()?.to_dense(0.0)?;
                let items = &mut moved.item_factors;
                parallel_for!(
                    cluster,
                    for i in 0..ITEMS {
                        if i == row {
                            items[i][factor] += change;
                        }
                    }
                )?;
                assert!(objective(&moved, &all)? > least, "{at:?}");
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn the_same_number_of_workers_gives_the_same_bits_on_any_number_of_peers() {
    let train = |rank: u32, peers: usize, workers: usize| {
        let program = |cluster: &Cluster| {
            let trained = builder().rank(rank).epochs(3).validation(0.2).build()?.fit(cluster, &events(cluster)?)?;
            let model = [trained.model.user_factors.collect()?, trained.model.item_factors.collect()?].concat();
            let bits: Vec<u32> = model.into_iter().map(|(_, value)| value.to_bits()).collect();
            let metrics: Vec<_> = trained.report.progress.into_iter().map(|at| (at.objective, at.validation)).collect();
            Ok((bits, metrics))
        };
        let all = hemiola_cluster::standalone(peers).workers(workers).run(program).unwrap();
        assert!(all.iter().all(|peer| *peer == all[0]), "all peers have the same model");
        all[0].clone()
    };
    let all = [(1, vec![(1, 1)]), (2, vec![(2, 1)]), (4, vec![(2, 2), (4, 1)])];
    // Exact solver, and conjugate gradients.
    for (rank, (total, others)) in [20, 70].into_iter().flat_map(|rank| all.iter().map(move |of| (rank, of))) {
        let expected = train(rank, 1, *total);
        for (peers, workers) in others {
            let (bits, metrics) = train(rank, *peers, *workers);
            assert_eq!(metrics, expected.1, "rank {rank}, {peers} peers with {workers} workers");
            assert!(bits == expected.0, "rank {rank}, {peers} peers with {workers} workers");
        }
    }
}

#[test]
fn resumed_training_is_bit_identical() {
    let lab = tempfile::tempdir().unwrap();
    let train = |rank: u32, epochs: u32, resume: Option<bool>| {
        let folder = lab.path().join(format!("rank-{rank}"));
        let program = |cluster: &Cluster| {
            let (train, validation) = events(cluster)?.split(0.2, Seed(3))?;
            let options = resume.map_or_else(FitOptions::new, |resume| {
                FitOptions::new()
                    .with_checkpoints(Checkpoints::new(&folder).interval(CheckpointInterval::Epochs(1)).resume(resume))
            });
            let settings = builder().rank(rank).epochs(epochs).build()?;
            let trained = settings.fit_with(cluster, &train, Some(&validation), options)?;
            let model = [trained.model.user_factors.collect()?, trained.model.item_factors.collect()?].concat();
            let objectives: Vec<f64> = trained.report.progress.iter().map(|at| at.objective).collect();
            Ok((model.into_iter().map(|(_, value)| value.to_bits()).collect::<Vec<u32>>(), objectives))
        };
        hemiola_cluster::standalone(2).workers(2).run(program).unwrap().remove(0)
    };
    for rank in [5, 70] {
        let whole = train(rank, 6, None);
        train(rank, 2, Some(false));
        assert!(train(rank, 6, Some(true)) == whole, "rank {rank}");
    }
}

#[test]
fn recommendations_match_the_kind_of_the_user() {
    hemiola_cluster::standalone(1)
        .workers(2)
        .run(|cluster| {
            let trained = builder().epochs(20).validation(0.2).build()?.fit(cluster, &events(cluster)?)?;
            let validation = trained.report.result.validation.unwrap();
            // A random ranking would reach a seventh.
            assert!(validation["recall@10"] > 0.5 && validation["ndcg@10"] > 0.3, "{validation:?}");
            let best = trained.model.recommend(cluster, 6, 8, &[])?;
            assert!(best.iter().all(|(item, _)| item % 4 == 2), "{best:?}");
            Ok(())
        })
        .unwrap();
}

#[test]
fn unusual_events_are_trained_or_rejected() {
    hemiola_cluster::standalone(2)
        .workers(2)
        .run(|cluster| {
            // Users and items without events have no factors.
            let events = cluster.from_fn([9, 8], |_| 1.0_f32)?;
            let some = events.entries().filter(|[user, item], _| user < 3 && item == 5 || user == 8).materialize()?;
            let some = some.entries().filter(|[_, item], _| item != 7).materialize()?;
            for rank in [30, 80] {
                let model = builder().rank(rank).build()?.fit(cluster, &some)?.model;
                let scores = model.predict(cluster, &[[0, 5], [0, 0], [6, 5]])?;
                assert!(scores[0] > 0.5 && scores[0] > scores[1] && scores[2] == 0.0, "{rank}: {scores:?}");
            }
            let negative = events.entries().map(|[user, _], _| 1.0 - user as f32).materialize()?;
            let error = builder().build()?.fit(cluster, &negative).unwrap_err().to_string();
            let expected = "the rating of user `1` for item `0` is `0`; the loss `one-class` takes weights above 0; ";
            assert!(error.starts_with(expected), "{error}");
            // Extreme weights: the equations lose all precision.
            let heavy = some.entries().map(|[_, item], _| 1e30 * (1.0 + item as f32)).materialize()?;
            for rank in [30, 80] {
                let error = builder().rank(rank).l2(0.0).build()?.fit(cluster, &heavy).unwrap_err().to_string();
                assert!(error.starts_with("the normal equations of a row are singular"), "{rank}: {error}");
            }
            Ok(())
        })
        .unwrap();
    let error = builder().unobserved_weight(0.0).build().unwrap_err().to_string();
    assert_eq!(error, "`unobserved_weight` is `0`, which must be above 0 and at most 1000");
    assert_eq!(
        builder().frequency_exponent(3.0).build().unwrap_err().to_string(),
        "`frequency_exponent` is `3`, which must be from 0 to 2"
    );
}

#[test]
fn movielens_ranking_matches_published_results() {
    let folder = hemiola_testkit::require!(hemiola_testkit::data("movielens-100k"));
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let validation = hemiola_cluster::standalone(1)
        .workers(2)
        .run(|cluster| {
            let liked = |file: &str| {
                let ratings = data::read(cluster, None, file)?;
                data::from_threshold(&ratings, 4.0)
            };
            let train = liked(&file("u1.base.zst"))?;
            let test = data::aligned(&liked(&file("u1.test.zst"))?, &train)?;
            let settings = MatrixFactorization::builder().loss(MfLoss::OneClass).build()?;
            let trained = settings.fit_with(cluster, &train, Some(&test), FitOptions::new())?;
            Ok(trained.report.result.validation.unwrap())
        })
        .unwrap()
        .remove(0);
    assert!(validation["ndcg@10"] >= 0.3, "{validation:?}");
}
