//! What `pyLDAvis.prepare` needs, as JSON: `pyLDAvis.prepare(**json.load(open(FILE)))`.
//!
//! | field | what it is |
//! |---|---|
//! | `topic_term_dists` | topics by words: probabilities |
//! | `doc_topic_dists` | documents by topics: shares, inferred |
//! | `doc_lengths` | tokens of documents that the model knows |
//! | `vocab` | names of words |
//! | `term_frequency` | how often each occurs in training |
//!
//! Words that never occur are left out: pyLDAvis divides by their frequency. So are documents without known words. It is written as it goes, because it is dense.

use super::infer::Mixture;
use super::model::TopicModel;
use std::io::{self, Write};

/// The file as it is written: the model first, then documents, then the end.
#[derive(Debug)]
pub struct PyLdaVis<W> {
    out: W,
    lengths: Vec<u64>,
}

impl<W: Write> PyLdaVis<W> {
    /// Writes what is of the model.
    pub fn begin(mut out: W, model: &TopicModel) -> io::Result<Self> {
        let used: Vec<u32> = (0..model.words() as u32).filter(|word| model.count(*word) > 0).collect();
        write!(out, "{{\"vocab\":[")?;
        for (place, word) in used.iter().enumerate() {
            let term = serde_json::to_string(&model.vocabulary().term(*word)).map_err(io::Error::other)?;
            write!(out, "{}{term}", comma(place))?;
        }
        write!(out, "],\n\"term_frequency\":[")?;
        for (place, word) in used.iter().enumerate() {
            write!(out, "{}{}", comma(place), model.count(*word))?;
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
    pub fn documents(&mut self, mixtures: &[Mixture]) -> io::Result<()> {
        for mixture in mixtures.iter().filter(|mixture| mixture.tokens > 0) {
            write!(self.out, "{}", comma(self.lengths.len()))?;
            row(&mut self.out, mixture.shares.iter().copied())?;
            self.lengths.push(mixture.tokens);
        }
        Ok(())
    }

    /// Writes the end; what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        write!(self.out, "],\n\"doc_lengths\":[")?;
        for (place, length) in self.lengths.iter().enumerate() {
            write!(self.out, "{}{length}", comma(place))?;
        }
        writeln!(self.out, "]}}")?;
        Ok(self.out)
    }
}

fn comma(place: usize) -> &'static str {
    if place == 0 { "" } else { "," }
}

/// A list of probabilities with eight digits each.
fn row(out: &mut impl Write, values: impl Iterator<Item = f64>) -> io::Result<()> {
    write!(out, "[")?;
    for (place, value) in values.enumerate() {
        write!(out, "{}{value:.7e}", comma(place))?;
    }
    write!(out, "]")
}
