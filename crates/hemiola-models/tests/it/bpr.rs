//! Bayesian personalized ranking: quality against popularity, reproducibility, unusual data.

use crate::one_class::events;
use crate::resumed_bits;
use hemiola_array::{ArrayExt as _, DistArray};
use hemiola_cluster::{Cluster, Result};
use hemiola_models::mf::{MfBuilder, MfLoss, MfModel};
use hemiola_models::prelude::*;
use std::cmp::Ordering;

fn builder() -> MfBuilder {
    MatrixFactorization::builder().loss(MfLoss::Bpr).rank(6).epochs(4).validation(0.0)
}

fn factor_bits(model: &MfModel) -> Vec<u32> {
    [&model.user_factors, &model.item_factors]
        .into_iter()
        .flat_map(|array| array.collect().unwrap())
        .map(|(_, value)| value.to_bits())
        .collect()
}

/// Mean over users of the probability that an item of `test` scores higher than one of neither set.
fn area(train: &[Vec<bool>], test: &[Vec<bool>], score: impl Fn(usize, usize) -> f32) -> f64 {
    let (mut sum, mut users) = (0.0, 0.0);
    for (user, (train, test)) in train.iter().zip(test).enumerate() {
        let of = |wanted: bool| {
            let items = (0..train.len()).filter(move |item| !train[*item] && test[*item] == wanted);
            items.map(|item| score(user, item)).collect::<Vec<f32>>()
        };
        let (positive, negative) = (of(true), of(false));
        if positive.is_empty() || negative.is_empty() {
            continue;
        }
        let wins = |score: &f32| {
            negative
                .iter()
                .map(|other| match score.total_cmp(other) {
                    Ordering::Greater => 1.0,
                    Ordering::Equal => 0.5,
                    Ordering::Less => 0.0,
                })
                .sum::<f64>()
        };
        sum += positive.iter().map(wins).sum::<f64>() / (positive.len() * negative.len()) as f64;
        users += 1.0;
    }
    sum / users
}

fn matrix(events: &DistArray<f32, 2>, [users, items]: [usize; 2]) -> Result<Vec<Vec<bool>>> {
    let mut all = vec![vec![false; items]; users];
    events.collect()?.into_iter().for_each(|([user, item], _)| all[user][item] = true);
    Ok(all)
}

#[test]
fn ranking_beats_popularity() {
    let areas = hemiola_cluster::standalone(2).run(|cluster| {
        let events = events(cluster)?;
        let (train, test) = events.split(0.2, Seed(3))?;
        let model = builder().epochs(40).build()?.fit(cluster, &train)?.model;
        let shape = model.shape();
        let pairs: Vec<[usize; 2]> =
            (0..shape[0]).flat_map(|user| (0..shape[1]).map(move |item| [user, item])).collect();
        let scores = model.predict(cluster, &pairs)?;
        let (train, test) = (matrix(&train, shape)?, matrix(&test, shape)?);
        let popularity: Vec<f32> =
            (0..shape[1]).map(|item| train.iter().filter(|user| user[item]).count() as f32).collect();
        Ok((
            area(&train, &test, |user, item| scores[user * shape[1] + item]),
            area(&train, &test, |_, item| popularity[item]),
        ))
    });
    let (ranking, popularity) = areas.unwrap()[0];
    assert!(ranking > 0.85 && ranking > popularity + 0.1, "{ranking} {popularity}");
}

#[test]
fn the_loss_falls_and_validation_selects_by_ranking() {
    let fit = hemiola_cluster::standalone(1).workers(2).run(|cluster| {
        let ranked = builder().epochs(25).validation(0.2).build()?.fit(cluster, &events(cluster)?)?;
        Ok(ranked.report)
    });
    let report = fit.unwrap().swap_remove(0);
    let losses: Vec<f64> = report.progress.iter().map(|progress| progress.objective).collect();
    // Factors start near 0, where the chance of each order is one half.
    assert!((losses[0] - 2.0_f64.ln()).abs() < 0.1 && losses[losses.len() - 1] < 0.6, "{losses:?}");
    assert!(report.result.validation.unwrap()["ndcg@10"] > 0.2);
}

#[test]
fn the_model_has_the_same_bits_on_any_cluster() {
    let trained = |peers: usize, workers: usize| {
        let models = hemiola_cluster::standalone(peers).workers(workers).run(|cluster| {
            let fit = builder().build()?.fit(cluster, &events(cluster)?)?;
            let objectives: Vec<u64> = fit.report.progress.iter().map(|one| one.objective.to_bits()).collect();
            Ok((factor_bits(&fit.model), objectives))
        });
        models.unwrap().swap_remove(0)
    };
    let serial = trained(1, 1);
    for (peers, workers) in [(1, 3), (2, 1), (4, 1), (3, 2)] {
        assert!(trained(peers, workers) == serial, "{peers} peers of {workers} workers");
    }
}

#[test]
fn resumed_training_has_the_same_bits_on_other_clusters_too() {
    let bpr = |epochs: u32| builder().epochs(epochs).build().unwrap();
    let whole = resumed_bits(events, &bpr, &[(6, 1, 2)], factor_bits);
    for runs in [&[(2, 1, 2), (6, 1, 2)][..], &[(1, 1, 1), (3, 2, 1), (6, 4, 1)]] {
        assert_eq!(resumed_bits(events, &bpr, runs, factor_bits), whole, "{runs:?}");
    }
}

#[test]
fn a_new_user_is_folded_in() {
    let ranks = hemiola_cluster::standalone(2).run(|cluster| {
        let model = builder().epochs(40).build()?.fit(cluster, &events(cluster)?)?.model;
        // Items of kind 1, as users of kind 1 pick them.
        let user = model.fold_in(cluster, &[(1, 1.0), (5, 1.0), (9, 1.0), (13, 1.0)])?;
        model.recommend_for(cluster, &user, 6, &[1, 5, 9, 13])
    });
    let best = ranks.unwrap().swap_remove(0);
    let same = best.iter().filter(|(item, _)| item % 4 == 1).count();
    assert!(same >= 4, "{best:?}");
}

#[test]
fn unsuitable_data_are_refused_with_a_reason() {
    let error = |value: fn([usize; 2]) -> f32| {
        let fitted = hemiola_cluster::standalone(2).run(|cluster: &Cluster| {
            let events = cluster.from_fn([6, 5], value)?.entries().materialize()?;
            builder().build()?.fit(cluster, &events)
        });
        fitted.unwrap_err().to_string()
    };
    assert!(error(|_| 1.0).contains("every user has events with all items"));
    assert!(
        error(|[user, item]| if [user, item] == [2, 3] { f32::NAN } else { 1.0 })
            .contains("the loss `bpr` takes weights above 0")
    );
}
