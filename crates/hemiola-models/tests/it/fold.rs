//! Fold-in of new users, and evaluation of cold entries.

use crate::one_class;
use hemiola_array::ArrayExt;
use hemiola_array::synthetic::SyntheticMf;
use hemiola_models::mf::{MfLoss, UserFactors, data};
use hemiola_models::prelude::*;

#[test]
fn folding_in_training_events_reproduces_the_factors() {
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let events = one_class::events(cluster)?;
            let model = one_class::builder().epochs(60).build()?.fit(cluster, &events)?.model;
            let own: Vec<(usize, f32)> = events
                .collect()?
                .into_iter()
                .filter(|(key, _)| key[0] == 6)
                .map(|(key, weight)| (key[1], weight))
                .collect();
            let (folded, trained) = (model.fold_in(cluster, &own)?, model.user_row(cluster, 6)?);
            // Training has converged, up to the last update of the items.
            let apart = folded.factors.iter().zip(&trained.factors).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart < 1e-2, "{apart}: {folded:?} {trained:?}");
            let best = |found: Vec<(usize, f32)>| found.into_iter().map(|(item, _)| item).collect::<Vec<usize>>();
            let (again, before) =
                (model.recommend_for(cluster, &folded, 5, &[])?, model.recommend(cluster, 6, 5, &[])?);
            assert_eq!(best(again), best(before));
            Ok(())
        })
        .unwrap();
}

#[test]
fn folding_in_ratings_predicts_nearly_as_well_as_training() {
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let all = data::synthetic(
                cluster,
                &SyntheticMf {
                    users: 300,
                    items: 60,
                    entries: 9000,
                    rank: 4,
                    noise: 0.1,
                    seed: 3,
                    ..SyntheticMf::default()
                }
                .generator(),
            )?;
            let (new, old): (Vec<_>, Vec<_>) = all.collect()?.into_iter().partition(|([user, _], _)| *user < 20);
            assert!(old.len() > 8000);
            let train = all.entries().filter(|[user, _], _| user >= 20).materialize()?;
            let model = MatrixFactorization::builder().rank(8).l2(0.02).epochs(30).validation(0.0).build()?;
            let model = model.fit(cluster, &train)?.model;
            let (mut cost, mut plain, mut count) = (0.0, 0.0, 0.0);
            for user in 0..20 {
                let own: Vec<(usize, f32)> =
                    new.iter().filter(|(key, _)| key[0] == user).map(|(key, rating)| (key[1], *rating)).collect();
                let (validation, known) = own.split_at(own.len() / 4);
                let row = model.fold_in(cluster, known)?;
                let items: Vec<usize> = validation.iter().map(|(item, _)| *item).collect();
                for (predicted, (_, rating)) in model.predict_for(cluster, &row, &items)?.iter().zip(validation) {
                    cost += f64::from((predicted - rating).powi(2));
                    plain += f64::from((model.mean - rating).powi(2));
                    count += 1.0;
                }
            }
            let (rmse, without) = ((cost / count).sqrt(), (plain / count).sqrt());
            assert!(rmse < without * 0.6, "{rmse} {without}");
            let empty = model.fold_in(cluster, &[])?;
            assert!(empty.bias == 0.0 && empty.factors.iter().all(|factor| *factor == 0.0), "{empty:?}");
            let error = model.fold_in(cluster, &[(60, 1.0)]).unwrap_err().to_string();
            assert_eq!(error, "the model has no item `60`; it has 60");
            Ok(())
        })
        .unwrap();
}

#[test]
fn folding_in_binary_ratings_solves_the_optimality_condition() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let all = cluster.from_fn([50, 40], |[user, item]| if (user + item) % 2 == 0 { 1.0 } else { -1.0_f32 })?;
            let known = all.entries().filter(|[user, item], _| (user * 3 + item) % 4 != 0).materialize()?;
            let builder =
                MatrixFactorization::builder().loss(MfLoss::Logistic).rank(4).epochs(60).l2(0.01).validation(0.0);
            let model = builder.build()?.fit(cluster, &known)?.model;
            let ratings: Vec<(usize, f32)> =
                (0..20).map(|item| (item, if item % 2 == 0 { 1.0 } else { 0.0 })).collect();
            let row = model.fold_in(cluster, &ratings)?;
            let items: Vec<usize> = (0..40).collect();
            let chances = model.predict_for(cluster, &row, &items)?;
            for item in 20..40 {
                assert_eq!(chances[item] > 0.5, item % 2 == 0, "{chances:?}");
            }
            // Gradient along the bias: of the loss, and of the regularization, which counts once
            // per rating.
            let slope: f32 = ratings.iter().map(|(item, rating)| rating - chances[*item]).sum();
            assert!((slope - 0.01 * 20.0 * row.bias).abs() < 1e-2, "{slope} {}", row.bias);
            Ok(())
        })
        .unwrap();
}

#[test]
fn cold_entries_are_predicted_by_the_mean_and_the_known_bias() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, lines: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, lines).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let train = file("train.csv", "a,x,5\na,y,4\nb,x,3\nb,y,1\nc,x,4\n");
    let test = file("test.csv", "a,x,5\na,z,2\nnew,y,3\nnew,z,1\n");
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let model = MatrixFactorization::builder().rank(2).epochs(5).validation(0.0).build()?;
            let model = model.fit(cluster, &data::read(cluster, None, &train)?)?.model;
            let evaluation = model.evaluate_all(cluster, &data::read(cluster, None, &test)?)?;
            assert_eq!((evaluation.entries, evaluation.cold), (4, 3));
            let a = model.mean + model.user_row(cluster, model.user("a").unwrap())?.bias;
            let without = UserFactors { factors: vec![0.0; 16], bias: 0.0 };
            let y = model.predict_for(cluster, &without, &[model.item("y").unwrap()])?[0];
            let known = model.predict(cluster, &[[model.user("a").unwrap(), model.item("x").unwrap()]])?[0];
            let errors = [known - 5.0, a - 2.0, y - 3.0, model.mean - 1.0].map(f64::from);
            let rmse = (errors.iter().map(|error| error * error).sum::<f64>() / 4.0).sqrt();
            assert!((evaluation.metrics["rmse"] - rmse).abs() < 1e-5, "{evaluation:?} {rmse}");
            Ok(())
        })
        .unwrap();
}
