//! `hemiola train lda`, and what `evaluate` says of topic models.

use super::documents::{DocumentFileArgs, VocabularyArgs};
use super::progress::MetricColumns;
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use clap::{Args, ValueEnum};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_models::TopicModelling;
use hemiola_models::lda::data::{self, CorpusReadOptions, LoadedCorpus};
use hemiola_models::lda::{Corpus, FilteredWords, InferenceSettings, LdaExecutionMode, LdaModel, LdaSampler};
use hemiola_models::training::{ClusterInfo, Metrics, TrainingLimits};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Made-up documents where there are no data, and their topics.
const MADE_UP: (u64, u32) = (1000, 20);
/// Topics of anything else, where nobody says otherwise.
const TOPICS: u32 = 100;
/// Passes where nobody says otherwise.
const PASSES: u32 = 100;
/// Words of a topic by which its coherence is judged.
pub(super) const JUDGED: usize = 10;

const AFTER_HELP: &str = "\
Examples:
  Made-up documents, to see it work:
    hemiola train lda --output model
    hemiola topics --model model

  Text of your own, a document on each line:
    hemiola train lda --data articles.txt --topics 50 --output model
    hemiola topics --model model --words 8
    hemiola infer --model model --data new.txt

  A bag of words of the UCI repository, with `vocab.nips.txt` beside it:
    hemiola train lda --data docword.nips.txt.gz --topics 100 --output model --report run.json

  On four local peers, words going around, or in tables that may be two clocks old:
    hemiola train lda --data docword.nips.txt.gz --peers 4 --workers 1
    hemiola train lda --data docword.nips.txt.gz --peers 4 --workers 1 --way tables --staleness 2

Text is divided into words of letters and digits, in lower case; an apostrophe between letters belongs to the word, and a final `'s` is cut off. Numbers, single letters, stop words and words of a \
single document do not count. An epoch is one pass over all tokens; the objective is minus the joint log-likelihood per token. docs/topics.md has formulas, and what to choose when.

Exit codes:
  0     trained, or nothing was left to do
  2     something has to be changed: a flag, a line of the data, the output folder; nothing was written
  3     the system or another peer failed: a full disk, say
  130   stopped by Ctrl-C after an epoch (128 + the signal, for others); saved, if there is an --output";

/// How topics are drawn.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SamplerName {
    /// Whichever gets furthest in a short trial on some of the documents; --explain shows which.
    Auto,
    /// From all topics: for few of them.
    Exact,
    /// From the topics of the document and rarely from all: as exact, for many topics.
    Sparse,
    /// By proposals that are accepted or not: the time does not grow with topics.
    MetropolisHastings,
}

/// How peers and workers share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExecutionName {
    /// Documents stay, words go around.
    Rotation,
    /// Counts of words are in tables.
    Tables,
}

/// The arguments of `hemiola train lda`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct TrainLda {
    /// Files, a folder or a pattern with documents: a UCI bag of words, LIBSVM, LDA-C, or plain text. Default: 1000 made-up documents.
    #[arg(long, short, value_name = "FILES")]
    data: Option<String>,

    /// How many topics. Default: 100; 20 for made-up documents.
    #[arg(long, short = 'k', value_name = "N")]
    topics: Option<u32>,

    /// The prior of each topic in a document; the smaller, the fewer topics a document has.
    #[arg(long, value_name = "X", default_value = "0.1")]
    alpha: f64,

    /// The prior of each word in a topic; the smaller, the fewer words a topic has.
    #[arg(long, value_name = "X", default_value = "0.01")]
    beta: f64,

    /// Keep alpha as it is. Default: it is learned, for each topic.
    #[arg(long)]
    keep_alpha: bool,

    /// Learn beta, too, one for all words.
    #[arg(long)]
    learn_beta: bool,

    /// Held-out documents, whose perplexity is found after each epoch: a share of the data (0.1), 0 for none, or files.
    #[arg(long, value_name = "SHARE|FILES", default_value = "0")]
    valid: String,

    #[command(flatten)]
    files: DocumentFileArgs,

    #[command(flatten)]
    which: VocabularyArgs,

    /// How topics are drawn.
    #[arg(long, value_enum, default_value = "auto", help_heading = "How it is sampled")]
    sampler: SamplerName,

    /// How peers and workers share the work.
    #[arg(long, value_enum, default_value = "rotation", help_heading = "How it is sampled")]
    way: ExecutionName,

    /// With tables: by how many clocks counts may be old. Default: 0.
    #[arg(long, value_name = "N", help_heading = "How it is sampled")]
    staleness: Option<u32>,

    /// With tables: bytes that a peer may send in a second ahead of need. Default: nothing is sent ahead.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..), help_heading = "How it is sampled")]
    budget: Option<u64>,

    /// Cut documents and words into so many parts: the same parts give the same bits on any number of workers. Default: one for each worker of all peers.
    #[arg(long, value_name = "N", help_heading = "How it is sampled")]
    parts: Option<u32>,

    #[command(flatten)]
    common: TrainArgs,
}

