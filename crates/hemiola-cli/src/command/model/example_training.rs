//! Training of the models of examples: `hemiola train fm`, `ridge`, `softmax` and `kmeans`.
//!
//! The four commands differ in their settings and in the role of the label. Data, validation set,
//! first line, checkpoints and report are handled here for all of them. **Invariant:** as in all
//! training commands, everything that can be checked before data are read is checked then.

use super::folds::{self, FoldArgs, FoldColumnArgs};
use super::input_args::input_paths;
use super::linear::{ExampleFileArgs, ExampleUse, columns_summary, refuse_without_data};
use super::metric_arg::MetricArg;
use super::progress::MetricColumns;
use super::read_hints::ReadHints;
use super::search::{SearchArgs, SearchInput};
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use super::weight_args::WeightColumnArg;
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use clap::Args;
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_models::input::InputSchema;
use hemiola_models::linear::data::LinearExamples;
use hemiola_models::selection::{FoldBy, Tunable};
use hemiola_models::training::{ClusterInfo, FitOptions, TrainingLimits, TrainingReport};
use serde::Serialize;
use std::process::ExitCode;

/// Arguments of all models of examples.
#[derive(Args, Debug)]
pub(super) struct ExampleArgs {
    /// Files, folders or patterns with examples, or `-` for standard input [default: 20000 synthetic
    /// examples]
    #[arg(long, short, value_name = "FILES", num_args = 1..)]
    data: Vec<String>,

    #[command(flatten)]
    reading: ExampleFileArgs,

    /// Validation set: a fraction of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "FRACTION|FILES", default_value = "0")]
    validation: String,

    #[command(flatten)]
    pub(super) common: TrainArgs,
}

/// Arguments of models whose settings can be chosen by held-out examples.
#[derive(Args, Debug)]
pub(super) struct TuningArgs {
    #[command(flatten)]
    folds: FoldArgs,

    #[command(flatten)]
    fold_columns: FoldColumnArgs,

    #[command(flatten)]
    metric: MetricArg,

    /// Search, in place of one training.
    #[arg(skip)]
    pub(super) search: Option<SearchArgs>,
}

impl TuningArgs {
    /// Returns true if rows are selected: by folds, or for the trials of a search.
    fn selects_rows(&self) -> bool {
        self.search.is_some() || self.folds.folds.is_some()
    }
}

/// Meaning of the labels of examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelKind {
    /// Classes: numbers or names.
    Classes,
    /// Quantities.
    Quantities,
    /// The model ignores labels.
    Ignored,
}

/// Examples of a training run.
pub(super) struct ExampleSets {
    pub(super) train: LabelledData,
    pub(super) validation: Option<LabelledData>,
    /// Class names by label; empty for numeric labels.
    pub(super) names: Vec<String>,
    /// Layout of the files; `None` for synthetic examples.
    pub(super) schema: Option<InputSchema>,
    /// Weights of the training examples, if a column has them.
    pub(super) weights: Option<Vec<f32>>,
}

/// Training run of a model of examples, as specified by flags.
pub(super) struct ExampleJob<'a> {
    /// Kind of the model.
    pub(super) kind: &'static str,
    pub(super) labels: LabelKind,
    /// Treatment of indices: libFM counts them from 0.
    pub(super) detect_zero_based: bool,
    pub(super) columns: MetricColumns,
    pub(super) limits: &'a TrainingLimits,
    /// Column of the weights of examples.
    pub(super) weight: Option<&'a str>,
    /// Choice of settings, if the model has any.
    pub(super) tuning: Option<&'a TuningArgs>,
    /// *Collective.* Trains the model; returns the exit code.
    pub(super) run: &'a dyn Fn(ExampleRun<'_>) -> Result<u8>,
}

/// Training run whose data were read.
pub(super) struct ExampleRun<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) sets: &'a ExampleSets,
    labels: LabelKind,
    arguments: &'a ExampleArgs,
    prepared: PreparedTraining<'a>,
}

impl ExampleRun<'_> {
    /// *Collective.* Trains once.
    pub(super) fn fit(self, fit: impl FnOnce(FitOptions<'_>) -> Result<TrainingReport>) -> Result<u8> {
        self.arguments.common.fit(self.cluster, self.prepared, fit)
    }

    /// *Collective.* Trains once, after a cross-validation if there are folds; or searches settings.
    pub(super) fn tune<E: Tunable<Data = LabelledData>>(self, estimator: &E, tuning: &TuningArgs) -> Result<u8> {
        let Self { cluster, sets, labels, arguments, prepared } = self;
        let ExampleArgs { data, reading, common, .. } = arguments;
        if let Some(search) = &tuning.search {
            let (validation, share, metric) = (sets.validation.as_ref(), arguments.drawn_share(), tuning.metric.metric);
            let input = SearchInput { estimator, data: &sets.train, validation, share, metric };
            return search.run(cluster, common, &input, prepared);
        }
        let mut cross_validation = None;
        if let Some(count) = tuning.folds.folds {
            let by = match tuning.fold_columns.by(cluster, data, reading.separator.as_deref())? {
                FoldBy::Class if labels == LabelKind::Quantities => FoldBy::Record,
                by => by,
            };
            match folds::run(cluster, common, (estimator, &sets.train), (count, &by), &prepared)? {
                Ok(report) => cross_validation = serde_json::to_value(report).ok(),
                Err(code) => return Ok(code),
            }
        }
        common.fit(cluster, prepared, |options| {
            let options = tuning.metric.apply(options);
            let mut report = estimator.fit_with(cluster, &sets.train, sets.validation.as_ref(), options)?.report;
            report.cross_validation = cross_validation;
            Ok(report)
        })
    }
}

