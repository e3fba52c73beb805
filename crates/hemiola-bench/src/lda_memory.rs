//! `hemiola bench lda-memory`: memory use of topic models on synthetic documents.
//!
//! Trains with the sparse sampler and compares the peak memory with the memory of the documents
//! alone. Runs on all peers of a job; the numbers are those of the first peer.

use crate::benchmark::Benchmark;
use clap::Args;
use hemiola::core::rng::PhiloxRng;
use hemiola_models::lda::{Corpus, LdaSampler, LdaVocabulary};
use hemiola_models::prelude::*;
use hemiola_models::training::{Callback, EpochProgress, TrainingControl};
use serde::Serialize;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of tokens per document.
const LENGTH: u64 = 250;
/// Vocabulary size.
const WORDS: u32 = 100_000;
/// Number of main topics per document.
const OF_DOCUMENT: u64 = 6;
const GIB: f64 = 1_073_741_824.0;

const AFTER_HELP: &str = "\
Example:
  hemiola bench lda-memory --millions 20 --topics 100

The report holds \"tokens\", \"documents\", \"entries\" (pairs of a document and a word), \"corpus_bytes\", \"peak_bytes\", \
\"bytes_per_token\" (documents included) and \"tokens_per_second\".";

/// Arguments of `hemiola bench lda-memory`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct LdaMemoryBench {
    /// Millions of tokens.
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u64).range(1..))]
    millions: u64,

    /// Number of topics.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..))]
    topics: u32,

    /// Number of sweeps.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..))]
    sweeps: u32,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LdaMemoryMeasurement {
    tokens: u64,
    documents: usize,
    entries: u64,
    corpus_bytes: u64,
    peak_bytes: u64,
    bytes_per_token: f64,
    tokens_per_second: f64,
}

impl Benchmark for LdaMemoryBench {
    type Measurement = LdaMemoryMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let documents = self.millions * 1_000_000 / LENGTH;
        let (is_root, measured) = hemiola_cluster::run(|cluster| {
            let cut = |rank: usize| documents * rank as u64 / cluster.size() as u64;
            let mut builder = Corpus::builder(Arc::new(LdaVocabulary::numbered(WORDS)));
            for number in cut(cluster.rank().index())..cut(cluster.rank().index() + 1) {
                builder.push(document(number, self.topics.into()).into_iter().map(|word| (word, 1)))?;
            }
            let corpus = builder.gather(cluster)?;
            let (tokens, entries) = (corpus.tokens(), corpus.entries());
            let corpus_bytes = memory("VmRSS:");
            let builder = TopicModelling::builder(self.topics).sampler(LdaSampler::Sparse).sweeps(self.sweeps);
            let mut progress = PrintProgress;
            let options = FitOptions::new().with_callback(&mut progress);
            let report = builder.build()?.fit_with(cluster, &corpus, None, options)?.report;
            let peak_bytes = memory("VmHWM:");
            let measured = LdaMemoryMeasurement {
                tokens,
                documents: corpus.len(),
                entries,
                corpus_bytes,
                peak_bytes,
                bytes_per_token: peak_bytes as f64 / tokens as f64,
                tokens_per_second: report.result.updates_per_second,
            };
            Ok((cluster.is_root(), measured))
        })?;
        Ok(is_root.then_some(measured))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        let gib = |bytes: u64| bytes as f64 / GIB;
        writeln!(
            out,
            "{} tokens in {} documents, {} pairs of a document and a word: {:.2} GiB",
            measured.tokens,
            measured.documents,
            measured.entries,
            gib(measured.corpus_bytes)
        )?;
        writeln!(
            out,
            "peak memory {:.2} GiB, {:.1} bytes per token; for a billion tokens {:.1} GiB; {:.2} M tokens per second",
            gib(measured.peak_bytes),
            measured.bytes_per_token,
            1e9 * measured.bytes_per_token / GIB,
            measured.tokens_per_second / 1e6
        )
    }
}

/// Callback that prints the progress.
struct PrintProgress;

impl Callback for PrintProgress {
    #[expect(clippy::print_stderr, reason = "progress of a long run")]
    fn on_explanation(&mut self, explanation: &str) {
        eprintln!("{explanation}");
    }

    #[expect(clippy::print_stderr, reason = "progress of a long run")]
    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        eprintln!("sweep {} after {:.0} s: likelihood {:.4}", progress.epoch, progress.seconds, -progress.objective);
        TrainingControl::Continue
    }
}

/// Generates a document: a few topics, each a range of words around a centre of its own, and words
/// of all kinds in between, mostly frequent ones.
fn document(number: u64, topics: u64) -> Vec<u32> {
    let values = PhiloxRng::new(7);
    let word = |at: u64| {
        let chance = values.random_f64(number, 2 * at);
        let spread = values.random_f64(number, 2 * at + 1);
        // Approximately Zipf: the logarithm of a word's rank is uniform.
        let rank = |of: f64| (of.powf(spread) - 1.0) as u64;
        if chance < 0.3 {
            rank(f64::from(WORDS)) as u32
        } else {
            let topic =
                values.random_below(number, 1_000_000 + values.random_below(number, 500_000 + at, OF_DOCUMENT), topics);
            ((topic * u64::from(WORDS) / topics + rank(f64::from(WORDS) / 20.0)) % u64::from(WORDS)) as u32
        }
    };
    (0..LENGTH).map(word).collect()
}

/// Memory of this process in bytes, as reported by the operating system, 0 where it is not.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found =
        status.lines().find_map(|status| status.strip_prefix(line)?.split_whitespace().next()?.parse::<u64>().ok());
    found.unwrap_or(0) * 1024
}
