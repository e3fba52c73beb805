//! `hemiola train mf`.

use super::progress::MetricColumns;
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use crate::{output, report, suggest};
use clap::{Args, ValueEnum};
use hemiola_array::DistArray;
use hemiola_array::read::Csv;
use hemiola_array::synthetic::{self, SyntheticMf};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_models::MatrixFactorization;
use hemiola_models::mf::{MfLoss, MfModel, data};
use hemiola_models::training::{ClusterInfo, TrainingLimits};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  Made-up ratings, to see it work:
    hemiola train mf

  Ratings of your own, and what to do with the model:
    hemiola train mf --data ratings.csv --output model
    hemiola recommend --model model --user 42 -k 10

  Events without ratings: user, item, and a weight if there is one; or ratings that are high enough:
    hemiola train mf --data clicks.csv --loss one-class
    hemiola train mf --data ratings.csv --loss one-class --events-from 4

  On two local peers, with a report, for at most a minute:
    hemiola train mf --data 'ratings/*.tsv.zst' --rank 64 --peers 2 --seconds 60 --report run.json

  What it would take on a cluster that is not there:
    hemiola train mf --data ratings.csv --epochs 5 --workers 1 --profile mf.json
    hemiola simulate train mf --profile mf.json --peers 16 --link 1gbit

  Interrupted with Ctrl-C, or to be prolonged:
    hemiola train mf --data ratings.csv --output model --epochs 80 --resume

A line of data is a user, an item and a rating, with any separator; users and items may have any names. Further fields are \
ignored. Events (--loss one-class) need no rating; what occurs more than once counts as often. docs/models.md has the mathematics, the schema of the report, and what is in a checkpoint.

Exit codes:
  0     trained, or nothing was left to do
  2     something has to be changed: a flag, a line of the data, the output folder; nothing was written
  3     the system or another peer failed: a full disk, say
  130   stopped by Ctrl-C after a pass (128 + the signal, for others); saved, if there is an --output";

/// The arguments of `hemiola train mf`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TrainMf {
    /// Files, a folder or a pattern with ratings. Default: a million made-up ratings.
    #[arg(long, short, value_name = "FILES")]
    data: Option<String>,

    /// What stands between fields. Default: what the file shows.
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    separator: Option<String>,

    /// Leave out up to this many lines that cannot be read.
    #[arg(long, value_name = "N", default_value = "0")]
    skip_bad_lines: u64,

    /// Held-out ratings: a share of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "SHARE|FILES", default_value = "0.1")]
    valid: String,

    /// Factors of each user and item.
    #[arg(long, value_name = "N", default_value = "32")]
    rank: u32,

    /// What is minimized.
    #[arg(long, value_enum, default_value = "squared")]
    loss: LossName,

    /// How much large factors cost. Default: 0.045; with --loss one-class 0.007.
    #[arg(long, value_name = "X")]
    l2: Option<f32>,

    /// The first step; steps adapt by themselves. Default: 0.08. Not for --loss one-class, which takes none.
    #[arg(long, value_name = "X")]
    step: Option<f32>,

    /// Take ratings from this on as events of weight 1, and leave out the others.
    #[arg(long, value_name = "X", help_heading = "Events (--loss one-class)")]
    events_from: Option<f32>,

    /// The weight of a pair that is no event, where an event has 1. Default: 0.3.
    #[arg(long, value_name = "X", help_heading = "Events (--loss one-class)")]
    unobserved: Option<f32>,

    /// How penalties grow with the events of a row: with their number to this power. Default: 1.
    #[arg(long, value_name = "X", help_heading = "Events (--loss one-class)")]
    nu: Option<f32>,

    /// File for what passes compute on this machine, from which `hemiola simulate train mf --profile` predicts what they would take on a cluster.
    #[arg(long, value_name = "FILE", conflicts_with = "peers", help_heading = "What comes out")]
    profile: Option<PathBuf>,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LossName {
    /// Ratings are numbers.
    Squared,
    /// Ratings are yes (above 0) or no.
    Logistic,
    /// There are no ratings, only events: clicks, purchases.
    OneClass,
}

