//! Use of trained models: `hemiola recommend`, `similar`, `predict` and `evaluate`.
//!
//! `predict` and `evaluate` depend on the family of the model, which is stored in its folder.

use super::documents::DocumentFileArgs;
use super::input_args::{RatingFileArgs, print_notes, separator};
use super::mf::check_saved_model;
use super::names::{TitlesFile, lines};
use super::new_user::NewUserArgs;
use super::read_hints::ReadHints;
use super::train_args::must_exist;
use super::{lda, linear, sparse};
use crate::error::CommandError;
use crate::plural::counted;
use crate::{output, report};
use clap::Args;
use hemiola_array::save::PartReader;
use hemiola_cluster::{Cluster, Error};
use hemiola_models::Predictor;
use hemiola_models::input::InputSchema;
use hemiola_models::lda::LdaModel;
use hemiola_models::linear::data::LinearReadOptions;
use hemiola_models::linear::{LinearModel, data as linear_data};
use hemiola_models::mf::{MfEvaluation, MfModel, RankingEvaluator, data};
use hemiola_models::sparse::SparseModel;
use hemiola_models::training::Metrics;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Family of a trained model: determines the data it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelFamily {
    /// Matrix factorization of users and items.
    Ratings,
    /// Linear classifier of examples.
    Classes,
    /// Sparse regression, or sparse logistic regression of two classes.
    Sparse,
    /// Topic model of documents.
    Topics,
}

/// Arguments of all commands that use a trained model.
#[derive(Args, Debug)]
pub(super) struct ModelArgs {
    /// Folder of the trained model.
    #[arg(long, short, value_name = "DIR")]
    pub(super) model: PathBuf,

    /// File for the report as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ModelArgs {
    /// Loads the model in this process alone, and calls `work` with it.
    pub(super) fn with_model<M, T>(
        &self,
        load: impl FnOnce(&Cluster, &Path) -> hemiola_cluster::Result<M>,
        work: impl FnOnce(&Cluster, &M) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        check_saved_model(&self.model)?;
        let mut outcome = None;
        Cluster::builder().run(|cluster| {
            let model = load(cluster, &self.model)?;
            outcome = Some(work(cluster, &model));
            Ok::<_, Error>(())
        })?;
        outcome.expect("the program ran")
    }

    /// Returns true if results go to a report.
    pub(super) fn reports(&self) -> bool {
        self.report.is_some()
    }

    /// Returns the family of the model, from its manifest.
    pub(super) fn family(&self) -> anyhow::Result<ModelFamily> {
        check_saved_model(&self.model)?;
        let loading = PartReader::open(&self.model)?;
        let kind = loading.manifest().metadata.get("model").and_then(serde_json::Value::as_str);
        Ok(match kind {
            Some("svm" | "logistic") => ModelFamily::Classes,
            Some("lda") => ModelFamily::Topics,
            Some("lasso" | "elastic-net" | "sparse-logistic") => ModelFamily::Sparse,
            _ => ModelFamily::Ratings,
        })
    }

    /// Returns an error unless the model is a matrix factorization. `action` is what the command
    /// does with one.
    fn require_ratings(&self, action: &str) -> anyhow::Result<()> {
        let (kind, hint) = match self.family()? {
            ModelFamily::Ratings => return Ok(()),
            ModelFamily::Classes => ("a classifier", "`hemiola predict --model DIR --data FILES` predicts classes"),
            ModelFamily::Sparse => ("a regression", "`hemiola predict --model DIR --data FILES` predicts values"),
            ModelFamily::Topics => ("a topic model", "`hemiola infer --model DIR --data FILES` infers topics"),
        };
        let message = format!("`{}` is {kind}, and {action} needs a matrix factorization", self.model.display());
        Err(CommandError::usage(message)
            .hint(format!("{hint}; `hemiola train mf` trains a matrix factorization"))
            .into())
    }

    /// Writes the report, or prints `lines` if no report is requested.
    pub(super) fn write(&self, lines: &str, results: &impl Serialize) -> anyhow::Result<()> {
        match &self.report {
            Some(target) => report::write(target, results),
            None => output::print(lines),
        }
    }
}

/// Arguments of `hemiola recommend`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola recommend --model model --user 42 -k 10 --titles u.item --seen-in u.data
  hemiola recommend --model model --ratings 'Alien (1979):5,Brazil (1985):4' --titles u.item
  hemiola recommend --model model --ratings mine.csv")]
pub(crate) struct RecommendArgs {
    #[command(flatten)]
    common: ModelArgs,

    #[command(flatten)]
    user: NewUserArgs,

    /// Number of items to list.
    #[arg(short, long, value_name = "N", default_value = "10")]
    k: usize,

