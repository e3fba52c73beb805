//! `hemiola train mf`: matrix factorization.

use super::folds::{self, FoldArgs};
use super::input_args::{RatingFileArgs, input_paths};
use super::linear::{columns_summary, refuse_without_data};
use super::metric_arg::MetricArg;
use super::progress::MetricColumns;
use super::read_hints::ReadHints;
use super::search::{SearchArgs, SearchInput};
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use super::train_defaults::TrainDefaults;
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use crate::{output, report, suggest};
use clap::{Args, ValueEnum};
use hemiola_array::DistArray;
use hemiola_array::read::InputPaths;
use hemiola_array::synthetic::{self, SyntheticMf};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::Seed;
use hemiola_models::input::InputSchema;
use hemiola_models::mf::data::{LoadedRatings, RatingReadOptions};
use hemiola_models::mf::{MfLoss, MfModel, data};
use hemiola_models::selection::FoldBy;
use hemiola_models::training::ClusterInfo;
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
    hemiola train mf --data clicks.csv --loss bpr
    hemiola train mf --data ratings.csv --loss one-class --event-threshold 4

  Two local peers, a report, at most a minute of training:
    hemiola train mf --data 'ratings/*.tsv.zst' --rank 64 --peers 2 --seconds 60 --report run.json

  Predict the time on a larger cluster:
    hemiola train mf --data ratings.csv --epochs 5 --workers 1 --profile mf.json
    hemiola simulate train mf --profile mf.json --peers 16 --bandwidth 1gbit

  Resume an interrupted run, or extend a finished one:
    hemiola train mf --data ratings.csv --output model --epochs 80 --resume

A line of data is a user, an item and a rating, in this order or as given by --columns, with any separator; users and items \
may have any names. Further fields are ignored. Events (--loss one-class or bpr) need no rating; repeated events add up. docs/guides/recommend.md describes the mathematics, the \
report and the checkpoint.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Minimum number of ratings for the check that they are ratings.
const FEWEST_FOR_CHECK: usize = 100;
/// At most this many users or items are no sensible input of a factorization.
const FEWEST_NAMES: usize = 2;

/// Arguments of `hemiola train mf`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::MF.complete(argument)))]
pub(crate) struct TrainMf {
    /// Files, folders or patterns with ratings, or `-` for standard input [default: a million
    /// synthetic ratings]
    #[arg(long, short, value_name = "FILES", num_args = 1..)]
    data: Vec<String>,

    #[command(flatten)]
    reading: RatingFileArgs,

    /// Skip up to N invalid lines.
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad_lines: u64,

    /// Validation set: a fraction of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "FRACTION|FILES", default_value = "0.1")]
    validation: String,

    /// Rank of the factorization: number of latent factors.
    #[arg(long, visible_aliases = ["factors", "n-components"], value_name = "N", default_value = "32")]
    rank: u32,

    /// Loss function.
    #[arg(long, value_enum, default_value = "squared")]
    loss: LossName,

    /// L2 regularization [default: 0.045; 0.007 with --loss one-class, 0.01 with --loss bpr]
    #[arg(long, value_name = "X")]
    l2: Option<f32>,

    /// Initial learning rate of AdaGrad; --loss one-class uses alternating least squares instead
    /// [default: 0.08]
    #[arg(long, visible_alias = "lr", value_name = "X")]
    learning_rate: Option<f32>,

    /// Treat ratings of at least X as events of weight 1, and drop the others.
    #[arg(long, value_name = "X", help_heading = "Implicit feedback (--loss one-class or bpr)")]
    event_threshold: Option<f32>,

    /// With --loss one-class: weight of unobserved pairs, relative to events of weight 1 [default:
    /// 0.3]
    #[arg(long, value_name = "X", help_heading = "Implicit feedback (--loss one-class or bpr)")]
    unobserved_weight: Option<f32>,

    /// With --loss one-class: exponent nu of frequency-scaled regularization, where the penalty of a
    /// row is proportional to the number of its events to this power [default: 1]
    #[arg(long, value_name = "X", help_heading = "Implicit feedback (--loss one-class or bpr)")]
    frequency_exponent: Option<f32>,

    /// File for a profile of this run, from which `hemiola simulate train mf --profile` predicts
    /// the time on a cluster.
    #[arg(long, value_name = "FILE", conflicts_with = "peers", help_heading = "Output")]
    profile: Option<PathBuf>,

    #[command(flatten)]
    folds: FoldArgs,

    #[command(flatten)]
    metric: MetricArg,

    #[command(flatten)]
    common: TrainArgs,