/// What there is to train on.
struct MfData {
    train: DistArray<f32, 2>,
    valid: Option<DistArray<f32, 2>>,
    /// Held-out entries that are left out, because nobody trains on their user or item.
    cold: u64,
}

impl TrainMf {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let share = self.valid.parse::<f64>().ok();
        let mut settings = MatrixFactorization::builder();
        self.must_fit_the_loss()?;
        if let Some(l2) = self.l2 {
            settings = settings.l2(l2);
        }
        if let Some(unobserved) = self.unobserved {
            settings = settings.unobserved_weight(unobserved);
        }
        if let Some(nu) = self.nu {
            settings = settings.frequency_exponent(nu);
        }
        if let Some(step) = self.step {
            settings = settings.learning_rate(step);
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
        let held_out = share.is_none().then_some(&self.valid);
        self.data.iter().chain(held_out).try_for_each(|pattern| must_exist(pattern))?;
        // Hints come before the error leaves the peer, so that a launcher that repeats it says the same.
        self.common.run(|cluster| {
            self.train(cluster, &settings, share).map_err(|error| {
                match hinted(error.into(), true).downcast::<Error>() {
                    Ok(same) => same,
                    Err(hinted) => into_cluster_error(hinted),
                }
            })
        })
    }

    /// Refuses flags that would do nothing.
    fn must_fit_the_loss(&self) -> anyhow::Result<()> {
        let of_events = [
            (self.events_from, "`--events-from` makes events of ratings"),
            (self.unobserved, "`--unobserved` weighs pairs that are no events"),
            (self.nu, "`--nu` weighs penalties by events"),
        ];
        match of_events.into_iter().find(|(value, _)| value.is_some()) {
            Some((_, what)) if !self.is_one_class() => {
                let failure = CommandError::usage(format!("{what}, and the loss is not `one-class`"));
                Err(failure.hint("add `--loss one-class`, or leave it out").into())
            }
            _ if self.profile.is_some() && self.is_one_class() => {
                let message = "`--profile` is for losses of ratings, and the loss is `one-class`";
                Err(CommandError::usage(message).hint("leave it out").into())
            }
            _ if self.step.is_some() && self.is_one_class() => {
                let message = "`--step` is for gradients, and the loss `one-class` is minimized without";
                Err(CommandError::usage(message).hint("leave it out").into())
            }
            _ => Ok(()),
        }
    }

    fn train(&self, cluster: &Cluster, settings: &MatrixFactorization, share: Option<f64>) -> Result<u8> {
        if self.profile.is_some() && cluster.size() > 1 {
            let failure = CommandError::usage("`--profile` is of one peer, and a launcher has started several");
            return Err(into_cluster_error(failure.hint("run it without the launcher").into()));
        }
        let start = cluster.env().now();
        let lock = self.common.claim(cluster)?;
        let MfData { train, valid, cold } = self.load(cluster, share)?;
        let [users, items] = train.shape().extents();
        let (count, held_out) = (train.len(), valid.as_ref().map_or(0, DistArray::len));
        let cluster_facts = ClusterInfo::of(cluster);
        let what = if self.is_one_class() { "event" } else { "rating" };
        let cold = match cold {
            0 => String::new(),
            _ => format!(" ({cold} more of users or items nobody trains on: `hemiola evaluate` counts them)"),
        };
        let prepared = PreparedTraining {
            headline: format!(
                "{} of {} for {}, {held_out} held out{cold}; {cluster_facts}",
                counted(count, what),
                counted(users, "user"),
                counted(items, "item")
            ),
            loading: cluster.env().now() - start,
            figures: MetricColumns::updates(settings.settings().loss.metric_name()),
            limits: &settings.settings().limits,
            lock,
        };
        self.common.accompany(cluster, prepared, |session| {
            let session = if self.profile.is_some() { session.with_profiling() } else { session };
            let trained = settings.fit_with(cluster, &train, valid.as_ref(), session)?;
            if let (Some(path), Some(profile)) = (&self.profile, &trained.profile) {
                output::write(path, &profile.to_json()).map_err(into_cluster_error)?;
            }
            Ok(trained.report)
        })
    }

