//! A request to stop ends training within an epoch, for every model.

use crate::labelled;
use hemiola_array::DistArray;
use hemiola_array::dist::LabelledData;
use hemiola_array::synthetic::SyntheticMf;
use hemiola_cluster::{Cluster, Error, Result, StopRequest, standalone};
use hemiola_models::fm::FmLoss;
use hemiola_models::lda::{Corpus, LdaExecutionMode, LdaSampler, LdaVocabulary};
use hemiola_models::linear::LinearLoss;
use hemiola_models::mf::{MfLoss, data};
use hemiola_models::prelude::*;
use hemiola_models::selection::{FoldBy, FoldObserver, FoldResult, cross_validate_with};
use hemiola_models::sparse::SparseLoss;
use hemiola_models::training::{Callback, EpochProgress, TrainingControl, TrainingReport};
use std::sync::Arc;

const PAIRS: [[Option<usize>; 2]; 3] = [[Some(3), Some(1)], [Some(70), Some(8)], [Some(70), Some(50)]];
const CLUSTERS: [(usize, usize); 3] = [(1, 1), (1, 2), (2, 1)];

/// Callback that asks to stop after an epoch, but lets the next one begin.
struct AskAfter {
    epoch: u32,
    stop: StopRequest,
}

impl Callback for AskAfter {
    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        if progress.epoch == self.epoch {
            self.stop.request();
        }
        TrainingControl::Continue
    }
}

/// Trains on each cluster, where one peer is asked to stop after an epoch; 0 is before the first.
fn asked<E: Estimator>(
    after: u32,
    data: impl Fn(&Cluster) -> Result<E::Data> + Sync,
    estimator: impl Fn() -> E + Sync,
    check: impl Fn(Result<(E::Model, TrainingReport)>) + Sync,
) {
    for (peers, workers) in CLUSTERS {
        let run = standalone(peers).workers(workers).run(|cluster| {
            let data = data(cluster)?;
            // Only the last peer is asked.
            let asks = cluster.rank().index() == peers - 1;
            let stop = if asks { cluster.stop_request().clone() } else { StopRequest::default() };
            if after == 0 {
                stop.request();
            }
            let mut callback = AskAfter { epoch: after, stop };
            let fit = estimator().fit_with(cluster, &data, None, FitOptions::new().with_callback(&mut callback));
            check(fit.map(|fit| (fit.model, fit.report)));
            Ok(())
        });
        run.unwrap();
    }
}

fn ratings(cluster: &Cluster) -> Result<DistArray<f32, 2>> {
    let made =
        SyntheticMf { users: 80, items: 60, entries: 2000, rank: 4, noise: 0.3, seed: 3, ..SyntheticMf::default() };
    data::synthetic(cluster, &made.generator())
}

fn events(cluster: &Cluster) -> Result<DistArray<f32, 2>> {
    data::from_threshold(&ratings(cluster)?, 2.0)
}

fn examples(cluster: &Cluster) -> Result<LabelledData> {
    let cell = |[row, column]: [usize; 2]| ((row * 7 + column * 13) % 11) as f32 / 10.0 + f32::from(row % 3 == column);
    labelled(cluster, [400, 6], cell, |row| f32::from(row % 3 == 0))
}

fn documents(cluster: &Cluster) -> Result<Corpus> {
    let mut builder = Corpus::builder(Arc::new(LdaVocabulary::numbered(50)));
    for document in 0..60_u32 {
        if document as usize % cluster.size() == cluster.rank().index() {
            builder.push((0..20).map(|word| ((document * 3 + word * 7) % 50, 1 + word % 3)))?;
        }
    }
    builder.gather(cluster)
}

/// Checks that a model has no epoch if it is asked before the first one.
fn has_no_model<E: Estimator>(
    name: &str,
    data: impl Fn(&Cluster) -> Result<E::Data> + Sync,
    estimator: impl Fn() -> E + Sync,
) {
    asked(0, data, estimator, |fit| match fit {
        Err(Error::Stopped) => {}
        Ok((_, report)) => panic!("{name} has trained {} epochs", report.progress.len()),
        Err(error) => panic!("{name}: {error}"),
    });
}