    #[arg(skip)]
    search: Option<SearchArgs>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LossName {
    /// Squared error of numeric ratings.
    Squared,
    /// Logistic loss of binary ratings: positive (above 0) or not.
    Logistic,
    /// Implicit feedback: events such as clicks or purchases, without ratings.
    OneClass,
    /// Bayesian personalized ranking of events: an item with an event ranks above one without.
    Bpr,
}

/// Training set and validation set.
struct MfData {
    train: DistArray<f32, 2>,
    valid: Option<DistArray<f32, 2>>,
    /// Layout of the files; `None` for synthetic ratings.
    schema: Option<InputSchema>,
    /// Number of validation entries dropped because their user or item is not in the training set.
    cold: usize,
}

impl TrainMf {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let share = self.validation.parse::<f64>().ok();
        let mut settings = MatrixFactorization::builder();
        refuse_without_data(&self.data)?;
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
            .limits(self.common.limits())
            .loss(match self.loss {
                LossName::Squared => MfLoss::Squared,
                LossName::Logistic => MfLoss::Logistic,
                LossName::OneClass => MfLoss::OneClass,
                LossName::Bpr => MfLoss::Bpr,
            })
            .build()
            .map_err(|error| anyhow::Error::from(Error::from(error)))?;
        self.common.check(MfModel::KIND, settings.settings(), self.search.is_some())?;
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
            (self.event_threshold, "`--event-threshold` turns ratings into events", true),
            (self.unobserved_weight, "`--unobserved-weight` weights pairs without events", false),
            (self.frequency_exponent, "`--frequency-exponent` scales regularization by events", false),
        ];
        let (one_class, implicit) = (matches!(self.loss, LossName::OneClass), self.is_implicit());
        let accepted = |of_all: bool| one_class || (of_all && implicit);
        match of_events.into_iter().find(|(value, _, of_all)| value.is_some() && !accepted(*of_all)) {
            Some((_, what, of_all)) => {
                let losses = if of_all { "`one-class` or `bpr`" } else { "`one-class`" };
                let failure = CommandError::usage(format!("{what}, which needs the loss {losses}"));
                Err(failure.hint("add `--loss one-class`, or leave it out").into())
            }
            None if self.profile.is_some() && implicit => {
                let message = "`--profile` supports the losses of ratings, not those of events";
                Err(CommandError::usage(message).hint("leave it out").into())
            }
            None if self.learning_rate.is_some() && one_class => {
                let message = "`--learning-rate` is for gradient descent, and the loss `one-class` uses alternating least squares";
                Err(CommandError::usage(message).hint("leave it out").into())
            }
            None => Ok(()),
        }
    }

    fn train(&self, cluster: &Cluster, settings: &MatrixFactorization, share: Option<f64>) -> Result<u8> {
        if self.profile.is_some() && cluster.size() > 1 {
            let failure = CommandError::usage("`--profile` needs a single peer, and a launcher has started several");
            return Err(into_cluster_error(failure.hint("run it without the launcher").into()));
        }
        let start = cluster.env().now();
        let lock = self.common.lock_output(cluster)?;
        let MfData { train, valid, schema, cold } = self.load(cluster, share)?;
        self.check_sense(cluster, &train, schema.as_ref())?;
        let columns_read = schema.as_ref().map(columns_summary).unwrap_or_default();
        let settings = &settings.clone().with_input(schema);
        let [users, items] = train.shape().extents();
        let (count, validation) = (train.len(), valid.as_ref().map_or(0, DistArray::len));
        let cluster_facts = ClusterInfo::of(cluster);
        let what = if self.is_implicit() { "event" } else { "rating" };
        let cold = match cold {
            0 => String::new(),
            _ => format!(" (and {cold} of users or items outside the training set, which are ignored)"),
        };
        // A search and a cross-validation hold out ratings themselves.
        let selects = self.search.is_some() || self.folds.folds.is_some();
        let validation =
            if selects && valid.is_none() { String::new() } else { format!(", {validation} for validation") };
        let prepared = PreparedTraining {
            headline: format!(
                "{} of {} for {}{validation}{cold}{columns_read}; {cluster_facts}",
                counted(count, what),
                counted(users, "user"),
                counted(items, "item")
            ),
            loading: cluster.env().now() - start,
            columns: MetricColumns::updates(settings.settings().loss.metric_name()),
            limits: &settings.settings().limits,
            lock,
        };
        if let Some(search) = &self.search {
            let share = settings.settings().validation;
            let (estimator, validation, metric) = (settings, valid.as_ref(), self.metric.metric);
            let input = SearchInput { estimator, data: &train, validation, share, metric };
            return search.run(cluster, &self.common, &input, prepared);
        }
        let mut cross_validation = None;
        if let Some(count) = self.folds.folds {
            match folds::run(cluster, &self.common, (settings, &train), (count, &FoldBy::Record), &prepared)? {
                Ok(report) => cross_validation = serde_json::to_value(report).ok(),
                Err(code) => return Ok(code),
            }
        }
        self.common.fit(cluster, prepared, |options| {
            let options = self.metric.apply(options);
            let options = if self.profile.is_some() { options.with_profiling() } else { options };
            let mut trained = settings.fit_with(cluster, &train, valid.as_ref(), options)?;
            trained.report.cross_validation = cross_validation;
            if let (Some(path), Some(profile)) = (&self.profile, &trained.profile) {
                output::write(path, &profile.to_json()).map_err(into_cluster_error)?;
            }
            Ok(trained.report)
        })
    }

    /// *Collective.* Refuses columns that are no users, items and ratings.
    fn check_sense(&self, cluster: &Cluster, train: &DistArray<f32, 2>, schema: Option<&InputSchema>) -> Result<()> {
        let Some(schema) = schema.filter(|_| train.len() >= FEWEST_FOR_CHECK) else { return Ok(()) };
        let refuse = |message: String| {
            let hint = "choose the columns with `--columns USER,ITEM,RATING`; `hemiola data describe FILE` shows them";
            Err(into_cluster_error(CommandError::usage(message).hint(hint).into()))
        };
        for (what, count) in ["user", "item"].into_iter().zip(train.shape().extents()) {
            if count <= FEWEST_NAMES {
                return refuse(format!(
                    "{} have only {count} different {what}s ({schema})",
                    counted(train.len(), "rating")
                ));
            }
        }
        let (mut least, mut most) = (f32::INFINITY, f32::NEG_INFINITY);
        train.for_each(|_, rating| (least, most) = (least.min(*rating), most.max(*rating)));
        let all = cluster.all_gather((least, most))?;
        let (least, most) = all.into_iter().fold((least, most), |found, own| (found.0.min(own.0), found.1.max(own.1)));
        if least >= most && matches!(self.loss, LossName::Squared) {
            return refuse(format!(
                "all {} are {least}, so there is nothing to predict ({schema}); learn from events with `--loss one-class`",
                counted(train.len(), "rating")
            ));
        }
        Ok(())
    }

    /// *Collective.* Loads the training set and the validation set.
    fn load(&self, cluster: &Cluster, share: Option<f64>) -> Result<MfData> {
        let (ratings, schema) = match input_paths(&self.data) {
            Some(paths) => {
                let (ratings, schema) = self.read(cluster, &paths, None)?;
                (ratings, Some(schema))
            }
            None => (self.synthetic(cluster)?, None),
        };
        match share {
            Some(_) if self.search.is_some() || self.folds.folds.is_some() => {
                Ok(MfData { train: ratings, valid: None, schema, cold: 0 })
            }
            Some(0.0) => Ok(MfData { train: ratings, valid: None, schema, cold: 0 }),
            Some(share) => {
                let (train, valid) = ratings.split(share, Seed(self.common.seed))?;
                Ok(MfData { train, valid: Some(valid), schema, cold: 0 })
            }
            None => {
                let (entries, _) = self.read(cluster, &InputPaths::from(&self.validation), schema.as_ref())?;
                let valid = data::aligned(&entries, &ratings)?;
                if valid.is_empty() {
                    let files = &self.validation;
                    let message =
                        format!("no rating of `{files}` has a user and an item of `--data`; check both files");
                    return Err(Error::program(message));
                }
                let cold = entries.len() - valid.len();
                Ok(MfData { train: ratings, valid: Some(valid), schema, cold })
            }
        }
    }

    /// *Collective.* Reads ratings, or events if the loss is one of events. A validation set is read
    /// by the layout of the training set.
    fn read(
        &self,
        cluster: &Cluster,
        paths: &InputPaths,
        trained: Option<&InputSchema>,
    ) -> Result<(DistArray<f32, 2>, InputSchema)> {
        let implicit = self.is_implicit();
        let options =
            RatingReadOptions { skip_bad_lines: self.skip_bad_lines, ..self.reading.options(implicit, trained) };
        let LoadedRatings { entries, schema } = data::read_with(cluster, &options, paths)?;
        self.common.report_skipped_lines(cluster, &paths.to_string(), entries.skipped_lines());
        match self.event_threshold {
            Some(least) if implicit => Ok((data::from_threshold(&entries, least)?, schema)),
            _ => Ok((entries, schema)),
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
        if self.is_implicit() { data::from_threshold(&ratings, least) } else { Ok(ratings) }
    }

    fn is_implicit(&self) -> bool {
        matches!(self.loss, LossName::OneClass | LossName::Bpr)
    }
}

/// Returns an error unless the folder is a saved model.
pub(super) fn check_saved_model(folder: &Path) -> anyhow::Result<()> {
    if hemiola_array::save::PartReader::exists(folder) {
        return Ok(());
    }
    if hemiola_array::save::PartReader::exists(&folder.join("net")) {
        let message = format!("`{}` is a neural net, which this command cannot use", folder.display());
        let hint = "`hemiola show DIR` describes it; `hemiola train .. --output DIR --resume` continues its training";
        return Err(CommandError::usage(message).hint(hint).into());
    }
    let message = format!("`{}` is not a saved model", folder.display());
    let near = suggest::path_hint(folder);
    Err(CommandError::usage(message)
        .hint(near.as_deref().unwrap_or("train one with `hemiola train MODEL --output DIR`"))
        .into())
}