    /// *Collective.* Ratings to train on, and those held out.
    fn load(&self, cluster: &Cluster, share: Option<f64>) -> Result<MfData> {
        let ratings = match &self.data {
            Some(pattern) => self.read(cluster, pattern)?,
            None => self.made_up(cluster)?,
        };
        match share {
            Some(0.0) => Ok(MfData { train: ratings, valid: None, cold: 0 }),
            Some(share) => {
                let (train, valid) = ratings.split(share, self.common.seed)?;
                Ok(MfData { train, valid: Some(valid), cold: 0 })
            }
            None => {
                let held_out = self.read(cluster, &self.valid)?;
                let valid = data::aligned(&held_out, &ratings)?;
                if valid.is_empty() {
                    let files = &self.valid;
                    let message =
                        format!("no rating of `{files}` is of a user and an item that `--data` has; check both");
                    return Err(Error::program(message));
                }
                let cold = held_out.len() - valid.len();
                Ok(MfData { train: ratings, valid: Some(valid), cold })
            }
        }
    }

    /// *Collective.* What a file holds: ratings, or events.
    fn read(&self, cluster: &Cluster, pattern: &str) -> Result<DistArray<f32, 2>> {
        let one_class = self.is_one_class();
        let entries = if one_class {
            data::read_events(cluster, self.options(), pattern)?
        } else {
            data::read(cluster, self.options(), pattern)?
        };
        self.common.tell_skipped(cluster, pattern, entries.skipped_lines());
        match self.events_from {
            Some(least) if one_class => data::from_threshold(&entries, least),
            _ => Ok(entries),
        }
    }

    /// *Collective.* Made-up ratings; those above the mean are events.
    fn made_up(&self, cluster: &Cluster) -> Result<DistArray<f32, 2>> {
        let made = SyntheticMf::new(6_000, 4_000, 1_000_000, 16, self.common.seed).noise(0.5);
        let ratings = data::synthetic(cluster, &made)?;
        let least = self.events_from.unwrap_or(synthetic::mf::MEAN_RATING as f32);
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

/// An error of reading, with the flag or the change that would help. Not every command can `skip` lines or be told the separator.
pub(super) fn hinted(error: anyhow::Error, skip: bool) -> anyhow::Error {
    use hemiola_array::Error as Reading;
    let Some(reading) = error.chain().find_map(|cause| cause.downcast_ref::<Reading>()) else { return error };
    match reading {
        Reading::BadLine(_) if !skip => CommandError::array(reading, "mend the line, or remove it").into(),
        Reading::BadLine(_) => {
            CommandError::array(reading, "mend the line, or leave out up to N such lines with `--skip-bad-lines N`")
                .into()
        }
        Reading::TooManyBadLines { .. } => {
            CommandError::array(reading, "mend the lines, or allow more with `--skip-bad-lines N`").into()
        }
        Reading::BadFile { .. } if skip => {
            let hint = "a line is a user, an item and a rating; say what separates them with `--separator TEXT`";
            CommandError::array(reading, hint).into()
        }
        Reading::BadFile { .. } => CommandError::array(reading, "a line is a user, an item and a rating").into(),
        Reading::DuplicateKey { first, second, .. } => {
            let message = format!("{first} and {second} are of the same user and the same item");
            CommandError::usage(message).hint("leave one of them").into()
        }
        _ => error,
    }
}

/// Whether a path is a saved model, for messages.
pub(super) fn must_be_a_model(folder: &Path) -> anyhow::Result<()> {
    if folder.join("manifest.json").is_file() {
        return Ok(());
    }
    let message = format!("`{}` is no saved model", folder.display());
    let near = suggest::path_hint(folder);
    Err(CommandError::usage(message)
        .hint(near.as_deref().unwrap_or("train one with `hemiola train MODEL --output DIR`"))
        .into())
}