/// Converts an error of settings.
pub(super) fn invalid_settings(error: hemiola_models::Error) -> anyhow::Error {
    anyhow::Error::from(Error::from(error))
}

impl ExampleArgs {
    /// Returns the fraction of the data for validation; `None` if files are given.
    fn share(&self) -> Option<f64> {
        self.validation.parse().ok()
    }

    /// Returns the fraction of the data that is drawn for validation.
    pub(super) fn drawn_share(&self) -> f64 {
        self.share().unwrap_or(0.0)
    }

    /// Checks flags and files, and trains on the requested peers.
    pub(super) fn execute(&self, job: &ExampleJob<'_>, settings: &impl Serialize) -> anyhow::Result<ExitCode> {
        refuse_without_data(&self.data)?;
        self.reading.check()?;
        if job.tuning.is_some_and(TuningArgs::selects_rows) {
            WeightColumnArg::refuse_with_selection()?;
        }
        self.common.check(job.kind, settings, job.tuning.is_some_and(|tuning| tuning.search.is_some()))?;
        let validation_files = self.share().is_none().then_some(&self.validation);
        self.data.iter().chain(validation_files).try_for_each(|pattern| must_exist(pattern))?;
        self.common.run(|cluster| {
            let trained = self.train(cluster, job);
            trained.map_err(|error| ReadHints::EXAMPLES.explain_in_cluster(error))
        })
    }

    fn train(&self, cluster: &Cluster, job: &ExampleJob<'_>) -> Result<u8> {
        let start = cluster.env().now();
        let lock = self.common.lock_output(cluster)?;
        let sets = self.read(cluster, job)?;
        let [_, columns] = sets.train.features.shape().extents();
        let validation = match (&sets.validation, self.share()) {
            (Some(examples), _) => format!(", {} for validation", examples.labels.len()),
            (None, Some(share)) if share > 0.0 => format!(", a fraction of {share} held out for validation"),
            _ => String::new(),
        };
        let columns_read = sets.schema.as_ref().map(columns_summary).unwrap_or_default();
        let prepared = PreparedTraining {
            headline: format!(
                "{} with {} of {}{validation}{columns_read}; {}",
                counted(sets.train.labels.len(), "example"),
                counted(sets.train.features.len(), "value"),
                counted(columns, "feature"),
                ClusterInfo::of(cluster)
            ),
            loading: cluster.env().now() - start,
            columns: job.columns,
            limits: job.limits,
            lock,
        };
        (job.run)(ExampleRun { cluster, sets: &sets, labels: job.labels, arguments: self, prepared })
    }

    /// *Collective.* Reads the training set, and a validation set by its layout.
    fn read(&self, cluster: &Cluster, job: &ExampleJob<'_>) -> Result<ExampleSets> {
        let wanted = ExampleUse {
            held_out: self.drawn_share(),
            without_labels: job.labels == LabelKind::Ignored,
            detect_zero_based: job.detect_zero_based,
            weight: job.weight,
        };
        let mut reading = self.reading.clone();
        reading.ignore.extend(job.tuning.iter().flat_map(|tuning| tuning.fold_columns.ignored()).cloned());
        let LinearExamples { labelled: train, names, schema, weights, .. } =
            reading.read_for(cluster, input_paths(&self.data), None, &self.common, wanted)?;
        if job.labels == LabelKind::Quantities {
            refuse_names(&names)?;
        }
        let validation = if self.share().is_some() {
            None
        } else {
            let (files, trained) = (Some((&self.validation).into()), Some((&names[..], &schema)));
            let wanted = ExampleUse { weight: None, held_out: 0.0, ..wanted };
            Some(self.reading.read_for(cluster, files, trained, &self.common, wanted)?.labelled)
        };
        let schema = (!self.data.is_empty()).then_some(schema);
        Ok(ExampleSets { train, validation, names, schema, weights })
    }
}

/// Refuses labels that are names, for models of quantities.
pub(super) fn refuse_names(names: &[String]) -> Result<()> {
    let Some(first) = names.first() else { return Ok(()) };
    let failure = CommandError::usage(format!("the labels of the examples are names, such as `{first}`"));
    let hint = "this model needs numeric labels; write two classes as two different numbers";
    Err(into_cluster_error(failure.hint(hint).into()))
}
