//! `hemiola train svm` and `hemiola train logistic`, and evaluation of their models.

use super::folds::{self, FoldArgs, FoldColumnArgs};
use super::input_args::{input_paths, print_notes, separator};
use super::metric_arg::MetricArg;
use super::preparation_args::PreparationArgs;
use super::progress::MetricColumns;
use super::read_hints::ReadHints;
use super::search::{SearchArgs, SearchInput};
use super::sparse::{PenaltyArgs, SparseTrainCommand};
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use super::train_defaults::TrainDefaults;
use super::weight_args::{WeightArgs, WeightColumnArg};
use crate::arguments::GivenFlags;
use crate::command::plot;
use crate::error::{CommandError, into_cluster_error};
use crate::graph;
use crate::plural::counted;
use clap::{Args, ValueEnum};
use hemiola::collective::{GossipExt as _, GossipSync, GossipWeights, Topology};
use hemiola_array::read::InputPaths;
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::Seed;
use hemiola_models::input::{DuplicateHandling, HeldOutRows, InputSchema};
use hemiola_models::linear::data::{self, LinearExamples, LinearReadOptions};
use hemiola_models::linear::{ConfusionMatrix, LinearEvaluation, LinearLoss, LinearModel};
use hemiola_models::sparse::SparseLoss;
use hemiola_models::training::ClusterInfo;
use hemiola_models::{Estimator, LinearClassifier};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Number of synthetic examples, used without `--data`.
const SYNTHETIC_EXAMPLES: usize = 20_000;

const AFTER_HELP: &str = "\
Examples:
  Synthetic examples:
    hemiola train svm
    hemiola train logistic

  Your own examples, and use of the model:
    hemiola train logistic --data train.libsvm --output model
    hemiola evaluate --model model --data test.libsvm
    hemiola predict --model model --data new.libsvm

  Four local peers with gossip averaging over a sparse graph:
    hemiola train svm --data train.libsvm --peers 4 --graph root-expander --report run.json

A line of data is a label and features in LIBSVM format (`+1 3:0.5 7:1`), or separated values of which the first column, or that of --label, is the label. \
Labels are numbers, or names if none is a number; there must be at least two classes. docs/guides/classify.md describes the \
mathematics, equivalents of --c in other libraries, and the report.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Arguments of `hemiola train svm`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::SVM.complete(argument)))]
pub(crate) struct TrainSvm {
    /// Loss function.
    #[arg(long, value_enum, default_value = "squared-hinge")]
    loss: HingeName,

    #[command(flatten)]
    folds: FoldArgs,

    #[command(flatten)]
    linear: LinearArgs,
}

/// Arguments of `hemiola train logistic`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::LOGISTIC.complete(argument)))]
pub(crate) struct TrainLogistic {
    /// Regularization: L2, set by --c, or L1, set by --lambda, which makes most weights 0.
    #[arg(long, value_enum, default_value = "l2")]
    penalty: PenaltyName,

    #[command(flatten)]
    penalty_args: PenaltyArgs,

