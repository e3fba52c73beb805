//! Matrix factorization: quality, repeatability, odd data, saving.

use hemiola::Cluster;
use hemiola::array::synthetic::Mf;
use hemiola::prelude::*;
use hemiola_models::MatrixFactorization;
use hemiola_models::mf::{Loss, Model, data};
use hemiola_models::training::{Nobody, Progress, Watch, Wish};

fn ratings(cluster: &Cluster) -> hemiola::Result<DistArray<f32, 2>> {
    data::made_up(cluster, &Mf::new(60, 40, 1200, 4, 3).noise(0.1))
}

fn bits(model: &Model) -> hemiola::Result<Vec<u32>> {
    let factors = [model.user_factors.collect()?, model.item_factors.collect()?].concat();
    Ok(factors.into_iter().map(|(_, value)| value.to_bits()).collect())
}

#[test]
fn it_learns_and_the_same_number_of_workers_gives_the_same_bits_on_any_number_of_peers() {
    let train = |peers: usize, workers: usize| {
        let trained = standalone_fit(peers, workers, |builder| builder.rank(8).epochs(15).valid(0.1));
        let first = trained.first().unwrap().clone();
        assert!(trained.iter().all(|other| *other == first), "all peers have the same model");
        first
    };
    let (bits, rmse) = train(1, 4);
    // Ratings have a deviation of about one.
    assert!(rmse < 0.7, "{rmse}");
    assert_eq!(train(1, 4).0, bits);
    assert_eq!(train(2, 2).0, bits);
    assert_eq!(train(4, 1).0, bits);
}

fn standalone_fit(
    peers: usize,
    workers: usize,
    settings: impl Fn(hemiola_models::mf::Builder) -> hemiola_models::mf::Builder + Sync,
) -> Vec<(Vec<u32>, f64)> {
    hemiola::standalone(peers)
        .workers(workers)
        .run(|cluster| {
            let trained = settings(MatrixFactorization::builder()).build()?.fit(cluster, &ratings(cluster)?)?;
            let rmse = trained.report.result.valid.as_ref().map_or(0.0, |valid| valid["rmse"]);
            Ok((bits(&trained.model)?, rmse))
        })
        .unwrap()
}

#[test]
fn a_model_is_the_same_after_saving_and_loading_on_other_peers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let pairs = [[0, 0], [5, 7], [59, 39]];
    let saved = hemiola::standalone(2)
        .run(|cluster| {
            let trained = MatrixFactorization::builder().rank(5).epochs(3).build()?.fit(cluster, &ratings(cluster)?)?;
            trained.model.save(cluster, &path)?;
            Ok((trained.model.predict(cluster, &pairs)?, trained.model.recommend(cluster, 3, 4, &[])?))
        })
        .unwrap();
    let loaded = hemiola::standalone(3)
        .workers(2)
        .run(|cluster| {
            let model = Model::load(cluster, &path)?;
            Ok((model.predict(cluster, &pairs)?, model.recommend(cluster, 3, 4, &[])?))
        })
        .unwrap();
    assert_eq!(saved[0], loaded[2]);
}

