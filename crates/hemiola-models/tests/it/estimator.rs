//! The contract of all model families: one test body for every [`Estimator`].

use hemiola_array::synthetic::SyntheticMf;
use hemiola_cluster::{Cluster, Result};
use hemiola_models::fm::{FmLoss, FmPrediction};
use hemiola_models::kmeans::KMeansPrediction;
use hemiola_models::lda::{self, LdaModel, LdaSampler, TopicMixture};
use hemiola_models::linear::{self, LinearLoss, LinearModel, LinearPrediction};
use hemiola_models::mf::{self, MfModel};
use hemiola_models::prelude::*;
use hemiola_models::softmax::SoftmaxPrediction;
use hemiola_models::sparse::{Lambda, SparseLoss, SparseModel, SparsePrediction};
use std::path::Path;

type Input<E> = <<E as Estimator>::Model as Predictor>::Input;
type Prediction<E> = <<E as Estimator>::Model as Predictor>::Prediction;

/// Estimator under test, with its data and the bits of its predictions.
struct Family<E: Estimator> {
    estimator: E,
    data: fn(&Cluster) -> Result<E::Data>,
    input: fn(&E::Data) -> &Input<E>,
    bits: fn(&Prediction<E>) -> Vec<u64>,
    /// Each peer predicts its own part of the input.
    distributed: bool,
}

impl<E: Estimator + Sync> Family<E> {
    /// *Collective.* Returns the bits of all predictions, equal on every peer.
    fn predictions(&self, cluster: &Cluster, model: &E::Model) -> Result<Vec<Vec<u64>>> {
        let data = (self.data)(cluster)?;
        let mine: Vec<Vec<u64>> = model.predict(cluster, (self.input)(&data))?.iter().map(self.bits).collect();
        let mut all: Vec<Vec<Vec<u64>>> = cluster.all_gather(mine)?;
        if self.distributed {
            return Ok(all.concat());
        }
        assert!(all.iter().all(|peer| *peer == all[0]), "every peer gets all predictions");
        Ok(all.swap_remove(0))
    }

    /// *Collective.* Loads the model of a folder and predicts.
    fn loaded(&self, cluster: &Cluster, folder: &Path) -> Result<Vec<Vec<u64>>> {
        self.predictions(cluster, &E::Model::load(cluster, folder)?)
    }

    fn keeps_the_contract(&self) {
        let lab = tempfile::tempdir().unwrap();
        for peers in 1..=3 {
            let saved = lab.path().join(format!("saved-{peers}"));
            let checkpoint = lab.path().join(format!("checkpoint-{peers}"));
            let fitted = hemiola_cluster::standalone(peers).workers(2).run(|cluster| {
                let data = (self.data)(cluster)?;
                let fit = self.estimator.fit(cluster, &data)?;
                assert!(E::Model::KINDS.contains(&fit.model.kind()));
                assert_eq!(fit.report.model, fit.model.kind());
                fit.model.save(cluster, &saved)?;
                let predictions = self.predictions(cluster, &fit.model)?;
                let options = FitOptions::new().with_checkpoints(Checkpoints::new(&checkpoint));
                let again = self.estimator.fit_with(cluster, &data, None, options)?.model;
                assert!(self.predictions(cluster, &again)? == predictions, "the same seed gives the same bits");
                Ok(predictions)
            });
            let fitted = fitted.unwrap().swap_remove(0);
            assert!(!fitted.is_empty());
            for other in 1..=3 {
                for folder in [&saved, &checkpoint] {
                    let loaded =
                        hemiola_cluster::standalone(other).workers(1).run(|cluster| self.loaded(cluster, folder));
                    assert!(
                        loaded.unwrap().iter().all(|loaded| *loaded == fitted),
                        "{peers} {other} {}",
                        folder.display()
                    );
                }
            }
        }
    }
}

fn factorization() -> Family<MatrixFactorization> {
    Family {
        estimator: MatrixFactorization::builder().rank(4).epochs(3).build().unwrap(),
        data: |cluster| {
            mf::data::synthetic(
                cluster,
                &SyntheticMf { users: 60, items: 40, entries: 1200, rank: 4, seed: 3, ..SyntheticMf::default() }
                    .generator(),
            )
        },
        input: |_| &[[0, 0], [59, 39], [7, 20], [30, 1]],
        bits: |rating| vec![u64::from(rating.to_bits())],
        distributed: false,
    }
}

fn classifier() -> Family<LinearClassifier> {
    Family {
        estimator: LinearClassifier::builder(LinearLoss::Logistic).validation(0.1).epochs(3).build().unwrap(),
        data: |cluster| linear::data::synthetic(cluster, 200, Seed(4)),
        input: |examples| &examples.features,
        bits: |LinearPrediction { label, scores, probabilities, .. }| {
            [&[f64::from(*label)], &scores[..], probabilities].concat().into_iter().map(f64::to_bits).collect()
        },
        distributed: false,
    }
}