    #[command(flatten)]
    linear: LinearArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PenaltyName {
    /// L1: sparse weights, for two classes.
    L1,
    /// L2: small weights.
    L2,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HingeName {
    /// Hinge loss, max(0, 1 - margin).
    Hinge,
    /// Squared hinge loss, max(0, 1 - margin)².
    SquaredHinge,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SyncName {
    /// A peer waits for its neighbours in the graph only.
    NotifyAck,
    /// All peers wait for each other.
    Barrier,
    /// No peer waits; averages may be stale.
    Async,
}

/// Format of files with examples.
#[derive(Args, Clone, Debug)]
pub(super) struct ExampleFileArgs {
    /// Feature indices of LIBSVM files count from 0.
    #[arg(long)]
    zero_based: bool,

    /// Read separated values with this field separator [default: detected]
    #[arg(long, value_name = "TEXT", value_parser = separator)]
    pub(super) separator: Option<String>,

    /// Separated values: label column, by name or number [default: the first]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,

    /// Separated values: columns to leave out, by name or number.
    #[arg(long, value_name = "COLUMN,..", value_delimiter = ',')]
    pub(super) ignore: Vec<String>,

    /// Skip up to N invalid lines of LIBSVM files.
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad_lines: u64,

    /// LIBSVM: value of a feature that occurs more than once on a line: error, first, last, mean or
    /// sum [default: error]
    #[arg(long, value_name = "CHOICE")]
    duplicates: Option<DuplicateHandling>,

    #[command(flatten)]
    preparation: PreparationArgs,
}

/// Use of columns, rows and indices by a model.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ExampleUse<'a> {
    /// Fraction of the rows that is held out for validation.
    pub(super) held_out: f64,
    /// Column of the weights of examples.
    pub(super) weight: Option<&'a str>,
    /// The model has no labels: no column is one unless `--label` names it.
    pub(super) without_labels: bool,
    /// Indices count from 0 if the index 0 occurs.
    pub(super) detect_zero_based: bool,
}

/// Arguments of both linear classifiers.
#[derive(Args, Debug)]
struct LinearArgs {
    /// Files, folders or patterns with examples, or `-` for standard input [default: 20000 synthetic
    /// examples]
    #[arg(long, short, value_name = "FILES", num_args = 1..)]
    data: Vec<String>,

    #[command(flatten)]
    reading: ExampleFileArgs,

    #[command(flatten)]
    weighting: WeightArgs,

    /// Validation set: a fraction of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "FRACTION|FILES", default_value = "0")]
    validation: String,

    /// Inverse regularization strength: C of liblinear and scikit-learn.
    #[arg(long, short, visible_short_alias = 'C', value_name = "X", default_value = "1")]
    c: f64,

    /// Value of the constant feature whose weight is the bias; 0 for no bias.
    #[arg(long, value_name = "X", default_value = "1")]
    bias: f64,

    /// Averaging rounds per epoch: local passes over the data, each followed by an average.
    #[arg(long, value_name = "N", default_value = "8", help_heading = "Averaging")]
    rounds: u32,

    /// Synchronization of gossip averaging.
    #[arg(long, value_enum, default_value = "notify-ack", help_heading = "Averaging")]
    sync: SyncName,

    /// Communication graph: complete, ring, star, root-expander, chord, halton, halton:DEGREE,
    /// random:DEGREE, two-level:PEERS, circulant:OFFSET,.., or edges:FILE with a sender and a
    /// receiver on each line
    #[arg(long, value_name = "GRAPH", default_value = "complete", value_parser = graph::FOR_TRAINING, hide_possible_values = true, help_heading = "Averaging")]
    graph: Topology,

    /// Stop when the duality gap proves the objective to be within this fraction of the minimum (of
    /// the objective at zero weights with an L1 penalty); 0 disables it.
    #[arg(long, visible_alias = "tol", value_name = "X", required = false, help_heading = "Stopping")]
    tolerance: f64,

    #[command(flatten)]
    fold_columns: FoldColumnArgs,

    #[command(flatten)]
    metric: MetricArg,

    #[command(flatten)]
    common: TrainArgs,

    #[arg(skip)]
    search: Option<SearchArgs>,

    /// Number of folds of a cross-validation.
    #[arg(skip)]
    folds: Option<u32>,
}

impl TrainSvm {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.linear.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(mut self) -> anyhow::Result<ExitCode> {
        self.linear.folds = self.folds.folds;
        self.linear.execute(match self.loss {
            HingeName::Hinge => LinearLoss::Hinge,
            HingeName::SquaredHinge => LinearLoss::SquaredHinge,
        })
    }
}

impl TrainLogistic {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.linear.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(mut self) -> anyhow::Result<ExitCode> {
        match self.penalty {
            PenaltyName::L2 if self.penalty_args.are_given_for_l1() => {
                let failure = CommandError::usage("--lambda and related flags need `--penalty l1`");
                Err(failure.hint("add `--penalty l1`, or use `-C X`").into())
            }
            PenaltyName::L2 => {
                self.linear.folds = self.penalty_args.count_of_folds()?;
                self.linear.execute(LinearLoss::Logistic)
            }
            PenaltyName::L1 => {
                let of_l2 = ["--c", "--bias", "--rounds", "--sync", "--graph", "--group-column", "--time-column"];
                GivenFlags::of_process().refuse(
                    &of_l2,
                    "the penalty `l1` is set by --lambda",
                    "leave it out, or use `--penalty l2`",
                )?;
                GivenFlags::of_process().refuse(
                    &WeightArgs::FLAGS,
                    "the penalty `l1` takes no weights",
                    "leave it out, or use `--penalty l2`",
                )?;
                let LinearArgs { data, reading, validation, tolerance, metric, common, search, .. } = &self.linear;
                let command = SparseTrainCommand {
                    data,
                    reading,
                    validation,
                    penalty: &self.penalty_args,
                    schedule: None,
                    tolerance: *tolerance,
                    metric,
                    common,
                    search: search.as_ref(),
                    loss: SparseLoss::Logistic,
                    ratio: 1.0,
                };
                command.execute()
            }
        }
    }
}

impl LinearArgs {
    fn execute(&self, loss: LinearLoss) -> anyhow::Result<ExitCode> {
        refuse_without_data(&self.data)?;
        self.reading.check()?;
        self.weighting.check()?;
        if self.search.is_some() || self.folds.is_some() {
            WeightColumnArg::refuse_with_selection()?;
        }
        let share = self.validation.parse::<f64>().ok();
        let settings = LinearClassifier::builder(loss)
            .c(self.c)
            .bias(self.bias)
            .rounds(self.rounds)
            .synchronization(match self.sync {
                SyncName::NotifyAck => GossipSync::NotifyAck,
                SyncName::Barrier => GossipSync::Barrier,
                SyncName::Async => GossipSync::Asynchronous,
            })
            .graph(self.graph.clone())
            .seed(self.common.seed)
            .validation(share.unwrap_or(0.0))
            .tolerance(self.tolerance)
            .limits(self.common.limits())
            .build()
            .map_err(|error| anyhow::Error::from(Error::from(error)))?;
        self.common.check(loss.kind(), settings.settings(), self.search.is_some())?;
        let validation_files = share.is_none().then_some(&self.validation);
        self.data.iter().chain(validation_files).try_for_each(|pattern| must_exist(pattern))?;
        self.common.run(|cluster| {
            let trained = self.train(cluster, &settings, share.is_none());
            trained.map_err(|error| ReadHints::EXAMPLES.explain_in_cluster(error))
        })
    }

    fn train(&self, cluster: &Cluster, settings: &LinearClassifier, from_files: bool) -> Result<u8> {
        let start = cluster.env().now();
        check_graph(cluster, &settings.settings().graph)?;
        let lock = self.common.lock_output(cluster)?;
        let held_out = settings.settings().validation;
        let weight = self.weighting.column();
        let mut reading = self.reading.clone();
        reading.ignore.extend(self.fold_columns.ignored().cloned());
        let LinearExamples { labelled: examples, names, schema, weights, .. } =
            reading.read_weighted(cluster, input_paths(&self.data), weight, (held_out, &self.common))?;
        let valid = if from_files {
            let trained = Some((&names[..], &schema));
            Some(self.reading.read(cluster, Some((&self.validation).into()), trained, (0.0, &self.common))?.labelled)
        } else {
            None
        };
        let columns_read = columns_summary(&schema);
        let settings = &settings.clone().named(names).with_input((!self.data.is_empty()).then_some(schema));
        let settings = &settings.clone().weighted(self.weighting.weights(weights)?);
        let [_, columns] = examples.features.shape().extents();
        let validation = match (&valid, settings.settings().validation) {
            (Some(valid), _) => format!("{} for validation", valid.labels.len()),
            (None, 0.0) => "none for validation".to_owned(),
            (None, share) => format!("a fraction of {share} held out for validation"),
        };
        let prepared = PreparedTraining {
            headline: format!(
                "{} with {} of {}, {validation}{columns_read}; {}",
                counted(examples.labels.len(), "example"),
                counted(examples.features.len(), "value"),
                counted(columns, "feature"),
                ClusterInfo::of(cluster)
            ),
            loading: cluster.env().now() - start,
            columns: MetricColumns::updates(if settings.settings().loss.has_probabilities() {
                "logloss"
            } else {
                "accuracy"
            })
            .converging("gap", self.tolerance),
            limits: &settings.settings().limits,
            lock,
        };
        if let Some(search) = &self.search {
            let (validation, share) = (valid.as_ref(), settings.settings().validation);
            let metric = self.metric.metric;
            let input = SearchInput { estimator: settings, data: &examples, validation, share, metric };
            return search.run(cluster, &self.common, &input, prepared);
        }
        let mut cross_validation = None;
        if let Some(count) = self.folds {
            let by = self.fold_columns.by(cluster, &self.data, self.reading.separator.as_deref())?;
            match folds::run(cluster, &self.common, (settings, &examples), (count, &by), &prepared)? {
                Ok(report) => cross_validation = serde_json::to_value(report).ok(),
                Err(code) => return Ok(code),
            }
        }
        self.common.fit(cluster, prepared, |options| {
            let mut fit = settings.fit_with(cluster, &examples, valid.as_ref(), self.metric.apply(options))?;
            fit.report.cross_validation = cross_validation;
            Ok(fit.report)
        })
    }
}

impl ExampleFileArgs {
    /// Returns an error, before data are read, if a setting is out of range.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.preparation.options().map(|_| ())
    }

    /// *Collective.* Reads examples, or generates synthetic ones. `trained` are class names and
    /// layout of the training set, by which a validation set is read. The preparation is not fitted to
    /// the fraction `held_out` for validation.
    pub(super) fn read(
        &self,
        cluster: &Cluster,
        paths: Option<InputPaths>,
        trained: Option<(&[String], &InputSchema)>,
        held_out: (f64, &TrainArgs),
    ) -> Result<LinearExamples> {
        let (held_out, common) = held_out;
        self.read_for(cluster, paths, trained, common, ExampleUse { held_out, ..ExampleUse::default() })
    }

    /// *Collective.* Reads examples for training, and their weights from a column.
    pub(super) fn read_weighted(
        &self,
        cluster: &Cluster,
        paths: Option<InputPaths>,
        weight: Option<&str>,
        (held_out, common): (f64, &TrainArgs),
    ) -> Result<LinearExamples> {
        self.read_for(cluster, paths, None, common, ExampleUse { held_out, weight, ..ExampleUse::default() })
    }

    /// *Collective.* Reads examples for a model with its own use of columns and indices.
    pub(super) fn read_for(
        &self,
        cluster: &Cluster,
        paths: Option<InputPaths>,
        trained: Option<(&[String], &InputSchema)>,
        common: &TrainArgs,
        wanted: ExampleUse<'_>,
    ) -> Result<LinearExamples> {
        let held_out = HeldOutRows { seed: common.seed, fraction: wanted.held_out };
        let Some(paths) = paths else {
            return Ok(LinearExamples {
                labelled: data::synthetic(cluster, SYNTHETIC_EXAMPLES, Seed(common.seed))?,
                names: Vec::new(),
                schema: InputSchema::default(),
                notes: Vec::new(),
                weights: None,
            });
        };
        let Self { zero_based, separator, label, ignore, skip_bad_lines, duplicates, preparation } = self;
        let options = LinearReadOptions {
            zero_based: *zero_based,
            skip_bad_lines: *skip_bad_lines,
            separator: separator.clone(),
            names: trained.map(|(names, _)| names.to_vec()).unwrap_or_default(),
            label: label.clone(),
            ignore: ignore.clone(),
            schema: trained.map(|(_, schema)| schema.clone()),
            without_labels: wanted.without_labels,
            detect_zero_based: wanted.detect_zero_based,
            duplicates: *duplicates,
            preparation: preparation.options().map_err(into_cluster_error)?,
            held_out,
            weight: wanted.weight.map(str::to_owned),
        };
        let examples = data::read(cluster, &options, &paths)?;
        common.report_notes(cluster, &examples.notes);
        common.report_skipped_lines(cluster, &paths.to_string(), examples.labelled.features.skipped_lines());
        Ok(examples)
    }
}

/// Refuses flags about files where no files are given.
pub(super) fn refuse_without_data(data: &[String]) -> anyhow::Result<()> {
    if !data.is_empty() {
        return Ok(());
    }
    let about_files = [
        "--zero-based",
        "--separator",
        "--label",
        "--ignore",
        "--columns",
        "--skip-bad-lines",
        "--duplicates",
        "--documents",
        "--text-column",
        "--vocabulary",
        "--format",
        "--stop-words",
        "--min-count",
        "--min-df",
        "--max-df",
        "--min-length",
        "--keep-numbers",
        "--ngrams",
    ];
    let about_files = [&about_files[..], &PreparationArgs::FLAGS].concat();
    GivenFlags::of_process().refuse(&about_files, "the data are synthetic", "add `--data FILES`, or leave it out")
}

/// Returns the part of the first line that says which column is what.
pub(super) fn columns_summary(schema: &InputSchema) -> String {
    if schema.columns.is_empty() { String::new() } else { format!("; {schema}") }
}

/// Checks, before data are read, that models can be averaged over the graph.
fn check_graph(cluster: &Cluster, topology: &Topology) -> Result<()> {
    if cluster.size() == 1 {
        return Ok(());
    }
    let graph = cluster.graph(topology)?;
    let fits = graph.check_connected().and_then(|()| GossipWeights::balanced(&graph));
    fits.map(|_| ()).map_err(|error| {
        into_cluster_error(
            CommandError::usage(error.to_string())
                .hint("choose another `--graph`; `hemiola topology --kind ..` shows the properties of a graph")
                .into(),
        )
    })
}

/// Evaluates a linear classifier for `hemiola evaluate`.
pub(super) fn evaluate(
    cluster: &Cluster,
    model: &LinearModel,
    options: LinearReadOptions,
    files: &[String],
) -> anyhow::Result<(String, LinearEvaluation)> {
    let options = LinearReadOptions { names: model.names.clone(), schema: model.input.clone(), ..options };
    let examples = data::read(cluster, &options, files)?;
    print_notes(&examples.notes);
    let evaluation = model.evaluate(cluster, &examples.labelled)?;
    let LinearEvaluation { metrics, examples, unknown_features, confusion } = &evaluation;
    let mut text = counted(*examples, "example");
    if *unknown_features > 0 {
        let _ =
            write!(text, "; ignored: {} of features the model has no weights for", counted(*unknown_features, "value"));
    }
    text.push('\n');
    for (name, value) in metrics {
        let _ = writeln!(text, "{name} {value:.4}");
    }
    text += &confusion_table(confusion.as_ref());
    Ok((text, evaluation))
}

/// Maximum number of classes whose confusion matrix is printed.
const PRINTED_CLASSES: usize = 12;

/// Returns an empty line and the confusion matrix as a table; nothing for many classes.
pub(super) fn confusion_table(confusion: Option<&ConfusionMatrix>) -> String {
    match confusion.filter(|matrix| matrix.classes.len() <= PRINTED_CLASSES) {
        Some(matrix) => format!("\n{}", plot::confusion(matrix).text(plot::terminal_width())),
        None => String::new(),
    }
}
