//! `hemiola train lasso`, `elastic-net` and `logistic --penalty l1`, and evaluation of their
//! models.

use super::example_training::refuse_names;
use super::input_args::{input_paths, print_notes};
use super::linear::{ExampleFileArgs, columns_summary, confusion_table, refuse_without_data};
use super::metric_arg::MetricArg;
use super::progress::{MetricColumns, TrainingBar, time};
use super::read_hints::ReadHints;
use super::search::{SearchArgs, SearchInput};
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use super::train_defaults::TrainDefaults;
use crate::error::CommandError;
use crate::plural::counted;
use clap::{Args, ValueEnum};
use hemiola_array::dist::LabelledData;
use hemiola_array::read::InputPaths;
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_models::input::InputSchema;
use hemiola_models::linear::data::{self, LinearExamples, LinearReadOptions};
use hemiola_models::sparse::{
    CoefficientPath, CoordinateSchedule, Lambda, LambdaGrid, RegularizationReport, SparseEvaluation, SparseLoss,
    SparseModel, UpdateOrder,
};
use hemiola_models::training::{ClusterInfo, Fit};
use hemiola_models::{Estimator, SparseRegression};
use serde_json::json;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Penalties that cross-validation tries; the smallest is a fraction of the largest.
const GRID: LambdaGrid = LambdaGrid { count: 50, min_ratio: 1e-3 };

const AFTER_HELP: &str = "\
Examples:
  A tenth of the smallest penalty that makes all coefficients 0, and use of the model:
    hemiola train lasso --data train.csv --output model
    hemiola evaluate --model model --data test.csv
    hemiola predict --model model --data new.csv

  Penalty by cross-validation, or the sparsest model within one standard error of the best:
    hemiola train lasso --data train.csv --folds 5
    hemiola train lasso --data train.csv --folds 5 --one-standard-error

A line of data is a target and features in LIBSVM format (`2.5 3:0.5 7:1`), or separated values of which the first column, or that of \
--label, is the target. docs/guides/sparse-regression.md describes the mathematics, equivalents of --lambda in other libraries, and the report.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Arguments of `hemiola train lasso`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::SPARSE.complete(argument)))]
pub(crate) struct TrainLasso {
    #[command(flatten)]
    sparse: SparseArgs,
}

/// Arguments of `hemiola train elastic-net`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::SPARSE.complete(argument)))]
pub(crate) struct TrainElasticNet {
    /// L1 fraction of the penalty: `l1_ratio` of scikit-learn.
    #[arg(long, value_name = "X", default_value = "0.5")]
    l1_ratio: f64,

    #[command(flatten)]
    sparse: SparseArgs,
}

/// Arguments of the L1 penalty.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(super) struct PenaltyArgs {
    /// Regularization strength: `alpha` of scikit-learn, lambda of glmnet.
    #[arg(long, visible_alias = "alpha", value_name = "X", conflicts_with_all = ["lambda_ratio", "folds"])]
    lambda: Option<f64>,

    /// Regularization strength as a fraction of the smallest lambda that makes all coefficients 0
    /// [default: 0.1]
    #[arg(long, value_name = "X", conflicts_with = "folds")]
    lambda_ratio: Option<f64>,

    /// Choose lambda by cross-validation with N folds.
    #[arg(long, visible_alias = "cv", value_name = "N")]
    folds: Option<usize>,

    /// With --folds: choose the largest lambda within one standard error of the best.
    #[arg(long, requires = "folds")]
    one_standard_error: bool,

    /// Penalize coefficients as if all columns had variance 1.
    #[arg(long)]
    standardize: bool,

    /// Fit no intercept.
    #[arg(long)]
    no_intercept: bool,

    /// Also compute the coefficients for 50 decreasing lambdas, and record the 20 largest features
    /// in the report, for `hemiola plot --regularization-path`.
    #[arg(long, requires = "report")]
    regularization_path: bool,
}

