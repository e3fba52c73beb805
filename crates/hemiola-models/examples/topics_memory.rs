//! Memory use of topic models: trains on synthetic documents (default: 200 million tokens, 1,000
//! topics), and prints the memory used and an estimate for a billion tokens.
//!
//! `cargo run --release -p hemiola-models --example topics_memory -- [MILLIONS OF TOKENS] [TOPICS]
//! [SWEEPS]`

use hemiola::core::rng::PhiloxRng;
use hemiola_models::lda::{Corpus, LdaSampler, LdaVocabulary};
use hemiola_models::prelude::*;
use hemiola_models::training::{Callback, EpochProgress, TrainingControl};
use std::sync::Arc;

/// Number of tokens per document.
const LENGTH: u64 = 250;
/// Vocabulary size.
const WORDS: u32 = 100_000;
/// Number of main topics per document.
const OF_DOCUMENT: u64 = 6;

fn main() -> hemiola::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual: u64| arguments.next().map_or(Ok(usual), |text| text.parse::<u64>());
    let bad = |error: std::num::ParseIntError| format!("a number was expected: {error}");
    let (millions, topics, passes) = (number(200).map_err(bad)?, number(1000).map_err(bad)?, number(2).map_err(bad)?);
    let documents = millions * 1_000_000 / LENGTH;
    hemiola::run(|cluster| {
        let cut = |rank: usize| documents * rank as u64 / cluster.size() as u64;
        let mut builder = Corpus::builder(Arc::new(LdaVocabulary::numbered(WORDS)));
        for number in cut(cluster.rank().index())..cut(cluster.rank().index() + 1) {
            builder.push(document(number, topics).into_iter().map(|word| (word, 1)))?;
        }
        let corpus = builder.gather(cluster)?;
        let (tokens, entries) = (corpus.tokens(), corpus.entries());
        let held = memory("VmRSS:");
        cluster.println(format_args!(
            "{tokens} tokens in {} documents, {entries} pairs of a document and a word: {:.2} GiB",
            corpus.len(),
            gib(held)
        ));
        let estimator =
            TopicModelling::builder(topics as u32).sampler(LdaSampler::Sparse).sweeps(passes as u32).build()?;
        let trained =
            estimator.fit_with(cluster, &corpus, None, FitOptions::new().with_callback(&mut PrintProgress))?;
        let most = memory("VmHWM:");
        let per_token = (most - held) as f64 / tokens as f64;
        let of_corpus = held as f64 / tokens as f64;
        cluster.println(format_args!(
            "peak memory: {:.2} GiB; {per_token:.1} bytes per token plus {of_corpus:.1} of the documents; for a billion tokens {:.1} GiB; {:.2} M tokens per second",
            gib(most),
            1e9 * (per_token + of_corpus) / gib_bytes(),
            trained.report.result.updates_per_second / 1e6
        ));
        Ok(())
    })
}

/// Callback that prints the progress.
struct PrintProgress;

impl Callback for PrintProgress {
    #[expect(clippy::print_stdout, reason = "the output of the program")]
    fn on_explanation(&mut self, explanation: &str) {
        println!("{explanation}");
    }

    #[expect(clippy::print_stdout, reason = "the output of the program")]
    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        println!("sweep {} after {:.0} s: likelihood {:.4}", progress.epoch, progress.seconds, -progress.objective);
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

/// Memory in bytes as reported by the operating system, 0 where it is not.
fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found =
        status.lines().find_map(|status| status.strip_prefix(line)?.split_whitespace().next()?.parse::<u64>().ok());
    found.unwrap_or(0) * 1024
}

fn gib_bytes() -> f64 {
    f64::from(1 << 30)
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / gib_bytes()
}
