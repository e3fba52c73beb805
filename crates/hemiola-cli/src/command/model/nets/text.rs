//! `hemiola train lstm` and `transformer`: which word comes next.

use super::super::train_args::{TrainArgs, must_exist};
use super::net_args::{AFTER_HELP, NetArgs};
use super::training::{NetCommand, NetData, NetKind};
use crate::error::CommandError;
use clap::Args;
use hemiola_models::training::TargetMetric;
use hemiola_nn::data::{Dataset as _, TextDataset, synthetic};
use hemiola_nn::models::{LstmConfig, TransformerConfig};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const FIGURE: TargetMetric = TargetMetric::minimize("perplexity");
/// Words of made-up text, and how many of them there are.
const MADE: [usize; 2] = [100, 20_000];

/// Flags of nets that read text.
#[derive(Args, Debug)]
struct TextArgs {
    /// A file of one sentence a line, words with spaces between them; or a folder with one file that has `train` in its name and one with `valid`, as the Penn Treebank. Default: made-up text.
    #[arg(long, short, value_name = "FILE|DIR")]
    data: Option<PathBuf>,

    /// Held-out text: the last share of the data (0.1), 0 for none, or a file. Default: 0.1, or what the folder has.
    #[arg(long, value_name = "SHARE|FILE")]
    valid: Option<String>,

    /// Words of a piece of text, which is an example.
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..=4096))]
    positions: u32,
}

/// Where text is.
#[derive(Debug)]
struct TextFiles {
    train: Option<String>,
    valid: Option<String>,
    /// What is held out where there is no file of it.
    share: f64,
}

impl TextArgs {
    /// Finds the files before peers are started.
    fn files(&self) -> anyhow::Result<TextFiles> {
        let share = match &self.valid {
            None => Some(0.1),
            Some(text) => text.parse::<f64>().ok(),
        };
        if share.is_some_and(|share| !(0.0..=0.9).contains(&share)) {
            let failure = CommandError::usage("the share that is held out must be from 0 to 0.9");
            return Err(failure.hint("such as `--valid 0.1`").into());
        }
        let [train, beside] = match &self.data {
            Some(folder) if folder.is_dir() => {
                let named = |part: &str| in_folder(folder, part);
                [Some(named("train")?), self.valid.is_none().then(|| named("valid")).transpose()?]
            }
            Some(file) => [Some(text_of(file)?), None],
            None => [None, None],
        };
        let valid = match (&self.valid, share) {
            (Some(file), None) => Some(file.clone()),
            _ => beside,
        };
        train.iter().chain(&valid).try_for_each(|pattern| must_exist(pattern))?;
        Ok(TextFiles { train, valid, share: share.unwrap_or(0.0) })
    }

    /// Text to train on and text that is held out; `config` makes a net for so many words.
    fn load<C>(
        &self,
        files: &TextFiles,
        seed: u64,
        config: impl FnOnce(usize) -> C,
    ) -> anyhow::Result<NetData<TextDataset, C>> {
        let positions = self.positions as usize;
        let (train, valid, words) = match (&files.train, &files.valid) {
            (Some(train), Some(valid)) => {
                let (train, vocabulary) = TextDataset::read(train, positions)?;
                let valid = TextDataset::read_with(valid, positions, &vocabulary)?;
                (train, Some(valid), vocabulary.len())
            }
            (train, _) => {
                let (all, words) = match train {
                    Some(train) => {
                        let (all, vocabulary) = TextDataset::read(train, positions)?;
                        (all, vocabulary.len())
                    }
                    None => (synthetic::text(MADE[0], MADE[1], positions, seed), MADE[0]),
                };
                let [train, valid] = all.split(files.share);
                (train, Some(valid).filter(|valid| !valid.is_empty()), words)
            }
        };
        if train.is_empty() {
            let failure = CommandError::usage("nothing is left to train on");
            return Err(failure.hint("hold out less (`--valid 0.1`), or give more text").into());
        }
        let held_out = valid.as_ref().map_or(0, TextDataset::words);
        let origin = if files.train.is_some() { "" } else { "made-up " };
        let headline =
            format!("{} {origin}words of {words} kinds, {held_out} held out, in pieces of {positions}", train.words());
        let shape = vec![train.len() as u64, positions as u64, words as u64];
        Ok(NetData { train, valid, headline, config: config(words), positions, shape })
    }
}

