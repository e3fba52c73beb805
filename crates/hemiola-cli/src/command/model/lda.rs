//! `hemiola train lda`: topic models by latent Dirichlet allocation, and their evaluation.

use super::documents::{DocumentFileArgs, VocabularyArgs};
use super::folds::{self, FoldArgs};
use super::input_args::input_paths;
use super::linear::refuse_without_data;
use super::metric_arg::MetricArg;
use super::progress::MetricColumns;
use super::read_hints::ReadHints;
use super::search::{SearchArgs, SearchInput};
use super::train_args::{PreparedTraining, TrainArgs, must_exist};
use super::train_defaults::TrainDefaults;
use crate::arguments::GivenFlags;
use crate::error::{CommandError, into_cluster_error};
use crate::plural::counted;
use clap::{Args, ValueEnum};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::Seed;
use hemiola_models::lda::data::{self, CorpusReadOptions, DocumentUnit, LoadedCorpus};
use hemiola_models::lda::{Corpus, FilteredWords, InferenceSettings, LdaExecutionMode, LdaModel, LdaSampler};
use hemiola_models::selection::FoldBy;
use hemiola_models::training::{ClusterInfo, Metrics};
use hemiola_models::{Estimator, TopicModelling};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Number of synthetic documents and of their topics, used without `--data`.
const SYNTHETIC: (usize, u32) = (1000, 20);
/// Default number of topics of other documents.
const TOPICS: u32 = 100;
/// Number of top words of a topic from which its coherence is computed.
pub(super) const COHERENCE_WORDS: usize = 10;

const AFTER_HELP: &str = "\
Examples:
  Synthetic documents:
    hemiola train lda --output model
    hemiola topics --model model

  Your own text, a document on each line:
    hemiola train lda --data articles.txt --topics 50 --output model
    hemiola topics --model model --words 8
    hemiola infer --model model --data new.txt

  A UCI bag of words, with `vocab.nips.txt` beside it:
    hemiola train lda --data docword.nips.txt.gz --topics 100 --output model --report run.json

  Four local peers, with rotation of words, or with parameter-server tables and a staleness of two clocks:
    hemiola train lda --data docword.nips.txt.gz --peers 4 --workers 1
    hemiola train lda --data docword.nips.txt.gz --peers 4 --workers 1 --mode tables --staleness 2

Text is split into lower-case words of letters and digits; an apostrophe between letters belongs to the word, and a final `'s` \
is removed. Numbers, single letters, stop words and words of a single document are dropped. An epoch is one Gibbs sweep over \
all tokens; the objective is the negative joint log-likelihood per token. docs/guides/topics.md describes the formulas and the \
choice of settings.

Exit codes:
  0     trained, or training was complete already
  2     wrong use: change a flag, a line of the data or the output folder; nothing was written
  3     the system or another peer failed, for example a full disk
  130   stopped by Ctrl-C after an epoch (128 + the signal number for other signals); saved if --output is given";

/// Gibbs sampler of `--sampler`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SamplerName {
    /// The fastest to converge in a short trial on some documents; --explain shows the choice.
    Auto,
    /// Exact Gibbs sampling over all topics: for few topics.
    Exact,
    /// Exact Gibbs sampling that exploits sparsity: for many topics.
    Sparse,
    /// Metropolis-Hastings proposals: the time per token does not depend on the number of topics.
    MetropolisHastings,
}

/// Execution mode of `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExecutionName {
    /// Documents stay on their worker, blocks of words rotate.
    Rotation,
    /// Word counts are in parameter-server tables.
    Tables,
}

/// Arguments of `hemiola train lda`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP, mut_args(|argument| TrainDefaults::LDA.complete(argument)))]
pub(crate) struct TrainLda {
    /// Files, folders or patterns with documents, or `-` for standard input: UCI bag of words,
    /// LIBSVM, LDA-C or plain text [default: 1000 synthetic documents]
    #[arg(long, short, value_name = "FILES", num_args = 1..)]
    data: Vec<String>,