impl PenaltyArgs {
    /// Returns true if any of these flags was given that is for the L1 penalty alone.
    pub(super) fn are_given_for_l1(&self) -> bool {
        let Self { lambda, lambda_ratio, one_standard_error, standardize, no_intercept, regularization_path, .. } =
            self;
        lambda.is_some()
            || lambda_ratio.is_some()
            || *one_standard_error
            || *standardize
            || *no_intercept
            || *regularization_path
    }

    /// Returns the number of folds for a cross-validation without a choice of lambda.
    pub(super) fn count_of_folds(&self) -> anyhow::Result<Option<u32>> {
        let Some(folds) = self.folds else { return Ok(None) };
        match u32::try_from(folds).ok().filter(|folds| (2..=1000).contains(folds)) {
            Some(folds) => Ok(Some(folds)),
            None => Err(CommandError::usage(format!("`--folds {folds}` is not from 2 to 1000"))
                .hint("5 and 10 are common")
                .into()),
        }
    }
}

/// Arguments of lasso and elastic net.
#[derive(Args, Debug)]
struct SparseArgs {
    /// Files, folders or patterns with examples, or `-` for standard input.
    #[arg(long, short, value_name = "FILES", required = true, num_args = 1..)]
    data: Vec<String>,

    #[command(flatten)]
    reading: ExampleFileArgs,

    /// Validation set: a fraction of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "FRACTION|FILES", default_value = "0")]
    validation: String,

    #[command(flatten)]
    penalty: PenaltyArgs,

    #[command(flatten)]
    order: UpdateOrderArgs,

    /// Stop when the duality gap is below this fraction of the objective at zero coefficients.
    #[arg(long, visible_alias = "tol", value_name = "X", required = false, help_heading = "Stopping")]
    tolerance: f64,

    #[command(flatten)]
    metric: MetricArg,

    #[command(flatten)]
    common: TrainArgs,

    #[arg(skip)]
    search: Option<SearchArgs>,
}

/// Schedule of coordinate updates.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Schedule (docs/concepts/schedules.md)")]
pub(super) struct UpdateOrderArgs {
    /// Update coordinates by a schedule [default: block by block, which is fastest]
    #[arg(long, value_enum, value_name = "ORDER")]
    schedule: Option<UpdateOrderChoice>,

    /// Number of coordinates updated concurrently, from the same residuals [default: 32]
    #[arg(long, value_name = "N", requires = "schedule")]
    concurrent: Option<usize>,

    /// Pipeline depth: rounds of updates in flight Depth 1 is exact [default: 1]
    #[arg(long, value_name = "N", requires = "schedule")]
    pipeline_depth: Option<usize>,

    /// Maximum correlation of columns that are updated concurrently 1 allows all [default: 0.3]
    #[arg(long, value_name = "X", requires = "schedule")]
    max_correlation: Option<f64>,
}

/// Selection of the next coordinates.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum UpdateOrderChoice {
    /// Coordinates with larger recent changes, more often.
    Priority,
    /// One after another, in fixed order.
    RoundRobin,
    /// Uniformly at random.
    Random,
}

impl UpdateOrderArgs {
    fn schedule(&self) -> Option<CoordinateSchedule> {
        let default = CoordinateSchedule::default();
        let next = match self.schedule? {
            UpdateOrderChoice::Priority => UpdateOrder::Priority,
            UpdateOrderChoice::RoundRobin => UpdateOrder::RoundRobin,
            UpdateOrderChoice::Random => UpdateOrder::Random,
        };
        Some(CoordinateSchedule {
            next,
            concurrent: self.concurrent.unwrap_or(default.concurrent),
            depth: self.pipeline_depth.unwrap_or(default.depth),
            correlation: self.max_correlation.unwrap_or(default.correlation),
            ..default
        })
    }
}

impl TrainLasso {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.sparse.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        self.sparse.execute(1.0)
    }
}

impl TrainElasticNet {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.sparse.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        self.sparse.execute(self.l1_ratio)
    }
}

