//! `hemiola train lstm` and `transformer`: language models.

use super::super::train_args::{TrainArgs, must_exist};
use super::super::train_defaults::TrainDefaults;
use super::net_args::{AFTER_HELP, NetArgs};
use super::net_command::{NetCommand, NetData, NetKind};
use crate::error::CommandError;
use crate::suggest;
use clap::Args;
use hemiola_nn::data::synthetic::SyntheticText;
use hemiola_nn::data::{Dataset as _, TextCodec, TextDataset, TextPaths, TextTokenizer, TextVocabulary};
use hemiola_nn::models::{LstmConfig, TransformerConfig};
use hemiola_nn::saved::NetInput;
use hemiola_nn::training::NetMetric;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) const METRIC: NetMetric = NetMetric::Perplexity;

/// Flags of language models.
#[derive(Args, Debug)]
pub(super) struct TextArgs {
    /// File with a sentence per line, words separated by spaces; or a folder with one file named
    /// `*train*` and one named `*valid*`, as the Penn Treebank [default: synthetic text]
    #[arg(long, short, value_name = "FILE|DIR")]
    data: Option<PathBuf>,

    /// Validation set: the last fraction of the data (0.1), 0 for none, or a file [default: the
    /// `*valid*` file of the folder, else 0.1]
    #[arg(long, value_name = "FRACTION|FILE")]
    validation: Option<String>,

    /// Column of JSON lines, Parquet or Arrow IPC files with the texts.
    #[arg(long, value_name = "COLUMN", requires = "data")]
    text_column: Option<String>,

    /// File of a byte-level BPE tokenizer (Hugging Face's `tokenizer.json`, as of GPT-2 or Llama 3):
    /// any text is divided into its tokens instead of words. Stored with the net.
    #[arg(long, value_name = "FILE", requires = "data")]
    tokenizer: Option<PathBuf>,

    /// Sequence length: words per example, or tokens with --tokenizer.
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(super) sequence_length: u32,
}

/// Files of the training set and the validation set.
#[derive(Debug)]
pub(super) struct TextFiles {
    train: Option<String>,
    valid: Option<String>,
    /// Validation fraction, used without a validation file.
    share: f64,
    tokenizer: Option<TextTokenizer>,
}

impl TextArgs {
    /// Finds the files, before peers are launched.
    pub(super) fn files(&self) -> anyhow::Result<TextFiles> {
        let share = match &self.validation {
            None => Some(0.1),
            Some(text) => text.parse::<f64>().ok(),
        };
        if share.is_some_and(|share| !(0.0..=0.9).contains(&share)) {
            let failure = CommandError::usage("the validation fraction must be from 0 to 0.9");
            return Err(failure.hint("for example `--validation 0.1`").into());
        }
        let [train, beside] = match &self.data {
            Some(folder) if folder.is_dir() => {
                let named = |part: &str| in_folder(folder, part);
                [Some(named("train")?), self.validation.is_none().then(|| named("valid")).transpose()?]
            }
            Some(file) => [Some(text_of(file)?), None],
            None => [None, None],
        };
        let valid = match (&self.validation, share) {
            (Some(file), None) => Some(file.clone()),
            _ => beside,
        };
        train.iter().chain(&valid).try_for_each(|pattern| must_exist(pattern))?;
        let tokenizer = self.tokenizer.as_deref().map(read_tokenizer).transpose()?;
        Ok(TextFiles { train, valid, share: share.unwrap_or(0.0), tokenizer })
    }

    /// Loads the training set and the validation set; `config` builds a net for the vocabulary
    /// size.
    pub(super) fn load<C>(
        &self,
        files: &TextFiles,
        seed: u64,
        config: impl FnOnce(usize) -> C,
    ) -> anyhow::Result<NetData<TextDataset, C>> {
        let sequence_length = self.sequence_length as usize;
        let source = |pattern| TextPaths { pattern, column: self.text_column.as_deref() };
        let (all, codec) = match (&files.train, &files.tokenizer) {
            (Some(train), Some(tokenizer)) => {
                let codec = TextCodec::Tokenizer(Box::new(tokenizer.clone()));
                (codec.read(source(train), sequence_length)?, codec)
            }
            (Some(train), None) => {
                let (all, vocabulary) = TextDataset::read(source(train), sequence_length)?;
                (all, TextCodec::Words(vocabulary))
            }
            (None, _) => {
                let text = SyntheticText { sequence_length, seed, ..SyntheticText::default() };
                let words = (0..text.vocabulary_size).map(|word| word.to_string());
                (text.dataset(), TextCodec::Words(TextVocabulary::from_words(words)))
            }
        };
        let (train, valid) = if let Some(valid) = &files.valid {
            (all, Some(codec.read(source(valid), sequence_length)?))
        } else {
            let [train, valid] = all.split(files.share);
            (train, Some(valid).filter(|valid| !valid.is_empty()))
        };
        if train.is_empty() {
            let failure = CommandError::usage("the training set is empty");
            return Err(failure.hint("use a smaller validation set (`--validation 0.1`), or more text").into());
        }
        let (validation, words) = (valid.as_ref().map_or(0, TextDataset::words), codec.len());
        let origin = if files.train.is_some() { "" } else { "synthetic " };
        let headline = format!(
            "{} {origin}{}s, {words} distinct, {validation} for validation, in sequences of {sequence_length}",
            train.words(),
            codec.unit()
        );
        let shape = vec![train.len(), sequence_length, words];
        let (config, input) = (config(words), NetInput::text(&codec, sequence_length));
        Ok(NetData { train, valid, headline, config, input, sequence_length, shape })
    }
}