    /// Number of topics [default: 100; 20 for synthetic documents]
    #[arg(long, short = 'k', visible_aliases = ["n-components", "num-topics"], value_name = "N")]
    topics: Option<u32>,

    /// Dirichlet prior of topics in a document; smaller values give fewer topics per document.
    #[arg(long, value_name = "X", default_value = "0.1")]
    alpha: f64,

    /// Dirichlet prior of words in a topic; smaller values give fewer words per topic.
    #[arg(long, value_name = "X", default_value = "0.01")]
    beta: f64,

    /// Keep alpha fixed [default: alpha is learned for each topic]
    #[arg(long)]
    fixed_alpha: bool,

    /// Learn beta, one value for all words [default: beta is fixed]
    #[arg(long)]
    learn_beta: bool,

    /// Validation set, whose perplexity is computed after each epoch: a fraction of the data (0.1),
    /// 0 for none, or files.
    #[arg(long, value_name = "FRACTION|FILES", default_value = "0")]
    validation: String,

    #[command(flatten)]
    files: DocumentFileArgs,

    #[command(flatten)]
    words: VocabularyArgs,

    /// Gibbs sampler.
    #[arg(long, value_enum, default_value = "auto", help_heading = "Sampling")]
    sampler: SamplerName,

    /// Execution mode: distribution of the work over peers and workers.
    #[arg(long, value_enum, default_value = "rotation", help_heading = "Sampling")]
    mode: ExecutionName,

    /// With --mode tables: staleness bound in clocks [default: 0]
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    staleness: Option<u32>,

    /// With --mode tables: bytes per second that a peer may send eagerly, between clocks [default:
    /// none]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Sampling")]
    bandwidth_budget: Option<u64>,

    /// Number of partitions of documents and words. The same partitions give a bit-identical model
    /// on any number of workers [default: one per worker of all peers]
    #[arg(long, value_name = "N", help_heading = "Sampling")]
    partitions: Option<u32>,

    #[command(flatten)]
    folds: FoldArgs,

    #[command(flatten)]
    metric: MetricArg,

    #[command(flatten)]
    common: TrainArgs,

    #[arg(skip)]
    search: Option<SearchArgs>,
}

impl TrainLda {
    /// Searches settings instead of training once.
    pub(super) fn search(mut self, search: SearchArgs) -> anyhow::Result<ExitCode> {
        self.search = Some(search);
        self.execute()
    }

    pub(super) fn execute(&self) -> anyhow::Result<ExitCode> {
        refuse_without_data(&self.data)?;
        let share = self.validation.parse::<f64>().ok();
        let default_topics = if self.data.is_empty() { SYNTHETIC.1 } else { TOPICS };
        let settings = TopicModelling::builder(self.topics.unwrap_or(default_topics))
            .alpha(self.alpha)
            .beta(self.beta)
            .learn_alpha(!self.fixed_alpha)
            .learn_beta(self.learn_beta)
            .sampler(match self.sampler {
                SamplerName::Auto => LdaSampler::Auto,
                SamplerName::Exact => LdaSampler::Exact,
                SamplerName::Sparse => LdaSampler::Sparse,
                SamplerName::MetropolisHastings => LdaSampler::MetropolisHastings,
            })
            .mode(self.execution_mode()?)
            .parts(self.partitions.unwrap_or(0))
            .seed(self.common.seed)
            .validation(share.unwrap_or(0.0))
            .limits(self.common.limits())
            .build()
            .map_err(|error| anyhow::Error::from(Error::from(error)))?;
        self.common.check("lda", settings.settings(), self.search.is_some())?;
        let validation_files = share.is_none().then_some(&self.validation);
        self.data.iter().chain(validation_files).try_for_each(|pattern| must_exist(pattern))?;
        let options = self.words.apply(self.files.options(&self.data)?)?;
        self.common.run(|cluster| {
            let trained = self.train(cluster, &settings, &options, validation_files);
            trained.map_err(|error| ReadHints::DOCUMENTS.explain_in_cluster(error))
        })
    }