impl SparseArgs {
    fn execute(&self, ratio: f64) -> anyhow::Result<ExitCode> {
        let Self { data, reading, validation, penalty, order, tolerance, metric, common, search } = self;
        let (schedule, tolerance, search) = (order.schedule(), *tolerance, search.as_ref());
        let loss = SparseLoss::Squared;
        SparseTrainCommand {
            data,
            reading,
            validation,
            penalty,
            schedule,
            tolerance,
            metric,
            common,
            search,
            loss,
            ratio,
        }
        .execute()
    }
}

/// Training run of a sparse regression, as specified by flags.
pub(super) struct SparseTrainCommand<'a> {
    /// Files with examples; synthetic examples if there are none.
    pub(super) data: &'a [String],
    pub(super) reading: &'a ExampleFileArgs,
    pub(super) validation: &'a str,
    pub(super) penalty: &'a PenaltyArgs,
    pub(super) schedule: Option<CoordinateSchedule>,
    pub(super) tolerance: f64,
    pub(super) metric: &'a MetricArg,
    pub(super) common: &'a TrainArgs,
    /// Searches settings instead of training once.
    pub(super) search: Option<&'a SearchArgs>,
    pub(super) loss: SparseLoss,
    pub(super) ratio: f64,
}

impl SparseTrainCommand<'_> {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        refuse_without_data(self.data)?;
        self.reading.check()?;
        let (share, penalty) = (self.validation.parse::<f64>().ok(), self.penalty);
        let builder = SparseRegression::builder(self.loss);
        let builder = match self.schedule {
            Some(schedule) => builder.schedule(schedule),
            None => builder,
        };
        let settings = builder
            .lambda(penalty.lambda.map_or(Lambda::Share(penalty.lambda_ratio.unwrap_or(0.1)), Lambda::Value))
            .l1_ratio(self.ratio)
            .intercept(!penalty.no_intercept)
            .standardize(penalty.standardize)
            .seed(self.common.seed)
            .validation(share.unwrap_or(0.0))
            .tolerance(self.tolerance)
            .limits(self.common.limits())
            .build()
            .map_err(|error| anyhow::Error::from(Error::from(error)))?;
        self.common.check(settings.settings().kind(), settings.settings(), self.search.is_some())?;
        let validation_files = share.is_none().then_some(self.validation);
        self.data.iter().map(String::as_str).chain(validation_files).try_for_each(must_exist)?;
        self.common.run(|cluster| {
            let trained = self.train(cluster, &settings, share.is_none());
            trained.map_err(|error| ReadHints::EXAMPLES.explain_in_cluster(error))
        })
    }

    fn train(&self, cluster: &Cluster, settings: &SparseRegression, from_files: bool) -> Result<u8> {
        let start = cluster.env().now();
        let lock = self.common.lock_output(cluster)?;
        let (examples, schema) = self.read(cluster, input_paths(self.data), None)?;
        let valid =
            if from_files { Some(self.read(cluster, Some(self.validation.into()), Some(&schema))?.0) } else { None };
        let columns_read = columns_summary(&schema);
        let settings = &settings.clone().with_input((!self.data.is_empty()).then_some(schema));
        let [_, columns] = examples.features.shape().extents();
        let validation = match (&valid, settings.settings().validation) {
            (Some(valid), _) => format!(", {} for validation", valid.labels.len()),
            (None, 0.0) => String::new(),
            (None, share) => format!(", a fraction of {share} held out for validation"),
        };
        let loading = cluster.env().now() - start;
        let mut chosen = settings.clone();
        let (mut found, mut cross_validation) = (String::new(), None);
        if let Some(folds) = self.penalty.folds {
            let bar = if self.common.prints_lines(cluster) { TrainingBar::lines() } else { TrainingBar::disabled() };
            let begun = cluster.env().now();
            let mut on_fold = |fold: usize| {
                let seconds = (cluster.env().now() - begun).as_secs_f64();
                self.common.job().log.record("fold", &json!({ "fold": fold, "seconds": seconds }));
                bar.line(&format!("fold {fold}/{folds}  {} penalties  {}", GRID.count, time(seconds)));
            };
            let validation = settings.cross_validate_with(cluster, &examples, GRID, folds, &mut on_fold)?;
            let index = if self.penalty.one_standard_error { validation.one_standard_error } else { validation.best };
            chosen = settings.with_lambda(Lambda::Value(validation.lambdas[index]))?;
            let _ = write!(found, "; lambda {:.6} by cross-validation", validation.lambdas[index]);
            cross_validation = Some(validation);
        }
        let prepared = PreparedTraining {
            headline: format!(
                "{} with {} of {}{validation}{columns_read}{found}; {}",
                counted(examples.labels.len(), "example"),
                counted(examples.features.len(), "value"),
                counted(columns, "feature"),
                ClusterInfo::of(cluster)
            ),
            loading,
            columns: MetricColumns::updates(match self.loss {
                SparseLoss::Squared => "rmse",
                SparseLoss::Logistic => "logloss",
            })
            .converging("gap", self.tolerance),
            limits: &settings.settings().limits,
            lock,
        };
        if let Some(search) = self.search {
            let (validation, share) = (valid.as_ref(), settings.settings().validation);
            let metric = self.metric.metric;
            let input = SearchInput { estimator: &chosen, data: &examples, validation, share, metric };
            return search.run(cluster, self.common, &input, prepared);
        }
        self.common.fit(cluster, prepared, |options| {
            let options = self.metric.apply(options);
            let Fit { model, mut report, .. } = chosen.fit_with(cluster, &examples, valid.as_ref(), options)?;
            // An interrupted run ends at once, without a path.
            let path = if self.penalty.regularization_path && !report.result.stopped_by_callback() {
                Some(CoefficientPath::of(&model, &chosen.path(cluster, &examples, GRID)?))
            } else {
                None
            };
            let chosen = RegularizationReport { lambda: model.lambda, l1_ratio: self.ratio, cross_validation, path };
            report.regularization = serde_json::to_value(chosen).ok();
            Ok(report)
        })
    }
}

