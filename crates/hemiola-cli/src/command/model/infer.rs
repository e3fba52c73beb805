//! `hemiola infer`: topic mixtures of new documents, one line per document.

use super::documents::DocumentFileArgs;
use super::read_hints::ReadHints;
use super::serving::ModelArgs;
use super::train_args::must_exist;
use crate::output::{self, OutputCompression, StagedFile};
use crate::plural::counted;
use crate::report;
use clap::{Args, ValueEnum};
use hemiola_cluster::Cluster;
use hemiola_models::Predictor;
use hemiola_models::lda::data::{self, MappedCorpus};
use hemiola_models::lda::{InferenceSettings, LdaModel, TopicMixture};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Number of documents inferred before their lines are written.
const BATCH_SIZE: usize = 4096;

/// Output format of `--output-format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InferenceFormat {
    /// CSV with a header and a column per topic.
    Csv,
    /// JSON lines: an object per document with its topics, the largest share first.
    Json,
}

/// Arguments of `hemiola infer`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola infer --model model --data new.txt
  hemiola infer --model model --data docword.new.txt --output-format json -k 3
  hemiola infer --model model --data new.txt --output shares.csv

The word counts of the model are fixed, and the topics of each document are sampled in --sweeps Gibbs sweeps. The shares of a \
document depend on the seed and its position only, not on the number of workers. Unknown words are ignored; the column \
`unseen` counts them. Topics and documents count from 1.")]
pub(crate) struct InferArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Files, folders or patterns with documents, or `-` for standard input.
    #[arg(long, short, value_name = "FILES", required = true, num_args = 1..)]
    data: Vec<String>,

    /// Format of the output.
    #[arg(long, value_enum, default_value = "csv")]
    output_format: InferenceFormat,

    /// With `--output-format json`: number of topics per document, the largest shares first.
    #[arg(short, long, value_name = "N")]
    k: Option<usize>,

    /// Output file; compressed if its name ends with `.gz` or `.zst` [default: standard output]
    #[arg(long, short, value_name = "FILE", conflicts_with = "report")]
    output: Option<PathBuf>,

    /// Gibbs sweeps over each document; the last three fifths are averaged.
    #[arg(long, value_name = "N", default_value = "50", value_parser = clap::value_parser!(u32).range(1..))]
    sweeps: u32,

    /// Random seed. The same seed gives the same shares.
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,

    #[command(flatten)]
    files: DocumentFileArgs,
}

/// Topics of a document in the report.
#[derive(Debug, Serialize)]
struct DocumentTopics {
    document: u64,
    tokens: u64,
    unseen: u64,
    /// Topics, counted from 1, with their shares.
    topics: Vec<(usize, f64)>,
}

/// Destination of the output lines.
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
        self.common.check_topic_model()?;
        self.data.iter().try_for_each(|path| must_exist(path))?;
        self.common.with_model(LdaModel::load, |cluster, model| {
            self.infer(cluster, model).map_err(|error| ReadHints::DOCUMENTS.explain(error))
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn infer(&self, cluster: &Cluster, model: &LdaModel) -> anyhow::Result<()> {
        if let Some(output) = &self.output {
            report::check(output)?;
        }
        let options = self.files.options_for(&self.data, model)?;
        let MappedCorpus { corpus, unseen, .. } = data::read_for_model(cluster, &options, &self.data, model)?;
        let inference = InferenceSettings { sweeps: self.sweeps, burn_in: self.sweeps * 2 / 5, seed: self.seed };
        let mut all = Vec::new();
        let mut sink = match &self.output {
            Some(target) => {
                InferenceWriter::File(Box::new(StagedFile::create(target, OutputCompression::of_name(target)?)?))
            }
            None => InferenceWriter::Standard,
        };
        let reports = self.common.reports();
        if self.output_format == InferenceFormat::Csv && !reports {
            let mut names = String::from("document,tokens,unseen");
            for topic in 1..=model.topics() {
                let _ = write!(names, ",topic{topic}");
            }
            sink.write(&(names + "\n"))?;
        }
        let (mut unknown_tokens, mut empty) = (0, 0_u64);
        for first in (0..corpus.len()).step_by(BATCH_SIZE) {
            let range = first..(first + BATCH_SIZE).min(corpus.len());
            let mixtures = model.infer(cluster, &corpus, range.clone(), inference)?;
            let mut text = String::new();
            for (index, mixture) in range.zip(mixtures) {
                let unknown = unseen[index] + mixture.unseen;
                unknown_tokens += unknown;
                empty += u64::from(mixture.tokens == 0);
                if reports {
                    all.push(self.document_topics(index, &mixture, unknown));
                } else if self.output_format == InferenceFormat::Json {
                    let line = serde_json::to_string(&self.document_topics(index, &mixture, unknown))?;
                    let _ = writeln!(text, "{line}");
                } else {
                    let _ = write!(text, "{},{},{unknown}", index + 1, mixture.tokens);
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
        if unknown_tokens > 0 {
            output::note(&format!(
                "ignored {} of words that the model does not know",
                counted(unknown_tokens, "token")
            ));
        }
        if empty > 0 {
            let documents = counted(empty, "document");
            output::note(&format!("{documents} without a known word: their shares are the prior"));
        }
        if reports { self.common.write("", &all) } else { Ok(()) }
    }

    fn document_topics(&self, index: usize, mixture: &TopicMixture, unseen: u64) -> DocumentTopics {
        let mut topics: Vec<(usize, f64)> =
            mixture.shares.iter().enumerate().map(|(topic, share)| (topic + 1, *share)).collect();
        topics.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        topics.truncate(self.k.unwrap_or(usize::MAX));
        DocumentTopics { document: index as u64 + 1, tokens: mixture.tokens, unseen, topics }
    }
}
