//! Matrix factorization: quality, reproducibility, unusual data, saving.

use hemiola_array::synthetic::SyntheticMf;
use hemiola_array::{ArrayExt, DistArray};
use hemiola_cluster::Cluster;
use hemiola_models::mf::{MfLoss, MfModel, data};
use hemiola_models::prelude::*;
use hemiola_models::training::{Callback, EpochProgress, TrainingControl};

fn ratings(cluster: &Cluster) -> hemiola_cluster::Result<DistArray<f32, 2>> {
    data::synthetic(
        cluster,
        &SyntheticMf { users: 60, items: 40, entries: 1200, rank: 4, noise: 0.1, seed: 3, ..SyntheticMf::default() }
            .generator(),
    )
}

fn bits(model: &MfModel) -> hemiola_cluster::Result<Vec<u32>> {
    let factors = [model.user_factors.collect()?, model.item_factors.collect()?].concat();
    Ok(factors.into_iter().map(|(_, value)| value.to_bits()).collect())
}

#[test]
fn the_same_number_of_workers_gives_the_same_bits_on_any_number_of_peers() {
    let train = |peers: usize, workers: usize| {
        let trained = standalone_fit(peers, workers, |builder| builder.rank(8).epochs(15).validation(0.1));
        let first = trained.first().unwrap().clone();
        assert!(trained.iter().all(|other| *other == first), "all peers have the same model");
        first
    };
    let (bits, rmse) = train(1, 4);
    // Ratings have a standard deviation of about one.
    assert!(rmse < 0.7, "{rmse}");
    assert_eq!(train(1, 4).0, bits);
    assert_eq!(train(2, 2).0, bits);
    assert_eq!(train(4, 1).0, bits);
}

fn standalone_fit(
    peers: usize,
    workers: usize,
    settings: impl Fn(hemiola_models::mf::MfBuilder) -> hemiola_models::mf::MfBuilder + Sync,
) -> Vec<(Vec<u32>, f64)> {
    hemiola_cluster::standalone(peers)
        .workers(workers)
        .run(|cluster| {
            let trained = settings(MatrixFactorization::builder()).build()?.fit(cluster, &ratings(cluster)?)?;
            let rmse = trained.report.result.validation.as_ref().map_or(0.0, |validation| validation["rmse"]);
            Ok((bits(&trained.model)?, rmse))
        })
        .unwrap()
}

#[test]
fn saved_models_load_on_any_number_of_peers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let pairs = [[0, 0], [5, 7], [59, 39]];
    let saved = hemiola_cluster::standalone(2)
        .run(|cluster| {
            let trained = MatrixFactorization::builder().rank(5).epochs(3).build()?.fit(cluster, &ratings(cluster)?)?;
            trained.model.save(cluster, &path)?;
            Ok((trained.model.predict(cluster, &pairs)?, trained.model.recommend(cluster, 3, 4, &[])?))
        })
        .unwrap();
    let loaded = hemiola_cluster::standalone(3)
        .workers(2)
        .run(|cluster| {
            let model = MfModel::load(cluster, &path)?;
            Ok((model.predict(cluster, &pairs)?, model.recommend(cluster, 3, 4, &[])?))
        })
        .unwrap();
    assert_eq!(saved[0], loaded[2]);
}