impl SparseTrainCommand<'_> {
    /// *Collective.* Reads examples with numeric labels.
    fn read(
        &self,
        cluster: &Cluster,
        paths: Option<InputPaths>,
        trained: Option<&InputSchema>,
    ) -> Result<(LabelledData, InputSchema)> {
        let trained = trained.map(|schema| (&[][..], schema));
        let held_out = if trained.is_none() { self.validation.parse().unwrap_or(0.0) } else { 0.0 };
        let LinearExamples { labelled, names, schema, .. } =
            self.reading.read(cluster, paths, trained, (held_out, self.common))?;
        refuse_names(&names)?;
        Ok((labelled, schema))
    }
}

/// Evaluates a sparse regression for `hemiola evaluate`.
pub(super) fn evaluate(
    cluster: &Cluster,
    model: &SparseModel,
    options: LinearReadOptions,
    files: &[String],
) -> anyhow::Result<(String, SparseEvaluation)> {
    let examples = data::read(cluster, &LinearReadOptions { schema: model.input.clone(), ..options }, files)?;
    print_notes(&examples.notes);
    let evaluation = model.evaluate(cluster, &examples.labelled)?;
    let SparseEvaluation { metrics, examples, unknown_features, confusion } = &evaluation;
    let mut text = format!(
        "{}, {} of {} nonzero",
        counted(*examples, "example"),
        counted(model.coefficients.len(), "coefficient"),
        model.columns
    );
    if *unknown_features > 0 {
        let _ = write!(text, "; ignored: {} of features the model does not know", counted(*unknown_features, "value"));
    }
    text.push('\n');
    for (name, value) in metrics {
        let _ = writeln!(text, "{name} {value:.4}");
    }
    text += &confusion_table(confusion.as_ref());
    Ok((text, evaluation))
}
