//! `hemiola topics`: what a topic model has found, for people, for programs and for pyLDAvis.

use super::documents::DocumentFileArgs;
use super::lda::{JUDGED, hinted};
use super::serving::{ModelArgs, ModelFamily};
use crate::error::CommandError;
use crate::output::{OutputCompression, StagedFile};
use crate::plural::counted;
use crate::{output, report};
use clap::Args;
use hemiola_cluster::Cluster;
use hemiola_models::lda::data;
use hemiola_models::lda::{InferenceSettings, LdaModel, PyLdaVisWriter, TopWord};
use serde::Serialize;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Documents whose topics are inferred before they are written.
const BATCH: usize = 4096;

/// The arguments of `hemiola topics`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola topics --model model
  hemiola topics --model model --words 20 --relevance 0.6
  hemiola topics --model model --data docword.nips.txt.gz               with the coherence of each topic in these documents
  hemiola topics --model model --csv > words.csv                        topic, place, word, count, probability, lift
  hemiola topics --model model --data docword.nips.txt.gz --pyldavis vis.json
    python -c 'import json, pyLDAvis; pyLDAvis.save_html(pyLDAvis.prepare(**json.load(open(\"vis.json\"))), \"vis.html\")'

The largest topics come first; they are numbered from 1. A share is that of all tokens.")]
pub(crate) struct TopicsArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// How many words of each topic.
    #[arg(long, short, value_name = "N", default_value = "10")]
    words: usize,

    /// Sort words by relevance: 1 by probability, 0 by how much more probable they are in the topic than elsewhere, and anything between.
    #[arg(long, value_name = "X", default_value = "1", value_parser = share)]
    relevance: f64,

    /// Print a line for each word, for spreadsheets.
    #[arg(long, conflicts_with = "report")]
    csv: bool,

    /// Files with documents: adds the coherence (NPMI) of each topic in them.
    #[arg(long, short, value_name = "FILES")]
    data: Option<String>,

    /// Write what `pyLDAvis.prepare` needs to this file, with the topics of the documents in --data.
    #[arg(long, value_name = "FILE", requires = "data")]
    pyldavis: Option<PathBuf>,

    #[command(flatten)]
    files: DocumentFileArgs,
}

/// What comes out for programs.
#[derive(Debug, Serialize)]
struct TopicRow {
    /// From 1.
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
        self.common.must_be_topics()?;
        self.pyldavis.as_deref().map_or(Ok(()), report::check)?;
        self.common.with_topics(|cluster, model| self.tell(cluster, model).map_err(hinted))?;
        Ok(ExitCode::SUCCESS)
    }

    fn tell(&self, cluster: &Cluster, model: &LdaModel) -> anyhow::Result<()> {
        let mut coherence = vec![None; model.topics()];
        if let Some(pattern) = &self.data {
            super::train_args::must_exist(pattern)?;
            let known = data::read_for_model(cluster, &self.files.options_for(pattern, model)?, pattern, model)?;
            coherence = model.coherence(cluster, &known.corpus, JUDGED)?;
            if let Some(target) = &self.pyldavis {
                write_pyldavis(cluster, model, &known, target)?;
                output::note(&format!("wrote `{}` for pyLDAvis", target.display()));
            }
        }
        let topics = found(model, self.words, self.relevance, &coherence);
        if self.csv { output::print(&csv(&topics)) } else { self.common.write(&table(model, &topics), &topics) }
    }
}

/// Topics by size, the largest first.
fn found(model: &LdaModel, words: usize, relevance: f64, coherence: &[Option<f64>]) -> Vec<TopicRow> {
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
    let judged: Vec<f64> = topics.iter().filter_map(|topic| topic.coherence).collect();
    let mut text = format!(
        "{} of {} in {}, beta {:.4}",
        counted(topics.len() as u64, "topic"),
        counted(model.tokens(), "token"),
        counted(model.documents(), "document"),
        model.beta()
    );
    if !judged.is_empty() {
        let _ = write!(text, ", mean coherence {:.4}", judged.iter().sum::<f64>() / judged.len() as f64);
    }
    let heading = if judged.is_empty() { "" } else { "  coherence" };
    let _ = writeln!(text, "\ntopic   share    alpha{heading}  words");
    for TopicRow { number, share, alpha, coherence, words, .. } in topics {
        let _ = write!(text, "{number:>5}  {:>5.2} %  {alpha:>7.4}", 100.0 * share);
        if !judged.is_empty() {
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
    let mut text = String::from("topic,share,place,word,count,probability,lift\n");
    for TopicRow { number, share, words, .. } in topics {
        for (place, TopicWord { term, count, probability, lift }) in words.iter().enumerate() {
            let term = quoted(term);
            let _ = writeln!(text, "{number},{share:.6},{},{term},{count},{probability:.6e},{lift:.6e}", place + 1);
        }
    }
    text
}

/// A field of separated values.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.to_owned() }
}

/// A file that appears whole or not at all, as something to write to.
struct TopicReport(StagedFile);

impl io::Write for TopicReport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let kept = |error: anyhow::Error| match error.downcast::<CommandError>() {
            Ok(failure) => io::Error::other(failure),
            Err(other) => io::Error::other(other.to_string()),
        };
        self.0.write(bytes).map_err(kept)?;
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
    let staged = TopicReport(StagedFile::create(target, OutputCompression::of_name(target)?)?);
    let mut file = PyLdaVisWriter::begin(staged, model).map_err(failed)?;
    for first in (0..known.corpus.len()).step_by(BATCH) {
        let range = first..(first + BATCH).min(known.corpus.len());
        file.documents(&model.infer(cluster, &known.corpus, range, InferenceSettings::default())?).map_err(failed)?;
    }
    file.finish().map_err(failed)?.0.finish()?.publish()
}

impl ModelArgs {
    /// An error unless the model is of topics.
    pub(super) fn must_be_topics(&self) -> anyhow::Result<()> {
        if self.kind()? == ModelFamily::Topics {
            return Ok(());
        }
        let message = format!("`{}` has no topics", self.model.display());
        Err(CommandError::usage(message).hint("`hemiola topics` and `infer` are for models of `train lda`").into())
    }
}

/// Reads a number from 0 to 1.
fn share(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is no number from 0 to 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_separators_are_quoted() {
        assert_eq!([quoted("sea"), quoted("a,b"), quoted("\"x\"")], ["sea", "\"a,b\"", "\"\"\"x\"\"\""]);
    }
}