#[test]
fn recommendations_are_the_best_predictions_without_seen_items() {
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let model =
                MatrixFactorization::builder().rank(4).epochs(4).build()?.fit(cluster, &ratings(cluster)?)?.model;
            let pairs: Vec<[usize; 2]> = (0..model.shape()[1]).map(|item| [7, item]).collect();
            let mut all: Vec<(usize, f32)> = (0..).zip(model.predict(cluster, &pairs)?).collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let seen = [all[0].0, all[2].0];
            let best: Vec<usize> = model.recommend(cluster, 7, 3, &seen)?.iter().map(|(item, _)| *item).collect();
            assert_eq!(best, [all[1].0, all[3].0, all[4].0]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn unusual_data_is_trained_or_rejected() {
    hemiola_cluster::standalone(2)
        .workers(2)
        .run(|cluster| {
            let fit = |ratings: &DistArray<f32, 2>| {
                MatrixFactorization::builder().rank(16).epochs(3).validation(0.0).build()?.fit(cluster, ratings)
            };
            let all = cluster.from_fn([5, 4], |_| 3.0_f32)?;
            let constant = fit(&all.entries().materialize()?)?;
            let predicted = constant.model.predict(cluster, &[[4, 3]])?[0];
            assert!((predicted - 3.0).abs() < 0.05, "{predicted}");
            let one_user = cluster.from_fn([1, 4], |[_, item]| item as f32)?;
            assert!(fit(&one_user.entries().materialize()?)?.report.result.objective.is_finite());
            let one_rating = cluster.from_fn([9, 9], |_| 1.0_f32)?;
            let one_rating = one_rating.entries().filter(|key, _| key == [8, 8]).materialize()?;
            assert!(fit(&one_rating)?.report.result.objective.is_finite());
            let none = all.entries().filter(|_, _| false).materialize()?;
            let error = fit(&none).unwrap_err().to_string();
            assert_eq!(error, "there are no ratings to train on; check the input");
            Ok(())
        })
        .unwrap();
}

#[test]
fn invalid_settings_are_rejected() {
    let refused = |builder: hemiola_models::mf::MfBuilder| builder.build().unwrap_err().to_string();
    assert_eq!(refused(MatrixFactorization::builder().rank(0)), "`rank` is `0`, which must be from 1 to 4096");
    assert_eq!(
        refused(MatrixFactorization::builder().learning_rate(0.0)),
        "`learning_rate` is `0`, which must be above 0 and at most 10"
    );
    assert_eq!(
        refused(MatrixFactorization::builder().validation(1.0)),
        "`validation` is `1`, which must be a fraction from 0 to below 1"
    );
}

#[test]
fn a_diverged_epoch_is_repeated_with_half_the_learning_rate() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let huge = data::synthetic(
                cluster,
                &SyntheticMf { users: 60, items: 40, entries: 1200, rank: 4, seed: 3, ..SyntheticMf::default() }
                    .generator(),
            )?;
            let huge = huge.entries().map(|_, rating| rating * 1e4).materialize()?;
            let trained = MatrixFactorization::builder()
                .learning_rate(10.0)
                .epochs(3)
                .validation(0.0)
                .build()?
                .fit(cluster, &huge)?;
            let notes: Vec<_> = trained.report.progress.iter().filter_map(|progress| progress.note.as_ref()).collect();
            assert!(notes.iter().any(|note| note.contains("repeated with half the learning rate")), "{notes:?}");
            assert!(trained.report.result.objective.is_finite());
            Ok(())
        })
        .unwrap();
}

#[test]
fn binary_ratings_are_trained_with_the_logistic_loss() {
    hemiola_cluster::standalone(1)
        .workers(2)
        .run(|cluster| {
            let all = cluster.from_fn([50, 40], |[user, item]| if (user + item) % 2 == 0 { 1.0 } else { -1.0_f32 })?;
            let known = all.entries().filter(|[user, item], _| (user * 3 + item) % 4 != 0).materialize()?;
            let builder =
                MatrixFactorization::builder().loss(MfLoss::Logistic).rank(4).epochs(60).l2(0.01).validation(0.0);
            let model = builder.build()?.fit(cluster, &known)?.model;
            let chances = model.predict(cluster, &[[0, 0], [0, 1]])?;
            assert!(chances[0] > 0.8 && chances[1] < 0.2, "{chances:?}");
            Ok(())
        })
        .unwrap();
}

#[test]
fn callbacks_see_every_epoch_and_can_stop() {
    struct EpochRecorder(Vec<u32>);
    impl Callback for EpochRecorder {
        fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
            self.0.push(progress.epoch);
            if progress.epoch == 2 { TrainingControl::Stop } else { TrainingControl::Continue }
        }
    }
    let heard = hemiola_cluster::standalone(2)
        .run(|cluster| {
            let mut count = EpochRecorder(Vec::new());
            let ratings = ratings(cluster)?;
            let settings = MatrixFactorization::builder().rank(4).validation(0.0).build()?;
            let options = FitOptions::new().with_callback(&mut count);
            let trained = settings.fit_with(cluster, &ratings, None, options)?;
            assert_eq!(trained.report.result.stop_reason, "stopped by callback");
            settings.fit(cluster, &ratings)?;
            Ok(count.0)
        })
        .unwrap();
    assert_eq!(heard, [[1, 2], [1, 2]]);
}

#[test]
fn movielens_rmse_matches_published_results() {
    let folder = hemiola_testkit::require!(hemiola_testkit::data("movielens-100k"));
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let rmse = hemiola_cluster::standalone(1)
        .workers(2)
        .run(|cluster| {
            let train = data::read(cluster, None, file("u1.base.zst"))?;
            let test = data::aligned(&data::read(cluster, None, file("u1.test.zst"))?, &train)?;
            let settings = MatrixFactorization::builder().build()?;
            let trained = settings.fit_with(cluster, &train, Some(&test), FitOptions::new())?;
            Ok(trained.report.result.validation.unwrap()["rmse"])
        })
        .unwrap()
        .remove(0);
    assert!(rmse <= 0.928, "{rmse}");
}