#[test]
fn recommendations_are_the_best_predictions_without_what_is_known() {
    hemiola::standalone(2)
        .run(|cluster| {
            let model =
                MatrixFactorization::builder().rank(4).epochs(4).build()?.fit(cluster, &ratings(cluster)?)?.model;
            let pairs: Vec<[u64; 2]> = (0..model.shape()[1]).map(|item| [7, item]).collect();
            let mut all: Vec<(u64, f32)> = (0..).zip(model.predict(cluster, &pairs)?).collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let seen = [all[0].0, all[2].0];
            let best: Vec<u64> = model.recommend(cluster, 7, 3, &seen)?.iter().map(|(item, _)| *item).collect();
            assert_eq!(best, [all[1].0, all[3].0, all[4].0]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn odd_data_is_learned_or_refused() {
    hemiola::standalone(2)
        .workers(2)
        .run(|cluster| {
            let fit = |ratings: &DistArray<f32, 2>| {
                MatrixFactorization::builder().rank(16).epochs(3).valid(0.0).build()?.fit(cluster, ratings)
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
            assert_eq!(error, "there are no ratings to learn from; check the input");
            Ok(())
        })
        .unwrap();
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let refused = |builder: hemiola_models::mf::Builder| builder.build().unwrap_err().to_string();
    assert_eq!(refused(MatrixFactorization::builder().rank(0)), "rank is 0, which must be from 1 to 4096");
    assert_eq!(refused(MatrixFactorization::builder().step(0.0)), "step is 0, which must be above 0 and at most 10");
    assert_eq!(
        refused(MatrixFactorization::builder().valid(1.0)),
        "valid is 1, which must be a share from 0 to below 1"
    );
}

#[test]
fn a_pass_that_diverges_is_repeated_with_half_the_step_and_said_so() {
    hemiola::standalone(1)
        .run(|cluster| {
            let huge = data::made_up(cluster, &Mf::new(60, 40, 1200, 4, 3))?;
            let huge = huge.entries().map(|_, rating| rating * 1e4).materialize()?;
            let trained =
                MatrixFactorization::builder().step(10.0).epochs(3).valid(0.0).build()?.fit(cluster, &huge)?;
            let notes: Vec<_> = trained.report.progress.iter().filter_map(|progress| progress.note.as_ref()).collect();
            assert!(notes.iter().any(|note| note.contains("repeated with half the step")), "{notes:?}");
            assert!(trained.report.result.objective.is_finite());
            Ok(())
        })
        .unwrap();
}

#[test]
fn yes_and_no_are_learned_with_the_logistic_loss() {
    hemiola::standalone(1)
        .workers(2)
        .run(|cluster| {
            let all = cluster.from_fn([50, 40], |[user, item]| if (user + item) % 2 == 0 { 1.0 } else { -1.0_f32 })?;
            let known = all.entries().filter(|[user, item], _| (user * 3 + item) % 4 != 0).materialize()?;
            let builder = MatrixFactorization::builder().loss(Loss::Logistic).rank(4).epochs(60).l2(0.01).valid(0.0);
            let model = builder.build()?.fit(cluster, &known)?.model;
            let chances = model.predict(cluster, &[[0, 0], [0, 1]])?;
            assert!(chances[0] > 0.8 && chances[1] < 0.2, "{chances:?}");
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_watcher_hears_of_every_epoch_and_can_end_it() {
    struct Count(Vec<u32>);
    impl Watch for Count {
        fn progress(&mut self, progress: &Progress) -> Wish {
            self.0.push(progress.epoch);
            if progress.epoch == 2 { Wish::Stop } else { Wish::GoOn }
        }
    }
    let heard = hemiola::standalone(2)
        .run(|cluster| {
            let mut count = Count(Vec::new());
            let ratings = ratings(cluster)?;
            let settings = MatrixFactorization::builder().rank(4).build()?;
            let trained = settings.fit_watched(cluster, &ratings, None, &mut count)?;
            assert_eq!(trained.report.result.ended, "it was asked to");
            settings.fit_watched(cluster, &ratings, None, &mut Nobody)?;
            Ok(count.0)
        })
        .unwrap();
    assert_eq!(heard, [[1, 2], [1, 2]]);
}

#[test]
#[expect(clippy::print_stdout, reason = "how tests learn of data, and say that there is none")]
fn real_ratings_are_predicted_as_well_as_by_others() {
    let Some(folder) = std::env::var_os("HEMIOLA_DATA").map(std::path::PathBuf::from) else {
        println!("skipped: HEMIOLA_DATA is unset");
        return;
    };
    let file = |name: &str| folder.join("movielens-100k").join(name).to_str().unwrap().to_owned();
    let rmse = hemiola::standalone(1)
        .workers(2)
        .run(|cluster| {
            let train = data::read(cluster, None, &file("u1.base.zst"))?;
            let test = data::aligned(&data::read(cluster, None, &file("u1.test.zst"))?, &train)?;
            let trained =
                MatrixFactorization::builder().build()?.fit_watched(cluster, &train, Some(&test), &mut Nobody)?;
            Ok(trained.report.result.valid.unwrap()["rmse"])
        })
        .unwrap()
        .remove(0);
    assert!(rmse <= 0.928, "{rmse}");
}

/// Ratings in another unit, by users and items of one number.
fn fit_scaled(scale: f32, valid: f64) -> (f64, f64) {
    let run = |cluster: &Cluster| {
        let ratings = ratings(cluster)?.entries().map(|_, rating| rating * scale).materialize()?;
        let builder = MatrixFactorization::builder().rank(4).epochs(20).valid(valid);
        let trained = builder.build()?.fit(cluster, &ratings)?;
        let rmse = trained.report.result.valid.as_ref().map_or(0.0, |valid| valid["rmse"]);
        let row = trained.model.fold_in(cluster, &[(0, 4.0 * scale), (3, 2.0 * scale), (7, 5.0 * scale)])?;
        let best = trained.model.predict_for(cluster, &row, &[5])?[0];
        Ok((rmse / f64::from(scale), f64::from(best / scale)))
    };
    hemiola::standalone(1).workers(2).run(run).unwrap()[0]
}

#[test]
fn the_unit_of_ratings_does_not_matter() {
    let (rmse, folded) = fit_scaled(1.0, 0.1);
    // Powers of four are exact in all that is computed with, roots included.
    assert_eq!(fit_scaled(256.0, 0.1), (rmse, folded));
    for scale in [20.0, 1e6, 1e-6] {
        let (other, other_folded) = fit_scaled(scale, 0.1);
        assert!((other / rmse - 1.0).abs() < 0.02, "{scale}: {other} for {rmse}");
        assert!((other_folded - folded).abs() < 0.02, "{scale}: {other_folded} for {folded}");
    }
}

#[test]
fn training_that_has_come_to_its_end_does_not_diverge() {
    hemiola::standalone(1)
        .run(|cluster| {
            let one = cluster.from_fn([1, 1], |_| 3.0_f32)?.entries().materialize()?;
            let builder = MatrixFactorization::builder().rank(4).epochs(400).valid(0.0);
            let trained = builder.build()?.fit(cluster, &one)?;
            assert_eq!(trained.report.progress.len(), 400);
            assert!((trained.model.predict(cluster, &[[0, 0]])?[0] - 3.0).abs() < 1e-3);
            Ok(())
        })
        .unwrap();
}
