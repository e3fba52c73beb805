//! Using a trained model: `hemiola recommend`, `similar`, `predict` and `evaluate`.
//!
//! What `predict` and `evaluate` do depends on the kind of the model, which its folder tells.

use super::documents::DocumentFileArgs;
use super::mf::{hinted, must_be_a_model};
use super::names::{TitlesFile, lines};
use super::new_user::NewUserArgs;
use super::train_args::must_exist;
use super::{lda, linear, sparse};
use crate::error::CommandError;
use crate::plural::counted;
use crate::{output, report};
use clap::Args;
use hemiola_array::save::PartReader;
use hemiola_cluster::{Cluster, Error};
use hemiola_models::lda::LdaModel;
use hemiola_models::linear::{LinearModel, data as linear_data};
use hemiola_models::mf::{MfEvaluation, MfLoss, MfModel, RankingEvaluator, data};
use hemiola_models::sparse::SparseModel;
use hemiola_models::training::Metrics;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// What a model is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelFamily {
    /// Users and items.
    Ratings,
    /// Classes of examples.
    Classes,
    /// Quantities or two classes of examples, with few coefficients.
    Sparse,
    /// What documents are about.
    Topics,
}

/// Where the model is, and how results come out.
#[derive(Args, Debug)]
pub(super) struct ModelArgs {
    /// Folder of the trained model.
    #[arg(long, short, value_name = "DIR")]
    pub(super) model: PathBuf,

    /// File for the results as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ModelArgs {
    /// Does something with the model, in this process alone.
    fn with<T>(&self, work: impl FnOnce(&Cluster, &MfModel) -> anyhow::Result<T>) -> anyhow::Result<T> {
        must_be_a_model(&self.model)?;
        let mut outcome = None;
        Cluster::builder().run(|cluster| {
            let model = MfModel::load(cluster, &self.model)?;
            outcome = Some(work(cluster, &model));
            Ok::<_, Error>(())
        })?;
        outcome.expect("the program ran")
    }

    /// The same with a linear classifier.
    fn with_linear<T>(&self, work: impl FnOnce(&Cluster, &LinearModel) -> anyhow::Result<T>) -> anyhow::Result<T> {
        let mut outcome = None;
        Cluster::builder().run(|cluster| {
            let model = LinearModel::load(cluster, &self.model)?;
            outcome = Some(work(cluster, &model));
            Ok::<_, Error>(())
        })?;
        outcome.expect("the program ran")
    }

    /// The same with a sparse regression.
    pub(super) fn with_sparse<T>(
        &self,
        work: impl FnOnce(&Cluster, &SparseModel) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut outcome = None;
        Cluster::builder().run(|cluster| {
            let model = SparseModel::load(cluster, &self.model)?;
            outcome = Some(work(cluster, &model));
            Ok::<_, Error>(())
        })?;
        outcome.expect("the program ran")
    }

    /// The same with a topic model.
    pub(super) fn with_topics<T>(
        &self,
        work: impl FnOnce(&Cluster, &LdaModel) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut outcome = None;
        Cluster::builder().run(|cluster| {
            let model = LdaModel::load(cluster, &self.model)?;
            outcome = Some(work(cluster, &model));
            Ok::<_, Error>(())
        })?;
        outcome.expect("the program ran")
    }

    /// Whether results go to a report.
    pub(super) fn reports(&self) -> bool {
        self.report.is_some()
    }

    /// What the model is of.
    pub(super) fn kind(&self) -> anyhow::Result<ModelFamily> {
        must_be_a_model(&self.model)?;
        let loading = PartReader::open(&self.model)?;
        let kind = loading.manifest().metadata.get("model").and_then(serde_json::Value::as_str);
        Ok(match kind {
            Some("svm" | "logistic") => ModelFamily::Classes,
            Some("lda") => ModelFamily::Topics,
            Some("lasso" | "elastic-net" | "sparse-logistic") => ModelFamily::Sparse,
            _ => ModelFamily::Ratings,
        })
    }