fn regression() -> Family<SparseRegression> {
    let builder = SparseRegression::builder(SparseLoss::Squared).lambda(Lambda::Share(0.05)).validation(0.1);
    Family {
        estimator: builder.build().unwrap(),
        data: |cluster| linear::data::synthetic(cluster, 200, Seed(4)),
        input: |examples| &examples.features,
        bits: |SparsePrediction { value, probability }| vec![value.to_bits(), probability.map_or(0, f64::to_bits)],
        distributed: false,
    }
}

fn machine() -> Family<FactorizationMachine> {
    Family {
        estimator: FactorizationMachine::builder(FmLoss::Logistic).rank(4).epochs(3).validation(0.1).build().unwrap(),
        data: |cluster| linear::data::synthetic(cluster, 200, Seed(4)),
        input: |examples| &examples.features,
        bits: |FmPrediction { value, probability, .. }| vec![value.to_bits(), probability.map_or(0, f64::to_bits)],
        distributed: false,
    }
}

fn ridge() -> Family<RidgeRegression> {
    Family {
        estimator: RidgeRegression::builder().validation(0.1).build().unwrap(),
        data: |cluster| linear::data::synthetic(cluster, 200, Seed(4)),
        input: |examples| &examples.features,
        bits: |value| vec![value.to_bits()],
        distributed: false,
    }
}

fn softmax() -> Family<SoftmaxRegression> {
    Family {
        estimator: SoftmaxRegression::builder().validation(0.1).epochs(3).build().unwrap(),
        data: |cluster| linear::data::synthetic(cluster, 200, Seed(4)),
        input: |examples| &examples.features,
        bits: |SoftmaxPrediction { label, probabilities, .. }| {
            std::iter::once(&f64::from(*label)).chain(probabilities).map(|value| value.to_bits()).collect()
        },
        distributed: false,
    }
}

fn kmeans() -> Family<KMeans> {
    Family {
        estimator: KMeans::builder(5).validation(0.1).epochs(3).build().unwrap(),
        data: |cluster| Ok(linear::data::synthetic(cluster, 200, Seed(4))?.features),
        input: |features| features,
        bits: |KMeansPrediction { cluster, distance }| vec![u64::from(*cluster), distance.to_bits()],
        distributed: false,
    }
}

fn topics() -> Family<TopicModelling> {
    Family {
        estimator: TopicModelling::builder(5).sampler(LdaSampler::Sparse).sweeps(3).build().unwrap(),
        data: |cluster| lda::data::synthetic(cluster, 60, Seed(3)),
        input: |corpus| corpus,
        bits: |TopicMixture { shares, tokens, unseen }| {
            shares.iter().map(|share| share.to_bits()).chain([*tokens, *unseen]).collect()
        },
        distributed: true,
    }
}

#[test]
fn matrix_factorization_keeps_the_contract() {
    factorization().keeps_the_contract();
}

#[test]
fn linear_classifiers_keep_the_contract() {
    classifier().keeps_the_contract();
}

#[test]
fn sparse_regression_keeps_the_contract() {
    regression().keeps_the_contract();
}

#[test]
fn factorization_machines_keep_the_contract() {
    machine().keeps_the_contract();
}

#[test]
fn ridge_regression_keeps_the_contract() {
    ridge().keeps_the_contract();
}

#[test]
fn softmax_regression_keeps_the_contract() {
    softmax().keeps_the_contract();
}

#[test]
fn kmeans_keeps_the_contract() {
    kmeans().keeps_the_contract();
}

#[test]
fn topic_models_keep_the_contract() {
    topics().keeps_the_contract();
}

#[test]
fn saves_of_other_families_are_refused() {
    let lab = tempfile::tempdir().unwrap();
    let folder = lab.path().join("model");
    let refused = hemiola_cluster::standalone(2).run(|cluster| {
        let examples = linear::data::synthetic(cluster, 100, Seed(4))?;
        classifier().estimator.fit(cluster, &examples)?.model.save(cluster, &folder)?;
        let errors = [
            MfModel::load(cluster, &folder).unwrap_err(),
            SparseModel::load(cluster, &folder).unwrap_err(),
            LdaModel::load(cluster, &folder).unwrap_err(),
        ];
        LinearModel::load(cluster, &folder)?;
        Ok(errors.map(|error| error.to_string()))
    });
    for error in refused.unwrap().concat() {
        assert_eq!(error, "the save is not of this model: it is a model `logistic`");
    }
}
