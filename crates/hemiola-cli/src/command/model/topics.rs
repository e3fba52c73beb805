//! `hemiola topics`: lists the topics of a model, as a table, CSV, JSON, or input for pyLDAvis.

use super::documents::DocumentFileArgs;
use super::lda::COHERENCE_WORDS;
use super::read_hints::ReadHints;
use super::serving::{ModelArgs, ModelFamily};
use crate::error::CommandError;
use crate::output::{OutputCompression, StagedFile};
use crate::plural::counted;
use crate::{output, report};
use clap::Args;
use hemiola_cluster::Cluster;
use hemiola_models::Predictor;
use hemiola_models::lda::data;
use hemiola_models::lda::{InferenceSettings, LdaModel, PyLdaVisWriter, TopWord};
use serde::Serialize;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Number of documents inferred before they are written.
const BATCH_SIZE: usize = 4096;

/// Arguments of `hemiola topics`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola topics --model model
  hemiola topics --model model --words 20 --relevance 0.6
  hemiola topics --model model --data docword.nips.txt.gz               with the coherence of each topic
  hemiola topics --model model --csv > words.csv                        topic, rank, word, count, probability, lift
  hemiola topics --model model --data docword.nips.txt.gz --pyldavis vis.json
    python -c 'import json, pyLDAvis; pyLDAvis.save_html(pyLDAvis.prepare(**json.load(open(\"vis.json\"))), \"vis.html\")'

Topics are numbered from 1 and sorted by size. A share is the fraction of all tokens.")]
pub(crate) struct TopicsArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Number of words per topic.
    #[arg(long, short, value_name = "N", default_value = "10")]
    words: usize,

    /// Weight lambda of relevance (Sievert and Shirley): 1 sorts words by probability in the topic,
    /// 0 by lift.
    #[arg(long, value_name = "X", default_value = "1", value_parser = fraction)]
    relevance: f64,

    /// Print CSV with a line per word.
    #[arg(long, conflicts_with = "report")]
    csv: bool,

    /// Files with documents, in which the coherence (NPMI) of each topic is computed.
    #[arg(long, short, value_name = "FILES", num_args = 1..)]
    data: Vec<String>,

    /// File for the arguments of `pyLDAvis.prepare`, with the topics of the documents in --data.
    #[arg(long, value_name = "FILE", requires = "data")]
    pyldavis: Option<PathBuf>,

    #[command(flatten)]
    files: DocumentFileArgs,
}

/// Topic in the report.
#[derive(Debug, Serialize)]
struct TopicRow {
    /// Number of the topic, from 1.
    #[serde(rename = "topic")]
    number: usize,
    share: f64,
    tokens: u64,
    alpha: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    coherence: Option<f64>,
    words: Vec<TopicWord>,
}

#[derive(Debug, Serialize)]
struct TopicWord {
    #[serde(rename = "word")]
    term: String,
    count: u32,
    probability: f64,
    lift: f64,
}

impl TopicsArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        self.common.check_topic_model()?;
        self.pyldavis.as_deref().map_or(Ok(()), report::check)?;
        self.common.with_model(LdaModel::load, |cluster, model| {
            self.print(cluster, model).map_err(|error| ReadHints::DOCUMENTS.explain(error))
        })?;
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, cluster: &Cluster, model: &LdaModel) -> anyhow::Result<()> {
        let mut coherence = vec![None; model.topics()];
        if !self.data.is_empty() {
            self.data.iter().try_for_each(|path| super::train_args::must_exist(path))?;
            let options = self.files.options_for(&self.data, model)?;
            let known = data::read_for_model(cluster, &options, &self.data, model)?;
            coherence = model.coherence(cluster, &known.corpus, COHERENCE_WORDS)?;
            if let Some(target) = &self.pyldavis {
                write_pyldavis(cluster, model, &known, target)?;
                output::note(&format!("wrote `{}` for pyLDAvis", target.display()));
            }
        }
        let topics = topic_rows(model, self.words, self.relevance, &coherence);
        if self.csv { output::print(&csv(&topics)) } else { self.common.write(&table(model, &topics), &topics) }
    }
}

