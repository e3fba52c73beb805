//! Recall and NDCG, compared with a full sort.

use crate::one_class::{builder, events};
use hemiola_array::{ArrayExt, DistArray};
use hemiola_cluster::Cluster;
use hemiola_models::mf::{MfLoss, MfModel, RankingEvaluator};
use hemiola_models::prelude::*;
use std::collections::BTreeSet;

/// Recall and NDCG from sorted predictions of all pairs.
fn by_hand(
    cluster: &Cluster,
    model: &MfModel,
    validation: &[[usize; 2]],
    known: &[[usize; 2]],
    k: usize,
) -> (f64, f64) {
    let [users, items] = model.shape();
    let (mut recall, mut ndcg, mut count) = (0.0, 0.0, 0.0);
    for user in 0..users {
        let of = |keys: &[[usize; 2]]| {
            keys.iter().filter(|key| key[0] == user).map(|key| key[1]).collect::<BTreeSet<usize>>()
        };
        let (wanted, known) = (of(validation), of(known));
        let pairs: Vec<[usize; 2]> = (0..items).filter(|item| !known.contains(item)).map(|item| [user, item]).collect();
        let scores = model.predict(cluster, &pairs).unwrap();
        if wanted.is_empty() {
            continue;
        }
        let mut all: Vec<(usize, f32)> = pairs.iter().map(|pair| pair[1]).zip(scores).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let worth = |index: usize| 1.0 / ((index + 2) as f64).log2();
        let hits: Vec<usize> = (0..k.min(all.len())).filter(|index| wanted.contains(&all[*index].0)).collect();
        recall += hits.len() as f64 / wanted.len().min(k) as f64;
        ndcg += hits.iter().map(|index| worth(*index)).sum::<f64>() / (0..wanted.len().min(k)).map(worth).sum::<f64>();
        count += 1.0;
    }
    (recall / count, ndcg / count)
}

#[test]
fn metrics_match_a_full_sort() {
    for (peers, workers) in [(1, 1), (1, 3), (3, 2)] {
        hemiola_cluster::standalone(peers)
            .workers(workers)
            .run(|cluster| {
                let all = events(cluster)?;
                let (train, test) = all.split(0.3, Seed(7))?;
                let keys = |array: &DistArray<f32, 2>| {
                    Ok::<_, hemiola_cluster::Error>(
                        array.collect()?.into_iter().map(|(key, _)| key).collect::<Vec<_>>(),
                    )
                };
                let (validation, known) = (keys(&test)?, keys(&train)?);
                let one_class = builder().rank(9).build()?.fit(cluster, &train)?.model;
                let squared = MatrixFactorization::builder().rank(4).epochs(3).validation(0.0).build()?;
                for model in [one_class, squared.fit(cluster, &train)?.model] {
                    let ranking = RankingEvaluator::new(&test, &train)?;
                    let metrics = ranking.metrics(cluster, &model, &[1, 5, 10, 100])?;
                    for k in [1, 5, 10, 100] {
                        let (recall, ndcg) = by_hand(cluster, &model, &validation, &known, k);
                        // Scores and sums over users have another order.
                        assert!((metrics[&format!("recall@{k}")] - recall).abs() < 1e-9, "{k}: {metrics:?} {recall}");
                        assert!((metrics[&format!("ndcg@{k}")] - ndcg).abs() < 1e-9, "{k}: {metrics:?} {ndcg}");
                    }
                    let users: BTreeSet<usize> = validation.iter().map(|key| key[0]).collect();
                    assert_eq!(ranking.users(cluster)?, users.len() as u64);
                }
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn ties_go_to_the_first_item_and_empty_rankings_are_rejected() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            // A model that knows only the mean scores everything alike.
            let ratings = cluster.from_fn([3, 12], |_| 1.0_f32)?;
            let known = ratings.entries().filter(|[user, item], _| user == 0 && item < 2).materialize()?;
            let settings =
                MatrixFactorization::builder().loss(MfLoss::OneClass).l2(1000.0).epochs(1).validation(0.0).build()?;
            let mut model = settings.fit(cluster, &ratings.entries().materialize()?)?.model;
            model.user_factors = cluster.zeros([3, 32])?;
            let validation = ratings.entries().filter(|[user, item], _| user == 0 && item == 2).materialize()?;
            let metrics = RankingEvaluator::new(&validation, &known)?.metrics(cluster, &model, &[1])?;
            assert_eq!((metrics["recall@1"], metrics["ndcg@1"]), (1.0, 1.0));
            let empty = validation.entries().filter(|_, _| false).materialize()?;
            // Training items cannot be relevant.
            for nothing in [&empty, &known] {
                let error =
                    RankingEvaluator::new(nothing, &known)?.metrics(cluster, &model, &[1]).unwrap_err().to_string();
                assert!(error.starts_with("no validation entry is left to rank"), "{error}");
            }
            Ok(())
        })
        .unwrap();
}