    fn execution_mode(&self) -> anyhow::Result<LdaExecutionMode> {
        match self.mode {
            ExecutionName::Tables => {
                Ok(LdaExecutionMode::Tables { staleness: self.staleness.unwrap_or(0), budget: self.bandwidth_budget })
            }
            ExecutionName::Rotation if self.staleness.is_some() || self.bandwidth_budget.is_some() => {
                let failure =
                    CommandError::usage("--staleness and --bandwidth-budget need tables; rotation is never stale");
                Err(failure.hint("add `--mode tables`, or leave them out").into())
            }
            ExecutionName::Rotation => Ok(LdaExecutionMode::Rotation),
        }
    }

    fn train(
        &self,
        cluster: &Cluster,
        settings: &TopicModelling,
        options: &CorpusReadOptions,
        validation_files: Option<&String>,
    ) -> Result<u8> {
        let start = cluster.env().now();
        let lock = self.common.lock_output(cluster)?;
        let (corpus, mut summary) = self.read(cluster, options)?;
        let valid = validation_files.map(|files| self.read_validation(cluster, &corpus, files)).transpose()?;
        match (&valid, settings.settings().validation) {
            (Some(valid), _) => {
                let _ = write!(summary, ", {} for validation", valid.documents());
            }
            (None, 0.0) => {}
            (None, share) => {
                let _ = write!(summary, ", a fraction of {share} for validation");
            }
        }
        let _ = write!(summary, "; {}; {}", counted(settings.settings().topics, "topic"), ClusterInfo::of(cluster));
        let with_valid = valid.is_some() || settings.settings().validation > 0.0;
        let prepared = PreparedTraining {
            headline: summary,
            loading: cluster.env().now() - start,
            columns: MetricColumns::new(if with_valid { "perplexity" } else { "likelihood" }, "tokens"),
            limits: &settings.settings().limits,
            lock,
        };
        if let Some(search) = &self.search {
            let (validation, share) = (valid.as_ref(), settings.settings().validation);
            let metric = self.metric.metric;
            let input = SearchInput { estimator: settings, data: &corpus, validation, share, metric };
            return search.run(cluster, &self.common, &input, prepared);
        }
        let mut cross_validation = None;
        if let Some(count) = self.folds.folds {
            match folds::run(cluster, &self.common, (settings, &corpus), (count, &FoldBy::Record), &prepared)? {
                Ok(report) => cross_validation = serde_json::to_value(report).ok(),
                Err(code) => return Ok(code),
            }
        }
        self.common.fit(cluster, prepared, |options| {
            let mut fit = settings.fit_with(cluster, &corpus, valid.as_ref(), self.metric.apply(options))?;
            fit.report.cross_validation = cross_validation;
            Ok(fit.report)
        })
    }

    /// *Collective.* Reads the documents; returns them with a summary.
    fn read(&self, cluster: &Cluster, options: &CorpusReadOptions) -> Result<(Corpus, String)> {
        let Some(paths) = input_paths(&self.data) else {
            let corpus = data::synthetic(cluster, SYNTHETIC.0, Seed(self.common.seed))?;
            let summary = size(cluster, &corpus)?;
            return Ok((corpus, format!("synthetic: {summary}")));
        };
        let LoadedCorpus { corpus, format, filtered, unused, skipped, units } = data::read(cluster, options, &paths)?;
        self.common.report_skipped_lines(cluster, &paths.to_string(), &skipped);
        let lines = match (format, units) {
            (data::CorpusFormat::Text, _) if self.files.text_column().is_some() => " (each text is a document)",
            (data::CorpusFormat::Text, DocumentUnit::File) => " (each file is a document)",
            (data::CorpusFormat::Text, _) => " (each line is a document)",
            _ => "",
        };
        let by_default = !self.files.units_are_given() && units == DocumentUnit::File;
        if by_default {
            let note = "each file is a document; `--documents lines` if each line is one";
            self.common.report_notes(cluster, &[note.to_owned()]);
        }
        let mut summary = format!("{format}: {}{lines}", size(cluster, &corpus)?);
        Self::refuse_flags_of_other_formats(format).map_err(into_cluster_error)?;
        if let Some(names) = self.files.detected_vocabulary(options).filter(|_| format == data::CorpusFormat::Docword) {
            let _ = write!(summary, " (words from `{names}`)");
        }
        if filtered != FilteredWords::default() {
            let _ = write!(summary, "; dropped: {}", filtered_text(filtered));
        }
        // Filtered words stay in the vocabulary of a bag of words.
        let never = if format == data::CorpusFormat::Text { 0 } else { unused.saturating_sub(filtered.words) };
        if never > 0 {
            let _ = write!(summary, "; {} of the vocabulary never occur", counted(never, "word"));
        }
        Ok((corpus, summary))
    }

