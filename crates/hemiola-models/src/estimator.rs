//! The contract of all model families: an [`Estimator`] is fitted to data and gives a
//! [`Predictor`], as in scikit-learn and linfa.
//!
//! | family | data | fitted model | input of a prediction | prediction |
//! |---|---|---|---|---|
//! | [`MatrixFactorization`](crate::MatrixFactorization) | ratings or events | [`MfModel`](crate::mf::MfModel) | pairs of user and item | rating |
//! | [`LinearClassifier`](crate::LinearClassifier) | labelled examples | [`LinearModel`](crate::linear::LinearModel) | features | class, scores |
//! | [`SparseRegression`](crate::SparseRegression) | labelled examples | [`SparseModel`](crate::sparse::SparseModel) | features | quantity, or class |
//! | [`FactorizationMachine`](crate::FactorizationMachine) | labelled examples | [`FmModel`](crate::fm::FmModel) | features | quantity, or class |
//! | [`RidgeRegression`](crate::RidgeRegression) | labelled examples | [`RidgeModel`](crate::ridge::RidgeModel) | features | quantity |
//! | [`SoftmaxRegression`](crate::SoftmaxRegression) | labelled examples | [`SoftmaxModel`](crate::softmax::SoftmaxModel) | features | class, probabilities |
//! | [`KMeans`](crate::KMeans) | features | [`KMeansModel`](crate::kmeans::KMeansModel) | features | cluster, distance |
//! | [`TopicModelling`](crate::TopicModelling) | documents | [`LdaModel`](crate::lda::LdaModel) | documents | mixture of topics |

use crate::Error;
use crate::training::{Checkpointable, Fit, FitOptions, MODEL_KEY};
use hemiola_array::dist::{ArrayLoader, ArraySaver};
use hemiola_cluster::{Cluster, Result};
use serde::Serialize;
use std::path::Path;

/// Settings of a model, and the algorithm that fits it to data.
///
/// An estimator holds settings alone, so one value can be fitted many times. Its builder validates
/// the settings; fitting fails for unsuitable data only.
///
/// # Contract
///
/// - **Collective calls.** All methods that take a cluster are collective: every peer calls them in
///   the same order with equal settings, and all peers get the same model and report. An error of
///   one peer, or its loss, ends the call on all of them.
/// - **Validation.** A given validation set is evaluated after every epoch, and the model of the
///   best epoch is kept; all of the data are then trained on. Without one, a random fraction of the
///   data is split off as the settings say.
/// - **Determinism.** The same settings, data and cluster give a bit-identical model. Matrix
///   factorization needs only the same number of workers in total, and topic models the same number
///   of partitions. Factorization machines, ridge and softmax regression, k-means, and matrix
///   factorization by Bayesian personalized ranking do not depend on the cluster at all.
/// - **Checkpoints.** With [`FitOptions::with_checkpoints`], the folder holds a complete model at
///   any time, which [`Predictor::load`] reads. A run that resumes from it ends with the bits of an
///   uninterrupted one, given the same settings, data and cluster. Other settings or other data are
///   an error; limits may change.
///
/// ```
/// use hemiola::{Cluster, Result};
/// use hemiola_models::linear::{LinearLoss, data};
/// use hemiola_models::prelude::*;
/// use std::path::Path;
///
/// /// Fits any model and saves it; returns the seconds of training.
/// fn train<E: Estimator>(estimator: &E, cluster: &Cluster, data: &E::Data, folder: &Path) -> Result<f64> {
///     let fit = estimator.fit(cluster, data)?;
///     fit.model.save(cluster, folder)?;
///     Ok(fit.report.result.seconds)
/// }
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("model");
///
/// hemiola::standalone(1).run(|cluster| {
///     let examples = data::synthetic(cluster, 500, Seed(1))?;
///     let svm = LinearClassifier::builder(LinearLoss::Hinge).build()?;
///     train(&svm, cluster, &examples, &folder)?;
///     let model = hemiola_models::linear::LinearModel::load(cluster, &folder)?;
///     assert_eq!(model.predict(cluster, &examples.features)?.len(), 500);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
pub trait Estimator {
    /// Training data, distributed over all peers.
    type Data;
    /// Settings of the model and of its training.
    type Settings: Serialize;
    /// Fitted model.
    type Model: Predictor;