#[test]
fn every_model_leaves_its_first_epoch() {
    for loss in [MfLoss::Squared, MfLoss::OneClass, MfLoss::Bpr] {
        let data = |cluster: &Cluster| if loss == MfLoss::Squared { ratings(cluster) } else { events(cluster) };
        has_no_model(&format!("{loss:?}"), data, || {
            MatrixFactorization::builder().rank(4).loss(loss).validation(0.0).build().unwrap()
        });
    }
    for loss in [LinearLoss::Logistic, LinearLoss::SquaredHinge] {
        has_no_model(&format!("{loss:?}"), examples, || LinearClassifier::builder(loss).build().unwrap());
    }
    for loss in [FmLoss::Squared, FmLoss::Logistic] {
        has_no_model(&format!("{loss:?}"), examples, || FactorizationMachine::builder(loss).build().unwrap());
    }
    has_no_model("lasso", examples, || SparseRegression::builder(SparseLoss::Squared).build().unwrap());
    has_no_model("sparse logistic", examples, || SparseRegression::builder(SparseLoss::Logistic).build().unwrap());
    has_no_model("ridge", examples, || RidgeRegression::builder().build().unwrap());
    has_no_model("softmax", examples, || SoftmaxRegression::builder().build().unwrap());
    for batch_size in [0, 16] {
        let features = |cluster: &Cluster| Ok(examples(cluster)?.features);
        let kmeans = || KMeans::builder(4).batch_size(batch_size).build().unwrap();
        has_no_model(&format!("k-means, {batch_size}"), features, kmeans);
    }
}

#[test]
fn a_sweep_over_documents_is_cut_short() {
    for mode in [LdaExecutionMode::Rotation, LdaExecutionMode::Tables { staleness: 0, budget: None }] {
        for sampler in [LdaSampler::Exact, LdaSampler::Sparse, LdaSampler::MetropolisHastings] {
            let lda = || TopicModelling::builder(3).mode(mode).sampler(sampler).sweeps(50).build().unwrap();
            asked(2, documents, lda, |fit| {
                let (_, report) = fit.unwrap();
                assert_eq!(
                    (report.progress.len(), report.result.stopped_by_callback()),
                    (3, true),
                    "{mode:?} {sampler:?}"
                );
                let notes: Vec<_> = report.progress.iter().map(|epoch| epoch.note.is_some()).collect();
                assert_eq!(notes, [false, false, true]);
            });
        }
    }
}

#[test]
fn the_model_is_that_after_the_last_whole_epoch() {
    let factorization =
        |epochs: u32| move || MatrixFactorization::builder().rank(4).validation(0.0).epochs(epochs).build().unwrap();
    for (peers, workers) in CLUSTERS {
        let expected = standalone(peers).workers(workers).run(|cluster| {
            let model = factorization(2)().fit(cluster, &ratings(cluster)?)?.model;
            model.predict_any(cluster, &PAIRS)
        });
        let expected = expected.unwrap();
        let found = standalone(peers).workers(workers).run(|cluster| {
            let mut callback = AskAfter { epoch: 2, stop: cluster.stop_request().clone() };
            let options = FitOptions::new().with_callback(&mut callback);
            let fit = factorization(50)().fit_with(cluster, &ratings(cluster)?, None, options)?;
            assert_eq!((fit.report.progress.len(), fit.report.result.stopped_by_callback()), (2, true));
            fit.model.predict_any(cluster, &PAIRS)
        });
        assert_eq!(found.unwrap(), expected);
    }
}

#[test]
fn a_time_limit_ends_an_epoch_that_has_no_end() {
    // The epoch ends by the request alone: its batches are endless for a test.
    let run = standalone(1).run(|cluster| {
        let data = examples(cluster)?;
        let limits = hemiola_models::training::TrainingLimits {
            epochs: u32::MAX,
            seconds: Some(0.01),
            target: None,
            patience: None,
        };
        let machine = FactorizationMachine::builder(FmLoss::Logistic).limits(limits).build()?;
        Ok(machine.fit(cluster, &data)?.report.result.stop_reason)
    });
    assert_eq!(run.unwrap(), ["time limit reached"]);
}

#[test]
fn folds_end_within_an_epoch() {
    struct AskInFold(StopRequest);
    impl FoldObserver for AskInFold {
        fn on_epoch(&mut self, fold: usize, _: &EpochProgress) -> TrainingControl {
            if fold == 2 {
                self.0.request();
            }
            TrainingControl::Continue
        }

        fn on_fold(&mut self, _: &FoldResult, _: usize) -> TrainingControl {
            TrainingControl::Continue
        }
    }
    let folds = standalone(2).run(|cluster| {
        let estimator = MatrixFactorization::builder().rank(4).validation(0.0).epochs(5).build()?;
        let mut observer = AskInFold(cluster.stop_request().clone());
        let folds = (4, &FoldBy::Record, Seed(1));
        Ok(cross_validate_with(cluster, &estimator, &ratings(cluster)?, folds, &mut observer)?.folds.len())
    });
    assert_eq!(folds.unwrap(), [1, 1]);
}
