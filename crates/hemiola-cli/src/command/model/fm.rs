//! `hemiola train fm`: factorization machines.

use super::example_training::{ExampleArgs, ExampleJob, LabelKind, TuningArgs, invalid_settings};
use super::progress::MetricColumns;
use super::search::SearchArgs;
use super::train_defaults::TrainDefaults;
use clap::{Args, ValueEnum};
use hemiola_models::fm::{FmLoss, FmModel};
use hemiola_models::{Estimator as _, FactorizationMachine};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Synthetic examples of two classes:
    hemiola train fm

  Clicks, with early stopping, and use of the model:
    hemiola train fm --data clicks.libfm --validation 0.1 --output model
    hemiola evaluate --model model --data test.libfm
    hemiola predict --model model --data new.libfm

  Examples of equally many features, such as one category of each column, can do without normalization:
    hemiola train fm --data clicks.libfm --validation 0.1 --normalize false --epochs 40

  Ratings or other quantities:
    hemiola train fm --data train.libsvm --loss squared

A line of data is a label and features in LIBSVM format (`1 3:0.5 7:1`), or separated values of which the first column, or that of \
--label, is the label. Indices of LIBSVM files count from 0 if the index 0 occurs, as libFM writes them. docs/guides/factorization-machines.md \
describes the mathematics and equivalents of the settings in other libraries.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Arguments of `hemiola train fm`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::FM.complete(argument)))]
pub(crate) struct TrainFm {
    /// Loss function.
    #[arg(long, value_enum, default_value = "logistic")]
    loss: FmLossName,

    /// Number of factors of each feature; 0 for a linear model without pairs.
    #[arg(long, visible_aliases = ["factors", "n-components"], value_name = "N", default_value = "16")]
    rank: u32,

    /// L2 regularization of the weights of single features.
    #[arg(long, value_name = "X", default_value = "0.00001")]
    l2_linear: f32,

    /// L2 regularization of the factors.
    #[arg(long, visible_alias = "l2", value_name = "X", default_value = "0.0001")]
    l2_factors: f32,

    /// Initial learning rate of AdaGrad.
    #[arg(long, visible_alias = "lr", value_name = "X", default_value = "0.1")]
    learning_rate: f32,

    /// Number of examples of each step.
    #[arg(long, value_name = "N", required = false)]
    batch_size: u32,

    /// Scale each example to norm 1 [default: true; false with --loss squared]
    #[arg(long, value_name = "BOOL")]
    normalize: Option<bool>,

    #[command(flatten)]
    tuning: TuningArgs,

    #[command(flatten)]
    examples: ExampleArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FmLossName {
    /// Logistic loss: two classes, with probabilities.
    Logistic,
    /// Squared error: quantities, such as ratings.
    Squared,
}

impl TrainFm {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.tuning.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let (loss, labels) = match self.loss {
            FmLossName::Logistic => (FmLoss::Logistic, LabelKind::Classes),
            FmLossName::Squared => (FmLoss::Squared, LabelKind::Quantities),
        };
        let machine = FactorizationMachine::builder(loss);
        let machine = match self.normalize {
            Some(normalize) => machine.normalize(normalize),
            None => machine,
        };
        let machine = machine
            .rank(self.rank)
            .l2_linear(self.l2_linear)
            .l2_factors(self.l2_factors)
            .learning_rate(self.learning_rate)
            .batch_size(self.batch_size)
            .seed(self.examples.common.seed)
            .validation(self.examples.drawn_share())
            .limits(self.examples.common.limits())
            .build()
            .map_err(invalid_settings)?;
        let job = ExampleJob {
            kind: FmModel::KIND,
            labels,
            detect_zero_based: true,
            columns: MetricColumns::new(loss.target_metric().name, "examples"),
            limits: &machine.settings().limits,
            weight: None,
            tuning: Some(&self.tuning),
            run: &|run| {
                let machine = machine.clone().named(run.sets.names.clone()).with_input(run.sets.schema.clone());
                run.tune(&machine, &self.tuning)
            },
        };
        self.examples.execute(&job, machine.settings())
    }
}