    /// Returns the settings of the estimator.
    fn settings(&self) -> &Self::Settings;

    /// *Collective.* Trains on `data` with a callback and checkpoints as in `options`. If a
    /// validation set is given, all of `data` are trained on; else a fraction of them is split off
    /// for validation as the settings say.
    fn fit_with(
        &self,
        cluster: &Cluster,
        data: &Self::Data,
        validation: Option<&Self::Data>,
        options: FitOptions<'_>,
    ) -> Result<Fit<Self::Model>>;

    /// *Collective.* Trains on `data`, a fraction of which is split off for validation as the
    /// settings say.
    fn fit(&self, cluster: &Cluster, data: &Self::Data) -> Result<Fit<Self::Model>> {
        self.fit_with(cluster, data, None, FitOptions::new())
    }
}

/// Estimator that can also train a fitted model further, on data that arrived later.
pub trait IncrementalEstimator: Estimator {
    /// *Collective.* Trains a copy of `model` on `data`, with the settings of this estimator and
    /// without a validation set. What the model learned before stays, as far as `data` do not
    /// contradict it.
    fn partial_fit(
        &self,
        cluster: &Cluster,
        model: &Self::Model,
        data: &Self::Data,
        options: FitOptions<'_>,
    ) -> Result<Fit<Self::Model>>;
}

/// Fitted model: predicts, and is saved and loaded.
///
/// All methods that take a cluster are collective. A prediction depends on the model and its input
/// alone. A saved model is loaded on any number of peers and predicts the same there, bit for bit
/// where the sums of a prediction do not depend on the distribution of its input.
pub trait Predictor: Checkpointable {
    /// Input of a prediction: many examples, pairs or documents.
    type Input: ?Sized;
    /// Prediction for one of them.
    type Prediction;
    /// Kinds of models that [`load`](Self::load) accepts.
    const KINDS: &'static [&'static str];

    /// Returns the kind of the model in saves and reports, one of [`KINDS`](Self::KINDS).
    fn kind(&self) -> &'static str;

    /// *Collective.* Returns a prediction for each part of the input, in its order. Of input that
    /// all peers share, every peer gets all predictions; of documents, those of its own.
    fn predict(&self, cluster: &Cluster, input: &Self::Input) -> Result<Vec<Self::Prediction>>;

    /// *Collective.* Saves the model in a folder, which must be new or hold an older save.
    fn save(&self, cluster: &Cluster, folder: &Path) -> Result<()> {
        let mut save = ArraySaver::begin(cluster, folder)?;
        self.put(&mut save, "")?;
        save.put_metadata(MODEL_KEY, &self.kind());
        save.commit()
    }

    /// *Collective.* Loads a model written by [`save`](Self::save) or by training, on any number of
    /// peers. If the save is replaced meanwhile, as training does with checkpoints, the newer one
    /// is loaded.
    fn load(cluster: &Cluster, folder: &Path) -> Result<Self> {
        ArrayLoader::load_with_retry(cluster, folder, |load| {
            let kind: String = required(load, MODEL_KEY)?;
            if !Self::KINDS.contains(&kind.as_str()) {
                return Err(Error::InvalidSave { problem: format!("it is a model `{kind}`") }.into());
            }
            Self::get(load, "")
        })
    }
}

/// Returns an entry of the manifest; an error if there is none.
pub(crate) fn required<T: serde::de::DeserializeOwned>(load: &ArrayLoader, key: &str) -> Result<T> {
    Ok(load.metadata(key)?.ok_or_else(|| Error::missing(&format!("metadata `{key}`")))?)
}
