//! `hemiola train gpt`: GPT-2 in known sizes.

use super::super::train_args::TrainArgs;
use super::super::train_defaults::TrainDefaults;
use super::net_args::{AFTER_HELP, NetArgs};
use super::net_command::{NetCommand, NetKind};
use super::text::{METRIC, TextArgs};
use crate::error::CommandError;
use clap::Args;
use hemiola_nn::models::{GptConfig, GptPreset};
use serde::Serialize;
use std::process::ExitCode;

const GPT_HELP: &str = "\
Examples:
  Synthetic text, with a small net:
    hemiola train gpt --blocks 1 --embedding-size 64 --heads 2

  The Penn Treebank on two local peers:
    hemiola train gpt --preset nano --data ptb --peers 2 --sequence-length 64 --optimizer adamw --weight-decay 0.1 --lr-schedule cosine --warmup-steps 200 --output net
";

/// Arguments of `hemiola train gpt`.
#[derive(Args, Debug)]
#[command(after_help = format!("{GPT_HELP}\n{AFTER_HELP}"), mut_args(|argument| TrainDefaults::TEXT.complete(argument)))]
pub(crate) struct TrainGpt {
    #[command(flatten)]
    text: TextArgs,

    #[command(flatten)]
    sizes: GptSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct GptSizes {
    /// Sizes and dropout: `nano` (6 blocks of 6 heads, embedding size 384, dropout 0.2) or `gpt2` (12
    /// blocks of 12 heads, 768, 0.1). The context is the sequence length.
    #[arg(long, value_name = "nano|gpt2", default_value = "nano")]
    preset: GptPreset,

    /// Embedding size, a multiple of --heads [default: that of the preset]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    embedding_size: Option<u32>,

    /// Number of attention heads [default: that of the preset]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    heads: Option<u32>,

    /// Number of transformer blocks [default: that of the preset]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: Option<u32>,

    /// Fraction of activations that are dropped in training [default: that of the preset]
    #[arg(long, value_name = "X", value_parser = fraction)]
    dropout: Option<f64>,

    /// Share of the target probability that is divided over all words in training.
    #[arg(long, value_name = "X", default_value = "0", value_parser = fraction)]
    label_smoothing: f64,
}

/// A number from 0 to below 1.
fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..1.0).contains(number));
    number.ok_or_else(|| "it must be from 0 to below 1, for example 0.1".to_owned())
}

impl GptSizes {
    /// Configuration for a vocabulary and a sequence length.
    fn config(&self, vocabulary_size: usize, context_length: usize, seed: u64) -> GptConfig {
        let preset = self.preset.config();
        let size = |flag: Option<u32>, known: usize| flag.map_or(known, |number| number as usize);
        GptConfig {
            vocabulary_size,
            context_length,
            embedding_size: size(self.embedding_size, preset.embedding_size),
            heads: size(self.heads, preset.heads),
            blocks: size(self.blocks, preset.blocks),
            dropout: self.dropout.unwrap_or(preset.dropout),
            label_smoothing: self.label_smoothing,
            seed,
        }
    }
}

impl TrainGpt {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { text, sizes, flags, common } = &self;
        let GptConfig { embedding_size, heads, .. } = sizes.config(1, 1, 1);
        if embedding_size % heads != 0 {
            let message = format!("an embedding size of {embedding_size} is not a multiple of {heads} heads");
            return Err(CommandError::usage(message).hint("for example `--embedding-size 384 --heads 6`").into());
        }
        let files = text.files()?;
        let context = text.sequence_length as usize;
        let load = || text.load(&files, common.seed, |words| sizes.config(words, context, common.seed));
        let kind = NetKind { name: "gpt", metric: METRIC };
        NetCommand { kind, common, flags }.execute(sizes, load, GptConfig::init)
    }
}
