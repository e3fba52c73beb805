//! `hemiola train mf`: matrix factorization.

use super::progress::MetricColumns;
use super::read_hints::ReadHints;
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use crate::{output, report, suggest};
use clap::{Args, ValueEnum};
use hemiola_array::DistArray;
use hemiola_array::read::Csv;
use hemiola_array::synthetic::{self, SyntheticMf};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::Seed;
use hemiola_models::mf::{MfLoss, MfModel, data};
use hemiola_models::training::{ClusterInfo, TrainingLimits};
use hemiola_models::{Estimator, MatrixFactorization};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Synthetic ratings:
    hemiola train mf

  Your own ratings, and recommendations from the model:
    hemiola train mf --data ratings.csv --output model
    hemiola recommend --model model --user 42 -k 10

  Implicit feedback: events of a user and an item, with an optional weight; or ratings above a threshold:
    hemiola train mf --data clicks.csv --loss one-class
    hemiola train mf --data ratings.csv --loss one-class --event-threshold 4

  Two local peers, a report, at most a minute of training:
    hemiola train mf --data 'ratings/*.tsv.zst' --rank 64 --peers 2 --seconds 60 --report run.json

  Predict the time on a larger cluster:
    hemiola train mf --data ratings.csv --epochs 5 --workers 1 --profile mf.json
    hemiola simulate train mf --profile mf.json --peers 16 --bandwidth 1gbit

  Resume an interrupted run, or extend a finished one:
    hemiola train mf --data ratings.csv --output model --epochs 80 --resume

