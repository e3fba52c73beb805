//! Using a trained model: `hemiola recommend`, `similar`, `predict` and `evaluate`.

use super::mf::must_be_a_model;
use crate::failure::Failure;
use crate::{output, report};
use clap::Args;
use hemiola_array::read::Csv;
use hemiola_array::read::guess::Guess;
use hemiola_array::read::{ByteRange, Source};
use hemiola_cluster::{Cluster, Error};
use hemiola_models::mf::{Model, data};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Where the model is, and how results come out.
#[derive(Args, Debug)]
struct Common {
    /// Folder of the trained model.
    #[arg(long, short, value_name = "DIR")]
    model: PathBuf,

    /// File for the results as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl Common {
    /// Does something with the model, in this process alone.
    fn with<T>(&self, work: impl FnOnce(&Cluster, &Model) -> anyhow::Result<T>) -> anyhow::Result<T> {
        must_be_a_model(&self.model)?;
        let mut outcome = None;
        Cluster::builder().run(|cluster| {
            let model = Model::load(cluster, &self.model)?;
            outcome = Some(work(cluster, &model));
            Ok::<_, Error>(())
        })?;
        outcome.expect("the program ran")
    }

    fn write(&self, lines: &str, results: &impl Serialize) -> anyhow::Result<()> {
        match &self.report {
            Some(target) => report::write(target, results),
            None => output::print(lines),
        }
    }
}

/// Titles of items, by the names the model knows them under.
#[derive(Args, Debug)]
struct Titles {
    /// File with titles: the name of an item in the first column, its title in the second.
    #[arg(long, value_name = "FILE")]
    items: Option<PathBuf>,
}

impl Titles {
    fn read(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let Some(file) = &self.items else { return Ok(BTreeMap::new()) };
        let source = Source::open(file)?;
        let separator = Guess::separator_of(&source)?.separator.map_or_else(|| ",".to_owned(), |found| found.text());
        let mut titles = BTreeMap::new();
        for range in ByteRange::split(std::slice::from_ref(&source), u64::MAX) {
            Csv::new().separator(&separator).read_fields(&range, |fields| {
                let (name, title) = (fields.text()?, fields.text()?);
                titles.insert(latin_or_utf8(&name), latin_or_utf8(&title));
                fields.skip_rest();
                Ok(())
            })?;
        }
        Ok(titles)
    }
}

/// Text that is UTF-8, or else Latin-1, as old data sets are.
fn latin_or_utf8(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// An item and a figure.
#[derive(Debug, Serialize)]
struct Scored {
    item: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    score: f32,
}

fn scored(model: &Model, titles: &BTreeMap<String, String>, found: Vec<(u64, f32)>) -> Vec<Scored> {
    let named = |(item, score)| {
        let item = model.item_name(item);
        Scored { title: titles.get(&item).cloned(), item, score }
    };
    found.into_iter().map(named).collect()
}

fn lines(found: &[Scored]) -> String {
    found.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{:>8.3}  {}", line.score, line.title.as_deref().unwrap_or(&line.item));
        text
    })
}

fn unknown(what: &str, name: &str) -> anyhow::Error {
    Failure::usage(format!("the model has no {what} `{name}`")).hint("names are those of the training data").into()
}

/// The arguments of `hemiola recommend`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  hemiola recommend --model model --user 42 -k 10 --items u.item")]
pub(crate) struct Recommend {
    #[command(flatten)]
    common: Common,

    /// The user, by the name in the training data.
    #[arg(long, value_name = "ID")]
    user: String,

    /// How many items.
    #[arg(short, long, value_name = "N", default_value = "10")]
    k: usize,

    /// Items to leave out, by name: those the user knows.
    #[arg(long, value_name = "ID,..", value_delimiter = ',')]
    seen: Vec<String>,

    #[command(flatten)]
    titles: Titles,
}

impl Recommend {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let titles = self.titles.read()?;
        self.common.with(|cluster, model| {
            let user = model.user(&self.user).ok_or_else(|| unknown("user", &self.user))?;
            let number = |name: &String| model.item(name).ok_or_else(|| unknown("item", name));
            let seen = self.seen.iter().map(number).collect::<anyhow::Result<Vec<_>>>()?;
            let found = scored(model, &titles, model.recommend(cluster, user, self.k, &seen)?);
            self.common.write(&lines(&found), &found)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The arguments of `hemiola similar`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  hemiola similar --model model --item 50 --items u.item")]
pub(crate) struct Similar {
    #[command(flatten)]
    common: Common,

    /// The item, by the name in the training data.
    #[arg(long, value_name = "ID")]
    item: String,

    /// How many items.
    #[arg(short, long, value_name = "N", default_value = "10")]
    k: usize,

    #[command(flatten)]
    titles: Titles,
}

impl Similar {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let titles = self.titles.read()?;
        self.common.with(|cluster, model| {
            let item = model.item(&self.item).ok_or_else(|| unknown("item", &self.item))?;
            let found = scored(model, &titles, model.similar(cluster, item, self.k)?);
            self.common.write(&lines(&found), &found)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The arguments of `hemiola predict`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  hemiola predict --model model --user 42 --item 50 --item 172")]
pub(crate) struct Predict {
    #[command(flatten)]
    common: Common,

    /// The user, by the name in the training data.
    #[arg(long, value_name = "ID")]
    user: String,

    /// Items, by name.
    #[arg(long = "item", value_name = "ID", required = true)]
    items: Vec<String>,
}

impl Predict {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        self.common.with(|cluster, model| {
            let user = model.user(&self.user).ok_or_else(|| unknown("user", &self.user))?;
            let pair = |name: &String| Ok([user, model.item(name).ok_or_else(|| unknown("item", name))?]);
            let pairs = self.items.iter().map(pair).collect::<anyhow::Result<Vec<_>>>()?;
            let predicted = model.predict(cluster, &pairs)?;
            let found = pairs.iter().map(|pair| pair[1]).zip(predicted).collect();
            let found = scored(model, &BTreeMap::new(), found);
            self.common.write(&lines(&found), &found)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The arguments of `hemiola evaluate`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  hemiola evaluate --model model --data test.csv")]
pub(crate) struct Evaluate {
    #[command(flatten)]
    common: Common,

    /// Files, a folder or a pattern with ratings.
    #[arg(long, short, value_name = "FILES")]
    data: String,
}

impl Evaluate {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        self.common.with(|cluster, model| {
            let ratings = data::read(cluster, None, &self.data)?;
            let known = data::aligned_to(&ratings, model)?;
            let figures = model.evaluate(cluster, &known)?;
            let mut text = format!("{} of {} ratings are of known users and items\n", known.len(), ratings.len());
            for (name, figure) in &figures {
                let _ = writeln!(text, "{name} {figure:.4}");
            }
            self.common.write(&text, &figures)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
