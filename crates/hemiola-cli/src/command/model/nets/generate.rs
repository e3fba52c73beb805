//! `hemiola generate`: text from a trained language model.

use super::super::mf::check_saved_model;
use super::super::serving::ModelArgs;
use super::is_net;
use super::saved::open;
use crate::error::CommandError;
use clap::Args;
use hemiola_cluster::Error;
use hemiola_nn::models::Device;
use hemiola_nn::saved::GenerationOptions;
use serde::Serialize;
use std::process::ExitCode;

/// Arguments of `hemiola generate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola generate --model lm --prompt 'the company said'
  hemiola generate --model lm --prompt 'the company said' --length 100 --temperature 0.8 --top-k 40 --seed 7

Words of the prompt are those of the training text, separated by spaces. The same seed gives the same text.")]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Beginning of the text, which the model continues.
    #[arg(long, value_name = "TEXT", default_value = "")]
    prompt: String,

    /// Number of words to generate.
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    length: u32,

    /// Temperature: below 1, probable words become more probable; 0 always takes the most probable
    /// word.
    #[arg(long, value_name = "X", default_value = "1")]
    temperature: f64,

    /// Draw from the K most probable words only [default: all]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top_k: Option<u32>,

    /// Random seed.
    #[arg(long, visible_alias = "random-state", value_name = "N", default_value = "1")]
    seed: u64,
}

/// Report of a generated text.
#[derive(Serialize)]
struct GeneratedText<'a> {
    prompt: &'a str,
    text: &'a str,
    words: u32,
}

impl GenerateArgs {
    pub(crate) fn execute(&self) -> anyhow::Result<ExitCode> {
        let Self { common, prompt, length, temperature, top_k, seed } = self;
        if !(temperature.is_finite() && *temperature >= 0.0) {
            let failure = CommandError::usage(format!("`--temperature {temperature}` is not a number of at least 0"));
            return Err(failure.hint("for example `--temperature 0.8`").into());
        }
        if !is_net(&common.model) {
            check_saved_model(&common.model)?;
            let failure = CommandError::usage(format!("`{}` is not a language model", common.model.display()));
            return Err(failure.hint("`hemiola train lstm` and `transformer` train language models").into());
        }
        let model = open(&common.model)?.language_model(&Device::flex()).map_err(Error::from)?;
        let tokens = model.tokens(prompt).map_err(Error::from)?;
        let options = GenerationOptions {
            length: *length as usize,
            temperature: *temperature,
            top_k: top_k.map(|count| count as usize),
            seed: *seed,
        };
        let generated = model.generate(&tokens, &options).map_err(Error::from)?;
        let all: Vec<u32> = tokens.iter().chain(&generated).copied().collect();
        let lines = format!("{}\n", model.text(&all).trim_end());
        let text = model.text(&generated);
        common.write(&lines, &GeneratedText { prompt, text: &text, words: *length })?;
        Ok(ExitCode::SUCCESS)
    }
}
