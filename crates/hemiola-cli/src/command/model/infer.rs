//! `hemiola infer`: what new documents are about, one line for each.

use super::documents::DocumentFileArgs;
use super::lda::hinted;
use super::serving::ModelArgs;
use super::train_args::must_exist;
use crate::output::{self, OutputCompression, StagedFile};
use crate::plural::counted;
use crate::report;
use clap::{Args, ValueEnum};
use hemiola_cluster::Cluster;
use hemiola_models::lda::data::{self, MappedCorpus};
use hemiola_models::lda::{InferenceSettings, LdaModel, TopicMixture};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Documents whose topics are inferred before they are written.
const BATCH: usize = 4096;

/// What lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InferenceFormat {
    /// A column for each topic, under a line of names.
    Csv,
    /// An object on each line, with the topics of the document, the largest share first.
    Json,
}

/// The arguments of `hemiola infer`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola infer --model model --data new.txt
  hemiola infer --model model --data docword.new.txt --style json -k 3
  hemiola infer --model model --data new.txt --output shares.csv

Counts of words stay as they are, and the topics of each document's tokens are drawn --passes times. The same seed gives the same shares for the document with the same number, on any number of \
workers. Words that the model was not trained on are left out; their number is in the column `unseen`. Topics are numbered from 1, documents from 1.")]
pub(crate) struct InferArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Files, a folder or a pattern with documents.
    #[arg(long, short, value_name = "FILES")]
    data: String,

    /// What lines look like.
    #[arg(long, value_enum, default_value = "csv")]
    style: InferenceFormat,

    /// With `--style json`: only so many topics of each document, those with the largest shares.
    #[arg(short, long, value_name = "N")]
    k: Option<usize>,

    /// A file for the lines; compressed if its name ends with `.gz` or `.zst`. Default: standard output.
    #[arg(long, short, value_name = "FILE", conflicts_with = "report")]
    output: Option<PathBuf>,

    /// Passes over each document; the last 3 of 5 are averaged.
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    passes: u32,

    /// What all chance comes from.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    #[command(flatten)]
    files: DocumentFileArgs,
}

/// A document, for programs.
#[derive(Debug, Serialize)]
struct DocumentTopics {
    document: u64,
    tokens: u64,
    unseen: u64,
    /// Topics, from 1, and their shares.
    topics: Vec<(usize, f64)>,
}

/// Where lines go.
enum InferenceWriter {
    Standard,
    File(Box<StagedFile>),
}

impl InferenceWriter {
    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Standard => output::print(text),
            Self::File(file) => file.write(text.as_bytes()),
        }
    }
}

impl InferArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        self.common.must_be_topics()?;
        must_exist(&self.data)?;
        self.common.with_topics(|cluster, model| self.infer(cluster, model).map_err(hinted))?;
        Ok(ExitCode::SUCCESS)
    }

    fn infer(&self, cluster: &Cluster, model: &LdaModel) -> anyhow::Result<()> {
        if let Some(output) = &self.output {
            report::check(output)?;
        }
        let options = self.files.options_for(&self.data, model)?;
        let MappedCorpus { corpus, unseen, .. } = data::read_for_model(cluster, &options, &self.data, model)?;
        let inference = InferenceSettings { sweeps: self.passes, burn_in: self.passes * 2 / 5, seed: self.seed };
        let mut all = Vec::new();
        let mut sink = match &self.output {
            Some(target) => {
                InferenceWriter::File(Box::new(StagedFile::create(target, OutputCompression::of_name(target)?)?))
            }
            None => InferenceWriter::Standard,
        };
        let reports = self.common.reports();
        if self.style == InferenceFormat::Csv && !reports {
            let mut names = String::from("document,tokens,unseen");
            for topic in 1..=model.topics() {
                let _ = write!(names, ",topic{topic}");
            }
            sink.write(&(names + "\n"))?;
        }
        let (mut left_out, mut empty) = (0, 0_u64);
        for first in (0..corpus.len()).step_by(BATCH) {
            let range = first..(first + BATCH).min(corpus.len());
            let mixtures = model.infer(cluster, &corpus, range.clone(), inference)?;
            let mut text = String::new();
            for (place, mixture) in range.zip(mixtures) {
                let unknown = unseen[place] + mixture.unseen;
                left_out += unknown;
                empty += u64::from(mixture.tokens == 0);
                if reports {
                    all.push(self.found(place, &mixture, unknown));
                } else if self.style == InferenceFormat::Json {
                    let line = serde_json::to_string(&self.found(place, &mixture, unknown))?;
                    let _ = writeln!(text, "{line}");
                } else {
                    let _ = write!(text, "{},{},{unknown}", place + 1, mixture.tokens);
                    for share in &mixture.shares {
                        let _ = write!(text, ",{share:.6}");
                    }
                    text.push('\n');
                }
            }
            sink.write(&text)?;
        }
        if let InferenceWriter::File(file) = sink {
            file.finish()?.publish()?;
        }
        if left_out > 0 {
            output::note(&format!("left out {} of words that were not trained on", counted(left_out, "token")));
        }
        if empty > 0 {
            let documents = counted(empty, "document");
            output::note(&format!("nothing is known of {documents} without a known word: the shares are the prior's"));
        }
        if reports { self.common.write("", &all) } else { Ok(()) }
    }

    fn found(&self, place: usize, mixture: &TopicMixture, unseen: u64) -> DocumentTopics {
        let mut topics: Vec<(usize, f64)> =
            mixture.shares.iter().enumerate().map(|(topic, share)| (topic + 1, *share)).collect();
        topics.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        topics.truncate(self.k.unwrap_or(usize::MAX));
        DocumentTopics { document: place as u64 + 1, tokens: mixture.tokens, unseen, topics }
    }
}
