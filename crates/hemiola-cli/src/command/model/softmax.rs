//! `hemiola train softmax`: multinomial logistic regression.

use super::example_training::{ExampleArgs, ExampleJob, LabelKind, TuningArgs, invalid_settings};
use super::progress::MetricColumns;
use super::search::SearchArgs;
use super::train_defaults::TrainDefaults;
use super::weight_args::WeightArgs;
use clap::Args;
use hemiola_models::softmax::SoftmaxModel;
use hemiola_models::{Estimator as _, SoftmaxRegression};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Classes with probabilities that are fitted together, and use of the model:
    hemiola train softmax --data iris.csv --label species --output model
    hemiola evaluate --model model --data test.csv
    hemiola predict --model model --data new.csv

  Choice of C on a tenth of the examples:
    hemiola train softmax --data train.libsvm -C 0.1 --validation 0.1

A line of data is a label and features in LIBSVM format (`3 3:0.5 7:1`), or separated values of which the first column, or that of \
--label, is the label. Labels are numbers, or names if none is a number. docs/guides/classify.md compares the model with `hemiola train \
logistic`, which solves one problem for each class against the rest.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Arguments of `hemiola train softmax`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::SOFTMAX.complete(argument)))]
pub(crate) struct TrainSoftmax {
    /// Inverse regularization strength: C of scikit-learn's `LogisticRegression`.
    #[arg(long, short, visible_short_alias = 'C', value_name = "X", default_value = "1")]
    c: f64,

    /// Fit no intercepts.
    #[arg(long)]
    no_intercept: bool,

    /// Stop when the norm of the gradient is this fraction of that of zero weights.
    #[arg(long, visible_alias = "tol", value_name = "X", required = false, help_heading = "Stopping")]
    tolerance: f64,

    #[command(flatten)]
    weighting: WeightArgs,

    #[command(flatten)]
    tuning: TuningArgs,

    #[command(flatten)]
    examples: ExampleArgs,
}

impl TrainSoftmax {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.tuning.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        self.weighting.check()?;
        let regression = SoftmaxRegression::builder()
            .c(self.c)
            .intercept(!self.no_intercept)
            .seed(self.examples.common.seed)
            .validation(self.examples.drawn_share())
            .tolerance(self.tolerance)
            .limits(self.examples.common.limits())
            .build()
            .map_err(invalid_settings)?;
        let job = ExampleJob {
            kind: SoftmaxModel::KIND,
            labels: LabelKind::Classes,
            detect_zero_based: false,
            columns: MetricColumns::new("logloss", "examples").converging("gradient", self.tolerance),
            limits: &regression.settings().limits,
            weight: self.weighting.column(),
            tuning: Some(&self.tuning),
            run: &|run| {
                let sets = run.sets;
                let regression = regression.clone().named(sets.names.clone()).with_input(sets.schema.clone());
                run.tune(&regression.weighted(self.weighting.weights(sets.weights.clone())?), &self.tuning)
            },
        };
        self.examples.execute(&job, regression.settings())
    }
}
