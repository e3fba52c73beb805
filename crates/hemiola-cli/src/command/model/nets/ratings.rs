//! `hemiola train ncf`: ratings of users for items.

use super::super::train_args::{TrainArgs, must_exist};
use super::net_args::{AFTER_HELP, NetArgs};
use super::training::{NetCommand, NetData, NetKind};
use crate::error::CommandError;
use clap::Args;
use hemiola_models::training::TargetMetric;
use hemiola_nn::data::{Dataset as _, RatingDataset, synthetic};
use hemiola_nn::models::NcfConfig;
use serde::Serialize;
use std::process::ExitCode;

const FIGURE: TargetMetric = TargetMetric::minimize("rmse");
/// Users, items and ratings that are made up.
const MADE: [usize; 3] = [1000, 800, 60_000];

const HELP: &str = "\
Examples:
  Made-up ratings, to see it work:
    hemiola train ncf

  MovieLens on two local peers; rows of embeddings that a step touches are all that is sent of them:
    hemiola train ncf --data ml-100k/u1.base --valid ml-100k/u1.test --peers 2 --strategy parallax --explain

A line of data is a user, an item and a rating, with any separator; further fields are ignored.
";

/// The arguments of `hemiola train ncf`.
#[derive(Args, Debug)]
#[command(after_help = format!("{HELP}\n{AFTER_HELP}"))]
pub(crate) struct TrainNcf {
    /// Files, a folder or a pattern with ratings. Default: made-up ratings.
    #[arg(long, short, value_name = "FILES")]
    data: Option<String>,

    /// Held-out ratings: a share of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "SHARE|FILES", default_value = "0.1")]
    valid: String,

    #[command(flatten)]
    sizes: NcfSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct NcfSizes {
    /// Numbers that stand for a user or an item.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(1..))]
    width: u32,

    /// Neurons of each hidden layer.
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "32,16", value_parser = clap::value_parser!(u32).range(1..))]
    hidden: Vec<u32>,
}

impl TrainNcf {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let share = self.valid.parse::<f64>().ok();
        if share.is_some_and(|share| !(0.0..=0.9).contains(&share)) {
            let failure = CommandError::usage("the share that is held out must be from 0 to 0.9");
            return Err(failure.hint("such as `--valid 0.1`").into());
        }
        let held_out = share.is_none().then_some(&self.valid);
        self.data.iter().chain(held_out).try_for_each(|pattern| must_exist(pattern))?;
        let Self { sizes, flags, common, .. } = &self;
        let kind = NetKind { name: "ncf", figure: FIGURE, batch: 256 };
        let command = NetCommand { kind, common, flags };
        command.execute(sizes, || self.load(share), NcfConfig::init)
    }

    fn load(&self, share: Option<f64>) -> anyhow::Result<NetData<RatingDataset, NcfConfig>> {
        let seed = self.common.seed;
        let ratings = match &self.data {
            Some(pattern) => RatingDataset::read(pattern)?,
            None => synthetic::ratings(MADE[0], MADE[1], MADE[2], seed),
        };
        let (train, valid, cold) = match share {
            None if self.data.is_none() => {
                let failure =
                    CommandError::usage("held-out ratings from files need ratings to train on, and there are none");
                return Err(failure.hint("add `--data FILES`").into());
            }
            None => {
                let (valid, cold) = RatingDataset::read_validation(&self.valid, &ratings)?;
                (ratings, Some(valid), cold)
            }
            Some(share) => {
                let [train, valid] = ratings.split(share, seed);
                (train, Some(valid).filter(|valid| !valid.is_empty()), 0)
            }
        };
        if train.is_empty() {
            return Err(CommandError::usage("nothing is left to train on").hint("hold out less: `--valid 0.1`").into());
        }
        let origin = if self.data.is_some() { "" } else { "made-up " };
        let cold = if cold == 0 { String::new() } else { format!(" ({cold} more of users or items nobody trains on)") };
        let headline = format!(
            "{} {origin}ratings of {} users for {} items, {} held out{cold}",
            train.len(),
            train.users(),
            train.items(),
            valid.as_ref().map_or(0, RatingDataset::len)
        );
        let config = NcfConfig {
            users: train.users(),
            items: train.items(),
            embedding_size: self.sizes.width as usize,
            hidden: self.sizes.hidden.iter().map(|neurons| *neurons as usize).collect(),
            mean_rating: train.mean() as f32,
            seed,
        };
        let extents = vec![train.users() as u64, train.items() as u64];
        Ok(NetData { train, valid, headline, config, positions: 1, shape: extents })
    }
}