/// Ratings in another unit, by users and items of one number.
fn fit_scaled(scale: f32, validation: f64) -> (f64, f64) {
    let run = |cluster: &Cluster| {
        let ratings = ratings(cluster)?.entries().map(|_, rating| rating * scale).materialize()?;
        let builder = MatrixFactorization::builder().rank(4).epochs(20).validation(validation);
        let trained = builder.build()?.fit(cluster, &ratings)?;
        let rmse = trained.report.result.validation.as_ref().map_or(0.0, |validation| validation["rmse"]);
        let row = trained.model.fold_in(cluster, &[(0, 4.0 * scale), (3, 2.0 * scale), (7, 5.0 * scale)])?;
        let best = trained.model.predict_for(cluster, &row, &[5])?[0];
        Ok((rmse / f64::from(scale), f64::from(best / scale)))
    };
    hemiola_cluster::standalone(1).workers(2).run(run).unwrap()[0]
}

#[test]
fn the_unit_of_ratings_does_not_matter() {
    let (rmse, folded) = fit_scaled(1.0, 0.1);
    // Powers of four are exact in all computations, square roots included.
    assert_eq!(fit_scaled(256.0, 0.1), (rmse, folded));
    for scale in [20.0, 1e6, 1e-6] {
        let (other, other_folded) = fit_scaled(scale, 0.1);
        assert!((other / rmse - 1.0).abs() < 0.02, "{scale}: {other} for {rmse}");
        assert!((other_folded - folded).abs() < 0.02, "{scale}: {other_folded} for {folded}");
    }
}

#[test]
fn converged_training_does_not_diverge() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let one = cluster.from_fn([1, 1], |_| 3.0_f32)?.entries().materialize()?;
            let builder = MatrixFactorization::builder().rank(4).epochs(400).validation(0.0);
            let trained = builder.build()?.fit(cluster, &one)?;
            assert_eq!(trained.report.progress.len(), 400);
            assert!((trained.model.predict(cluster, &[[0, 0]])?[0] - 3.0).abs() < 1e-3);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_model_is_trained_further_on_later_ratings() {
    hemiola_cluster::standalone(2)
        .run(|cluster| {
            let (before, later) = ratings(cluster)?.split(0.4, Seed(7))?;
            let settings = MatrixFactorization::builder().rank(4).epochs(20).validation(0.0).build()?;
            let model = settings.fit(cluster, &before)?.model;
            let further = settings.partial_fit(cluster, &model, &later, FitOptions::new())?.model;
            let rmse =
                |model: &MfModel, ratings| Ok::<f64, hemiola_cluster::Error>(model.evaluate(cluster, ratings)?["rmse"]);
            assert!(rmse(&further, &later)? < 0.7 * rmse(&model, &later)?);
            // The ratings trained on before still count, and the first model is unchanged.
            assert!(rmse(&further, &before)? < rmse(&model, &later)?);
            let again = settings.fit(cluster, &before)?.model;
            assert_eq!(rmse(&again, &later)?.to_bits(), rmse(&model, &later)?.to_bits());
            Ok(())
        })
        .unwrap();
}

#[test]
fn unsuitable_ratings_and_settings_are_not_trained_further() {
    hemiola_cluster::standalone(1)
        .run(|cluster| {
            let known = cluster.from_fn([5, 4], |[user, item]| (user + item) as f32)?.entries().materialize()?;
            let more = cluster.from_fn([6, 4], |[user, item]| (user + item) as f32)?.entries().materialize()?;
            let builder = || MatrixFactorization::builder().rank(4).epochs(2).validation(0.0);
            let model = builder().build()?.fit(cluster, &known)?.model;
            let refused = |builder: hemiola_models::mf::MfBuilder, ratings| {
                let fit = builder.build()?.partial_fit(cluster, &model, ratings, FitOptions::new());
                Ok::<String, hemiola_cluster::Error>(fit.unwrap_err().to_string())
            };
            assert!(refused(builder(), &more)?.starts_with("`4` ratings are of users or items that the model"));
            let of_model = "which must be that of the model to be trained further";
            assert_eq!(refused(builder().rank(8), &known)?, format!("`rank` is `8`, {of_model}"));
            assert_eq!(refused(builder().loss(MfLoss::Logistic), &known)?, format!("`loss` is `logistic`, {of_model}"));
            assert!(refused(builder().loss(MfLoss::OneClass), &known)?.contains("train on all events"));
            Ok(())
        })
        .unwrap();
}