/// Reads a tokenizer, before peers are launched.
fn read_tokenizer(path: &Path) -> anyhow::Result<TextTokenizer> {
    if let (false, Some(hint)) = (path.is_file(), suggest::path_hint(path)) {
        return Err(CommandError::usage(format!("`{}` is not a file", path.display())).hint(hint).into());
    }
    Ok(TextTokenizer::read(path)?)
}

/// Returns the one file of a folder whose name contains a word.
pub(super) fn in_folder(folder: &Path, word: &str) -> anyhow::Result<String> {
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
    Err(CommandError::usage(message).hint("give the files with `--data FILE` and `--validation FILE`").into())
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| CommandError::usage(format!("`{}` is not UTF-8", path.display())).hint("rename it").into())
}

const LSTM_HELP: &str = "\
Examples:
  Synthetic text:
    hemiola train lstm

  The Penn Treebank on two local peers:
    hemiola train lstm --data ptb --peers 2 --embedding-size 200 --hidden-size 200 --lr 0.002 --clip-norm 5 --epochs 6 --output net
";

/// Arguments of `hemiola train lstm`.
#[derive(Args, Debug)]
#[command(after_help = format!("{LSTM_HELP}\n{AFTER_HELP}"), mut_args(|argument| TrainDefaults::TEXT.complete(argument)))]
pub(crate) struct TrainLstm {
    #[command(flatten)]
    text: TextArgs,

    #[command(flatten)]
    sizes: LstmSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct LstmSizes {
    /// Embedding size.
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u32).range(1..))]
    embedding_size: u32,

    /// Hidden size of a layer.
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u32).range(1..))]
    hidden_size: u32,

    /// Number of layers.
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    layers: u32,
}

impl TrainLstm {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { text, sizes, flags, common } = &self;
        let files = text.files()?;
        let load = || {
            text.load(&files, common.seed, |words| LstmConfig {
                vocabulary_size: words,
                embedding_size: sizes.embedding_size as usize,
                hidden_size: sizes.hidden_size as usize,
                layers: sizes.layers as usize,
                seed: common.seed,
            })
        };
        let kind = NetKind { name: "lstm", metric: METRIC };
        NetCommand { kind, common, flags }.execute(sizes, load, LstmConfig::init)
    }
}

const TRANSFORMER_HELP: &str = "\
Examples:
  Synthetic text:
    hemiola train transformer

  The Penn Treebank on two local peers:
    hemiola train transformer --data ptb --peers 2 --sequence-length 64 --lr-schedule cosine --warmup-steps 200 --epochs 6 --output net
";

/// Arguments of `hemiola train transformer`.
#[derive(Args, Debug)]
#[command(after_help = format!("{TRANSFORMER_HELP}\n{AFTER_HELP}"), mut_args(|argument| TrainDefaults::TEXT.complete(argument)))]
pub(crate) struct TrainTransformer {
    #[command(flatten)]
    text: TextArgs,

    #[command(flatten)]
    sizes: TransformerSizes,

    #[command(flatten)]
    flags: NetArgs,

    #[command(flatten)]
    common: TrainArgs,
}

#[derive(Args, Debug, Serialize)]
struct TransformerSizes {
    /// Embedding size, a multiple of --heads.
    #[arg(long, value_name = "N", default_value = "128", value_parser = clap::value_parser!(u32).range(1..))]
    embedding_size: u32,

    /// Number of attention heads.
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..))]
    heads: u32,

    /// Number of transformer blocks.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
}

impl TrainTransformer {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let Self { text, sizes, flags, common } = &self;
        if sizes.embedding_size % sizes.heads != 0 {
            let message =
                format!("`--embedding-size {}` is not a multiple of `--heads {}`", sizes.embedding_size, sizes.heads);
            return Err(CommandError::usage(message).hint("for example `--embedding-size 128 --heads 4`").into());
        }
        let files = text.files()?;
        let load = || {
            text.load(&files, common.seed, |words| TransformerConfig {
                vocabulary_size: words,
                context_length: text.sequence_length as usize,
                embedding_size: sizes.embedding_size as usize,
                heads: sizes.heads as usize,
                blocks: sizes.blocks as usize,
                seed: common.seed,
            })
        };
        let kind = NetKind { name: "transformer", metric: METRIC };
        NetCommand { kind, common, flags }.execute(sizes, load, TransformerConfig::init)
    }
}