    pub(super) fn write(&self, lines: &str, results: &impl Serialize) -> anyhow::Result<()> {
        match &self.report {
            Some(target) => report::write(target, results),
            None => output::print(lines),
        }
    }
}

/// The arguments of `hemiola recommend`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola recommend --model model --user 42 -k 10 --items u.item --seen-in u.data
  hemiola recommend --model model --ratings 'Alien (1979):5,Brazil (1985):4' --items u.item
  hemiola recommend --model model --ratings mine.csv")]
pub(crate) struct RecommendArgs {
    #[command(flatten)]
    common: ModelArgs,

    #[command(flatten)]
    somebody: NewUserArgs,

    /// How many items.
    #[arg(short, long, value_name = "N", default_value = "10")]
    k: usize,

    /// Items to leave out: those the user knows. What somebody new has rated is left out anyway.
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    seen: Vec<String>,

    /// Leave out the items that the user has in these files: those trained on.
    #[arg(long, value_name = "FILES")]
    seen_in: Option<String>,

    #[command(flatten)]
    titles: TitlesFile,
}

impl RecommendArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let titles = self.titles.read()?;
        self.common.with(|cluster, model| {
            let found = self.somebody.find(cluster, model, &titles)?;
            let mut seen = found.rated;
            for name in &self.seen {
                seen.push(titles.item(model, name)?);
            }
            if let Some(files) = &self.seen_in {
                seen.extend(self.somebody.seen_in(cluster, model, files)?);
            }
            let best = titles.scored(model, model.recommend_for(cluster, &found.row, self.k, &seen)?);
            self.common.write(&lines(&best), &best)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The arguments of `hemiola similar`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola similar --model model --item 50 --items u.item
  hemiola similar --model model --item 'star wars' --items u.item")]
pub(crate) struct SimilarArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// The item, by the name in the training data or by its title.
    #[arg(long, value_name = "ID")]
    item: String,

    /// How many items.
    #[arg(short, long, value_name = "N", default_value = "10")]
    k: usize,

    #[command(flatten)]
    titles: TitlesFile,
}

impl SimilarArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let titles = self.titles.read()?;
        self.common.with(|cluster, model| {
            let item = titles.item(model, &self.item)?;
            let found = titles.scored(model, model.similar(cluster, item, self.k)?);
            self.common.write(&lines(&found), &found)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The arguments of `hemiola predict`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola predict --model model --user 42 --item 50 --item 172
  hemiola predict --model model --ratings '50:5,100:3' --item 172

  A model of classes (`hemiola train svm`, `logistic`): the label of each example, in a line each:
    hemiola predict --model model --data new.libsvm")]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    common: ModelArgs,

    #[command(flatten)]
    somebody: NewUserArgs,

    /// Items, by name or title.
    #[arg(long = "item", value_name = "ID")]
    wanted: Vec<String>,

    /// With a model of classes: files with examples. Their labels are read, but not looked at.
    #[arg(long, short, value_name = "FILES", conflicts_with_all = ["wanted", "user", "ratings", "items"])]
    data: Option<String>,

    #[command(flatten)]
    titles: TitlesFile,
}

impl PredictArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match (self.common.kind()?, &self.data) {
            (ModelFamily::Classes, Some(files)) => return self.classes(files),
            (ModelFamily::Sparse, Some(files)) => return self.values(files),
            (ModelFamily::Topics, _) => {
                let failure =
                    CommandError::usage("a topic model predicts nothing, but infers what documents are about");
                return Err(failure.hint("`hemiola infer --model DIR --data FILES`").into());
            }
            (ModelFamily::Classes | ModelFamily::Sparse, None) => {
                let failure = CommandError::usage("the model predicts examples, and there are no examples");
                return Err(failure.hint("add `--data FILES`").into());
            }
            (ModelFamily::Ratings, Some(_)) => {
                let failure =
                    CommandError::usage("`--data` is for models of examples, and this one is of users and items");
                return Err(failure.hint("say `--user ID --item ID`").into());
            }
            (ModelFamily::Ratings, None) if self.wanted.is_empty() || self.somebody.is_nobody() => {
                let failure = CommandError::usage("nothing is named to predict");
                return Err(failure.hint("say for whom and what: `--user ID --item ID`").into());
            }
            (ModelFamily::Ratings, None) => {}
        }
        let titles = self.titles.read()?;
        self.common.with(|cluster, model| {
            let found = self.somebody.find(cluster, model, &titles)?;
            let items =
                self.wanted.iter().map(|name| titles.item(model, name)).collect::<anyhow::Result<Vec<u64>>>()?;
            let predicted = model.predict_for(cluster, &found.row, &items)?;
            let found = titles.scored(model, items.into_iter().zip(predicted).collect());
            self.common.write(&lines(&found), &found)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl PredictArgs {
    /// The labels of examples.
    fn classes(&self, files: &str) -> anyhow::Result<ExitCode> {
        must_exist(files)?;
        self.common
            .with_linear(|cluster, model| {
                let options = linear_data::LinearReadOptions { names: model.names.clone(), ..Default::default() };
                let examples = linear_data::read(cluster, &options, files)?.labelled;
                let (predicted, unknown) = model.predict(cluster, &examples.features)?;
                tell_unknown(unknown);
                let mut text = String::new();
                for one in predicted.iter().take(examples.labels.len() as usize) {
                    // Writing to a string cannot fail.
                    let _ = match &one.name {
                        Some(name) => writeln!(text, "{name}"),
                        None => writeln!(text, "{}", one.label),
                    };
                }
                self.common.write(&text, &predicted)
            })
            .map_err(linear::hinted)?;
        Ok(ExitCode::SUCCESS)
    }

    /// What a sparse regression says of examples.
    fn values(&self, files: &str) -> anyhow::Result<ExitCode> {
        must_exist(files)?;
        self.common
            .with_sparse(|cluster, model| {
                let examples = linear_data::read(cluster, &linear_data::LinearReadOptions::default(), files)?.labelled;
                let (predicted, unknown) = model.predict(cluster, &examples.features)?;
                tell_unknown(unknown);
                let mut text = String::new();
                for one in predicted.iter().take(examples.labels.len() as usize) {
                    let _ = writeln!(text, "{}", one.value);
                }
                self.common.write(&text, &predicted)
            })
            .map_err(linear::hinted)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Tells of features that a model knows nothing of.
fn tell_unknown(unknown: u64) {
    if unknown > 0 {
        let values = counted(unknown, "value");
        // If nobody hears it, predictions are the same.
        let _ = writeln!(std::io::stderr().lock(), "hemiola: left out {values} of features that were not trained on");
    }
}

/// The arguments of `hemiola evaluate`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola evaluate --model model --data test.csv
  hemiola evaluate --model model --data test.csv --ranking --seen-in train.csv --events-from 4
  hemiola evaluate --model model --data test.libsvm
  hemiola evaluate --model model --data docword.test.txt               perplexity and coherence of a topic model")]
pub(crate) struct EvaluateArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Files, a folder or a pattern with ratings, with events, with examples, or with documents.
    #[arg(long, short, value_name = "FILES")]
    data: String,

    /// Give recall@k and NDCG@k: how far in front the items of the data are. A model of events always does.
    #[arg(long)]
    ranking: bool,

    /// For the ranking: leave out what users have in these files, those trained on.
    #[arg(long, value_name = "FILES")]
    seen_in: Option<String>,

    /// For the ranking: only ratings from this on are to be found.
    #[arg(long, value_name = "X")]
    events_from: Option<f32>,

    /// For the ranking: how many places to look at. Default: 10,20.
    #[arg(short, value_name = "N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    k: Vec<u16>,

    #[command(flatten)]
    files: DocumentFileArgs,
}

impl EvaluateArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let kind = self.common.kind()?;
        if kind != ModelFamily::Topics {
            self.files.must_not_be_given()?;
        }
        if kind != ModelFamily::Ratings {
            let ranks = self.ranking || self.seen_in.is_some() || self.events_from.is_some() || !self.k.is_empty();
            if ranks {
                let failure = CommandError::usage("rankings are of items, and this model is of examples");
                return Err(failure.hint("leave out --ranking, --seen-in, --events-from and -k").into());
            }
            must_exist(&self.data)?;
            if kind == ModelFamily::Topics {
                self.common
                    .with_topics(|cluster, model| {
                        let (text, evaluation) = lda::evaluate(cluster, model, &self.files, &self.data)?;
                        self.common.write(&text, &evaluation)
                    })
                    .map_err(lda::hinted)?;
                return Ok(ExitCode::SUCCESS);
            }
            if kind == ModelFamily::Sparse {
                self.common
                    .with_sparse(|cluster, model| {
                        let (text, evaluation) = sparse::evaluate(cluster, model, &self.data)?;
                        self.common.write(&text, &evaluation)
                    })
                    .map_err(linear::hinted)?;
                return Ok(ExitCode::SUCCESS);
            }
            self.common
                .with_linear(|cluster, model| {
                    let (text, evaluation) = linear::evaluate(cluster, model, &self.data)?;
                    self.common.write(&text, &evaluation)
                })
                .map_err(linear::hinted)?;
            return Ok(ExitCode::SUCCESS);
        }
        self.common.with(|cluster, model| {
            if self.ranking || model.loss() == MfLoss::OneClass {
                self.rank(cluster, model).map_err(|error| hinted(error, false))
            } else {
                self.must_not_rank()?;
                self.compare(cluster, model).map_err(|error| hinted(error, false))
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }

    /// Refuses flags that would do nothing.
    fn must_not_rank(&self) -> anyhow::Result<()> {
        let flags = [
            ("--seen-in", self.seen_in.is_some()),
            ("--events-from", self.events_from.is_some()),
            ("-k", !self.k.is_empty()),
        ];
        match flags.into_iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                let message = format!("`{flag}` is for rankings, and a model of ratings is judged by its errors");
                Err(CommandError::usage(message).hint("add `--ranking`, or leave it out").into())
            }
            None => Ok(()),
        }
    }

    fn compare(&self, cluster: &Cluster, model: &MfModel) -> anyhow::Result<()> {
        let evaluation = model.evaluate_all(cluster, &data::read(cluster, None, &self.data)?)?;
        let MfEvaluation { metrics, entries, cold } = &evaluation;
        let entries = counted(*entries, "rating");
        let mut text = format!("{entries}, {cold} of them of users or items the model does not know\n");
        for (name, value) in metrics {
            let _ = writeln!(text, "{name} {value:.4}");
        }
        self.common.write(&text, &evaluation)
    }

    fn rank(&self, cluster: &Cluster, model: &MfModel) -> anyhow::Result<()> {
        let all = data::read_events(cluster, None, &self.data)?;
        let all = match self.events_from {
            Some(least) => data::from_threshold(&all, least)?,
            None => all,
        };
        let wanted = data::aligned_to(&all, model)?;
        let known = match &self.seen_in {
            Some(files) => data::aligned_to(&data::read_events(cluster, None, files)?, model)?,
            None => wanted.entries().filter(|_, _| false).materialize()?,
        };
        let ranking = RankingEvaluator::new(&wanted, &known)?;
        let places = if self.k.is_empty() { vec![10, 20] } else { self.k.iter().map(|k| usize::from(*k)).collect() };
        let metrics = ranking.metrics(cluster, model, &places)?;
        let users = ranking.users(cluster)?;
        let mut text = format!(
            "{} of {} entries are of known users and items; means over {}\n",
            wanted.len(),
            all.len(),
            counted(users, "user")
        );
        for (name, value) in &metrics {
            let _ = writeln!(text, "{name} {value:.4}");
        }
        let (entries, cold) = (all.len(), all.len() - wanted.len());
        self.common.write(&text, &RankedItem { metrics, users, entries, cold })
    }
}

/// Figures of a ranking, for programs.
#[derive(Debug, Serialize)]
struct RankedItem {
    metrics: Metrics,
    users: u64,
    entries: u64,
    cold: u64,
}