/// The file of a folder that has a word in its name.
fn in_folder(folder: &Path, word: &str) -> anyhow::Result<String> {
    let entries = std::fs::read_dir(folder).map_err(|error| CommandError::io("list", folder, &error))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && path.file_name().is_some_and(|name| name.to_string_lossy().contains(word)))
        .collect();
    found.sort_unstable();
    if let [one] = &*found {
        return text_of(one);
    }
    let message = format!("`{}` has {} files with `{word}` in their names", folder.display(), found.len());
    Err(CommandError::usage(message).hint("name the file with `--data FILE`, and `--valid FILE`").into())
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| CommandError::usage(format!("`{}` is not UTF-8", path.display())).hint("rename it").into())
}

const LSTM_HELP: &str = "\
Examples:
  Made-up text, to see it work:
    hemiola train lstm

  The Penn Treebank on two local peers:
    hemiola train lstm --data ptb --peers 2 --width 200 --memory 200 --rate 0.002 --clip 5 --epochs 6 --output net
";

/// The arguments of `hemiola train lstm`.
#[derive(Args, Debug)]
#[command(after_help = format!("{LSTM_HELP}\n{AFTER_HELP}"))]
pub(crate) struct TrainLstm {
    #[command(flatten)]
    writing: TextArgs,

    #[command(flatten)]
    sizes: LstmSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct LstmSizes {
    /// Numbers that stand for a word.
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u32).range(1..))]
    width: u32,

    /// Numbers that a layer remembers.
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u32).range(1..))]
    memory: u32,

    /// Layers.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    layers: u32,
}

impl TrainLstm {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { writing, sizes, flags, common } = &self;
        let files = writing.files()?;
        let load = || {
            writing.load(&files, common.seed, |words| LstmConfig {
                vocabulary_size: words,
                embedding_size: sizes.width as usize,
                hidden_size: sizes.memory as usize,
                layers: sizes.layers as usize,
                seed: common.seed,
            })
        };
        let kind = NetKind { name: "lstm", figure: FIGURE, batch: 32 };
        NetCommand { kind, common, flags }.execute(sizes, load, LstmConfig::init)
    }
}

const TRANSFORMER_HELP: &str = "\
Examples:
  Made-up text, to see it work:
    hemiola train transformer

  The Penn Treebank on two local peers:
    hemiola train transformer --data ptb --peers 2 --positions 64 --schedule cosine --warm-up 200 --epochs 6 --output net
";

/// The arguments of `hemiola train transformer`.
#[derive(Args, Debug)]
#[command(after_help = format!("{TRANSFORMER_HELP}\n{AFTER_HELP}"))]
pub(crate) struct TrainTransformer {
    #[command(flatten)]
    writing: TextArgs,

    #[command(flatten)]
    sizes: TransformerSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct TransformerSizes {
    /// Numbers that stand for a word, a multiple of --heads.
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u32).range(1..))]
    width: u32,

    /// Ways to look at other words.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..))]
    heads: u32,

    /// Blocks of attention.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
}

impl TrainTransformer {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { writing, sizes, flags, common } = &self;
        if sizes.width % sizes.heads != 0 {
            let message = format!("`--width {}` is no multiple of `--heads {}`", sizes.width, sizes.heads);
            return Err(CommandError::usage(message).hint("such as `--width 128 --heads 4`").into());
        }
        let files = writing.files()?;
        let load = || {
            writing.load(&files, common.seed, |words| TransformerConfig {
                vocabulary_size: words,
                context_length: writing.positions as usize,
                embedding_size: sizes.width as usize,
                heads: sizes.heads as usize,
                blocks: sizes.blocks as usize,
                seed: common.seed,
            })
        };
        let kind = NetKind { name: "transformer", figure: FIGURE, batch: 32 };
        NetCommand { kind, common, flags }.execute(sizes, load, TransformerConfig::init)
    }
}