/// Returns the topics, the largest first.
fn topic_rows(model: &LdaModel, words: usize, relevance: f64, coherence: &[Option<f64>]) -> Vec<TopicRow> {
    let sizes = model.sizes();
    let word = |word: &TopWord| TopicWord {
        term: model.vocabulary().term(word.word).into_owned(),
        count: word.count,
        probability: word.probability,
        lift: word.lift,
    };
    let mut topics: Vec<TopicRow> = model
        .top_words(words, relevance)
        .iter()
        .enumerate()
        .map(|(topic, words)| TopicRow {
            number: topic + 1,
            share: sizes[topic],
            tokens: model.totals()[topic],
            alpha: model.alpha()[topic],
            coherence: coherence[topic],
            words: words.iter().map(word).collect(),
        })
        .collect();
    topics.sort_by(|left, right| right.share.total_cmp(&left.share).then(left.number.cmp(&right.number)));
    topics
}

fn table(model: &LdaModel, topics: &[TopicRow]) -> String {
    let coherences: Vec<f64> = topics.iter().filter_map(|topic| topic.coherence).collect();
    let mut text = format!(
        "{} of {} in {}, beta {:.4}",
        counted(topics.len(), "topic"),
        counted(model.tokens(), "token"),
        counted(model.documents(), "document"),
        model.beta()
    );
    if !coherences.is_empty() {
        let _ = write!(text, ", mean coherence {:.4}", coherences.iter().sum::<f64>() / coherences.len() as f64);
    }
    let heading = if coherences.is_empty() { "" } else { "  coherence" };
    let _ = writeln!(text, "\ntopic   share    alpha{heading}  words");
    for TopicRow { number, share, alpha, coherence, words, .. } in topics {
        let _ = write!(text, "{number:>5}  {:>5.2} %  {alpha:>7.4}", 100.0 * share);
        if !coherences.is_empty() {
            let _ = match coherence {
                Some(coherence) => write!(text, "  {coherence:>9.4}"),
                None => write!(text, "  {:>9}", "-"),
            };
        }
        let words: Vec<&str> = words.iter().map(|word| word.term.as_str()).collect();
        let _ = writeln!(text, "  {}", words.join(" "));
    }
    text
}

fn csv(topics: &[TopicRow]) -> String {
    let mut text = String::from("topic,share,rank,word,count,probability,lift\n");
    for TopicRow { number, share, words, .. } in topics {
        for (rank, TopicWord { term, count, probability, lift }) in words.iter().enumerate() {
            let term = quoted(term);
            let _ = writeln!(text, "{number},{share:.6},{},{term},{count},{probability:.6e},{lift:.6e}", rank + 1);
        }
    }
    text
}

/// Quotes a CSV field if necessary.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

/// Adapter that makes a [`StagedFile`] an [`io::Write`].
struct StagedWriter(StagedFile);

impl io::Write for StagedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let to_io = |error: anyhow::Error| match error.downcast::<CommandError>() {
            Ok(failure) => io::Error::other(failure),
            Err(other) => io::Error::other(other.to_string()),
        };
        self.0.write(bytes).map_err(to_io)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_pyldavis(
    cluster: &Cluster,
    model: &LdaModel,
    known: &data::MappedCorpus,
    target: &Path,
) -> anyhow::Result<()> {
    let failed = |error: io::Error| {
        anyhow::Error::from(
            error.downcast::<CommandError>().unwrap_or_else(|error| CommandError::io("write", target, &error)),
        )
    };
    let staged = StagedWriter(StagedFile::create(target, OutputCompression::of_name(target)?)?);
    let mut file = PyLdaVisWriter::begin(staged, model).map_err(failed)?;
    for first in (0..known.corpus.len()).step_by(BATCH_SIZE) {
        let range = first..(first + BATCH_SIZE).min(known.corpus.len());
        file.documents(&model.infer(cluster, &known.corpus, range, InferenceSettings::default())?).map_err(failed)?;
    }
    file.finish().map_err(failed)?.0.finish()?.publish()
}

impl ModelArgs {
    /// Returns an error unless the model is a topic model.
    pub(super) fn check_topic_model(&self) -> anyhow::Result<()> {
        if self.family()? == ModelFamily::Topics {
            return Ok(());
        }
        let message = format!("`{}` has no topics", self.model.display());
        Err(CommandError::usage(message).hint("`hemiola topics` and `infer` are for models of `train lda`").into())
    }
}

/// Parses a number from 0 to 1.
fn fraction(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_quoted() {
        assert_eq!([quoted("sea"), quoted("a,b"), quoted("\"x\"")], ["sea", "\"a,b\"", "\"\"\"x\"\"\""]);
    }
}
