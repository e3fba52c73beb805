//! `hemiola train ncf`: neural collaborative filtering.

use super::super::train_args::{TrainArgs, must_exist};
use super::super::train_defaults::TrainDefaults;
use super::net_args::{AFTER_HELP, NetArgs};
use super::net_command::{NetCommand, NetData, NetKind};
use crate::error::CommandError;
use clap::Args;
use hemiola_core::Seed;
use hemiola_nn::data::synthetic::SyntheticRatings;
use hemiola_nn::data::{Dataset as _, RatingDataset};
use hemiola_nn::models::NcfConfig;
use hemiola_nn::saved::NetInput;
use hemiola_nn::training::NetMetric;
use serde::Serialize;
use std::process::ExitCode;

const METRIC: NetMetric = NetMetric::Rmse;

const HELP: &str = "\
Examples:
  Synthetic ratings:
    hemiola train ncf

  MovieLens on two local peers, with sparse gradients: only the embedding rows that a step touches are sent:
    hemiola train ncf --data ml-100k/u1.base --validation ml-100k/u1.test --peers 2 --strategy parallax --explain

A line of data is a user, an item and a rating, with any separator; further fields are ignored.
";

/// Arguments of `hemiola train ncf`.
#[derive(Args, Debug)]
#[command(after_help = format!("{HELP}\n{AFTER_HELP}"), mut_args(|argument| TrainDefaults::NCF.complete(argument)))]
pub(crate) struct TrainNcf {
    /// Files, a folder or a pattern with ratings, in the first three columns of text, JSON lines,
    /// Parquet or Arrow IPC [default: synthetic ratings]
    #[arg(long, short, value_name = "FILES")]
    data: Option<String>,

    /// Validation set: a fraction of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "FRACTION|FILES", default_value = "0.1")]
    validation: String,

    #[command(flatten)]
    sizes: NcfSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct NcfSizes {
    /// Embedding size of users and items.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(1..))]
    embedding_size: u32,

    /// Sizes of the hidden layers.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "32,16", value_parser = clap::value_parser!(u32).range(1..))]
    hidden: Vec<u32>,
}

impl TrainNcf {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let share = self.validation.parse::<f64>().ok();
        if share.is_some_and(|share| !(0.0..=0.9).contains(&share)) {
            let failure = CommandError::usage("the validation fraction must be from 0 to 0.9");
            return Err(failure.hint("for example `--validation 0.1`").into());
        }
        let validation_files = share.is_none().then_some(&self.validation);
        self.data.iter().chain(validation_files).try_for_each(|pattern| must_exist(pattern))?;
        let Self { sizes, flags, common, .. } = &self;
        let kind = NetKind { name: "ncf", metric: METRIC };
        let command = NetCommand { kind, common, flags };
        command.execute(sizes, || self.load(share), NcfConfig::init)
    }

    fn load(&self, share: Option<f64>) -> anyhow::Result<NetData<RatingDataset, NcfConfig>> {
        let seed = self.common.seed;
        let ratings = match &self.data {
            Some(pattern) => RatingDataset::read(pattern)?,
            None => SyntheticRatings { seed, ..SyntheticRatings::default() }.dataset(),
        };
        let (train, valid, cold) = match share {
            None if self.data.is_none() => {
                let failure = CommandError::usage("a validation file needs `--data`");
                return Err(failure.hint("add `--data FILES`").into());
            }
            None => {
                let (valid, cold) = RatingDataset::read_validation(&self.validation, &ratings)?;
                (ratings, Some(valid), cold)
            }
            Some(share) => {
                let [train, valid] = ratings.split(share, Seed(seed));
                (train, Some(valid).filter(|valid| !valid.is_empty()), 0)
            }
        };
        if train.is_empty() {
            return Err(CommandError::usage("the training set is empty")
                .hint("use a smaller validation set: `--validation 0.1`")
                .into());
        }
        let origin = if self.data.is_some() { "" } else { "synthetic " };
        let cold = if cold == 0 {
            String::new()
        } else {
            format!(" (and {cold} of users or items outside the training set, which are ignored)")
        };
        let headline = format!(
            "{} {origin}ratings of {} users for {} items, {} for validation{cold}",
            train.len(),
            train.users(),
            train.items(),
            valid.as_ref().map_or(0, RatingDataset::len)
        );
        let config = NcfConfig {
            users: train.users(),
            items: train.items(),
            embedding_size: self.sizes.embedding_size as usize,
            hidden: self.sizes.hidden.iter().map(|neurons| *neurons as usize).collect(),
            mean_rating: train.mean() as f32,
            seed,
        };
        let (extents, input) = (vec![train.users(), train.items()], NetInput::from(&train));
        Ok(NetData { train, valid, headline, config, input, sequence_length: 1, shape: extents })
    }
}
