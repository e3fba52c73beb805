//! `hemiola train lasso`, `hemiola train elastic-net` and `hemiola train logistic --penalty l1`, and using what they trained.

use super::linear::{ExampleFileArgs, hinted};
use super::progress::MetricColumns;
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use clap::{Args, ValueEnum};
use hemiola_array::dist::LabelledData;
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_models::SparseRegression;
use hemiola_models::linear::data::{self, LinearExamples};
use hemiola_models::sparse::{
    CoordinateSchedule, Lambda, LambdaGrid, SparseEvaluation, SparseLoss, SparseModel, UpdateOrder,
};
use hemiola_models::training::{ClusterInfo, TrainingLimits};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Rounds where nobody says otherwise.
const EPOCHS: u32 = 1000;
/// Penalties that cross-validation looks at, and the last in shares of the first.
const GRID: LambdaGrid = LambdaGrid { count: 50, min_ratio: 1e-3 };

const AFTER_HELP: &str = "\
Examples:
  A tenth of the penalty that leaves no coefficient, and what to do with the model:
    hemiola train lasso --data train.csv --output model
    hemiola evaluate --model model --data test.csv
    hemiola predict --model model --data new.csv

  The penalty that predicts best, by cross-validation, or a simpler model that is as good as one can tell:
    hemiola train lasso --data train.csv --folds 5
    hemiola train lasso --data train.csv --folds 5 --simplest

A line of data is a target and features, as LIBSVM writes them (`2.5 3:0.5 7:1`), or separated values of which the first is the target. \
docs/models.md has the mathematics, what --lambda means elsewhere, and the schema of the report.

Exit codes:
  0     trained, or nothing was left to do
  2     something has to be changed: a flag, a line of the data, the output folder; nothing was written
  3     the system or another peer failed: a full disk, say
  130   stopped by Ctrl-C after an epoch (128 + the signal, for others); saved, if there is an --output";

/// The arguments of `hemiola train lasso`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TrainLasso {
    #[command(flatten)]
    sparse: SparseArgs,
}

/// The arguments of `hemiola train elastic-net`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TrainElasticNet {
    /// The share of the penalty that is of absolute values and not of squares: `l1_ratio` of scikit-learn.
    #[arg(long, value_name = "X", default_value = "0.5")]
    ratio: f64,

    #[command(flatten)]
    sparse: SparseArgs,
}

/// The penalty.
#[derive(Args, Debug)]
pub(super) struct PenaltyArgs {
    /// How much coefficients cost: alpha of scikit-learn.
    #[arg(long, value_name = "X", conflicts_with_all = ["lambda_share", "folds"])]
    lambda: Option<f64>,

    /// How much coefficients cost, in shares of the least that makes all of them 0. Default: 0.1.
    #[arg(long, value_name = "X", conflicts_with = "folds")]
    lambda_share: Option<f64>,

    /// Find the penalty that predicts best by cross-validation with this many folds.
    #[arg(long, value_name = "N")]
    folds: Option<u64>,

    /// With --folds: the largest penalty that is within one standard error of the best.
    #[arg(long, requires = "folds")]
    simplest: bool,

    /// Charge for coefficients as though all columns had a variance of 1.
    #[arg(long)]
    standardize: bool,

    /// Predict 0 where all features are 0.
    #[arg(long)]
    no_intercept: bool,
}

impl PenaltyArgs {
    /// Whether any of these flags was given.
    pub(super) fn are_given(&self) -> bool {
        let Self { lambda, lambda_share, folds, simplest, standardize, no_intercept } = self;
        lambda.is_some() || lambda_share.is_some() || folds.is_some() || *simplest || *standardize || *no_intercept
    }
}

/// What lasso and elastic net have in common.
#[derive(Args, Debug)]
struct SparseArgs {
    /// Files, a folder or a pattern with examples.
    #[arg(long, short, value_name = "FILES")]
    data: String,

    #[command(flatten)]
    reading: ExampleFileArgs,

    /// Held-out examples: a share of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "SHARE|FILES", default_value = "0")]
    valid: String,

    #[command(flatten)]
    charges: PenaltyArgs,

    #[command(flatten)]
    order: UpdateOrderArgs,

    /// Stop when the duality gap is below this share of the objective without coefficients.
    #[arg(long, value_name = "X", default_value = "1e-6", help_heading = "When it stops")]
    tolerance: f64,

    #[command(flatten)]
    common: TrainArgs,
}

/// In which order coefficients are updated.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Schedule (docs/schedules.md)")]
pub(super) struct UpdateOrderArgs {
    /// Update coefficients by a schedule, and not block by block, which is the fastest.
    #[arg(long, value_enum, value_name = "ORDER")]
    schedule: Option<UpdateOrderChoice>,

    /// Updates that do not see each other. Default: 32.
    #[arg(long, value_name = "N", requires = "schedule")]
    concurrent: Option<usize>,

    /// Rounds of updates under way. Default: 1, which is exact.
    #[arg(long, value_name = "N", requires = "schedule")]
    depth: Option<usize>,

    /// Columns correlated by so much are not updated at once. Default: 0.3; 1 lets all be.
    #[arg(long, value_name = "X", requires = "schedule")]
    correlation: Option<f64>,
}

/// Which coefficients are updated next.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum UpdateOrderChoice {
    /// Those that changed much, more often.
    Priority,
    /// One after the other.
    RoundRobin,
    /// Any.
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
            depth: self.depth.unwrap_or(default.depth),
            correlation: self.correlation.unwrap_or(default.correlation),
            ..default
        })
    }
}

impl TrainLasso {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        self.sparse.execute(1.0)
    }
}