impl TrainLda {
    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        let share = self.valid.parse::<f64>().ok();
        let usual = if self.data.is_some() { TOPICS } else { MADE_UP.1 };
        let settings = TopicModelling::builder(self.topics.unwrap_or(usual))
            .alpha(self.alpha)
            .beta(self.beta)
            .learn_alpha(!self.keep_alpha)
            .learn_beta(self.learn_beta)
            .sampler(match self.sampler {
                SamplerName::Auto => LdaSampler::Auto,
                SamplerName::Exact => LdaSampler::Exact,
                SamplerName::Sparse => LdaSampler::Sparse,
                SamplerName::MetropolisHastings => LdaSampler::MetropolisHastings,
            })
            .mode(self.way()?)
            .parts(self.parts.unwrap_or(0))
            .seed(self.common.seed)
            .validation(share.unwrap_or(0.0))
            .limits(self.common.limits(&TrainingLimits { epochs: PASSES, patience: None, ..TrainingLimits::default() }))
            .build()
            .map_err(|error| anyhow::Error::from(Error::from(error)))?;
        self.common.check("lda", settings.settings())?;
        let held_out = share.is_none().then_some(&self.valid);
        self.data.iter().chain(held_out).try_for_each(|pattern| must_exist(pattern))?;
        let options = self.which.complete(self.files.options(self.data.as_deref())?)?;
        // Hints come before the error leaves the peer, so that a launcher that repeats it says the same.
        self.common.run(|cluster| {
            self.train(cluster, &settings, &options, held_out).map_err(|error| {
                match hinted(error.into()).downcast::<Error>() {
                    Ok(same) => same,
                    Err(hinted) => into_cluster_error(hinted),
                }
            })
        })
    }

    fn way(&self) -> anyhow::Result<LdaExecutionMode> {
        match self.way {
            ExecutionName::Tables => {
                Ok(LdaExecutionMode::Tables { staleness: self.staleness.unwrap_or(0), budget: self.budget })
            }
            ExecutionName::Rotation if self.staleness.is_some() || self.budget.is_some() => {
                let failure =
                    CommandError::usage("--staleness and --budget are for tables; what goes around is never stale");
                Err(failure.hint("add `--way tables`, or leave them out").into())
            }
            ExecutionName::Rotation => Ok(LdaExecutionMode::Rotation),
        }
    }

    fn train(
        &self,
        cluster: &Cluster,
        settings: &TopicModelling,
        options: &CorpusReadOptions,
        held_out: Option<&String>,
    ) -> Result<u8> {
        let start = cluster.env().now();
        let lock = self.common.claim(cluster)?;
        let (corpus, mut said) = self.read(cluster, options)?;
        let valid = held_out.map(|files| self.held_out(cluster, &corpus, files)).transpose()?;
        match (&valid, settings.settings().validation) {
            (Some(valid), _) => {
                let _ = write!(said, ", {} held out", valid.documents());
            }
            (None, 0.0) => {}
            (None, share) => {
                let _ = write!(said, ", a share of {share} held out");
            }
        }
        let _ = write!(said, "; {}; {}", counted(settings.settings().topics.into(), "topic"), ClusterInfo::of(cluster));
        let with_valid = valid.is_some() || settings.settings().validation > 0.0;
        let prepared = PreparedTraining {
            headline: said,
            loading: cluster.env().now() - start,
            figures: MetricColumns { metric: if with_valid { "perplexity" } else { "likelihood" }, unit: "tokens" },
            limits: &settings.settings().limits,
            lock,
        };
        self.common.accompany(cluster, prepared, |session| {
            Ok(settings.fit_with(cluster, &corpus, valid.as_ref(), session)?.report)
        })
    }

    /// *Collective.* The documents, and what to say of them.
    fn read(&self, cluster: &Cluster, options: &CorpusReadOptions) -> Result<(Corpus, String)> {
        let Some(pattern) = &self.data else {
            let corpus = data::synthetic(cluster, MADE_UP.0, self.common.seed)?;
            let said = size(cluster, &corpus)?;
            return Ok((corpus, format!("made up: {said}")));
        };
        let LoadedCorpus { corpus, format, filtered, unused, skipped } = data::read(cluster, options, pattern)?;
        self.common.tell_skipped(cluster, pattern, &skipped);
        let mut said = format!("{format}: {}", size(cluster, &corpus)?);
        if let Some(names) = self.files.taken(options).filter(|_| format == data::CorpusFormat::Docword) {
            let _ = write!(said, " (named by `{names}`)");
        }
        if filtered != FilteredWords::default() {
            let _ = write!(said, "; left out: {}", what(filtered));
        }
        // Words that were left out stay in the vocabulary of a bag of words.
        let never = if format == data::CorpusFormat::Text { 0 } else { unused.saturating_sub(filtered.words) };
        if never > 0 {
            let _ = write!(said, "; {} of the vocabulary never occur", counted(never, "word"));
        }
        Ok((corpus, said))
    }

    /// *Collective.* Held-out documents over the words that are trained on.
    fn held_out(&self, cluster: &Cluster, corpus: &Corpus, files: &str) -> Result<Corpus> {
        let options = self.files.options(Some(files)).map_err(into_cluster_error)?;
        let known = data::read_with_vocabulary(cluster, &options, files, corpus.vocabulary())?;
        self.common.tell_skipped(cluster, files, &known.skipped);
        Ok(known.corpus)
    }
}

