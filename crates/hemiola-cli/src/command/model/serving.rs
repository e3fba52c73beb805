//! Use of trained models: `hemiola recommend`, `similar`, `predict` and `evaluate`.
//!
//! `predict` and `evaluate` depend on the family of the model, which is stored in its folder.

use super::batch::{self, BatchRecommendation, ExampleIds, PredictionTable};
use super::documents::DocumentFileArgs;
use super::example_models::ExampleModelKind;
use super::input_args::{RatingFileArgs, one_path, print_notes};
use super::mf::check_saved_model;
use super::names::{TitlesFile, lines};
use super::nets::{self, NetUse};
use super::new_user::NewUserArgs;
use super::read_hints::ReadHints;
use super::table_output::TableArg;
use super::train_args::must_exist;
use super::{lda, linear, sparse};
use crate::arguments::GivenFlags;
use crate::error::CommandError;
use crate::plural::counted;
use crate::run_record::RunRecord;
use crate::{activity, output, report};
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
    /// Factorization machine, ridge or softmax regression, or k-means, of examples.
    Examples(ExampleModelKind),
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
    /// Arguments for the model of a folder, without a report.
    pub(super) fn of(model: PathBuf) -> Self {
        Self { model, report: None }
    }

    /// Loads the model in this process alone, and calls `work` with it.
    pub(super) fn with_model<M, T>(
        &self,
        load: impl FnOnce(&Cluster, &Path) -> hemiola_cluster::Result<M>,
        work: impl FnOnce(&Cluster, &M) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        check_saved_model(&self.model)?;
        let mut outcome = None;
        Cluster::builder()
            .run(|cluster| {
                let given = GivenFlags::of_process();
                let inputs = RunRecord::new(cluster, given.values("--data")).input_bytes();
                activity::begin(cluster.env(), inputs, "computing");
                let model = load(cluster, &self.model)?;
                outcome = Some(work(cluster, &model));
                Ok::<_, Error>(())
            })
            .inspect_err(|_| activity::end())?;
        activity::end();
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
            kind => kind.and_then(ExampleModelKind::of).map_or(ModelFamily::Ratings, ModelFamily::Examples),
        })
    }

    /// Returns an error unless the model is a matrix factorization. `action` is what the command
    /// does with one.
    fn require_ratings(&self, action: &str) -> anyhow::Result<()> {
        let (kind, hint) = match self.family()? {
            ModelFamily::Ratings => return Ok(()),
            ModelFamily::Classes => ("a classifier", "`hemiola predict --model DIR --data FILES` predicts classes"),
            ModelFamily::Sparse => ("a regression", "`hemiola predict --model DIR --data FILES` predicts values"),
            ModelFamily::Examples(kind) => {
                (kind.words(), "`hemiola predict --model DIR --data FILES` predicts examples")
            }
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
  hemiola recommend --model model --ratings mine.csv
  hemiola recommend --model model --users all -k 10 --seen-in u.data --output recommendations.csv")]
pub(crate) struct RecommendArgs {
    #[command(flatten)]
    common: ModelArgs,

    #[command(flatten)]
    user: NewUserArgs,

    /// Many users at once: a file with a name on each line, or `all`. The result is a table of user,
    /// rank, item and score.
    #[arg(long, value_name = "FILE|all", conflicts_with_all = ["user", "ratings", "report"])]
    users: Option<String>,

    #[command(flatten)]
    table: TableArg,

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
        if nets::is_net(&self.common.model) {
            GivenFlags::of_process().refuse(&["--ratings"], "a net has no factors for new users", "use `--user ID`")?;
            let batch = ["--users", "--output"];
            GivenFlags::of_process().refuse(&batch, "a net recommends to one user at a time", "use `--user ID`")?;
            let (user, seen_in) = (self.user.name(), self.seen_in.as_deref());
            let Self { k, seen, titles, .. } = &self;
            return nets::use_net(&self.common, NetUse::Recommend { user, count: *k, seen, seen_in, titles });
        }
        self.common.require_ratings("a recommendation")?;
        let titles = self.titles.read()?;
        if let Some(users) = &self.users {
            self.table.check()?;
            self.common.with_model(MfModel::load, |cluster, model| {
                let seen = self.seen.iter().map(|name| titles.item(model, name)).collect::<anyhow::Result<_>>()?;
                let (count, seen_in) = (self.k, self.seen_in.as_deref());
                let (reading, table) = (&self.reading, &self.table);
                BatchRecommendation { users, count, seen, seen_in, reading, table }.write(cluster, model, &titles)
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        refuse_table(&self.table, "--users FILE|all")?;
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
    #[arg(long, value_name = "ID", required_unless_present = "items")]
    item: Option<String>,

    /// Many items at once: a file with a name on each line, or `all`. The result is a table of item,
    /// rank, similar item and score.
    #[arg(long, value_name = "FILE|all", conflicts_with_all = ["item", "report"])]
    items: Option<String>,

    #[command(flatten)]
    table: TableArg,

    /// Number of items to list.
    #[arg(short, long, value_name = "N", default_value = "10")]
    k: usize,

    #[command(flatten)]
    titles: TitlesFile,
}

impl SimilarArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if nets::is_net(&self.common.model) {
            let batch = ["--items", "--output"];
            GivenFlags::of_process().refuse(&batch, "a net compares one item at a time", "use `--item ID`")?;
            let Self { common, item, k, titles, .. } = &self;
            let item = item.as_deref().unwrap_or_default();
            return nets::use_net(common, NetUse::Similar { item, count: *k, titles });
        }
        self.common.require_ratings("similarity of items")?;
        let titles = self.titles.read()?;
        if let Some(items) = &self.items {
            self.table.check()?;
            self.common.with_model(MfModel::load, |cluster, model| {
                batch::write_similar(cluster, model, (items, self.k), &self.table, &titles)
            })?;
            return Ok(ExitCode::SUCCESS);
        }
        refuse_table(&self.table, "--items FILE|all")?;
        self.common.with_model(MfModel::load, |cluster, model| {
            let item = titles.item(model, self.item.as_deref().unwrap_or_default())?;
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

  A classifier, regression or clustering (`hemiola train svm`, `fm`, `ridge`, `kmeans`): a prediction per line:
    hemiola predict --model model --data new.libsvm

  Tables with the ids of a column, and probabilities of classes; ratings of pairs of user and item:
    hemiola predict --model model --data new.csv --id-column customer --output predictions.csv
    hemiola predict --model ratings --data pairs.csv --output predictions.jsonl

  An image classifier (`hemiola train cnn`): a class and its probability per image:
    hemiola predict --model digits --data t10k-images-idx3-ubyte")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    common: ModelArgs,

    #[command(flatten)]
    user: NewUserArgs,

    /// Items to predict, by name or title.
    #[arg(long = "item", value_name = "ID")]
    wanted: Vec<String>,

    /// Files with examples, for classifiers and regressions, or with pairs of user and item, for
    /// models of ratings. Labels and ratings are ignored, and separated values need none. For image
    /// classifiers: a file of images (IDX or CIFAR-10), or a folder with a test set.
    #[arg(long, short, value_name = "FILES", num_args = 1.., conflicts_with_all = ["wanted", "user", "ratings", "titles"])]
    data: Vec<String>,

    /// Feature indices of LIBSVM files count from 0 [default: as in training]
    #[arg(long, requires = "data")]
    zero_based: bool,

    #[command(flatten)]
    reading: RatingFileArgs,

    #[command(flatten)]
    table: TableArg,

    /// Separated values: column of ids for the table of --output, by name or number [default: the
    /// number of the row]
    #[arg(long, value_name = "COLUMN", requires = "output")]
    id_column: Option<String>,

    #[command(flatten)]
    titles: TitlesFile,
}

impl PredictArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if nets::is_net(&self.common.model) {
            let of_tables = ["--zero-based", "--separator", "--ratings", "--columns", "--output", "--id-column"];
            GivenFlags::of_process().refuse(&of_tables, "the model is a net", "leave it out")?;
            let Self { common, user, wanted, data, titles, .. } = &self;
            let (user, data) = (user.name(), one_path(data)?);
            return nets::use_net(common, NetUse::Predict { data, user, items: wanted, titles });
        }
        match (self.common.family()?, Some(&self.data[..]).filter(|files| !files.is_empty())) {
            (ModelFamily::Classes, Some(files)) => return self.predict_classes(files),
            (ModelFamily::Sparse, Some(files)) => return self.predict_values(files),
            (ModelFamily::Topics, _) => {
                let failure = CommandError::usage("a topic model does not predict; it infers the topics of documents");
                return Err(failure.hint("use `hemiola infer --model DIR --data FILES`").into());
            }
            (ModelFamily::Examples(kind), Some(files)) => return self.predict_examples(kind, files),
            (ModelFamily::Classes | ModelFamily::Sparse | ModelFamily::Examples(_), None) => {
                let failure = CommandError::usage("the model predicts examples, and no examples are given");
                return Err(failure.hint("add `--data FILES`").into());
            }
            (ModelFamily::Ratings, Some(files)) => return self.predict_ratings(files),
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

/// Refuses a table of results where there is only one result.
fn refuse_table(table: &TableArg, flag: &str) -> anyhow::Result<()> {
    if !table.is_given() {
        return Ok(());
    }
    let failure = CommandError::usage(format!("`--output` is for many results at once, and needs `{flag}`"));
    Err(failure.hint("add it, or use `--report FILE` for JSON").into())
}

impl PredictArgs {
    /// Predicts the ratings of pairs of user and item.
    fn predict_ratings(&self, files: &[String]) -> anyhow::Result<ExitCode> {
        GivenFlags::of_process().refuse(
            &["--zero-based", "--id-column", "--report"],
            "ratings are predicted",
            "leave it out",
        )?;
        files.iter().try_for_each(|path| must_exist(path))?;
        self.table.check()?;
        self.common.with_model(MfModel::load, |cluster, model| {
            batch::write_ratings(cluster, model, &self.reading, files, &self.table)
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Checks the flags for examples before they are read.
    fn check_examples(&self) -> anyhow::Result<()> {
        let of_ratings = ["--columns", "--duplicates"];
        GivenFlags::of_process().refuse(&of_ratings, "the model predicts examples", "leave it out")?;
        self.table.check()
    }

    /// Returns the table of predictions, if one was asked for.
    fn table(&self, files: &[String], schema: Option<&InputSchema>) -> anyhow::Result<Option<PredictionTable<'_>>> {
        if !self.table.is_given() {
            return Ok(None);
        }
        let trained = schema.and_then(|schema| schema.separator.as_deref());
        let separator = self.reading.separator.as_deref().or(trained);
        let ids = ExampleIds::read(self.id_column.as_deref(), files, separator)?;
        Ok(Some(PredictionTable { table: &self.table, ids }))
    }

    /// Returns the options for reading examples, by the layout of the training files.
    fn options(&self, schema: Option<&InputSchema>) -> LinearReadOptions {
        LinearReadOptions {
            zero_based: self.zero_based,
            separator: self.reading.separator.clone(),
            schema: schema.cloned(),
            without_labels: true,
            ..LinearReadOptions::default()
        }
    }

    /// Prints the predicted label of each example.
    fn predict_classes(&self, files: &[String]) -> anyhow::Result<ExitCode> {
        self.check_examples()?;
        files.iter().try_for_each(|path| must_exist(path))?;
        self.common
            .with_model(LinearModel::load, |cluster, model| {
                let read = linear_data::read(cluster, &self.options(model.input.as_ref()), files)?;
                print_notes(&read.notes);
                let examples = read.labelled;
                let predicted = model.predict(cluster, &examples.features)?;
                warn_unknown_features(model.unknown_features(cluster, &examples.features)?);
                if let Some(table) = self.table(files, model.input.as_ref())? {
                    return table
                        .classes(&model.class_names(), &predicted[..examples.labels.len().min(predicted.len())]);
                }
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

    /// Prints the predicted class, quantity or cluster of each example.
    fn predict_examples(&self, kind: ExampleModelKind, files: &[String]) -> anyhow::Result<ExitCode> {
        self.check_examples()?;
        files.iter().try_for_each(|path| must_exist(path))?;
        self.common
            .with_model(
                |cluster, folder| kind.load(cluster, folder),
                |cluster, model| {
                    let predicted = model.predict(cluster, self.options(None), files)?;
                    warn_unknown_features(predicted.unknown_features);
                    if let Some(table) = self.table(files, model.input())? {
                        return table.cells(predicted.columns, predicted.rows.into_iter());
                    }
                    self.common.write(&predicted.text(), &predicted.report)
                },
            )
            .map_err(|error| ReadHints::EXAMPLES.explain(error))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the predicted value of each example.
    fn predict_values(&self, files: &[String]) -> anyhow::Result<ExitCode> {
        self.check_examples()?;
        files.iter().try_for_each(|path| must_exist(path))?;
        self.common
            .with_model(SparseModel::load, |cluster, model| {
                let read = linear_data::read(cluster, &self.options(model.input.as_ref()), files)?;
                print_notes(&read.notes);
                let examples = read.labelled;
                let predicted = model.predict(cluster, &examples.features)?;
                warn_unknown_features(model.unknown_features(cluster, &examples.features)?);
                if let Some(table) = self.table(files, model.input.as_ref())? {
                    return table.values(model.classes, &predicted[..examples.labels.len().min(predicted.len())]);
                }
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
  hemiola evaluate --model model --data docword.test.txt               perplexity and coherence of a topic model
  hemiola evaluate --model digits --data mnist                         a net, on the test set of the folder")]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Files, folders or patterns with ratings, events, examples, documents, images or text, or `-`
    /// for standard input.
    #[arg(long, short, value_name = "FILES", required = true, num_args = 1..)]
    data: Vec<String>,

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
        if nets::is_net(&self.common.model) {
            let of_others = [
                "--ranking",
                "--seen-in",
                "--event-threshold",
                "--separator",
                "--columns",
                "--zero-based",
                "--vocabulary",
                "--format",
            ];
            GivenFlags::of_process().refuse(&of_others, "the model is a net", "leave it out")?;
            let data = one_path(&self.data)?.unwrap_or_default();
            return nets::use_net(&self.common, NetUse::Evaluate { data });
        }
        let kind = self.common.family()?;
        self.refuse_reading_flags(kind)?;
        if kind != ModelFamily::Ratings {
            let ranks = self.ranking || self.seen_in.is_some() || self.event_threshold.is_some() || !self.k.is_empty();
            if ranks {
                let failure = CommandError::usage("ranking metrics need a model of users and items");
                return Err(failure.hint("leave out --ranking, --seen-in, --event-threshold and -k").into());
            }
            self.data.iter().try_for_each(|path| must_exist(path))?;
            if kind == ModelFamily::Topics {
                self.common
                    .with_model(LdaModel::load, |cluster, model| {
                        let (text, evaluation) = lda::evaluate(cluster, model, &self.files, &self.data)?;
                        self.common.write(&text, &evaluation)
                    })
                    .map_err(|error| ReadHints::DOCUMENTS.explain(error))?;
                return Ok(ExitCode::SUCCESS);
            }
            if let ModelFamily::Examples(kind) = kind {
                self.common
                    .with_model(
                        |cluster, folder| kind.load(cluster, folder),
                        |cluster, model| {
                            let (text, evaluation) = model.evaluate(cluster, self.example_options(), &self.data)?;
                            self.common.write(&text, &evaluation)
                        },
                    )
                    .map_err(|error| ReadHints::EXAMPLES.explain(error))?;
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
            ModelFamily::Classes | ModelFamily::Sparse | ModelFamily::Examples(_) => {
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