A line of data is a user, an item and a rating, with any separator; users and items may have any names. Further fields are \
ignored. Events (--loss one-class) need no rating; repeated events add up. docs/models.md describes the mathematics, the \
report and the checkpoint.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Arguments of `hemiola train mf`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TrainMf {
    /// Files, a folder or a pattern with ratings. Default: a million synthetic ratings.
    #[arg(long, short, value_name = "FILES")]
    data: Option<String>,

    /// Field separator. Default: detected.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    separator: Option<String>,

    /// Skip up to N invalid lines.
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad_lines: u64,

    /// Validation set: a fraction of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "FRACTION|FILES", default_value = "0.1")]
    validation: String,

    /// Rank of the factorization: number of latent factors.
    #[arg(long, value_name = "N", default_value = "32")]
    rank: u32,

    /// Loss function.
    #[arg(long, value_enum, default_value = "squared")]
    loss: LossName,

    /// L2 regularization. Default: 0.045; with --loss one-class 0.007.
    #[arg(long, value_name = "X")]
    l2: Option<f32>,

    /// Initial learning rate of AdaGrad. Default: 0.08. Not for --loss one-class, which uses
    /// alternating least squares.
    #[arg(long, visible_alias = "lr", value_name = "X")]
    learning_rate: Option<f32>,

    /// Treat ratings of at least X as events of weight 1, and drop the others.
    #[arg(long, value_name = "X", help_heading = "Implicit feedback (--loss one-class)")]
    event_threshold: Option<f32>,

    /// Weight of unobserved pairs, relative to events of weight 1. Default: 0.3.
    #[arg(long, value_name = "X", help_heading = "Implicit feedback (--loss one-class)")]
    unobserved_weight: Option<f32>,

    /// Exponent nu of frequency-scaled regularization: the penalty of a row is proportional to the
    /// number of its events to this power. Default: 1.
    #[arg(long, value_name = "X", help_heading = "Implicit feedback (--loss one-class)")]
    frequency_exponent: Option<f32>,

    /// File for a profile of this run, from which `hemiola simulate train mf --profile` predicts
    /// the time on a cluster.
    #[arg(long, value_name = "FILE", conflicts_with = "peers", help_heading = "Output")]
    profile: Option<PathBuf>,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LossName {
    /// Squared error of numeric ratings.
    Squared,
    /// Logistic loss of binary ratings: positive (above 0) or not.
    Logistic,
    /// Implicit feedback: events such as clicks or purchases, without ratings.
    OneClass,
}

/// Training set and validation set.
struct MfData {
    train: DistArray<f32, 2>,
    valid: Option<DistArray<f32, 2>>,
    /// Number of validation entries dropped because their user or item is not in the training set.
    cold: usize,
}

impl TrainMf {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let share = self.validation.parse::<f64>().ok();
        let mut settings = MatrixFactorization::builder();
        self.check_flags_of_loss()?;
        if let Some(l2) = self.l2 {
            settings = settings.l2(l2);
        }
        if let Some(weight) = self.unobserved_weight {
            settings = settings.unobserved_weight(weight);
        }
        if let Some(exponent) = self.frequency_exponent {
            settings = settings.frequency_exponent(exponent);
        }
        if let Some(rate) = self.learning_rate {
            settings = settings.learning_rate(rate);
        }
        let settings = settings
            .rank(self.rank)
            .seed(self.common.seed)
            .validation(share.unwrap_or(0.0))
            .limits(self.common.limits(&TrainingLimits::default()))
            .loss(match self.loss {
                LossName::Squared => MfLoss::Squared,
                LossName::Logistic => MfLoss::Logistic,
                LossName::OneClass => MfLoss::OneClass,
            })
            .build()
            .map_err(|error| anyhow::Error::from(Error::from(error)))?;
        self.common.check(MfModel::KIND, settings.settings())?;
        self.profile.as_deref().map_or(Ok(()), report::check)?;
        let validation_files = share.is_none().then_some(&self.validation);
        self.data.iter().chain(validation_files).try_for_each(|pattern| must_exist(pattern))?;
        self.common.run(|cluster| {
            let trained = self.train(cluster, &settings, share);
            trained.map_err(|error| ReadHints::TRAINING_RATINGS.explain_in_cluster(error))
        })
    }

    /// Refuses flags that have no effect with the chosen loss.
    fn check_flags_of_loss(&self) -> anyhow::Result<()> {
        let of_events = [
            (self.event_threshold, "`--event-threshold` turns ratings into events"),
            (self.unobserved_weight, "`--unobserved-weight` weights pairs without events"),
            (self.frequency_exponent, "`--frequency-exponent` scales regularization by events"),
        ];
        match of_events.into_iter().find(|(value, _)| value.is_some()) {
            Some((_, what)) if !self.is_one_class() => {
                let failure = CommandError::usage(format!("{what}, which needs the loss `one-class`"));
                Err(failure.hint("add `--loss one-class`, or leave it out").into())
            }
            _ if self.profile.is_some() && self.is_one_class() => {
                let message = "`--profile` supports the losses of ratings, not `one-class`";
                Err(CommandError::usage(message).hint("leave it out").into())
            }
            _ if self.learning_rate.is_some() && self.is_one_class() => {
                let message = "`--learning-rate` is for gradient descent, and the loss `one-class` uses alternating least squares";
                Err(CommandError::usage(message).hint("leave it out").into())
            }
            _ => Ok(()),
        }
    }

    fn train(&self, cluster: &Cluster, settings: &MatrixFactorization, share: Option<f64>) -> Result<u8> {
        if self.profile.is_some() && cluster.size() > 1 {
            let failure = CommandError::usage("`--profile` needs a single peer, and a launcher has started several");
            return Err(into_cluster_error(failure.hint("run it without the launcher").into()));
        }
        let start = cluster.env().now();
        let lock = self.common.lock_output(cluster)?;
        let MfData { train, valid, cold } = self.load(cluster, share)?;
        let [users, items] = train.shape().extents();
        let (count, validation) = (train.len(), valid.as_ref().map_or(0, DistArray::len));
        let cluster_facts = ClusterInfo::of(cluster);
        let what = if self.is_one_class() { "event" } else { "rating" };
        let cold = match cold {
            0 => String::new(),
            _ => format!(" (and {cold} of users or items outside the training set, which are ignored)"),
        };
        let prepared = PreparedTraining {
            headline: format!(
                "{} of {} for {}, {validation} for validation{cold}; {cluster_facts}",
                counted(count, what),
                counted(users, "user"),
                counted(items, "item")
            ),
            loading: cluster.env().now() - start,
            columns: MetricColumns::updates(settings.settings().loss.metric_name()),
            limits: &settings.settings().limits,
            lock,
        };
        self.common.fit(cluster, prepared, |options| {
            let options = if self.profile.is_some() { options.with_profiling() } else { options };
            let trained = settings.fit_with(cluster, &train, valid.as_ref(), options)?;
            if let (Some(path), Some(profile)) = (&self.profile, &trained.profile) {
                output::write(path, &profile.to_json()).map_err(into_cluster_error)?;
            }
            Ok(trained.report)
        })
    }

    /// *Collective.* Loads the training set and the validation set.
    fn load(&self, cluster: &Cluster, share: Option<f64>) -> Result<MfData> {
        let ratings = match &self.data {
            Some(pattern) => self.read(cluster, pattern)?,
            None => self.synthetic(cluster)?,
        };
        match share {
            Some(0.0) => Ok(MfData { train: ratings, valid: None, cold: 0 }),
            Some(share) => {
                let (train, valid) = ratings.split(share, Seed(self.common.seed))?;
                Ok(MfData { train, valid: Some(valid), cold: 0 })
            }
            None => {
                let entries = self.read(cluster, &self.validation)?;
                let valid = data::aligned(&entries, &ratings)?;
                if valid.is_empty() {
                    let files = &self.validation;
                    let message =
                        format!("no rating of `{files}` has a user and an item of `--data`; check both files");
                    return Err(Error::program(message));
                }
                let cold = entries.len() - valid.len();
                Ok(MfData { train: ratings, valid: Some(valid), cold })
            }
        }
    }

    /// *Collective.* Reads ratings, or events if the loss is `one-class`.
    fn read(&self, cluster: &Cluster, pattern: &str) -> Result<DistArray<f32, 2>> {
        let one_class = self.is_one_class();
        let entries = if one_class {
            data::read_events(cluster, self.options(), pattern)?
        } else {
            data::read(cluster, self.options(), pattern)?
        };
        self.common.report_skipped_lines(cluster, pattern, entries.skipped_lines());
        match self.event_threshold {
            Some(least) if one_class => data::from_threshold(&entries, least),
            _ => Ok(entries),
        }
    }

    /// *Collective.* Generates synthetic ratings; those above the mean are events.
    fn synthetic(&self, cluster: &Cluster) -> Result<DistArray<f32, 2>> {
        let made = SyntheticMf {
            users: 6_000,
            items: 4_000,
            entries: 1_000_000,
            rank: 16,
            noise: 0.5,
            seed: self.common.seed,
            ..SyntheticMf::default()
        };
        let ratings = data::synthetic(cluster, &made.generator())?;
        let least = self.event_threshold.unwrap_or(synthetic::mf::MEAN_RATING as f32);
        if self.is_one_class() { data::from_threshold(&ratings, least) } else { Ok(ratings) }
    }

    fn is_one_class(&self) -> bool {
        matches!(self.loss, LossName::OneClass)
    }

    fn options(&self) -> Option<Csv> {
        if self.separator.is_none() && self.skip_bad_lines == 0 {
            return None;
        }
        let options = Csv::new().skip_bad_lines(self.skip_bad_lines);
        Some(match self.separator.as_deref() {
            Some("\\t" | "tab") => options.separator("\t"),
            Some(separator) => options.separator(separator),
            None => options,
        })
    }
}

/// Returns an error unless the folder is a saved model.
pub(super) fn check_saved_model(folder: &Path) -> anyhow::Result<()> {
    if hemiola_array::save::PartReader::exists(folder) {
        return Ok(());
    }
    let message = format!("`{}` is not a saved model", folder.display());
    let near = suggest::path_hint(folder);
    Err(CommandError::usage(message)
        .hint(near.as_deref().unwrap_or("train one with `hemiola train MODEL --output DIR`"))
        .into())
}