    /// Items to exclude, for example those the user knows. Items rated by a new user are always
    /// excluded.
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    seen: Vec<String>,

    /// Exclude the items of the user in these files, for example the training set.
    #[arg(long, value_name = "FILES")]
    seen_in: Option<String>,

    #[command(flatten)]
    reading: RatingFileArgs,

    #[command(flatten)]
    titles: TitlesFile,
}

impl RecommendArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if let (Some(flag), None) = (self.reading.given(), &self.seen_in) {
            let message = format!("`{flag}` is for the files of `--seen-in`, which is not given");
            return Err(CommandError::usage(message).hint("leave it out, or add `--seen-in FILES`").into());
        }
        self.common.require_ratings("a recommendation")?;
        let titles = self.titles.read()?;
        self.common.with_model(MfModel::load, |cluster, model| {
            let found = self.user.find(cluster, model, &titles)?;
            let mut seen = found.rated;
            for name in &self.seen {
                seen.push(titles.item(model, name)?);
            }
            if let Some(files) = &self.seen_in {
                let known = self.user.seen_in(cluster, model, &self.reading, files);
                seen.extend(known.map_err(|error| ReadHints::RATINGS.explain(error))?);
            }
            let best = titles.scored(model, model.recommend_for(cluster, &found.row, self.k, &seen)?);
            self.common.write(&lines(&best), &best)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Arguments of `hemiola similar`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola similar --model model --item 50 --titles u.item
  hemiola similar --model model --item 'star wars' --titles u.item")]
pub(crate) struct SimilarArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Item, by the name in the training data or by its title.
    #[arg(long, value_name = "ID")]
    item: String,

    /// Number of items to list.
    #[arg(short, long, value_name = "N", default_value = "10")]
    k: usize,

    #[command(flatten)]
    titles: TitlesFile,
}

impl SimilarArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        self.common.require_ratings("similarity of items")?;
        let titles = self.titles.read()?;
        self.common.with_model(MfModel::load, |cluster, model| {
            let item = titles.item(model, &self.item)?;
            let found = titles.scored(model, model.similar(cluster, item, self.k)?);
            self.common.write(&lines(&found), &found)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Arguments of `hemiola predict`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola predict --model model --user 42 --item 50 --item 172
  hemiola predict --model model --ratings '50:5,100:3' --item 172

  A classifier or regression (`hemiola train svm`, `logistic`, `lasso`): a prediction per line:
    hemiola predict --model model --data new.libsvm")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    common: ModelArgs,

    #[command(flatten)]
    user: NewUserArgs,

    /// Items to predict, by name or title.
    #[arg(long = "item", value_name = "ID")]
    wanted: Vec<String>,

    /// Files with examples, for classifiers and regressions. Their labels are ignored, and
    /// separated values need none.
    #[arg(long, short, value_name = "FILES", conflicts_with_all = ["wanted", "user", "ratings", "titles"])]
    data: Option<String>,

    /// Feature indices of LIBSVM files count from 0 [default: as in training]
    #[arg(long, requires = "data")]
    zero_based: bool,

    /// Field separator of separated values [default: that of the model, or detected]
    #[arg(long, value_name = "TEXT", value_parser = separator, requires = "data")]
    separator: Option<String>,

    #[command(flatten)]
    titles: TitlesFile,
}

impl PredictArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match (self.common.family()?, &self.data) {
            (ModelFamily::Classes, Some(files)) => return self.predict_classes(files),
            (ModelFamily::Sparse, Some(files)) => return self.predict_values(files),
            (ModelFamily::Topics, _) => {
                let failure = CommandError::usage("a topic model does not predict; it infers the topics of documents");
                return Err(failure.hint("use `hemiola infer --model DIR --data FILES`").into());
            }
            (ModelFamily::Classes | ModelFamily::Sparse, None) => {
                let failure = CommandError::usage("the model predicts examples, and no examples are given");
                return Err(failure.hint("add `--data FILES`").into());
            }
            (ModelFamily::Ratings, Some(_)) => {
                let failure = CommandError::usage(
                    "`--data` is for classifiers and regressions, and this is a model of users and items",
                );
                return Err(failure.hint("use `--user ID --item ID`").into());
            }
            (ModelFamily::Ratings, None) if self.wanted.is_empty() || self.user.is_empty() => {
                let failure = CommandError::usage("no user or no item is given");
                return Err(failure.hint("use `--user ID --item ID`").into());
            }
            (ModelFamily::Ratings, None) => {}
        }
        let titles = self.titles.read()?;
        self.common.with_model(MfModel::load, |cluster, model| {
            let found = self.user.find(cluster, model, &titles)?;
            let items =
                self.wanted.iter().map(|name| titles.item(model, name)).collect::<anyhow::Result<Vec<usize>>>()?;
            let predicted = model.predict_for(cluster, &found.row, &items)?;
            let found = titles.scored(model, items.into_iter().zip(predicted).collect());
            self.common.write(&lines(&found), &found)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl PredictArgs {
    /// Returns the options for reading examples, by the layout of the training files.
    fn options(&self, schema: Option<&InputSchema>) -> LinearReadOptions {
        LinearReadOptions {
            zero_based: self.zero_based,
            separator: self.separator.clone(),
            schema: schema.cloned(),
            without_labels: true,
            ..LinearReadOptions::default()
        }
    }

    /// Prints the predicted label of each example.
    fn predict_classes(&self, files: &str) -> anyhow::Result<ExitCode> {
        must_exist(files)?;
        self.common
            .with_model(LinearModel::load, |cluster, model| {
                let read = linear_data::read(cluster, &self.options(model.input.as_ref()), files)?;
                print_notes(&read.notes);
                let examples = read.labelled;
                let predicted = model.predict(cluster, &examples.features)?;
                warn_unknown_features(model.unknown_features(cluster, &examples.features)?);
                let mut text = String::new();
                for one in predicted.iter().take(examples.labels.len()) {
                    let _ = match &one.name {
                        Some(name) => writeln!(text, "{name}"),
                        None => writeln!(text, "{}", one.label),
                    };
                }
                self.common.write(&text, &predicted)
            })
            .map_err(|error| ReadHints::EXAMPLES.explain(error))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the predicted value of each example.
    fn predict_values(&self, files: &str) -> anyhow::Result<ExitCode> {
        must_exist(files)?;
        self.common
            .with_model(SparseModel::load, |cluster, model| {
                let read = linear_data::read(cluster, &self.options(model.input.as_ref()), files)?;
                print_notes(&read.notes);
                let examples = read.labelled;
                let predicted = model.predict(cluster, &examples.features)?;
                warn_unknown_features(model.unknown_features(cluster, &examples.features)?);
                let mut text = String::new();
                for one in predicted.iter().take(examples.labels.len()) {
                    let _ = writeln!(text, "{}", one.value);
                }
                self.common.write(&text, &predicted)
            })
            .map_err(|error| ReadHints::EXAMPLES.explain(error))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Warns about features that the model does not know.
fn warn_unknown_features(unknown: u64) {
    if unknown > 0 {
        let values = counted(unknown, "value");
        output::note(&format!("ignored {values} of features that the model does not know"));
    }
}

/// Arguments of `hemiola evaluate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola evaluate --model model --data test.csv
  hemiola evaluate --model model --data test.csv --ranking --seen-in train.csv --event-threshold 4
  hemiola evaluate --model model --data test.libsvm
  hemiola evaluate --model model --data docword.test.txt               perplexity and coherence of a topic model")]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Files, a folder or a pattern with ratings, events, examples or documents.
    #[arg(long, short, value_name = "FILES")]
    data: String,

    /// Compute the ranking metrics recall@k and NDCG@k. This is the default for a model of events.
    #[arg(long)]
    ranking: bool,

    /// Ranking: exclude the items that users have in these files, for example the training set.
    #[arg(long, value_name = "FILES")]
    seen_in: Option<String>,

    /// Ranking: only ratings of at least X are relevant.
    #[arg(long, value_name = "X")]
    event_threshold: Option<f32>,

    /// Ranking: cutoffs k [default: 10,20]
    #[arg(short, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    k: Vec<u16>,

    #[command(flatten)]
    reading: RatingFileArgs,

    #[command(flatten)]
    files: DocumentFileArgs,
}

impl EvaluateArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let kind = self.common.family()?;
        self.refuse_reading_flags(kind)?;
        if kind != ModelFamily::Ratings {
            let ranks = self.ranking || self.seen_in.is_some() || self.event_threshold.is_some() || !self.k.is_empty();
            if ranks {
                let failure = CommandError::usage("ranking metrics need a model of users and items");
                return Err(failure.hint("leave out --ranking, --seen-in, --event-threshold and -k").into());
            }
            must_exist(&self.data)?;
            if kind == ModelFamily::Topics {
                self.common
                    .with_model(LdaModel::load, |cluster, model| {
                        let (text, evaluation) = lda::evaluate(cluster, model, &self.files, &self.data)?;
                        self.common.write(&text, &evaluation)
                    })
                    .map_err(|error| ReadHints::DOCUMENTS.explain(error))?;
                return Ok(ExitCode::SUCCESS);
            }
            if kind == ModelFamily::Sparse {
                self.common
                    .with_model(SparseModel::load, |cluster, model| {
                        let (text, evaluation) = sparse::evaluate(cluster, model, self.example_options(), &self.data)?;
                        self.common.write(&text, &evaluation)
                    })
                    .map_err(|error| ReadHints::EXAMPLES.explain(error))?;
                return Ok(ExitCode::SUCCESS);
            }
            self.common
                .with_model(LinearModel::load, |cluster, model| {
                    let (text, evaluation) = linear::evaluate(cluster, model, self.example_options(), &self.data)?;
                    self.common.write(&text, &evaluation)
                })
                .map_err(|error| ReadHints::EXAMPLES.explain(error))?;
            return Ok(ExitCode::SUCCESS);
        }
        self.common.with_model(MfModel::load, |cluster, model| {
            if self.ranking || model.loss().is_implicit() {
                self.evaluate_ranking(cluster, model).map_err(|error| ReadHints::RATINGS.explain(error))
            } else {
                self.refuse_ranking_flags()?;
                self.evaluate_errors(cluster, model).map_err(|error| ReadHints::RATINGS.explain(error))
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the options for reading examples; the model adds its layout.
    fn example_options(&self) -> LinearReadOptions {
        LinearReadOptions {
            zero_based: self.files.zero_based(),
            separator: self.reading.separator.clone(),
            ..LinearReadOptions::default()
        }
    }

    /// Refuses flags about files that a model of this family does not read.
    fn refuse_reading_flags(&self, kind: ModelFamily) -> anyhow::Result<()> {
        let (flag, reads) = match kind {
            ModelFamily::Topics => (self.reading.given(), "documents"),
            ModelFamily::Ratings => (self.files.given(), "ratings"),
            ModelFamily::Classes | ModelFamily::Sparse => {
                let given = self.files.given().filter(|flag| *flag != "--zero-based");
                (given.or(self.reading.given().filter(|flag| *flag != "--separator")), "examples")
            }
        };
        match flag {
            Some(flag) => {
                let message = format!("`{flag}` has no effect: this model is evaluated on {reads}");
                Err(CommandError::usage(message).hint("leave it out").into())
            }
            None => Ok(()),
        }
    }

    /// Refuses flags that have no effect without `--ranking`.
    fn refuse_ranking_flags(&self) -> anyhow::Result<()> {
        let flags = [
            ("--seen-in", self.seen_in.is_some()),
            ("--event-threshold", self.event_threshold.is_some()),
            ("-k", !self.k.is_empty()),
        ];
        match flags.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                let message =
                    format!("`{flag}` is for ranking metrics, and a model of ratings is evaluated by its error");
                Err(CommandError::usage(message).hint("add `--ranking`, or leave it out").into())
            }
            None => Ok(()),
        }
    }

    fn evaluate_errors(&self, cluster: &Cluster, model: &MfModel) -> anyhow::Result<()> {
        let options = self.reading.options(false, model.input.as_ref());
        let evaluation = model.evaluate_all(cluster, &data::read_with(cluster, &options, &self.data)?.entries)?;
        let MfEvaluation { metrics, entries, cold } = &evaluation;
        let entries = counted(*entries, "rating");
        let mut text = format!("{entries}, {cold} of them of unknown users or items\n");
        for (name, value) in metrics {
            let _ = writeln!(text, "{name} {value:.4}");
        }
        self.common.write(&text, &evaluation)
    }

    fn evaluate_ranking(&self, cluster: &Cluster, model: &MfModel) -> anyhow::Result<()> {
        let options = self.reading.options(true, model.input.as_ref());
        let all = data::read_with(cluster, &options, &self.data)?.entries;
        let all = match self.event_threshold {
            Some(least) => data::from_threshold(&all, least)?,
            None => all,
        };
        let wanted = data::aligned_to(&all, model)?;
        let known = match &self.seen_in {
            Some(files) => data::aligned_to(&data::read_with(cluster, &options, files)?.entries, model)?,
            None => wanted.entries().filter(|_, _| false).materialize()?,
        };
        let ranking = RankingEvaluator::new(&wanted, &known)?;
        let cutoffs = if self.k.is_empty() { vec![10, 20] } else { self.k.iter().map(|k| usize::from(*k)).collect() };
        let metrics = ranking.metrics(cluster, model, &cutoffs)?;
        let users = ranking.users(cluster)?;
        let mut text = format!(
            "{} of {} entries have known users and items; means over {}\n",
            wanted.len(),
            all.len(),
            counted(users, "user")
        );
        for (name, value) in &metrics {
            let _ = writeln!(text, "{name} {value:.4}");
        }
        let (entries, cold) = (all.len(), all.len() - wanted.len());
        self.common.write(&text, &RankingReport { metrics, users, entries, cold })
    }
}

/// Report of a ranking evaluation.
#[derive(Debug, Serialize)]
struct RankingReport {
    metrics: Metrics,
    users: u64,
    entries: usize,
    cold: usize,
}