    /// Refuses flags that have no effect on files of this format.
    fn refuse_flags_of_other_formats(format: data::CorpusFormat) -> anyhow::Result<()> {
        let (given, reason) = (GivenFlags::of_process(), format!("the documents are in the format `{format}`"));
        let hint = "leave it out, or set `--format`";
        if format == data::CorpusFormat::Text {
            given.refuse(&["--vocabulary", "--skip-bad-lines"], &reason, hint)?;
        } else {
            given.refuse(&["--min-length", "--keep-numbers", "--documents"], &reason, hint)?;
        }
        if format == data::CorpusFormat::Libsvm {
            return Ok(());
        }
        given.refuse(&["--zero-based"], &reason, hint)
    }

    /// *Collective.* Reads validation documents over the words of the training set.
    fn read_validation(&self, cluster: &Cluster, corpus: &Corpus, files: &str) -> Result<Corpus> {
        let options = self.files.options(&[files.to_owned()]).map_err(into_cluster_error)?;
        let known = data::read_with_vocabulary(cluster, &options, files, corpus.vocabulary())?;
        self.common.report_skipped_lines(cluster, files, &known.skipped);
        Ok(known.corpus)
    }
}

/// *Collective.* Formats the size of a corpus: `10 documents of 200 tokens over 30 words`.
fn size(cluster: &Cluster, corpus: &Corpus) -> Result<String> {
    let tokens = cluster.all_gather(corpus.tokens())?.into_iter().sum::<u64>();
    let words = counted(corpus.words(), "word");
    Ok(format!("{} of {} over {words}", counted(corpus.documents(), "document"), counted(tokens, "token")))
}

/// Formats the counts of filtered words and tokens.
fn filtered_text(filtered: FilteredWords) -> String {
    let FilteredWords { words, tokens, stopped } = filtered;
    let mut parts = Vec::new();
    if stopped > 0 {
        parts.push(format!("{} that are stop words, numbers or too short", counted(stopped, "token")));
    }
    if words > 0 {
        parts.push(format!("{} by the frequency filter ({})", counted(words, "word"), counted(tokens, "token")));
    }
    parts.join(", ")
}

/// Report of `hemiola evaluate` for topic models.
#[derive(Debug, Serialize)]
pub(super) struct TopicEvaluation {
    metrics: Metrics,
    documents: usize,
    /// Number of predicted tokens.
    tokens: u64,
    /// Number of ignored tokens, of words the model does not know.
    unseen: u64,
}

/// Evaluates a topic model for `hemiola evaluate`.
pub(super) fn evaluate(
    cluster: &Cluster,
    model: &LdaModel,
    files: &DocumentFileArgs,
    paths: &[String],
) -> anyhow::Result<(String, TopicEvaluation)> {
    let known = data::read_for_model(cluster, &files.options_for(paths, model)?, paths, model)?;
    let completion = model.completion(cluster, &known.corpus, InferenceSettings::default())?;
    let coherence: Vec<f64> = model.coherence(cluster, &known.corpus, COHERENCE_WORDS)?.into_iter().flatten().collect();
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
        "{}, {} of their tokens predicted from the others",
        counted(evaluation.documents, "document"),
        evaluation.tokens
    );
    if unseen > 0 {
        let _ = write!(text, "; ignored: {} of words the model does not know", counted(unseen, "token"));
    }
    text.push('\n');
    for (name, value) in &evaluation.metrics {
        let _ = writeln!(text, "{name} {value:.4}");
    }
    Ok((text, evaluation))
}
