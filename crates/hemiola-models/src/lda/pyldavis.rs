//! JSON export for `pyLDAvis.prepare`: `pyLDAvis.prepare(**json.load(open(FILE)))`.
//!
//! | field | content |
//! |---|---|
//! | `topic_term_dists` | topics by words: probabilities |
//! | `doc_topic_dists` | documents by topics: inferred shares |
//! | `doc_lengths` | known tokens of each document |
//! | `vocab` | names of words |
//! | `term_frequency` | training frequency of each word |
//!
//! Words that never occur are dropped, because pyLDAvis divides by their frequency; so are
//! documents without known words. The output is dense and therefore streamed.

use super::infer::TopicMixture;
use super::model::LdaModel;
use std::io::{self, Write};

/// Streaming writer: first the model, then documents, then the end.
#[derive(Debug)]
pub struct PyLdaVisWriter<W> {
    out: W,
    lengths: Vec<u64>,
}

impl<W: Write> PyLdaVisWriter<W> {
    /// Writes the part of the model.
    pub fn begin(mut out: W, model: &LdaModel) -> io::Result<Self> {
        let used: Vec<u32> = (0..model.words() as u32).filter(|word| model.count(*word) > 0).collect();
        write!(out, "{{\"vocab\":[")?;
        for (index, word) in used.iter().enumerate() {
            let term = serde_json::to_string(&model.vocabulary().term(*word)).map_err(io::Error::other)?;
            write!(out, "{}{term}", comma(index))?;
        }
        write!(out, "],\n\"term_frequency\":[")?;
        for (index, word) in used.iter().enumerate() {
            write!(out, "{}{}", comma(index), model.count(*word))?;
        }
        write!(out, "],\n\"topic_term_dists\":[")?;
        for topic in 0..model.topics() {
            write!(out, "{}", comma(topic))?;
            row(&mut out, used.iter().map(|word| model.probability(*word, topic)))?;
        }
        write!(out, "],\n\"doc_topic_dists\":[")?;
        Ok(Self { out, lengths: Vec::new() })
    }

    /// Writes the next documents.
    pub fn documents(&mut self, mixtures: &[TopicMixture]) -> io::Result<()> {
        for mixture in mixtures.iter().filter(|mixture| mixture.tokens > 0) {
            write!(self.out, "{}", comma(self.lengths.len()))?;
            row(&mut self.out, mixture.shares.iter().copied())?;
            self.lengths.push(mixture.tokens);
        }
        Ok(())
    }

    /// Writes the end; returns the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        write!(self.out, "],\n\"doc_lengths\":[")?;
        for (index, length) in self.lengths.iter().enumerate() {
            write!(self.out, "{}{length}", comma(index))?;
        }
        writeln!(self.out, "]}}")?;
        Ok(self.out)
    }
}

fn comma(index: usize) -> &'static str {
    if index == 0 { "" } else { "," }
}

/// Writes a list of probabilities with eight digits each.
fn row(out: &mut impl Write, values: impl Iterator<Item = f64>) -> io::Result<()> {
    write!(out, "[")?;
    for (index, value) in values.enumerate() {
        write!(out, "{}{value:.7e}", comma(index))?;
    }
    write!(out, "]")
}