impl TrainElasticNet {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        self.sparse.execute(self.ratio)
    }
}

impl SparseArgs {
    fn execute(&self, ratio: f64) -> anyhow::Result<ExitCode> {
        let Self { data, reading, valid, charges, order, tolerance, common } = self;
        let (loss, schedule) = (SparseLoss::Squared, order.schedule());
        SparseTrainCommand {
            data: Some(data),
            reading,
            valid,
            charges,
            schedule,
            tolerance: *tolerance,
            common,
            loss,
            ratio,
        }
        .execute()
    }
}

/// Everything that is known of a training from flags.
pub(super) struct SparseTrainCommand<'a> {
    /// Made-up examples where there are none.
    pub(super) data: Option<&'a str>,
    pub(super) reading: &'a ExampleFileArgs,
    pub(super) valid: &'a str,
    pub(super) charges: &'a PenaltyArgs,
    pub(super) schedule: Option<CoordinateSchedule>,
    pub(super) tolerance: f64,
    pub(super) common: &'a TrainArgs,
    pub(super) loss: SparseLoss,
    pub(super) ratio: f64,
}

impl SparseTrainCommand<'_> {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let (share, charges) = (self.valid.parse::<f64>().ok(), self.charges);
        let builder = SparseRegression::builder(self.loss);
        let builder = match self.schedule {
            Some(schedule) => builder.schedule(schedule),
            None => builder,
        };
        let settings = builder
            .lambda(charges.lambda.map_or(Lambda::Share(charges.lambda_share.unwrap_or(0.1)), Lambda::Value))
            .l1_ratio(self.ratio)
            .intercept(!charges.no_intercept)
            .standardize(charges.standardize)
            .seed(self.common.seed)
            .validation(share.unwrap_or(0.0))
            .tolerance(self.tolerance)
            .limits(self.common.limits(&TrainingLimits { epochs: EPOCHS, patience: None, ..TrainingLimits::default() }))
            .build()
            .map_err(|error| anyhow::Error::from(Error::from(error)))?;
        self.common.check(settings.settings().kind(), settings.settings())?;
        let held_out = share.is_none().then_some(self.valid);
        self.data.into_iter().chain(held_out).try_for_each(must_exist)?;
        self.common.run(|cluster| {
            self.train(cluster, &settings, share.is_none()).map_err(|error| {
                match hinted(error.into()).downcast::<Error>() {
                    Ok(same) => same,
                    Err(hinted) => into_cluster_error(hinted),
                }
            })
        })
    }

    fn train(&self, cluster: &Cluster, settings: &SparseRegression, held_out_files: bool) -> Result<u8> {
        let start = cluster.env().now();
        let lock = self.common.claim(cluster)?;
        let examples = self.read(cluster, self.data)?;
        let valid = if held_out_files { Some(self.read(cluster, Some(self.valid))?) } else { None };
        let [_, columns] = examples.features.shape().extents();
        let mut chosen = settings.clone();
        let mut found = String::new();
        if let Some(folds) = self.charges.folds {
            let validation = settings.cross_validate(cluster, &examples, GRID, folds)?;
            let at = if self.charges.simplest { validation.one_standard_error } else { validation.best };
            chosen = settings.with_lambda(Lambda::Value(validation.lambdas[at]))?;
            let _ = write!(found, "; lambda {:.6} by cross-validation", validation.lambdas[at]);
        }
        let prepared = PreparedTraining {
            headline: format!(
                "{} with {} of {}{found}; {}",
                counted(examples.labels.len(), "example"),
                counted(examples.features.len(), "value"),
                counted(columns, "feature"),
                ClusterInfo::of(cluster)
            ),
            loading: cluster.env().now() - start,
            figures: MetricColumns::updates(match self.loss {
                SparseLoss::Squared => "rmse",
                SparseLoss::Logistic => "logloss",
            }),
            limits: &settings.settings().limits,
            lock,
        };
        self.common.accompany(cluster, prepared, |session| {
            Ok(chosen.fit_with(cluster, &examples, valid.as_ref(), session)?.report)
        })
    }
}

impl SparseTrainCommand<'_> {
    /// *Collective.* Reads examples with numbers as labels.
    fn read(&self, cluster: &Cluster, pattern: Option<&str>) -> Result<LabelledData> {
        let LinearExamples { labelled, names } = self.reading.read(cluster, pattern, &[], self.common)?;
        if let [first, ..] = &names[..] {
            let failure = CommandError::usage(format!("the labels of the examples are words, such as `{first}`"));
            return Err(into_cluster_error(
                failure.hint("this model takes numbers, of two classes two different ones").into(),
            ));
        }
        Ok(labelled)
    }
}

/// `hemiola evaluate` of such a model.
pub(super) fn evaluate(
    cluster: &Cluster,
    model: &SparseModel,
    files: &str,
) -> anyhow::Result<(String, SparseEvaluation)> {
    let evaluation =
        model.evaluate(cluster, &data::read(cluster, &data::LinearReadOptions::default(), files)?.labelled)?;
    let SparseEvaluation { metrics, examples, unknown_features } = &evaluation;
    let mut text = format!(
        "{}, {} of {} not 0",
        counted(*examples, "example"),
        counted(model.coefficients.len() as u64, "coefficient"),
        model.columns
    );
    if *unknown_features > 0 {
        let _ = write!(text, "; left out: {} the model does not know", counted(*unknown_features, "value"));
    }
    text.push('\n');
    for (name, value) in metrics {
        let _ = writeln!(text, "{name} {value:.4}");
    }
    Ok((text, evaluation))
}
