//! `hemiola train ridge`: ridge regression and ordinary least squares.

use super::example_training::{ExampleArgs, ExampleJob, LabelKind, TuningArgs, invalid_settings};
use super::progress::MetricColumns;
use super::search::SearchArgs;
use super::train_defaults::TrainDefaults;
use super::weight_args::WeightColumnArg;
use clap::Args;
use hemiola_models::ridge::RidgeModel;
use hemiola_models::{Estimator as _, ExampleWeights, RidgeRegression};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Ridge regression, and use of the model:
    hemiola train ridge --data train.csv --label price --output model
    hemiola evaluate --model model --data test.csv
    hemiola coefficients --model model -k 10
    hemiola predict --model model --data new.csv

  Ordinary least squares:
    hemiola train ridge --data train.csv --alpha 0

A line of data is a target and features in LIBSVM format (`2.5 3:0.5 7:1`), or separated values of which the first column, or that of \
--label, is the target. docs/guides/ridge-regression.md describes the mathematics and equivalents of --alpha in other libraries.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Arguments of `hemiola train ridge`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::RIDGE.complete(argument)))]
pub(crate) struct TrainRidge {
    /// L2 regularization, as `alpha` of scikit-learn's Ridge; 0 is ordinary least squares.
    #[arg(long, visible_aliases = ["l2", "lambda"], value_name = "X", default_value = "1")]
    alpha: f64,

    /// Fit no intercept.
    #[arg(long)]
    no_intercept: bool,

    /// Stop when the norm of the gradient is this fraction of that of zero weights.
    #[arg(long, visible_alias = "tol", value_name = "X", required = false, help_heading = "Stopping")]
    tolerance: f64,

    #[command(flatten)]
    weighting: WeightColumnArg,

    #[command(flatten)]
    tuning: TuningArgs,

    #[command(flatten)]
    examples: ExampleArgs,
}

impl TrainRidge {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.tuning.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let regression = RidgeRegression::builder()
            .alpha(self.alpha)
            .intercept(!self.no_intercept)
            .seed(self.examples.common.seed)
            .validation(self.examples.drawn_share())
            .tolerance(self.tolerance)
            .limits(self.examples.common.limits())
            .build()
            .map_err(invalid_settings)?;
        let job = ExampleJob {
            kind: RidgeModel::KIND,
            labels: LabelKind::Quantities,
            detect_zero_based: false,
            columns: MetricColumns::new("rmse", "examples").converging("gradient", self.tolerance),
            limits: &regression.settings().limits,
            weight: self.weighting.column(),
            tuning: Some(&self.tuning),
            run: &|run| {
                let weights = ExampleWeights::default().of_rows(run.sets.weights.clone());
                let regression = regression.clone().with_input(run.sets.schema.clone()).weighted(weights);
                run.tune(&regression, &self.tuning)
            },
        };
        self.examples.execute(&job, regression.settings())
    }
}