/// *Collective.* `10 documents of 200 tokens over 30 words`.
fn size(cluster: &Cluster, corpus: &Corpus) -> Result<String> {
    let tokens = cluster.all_gather(corpus.tokens())?.into_iter().sum();
    let words = counted(corpus.words() as u64, "word");
    Ok(format!("{} of {} over {words}", counted(corpus.documents(), "document"), counted(tokens, "token")))
}

/// What was left out, for people.
fn what(filtered: FilteredWords) -> String {
    let FilteredWords { words, tokens, stopped } = filtered;
    let mut parts = Vec::new();
    if stopped > 0 {
        parts.push(format!("{} that are stop words, numbers or too short", counted(stopped, "token")));
    }
    if words > 0 {
        parts.push(format!("{} by the selection ({})", counted(words, "word"), counted(tokens, "token")));
    }
    parts.join(", ")
}

/// An error of reading, with the flag or the change that would help.
pub(super) fn hinted(error: anyhow::Error) -> anyhow::Error {
    use hemiola_array::Error as Reading;
    let Some(reading) = error.chain().find_map(|cause| cause.downcast_ref::<Reading>()) else { return error };
    match reading {
        Reading::BadLine(_) => {
            let hint = "documents are bags of words (docword, libsvm, ldac) or lines of text; mend the line, or see --format, --zero-based and --skip-bad-lines";
            CommandError::array(reading, hint).into()
        }
        Reading::TooManyBadLines { .. } => {
            CommandError::array(reading, "mend the lines, or allow more with `--skip-bad-lines N`").into()
        }
        _ => error,
    }
}

/// What `hemiola evaluate` finds.
#[derive(Debug, Serialize)]
pub(super) struct TopicEvaluation {
    metrics: Metrics,
    documents: u64,
    /// Tokens that were foretold.
    tokens: u64,
    /// Tokens of words that the model does not know; they were left out.
    unseen: u64,
}

/// `hemiola evaluate` of such a model.
pub(super) fn evaluate(
    cluster: &Cluster,
    model: &LdaModel,
    files: &DocumentFileArgs,
    pattern: &str,
) -> anyhow::Result<(String, TopicEvaluation)> {
    let known = data::read_for_model(cluster, &files.options_for(pattern, model)?, pattern, model)?;
    let completion = model.completion(cluster, &known.corpus, InferenceSettings::default())?;
    let coherence: Vec<f64> = model.coherence(cluster, &known.corpus, JUDGED)?.into_iter().flatten().collect();
    let mut metrics = Metrics::from([
        ("perplexity".to_owned(), completion.perplexity),
        ("log-likelihood".to_owned(), completion.log_likelihood),
    ]);
    if !coherence.is_empty() {
        metrics.insert("coherence".to_owned(), coherence.iter().sum::<f64>() / coherence.len() as f64);
    }
    let unseen = known.unseen.iter().sum::<u64>() + completion.unseen;
    let evaluation = TopicEvaluation { metrics, documents: completion.documents, tokens: completion.tokens, unseen };
    let mut text = format!(
        "{}, {} of their tokens foretold from the others",
        counted(evaluation.documents, "document"),
        evaluation.tokens
    );
    if unseen > 0 {
        let _ = write!(text, "; left out: {} of words the model does not know", counted(unseen, "token"));
    }
    text.push('\n');
    for (name, value) in &evaluation.metrics {
        let _ = writeln!(text, "{name} {value:.4}");
    }
    Ok((text, evaluation))
}
