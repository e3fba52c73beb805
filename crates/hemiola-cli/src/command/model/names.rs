//! Lookup of users and items by name.
//!
//! An item is found by its name in the training data. With a file of titles it is also found by its
//! title, ignoring case, or by a part of it that no other title has. An unknown name is an error
//! that suggests similar names.

use crate::error::CommandError;
use crate::suggest;
use clap::Args;
use hemiola_array::Dictionary;
use hemiola_array::read::detect::DetectedFormat;
use hemiola_array::read::{ByteRange, Csv, InputFile};
use hemiola_models::mf::MfModel;
use hemiola_models::mf::data::decode_text;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Maximum number of titles listed for an ambiguous name.
const LISTED_TITLES: usize = 3;

/// Argument for a file with titles of items.
#[derive(Args, Debug)]
pub(super) struct TitlesFile {
    /// File with titles: the name of an item in the first column, its title in the second. Items
    /// can then be given by title.
    #[arg(long, value_name = "FILE")]
    titles: Option<PathBuf>,
}

impl TitlesFile {
    pub(super) fn read(&self) -> anyhow::Result<Titles> {
        let mut titles = BTreeMap::new();
        if let Some(file) = &self.titles {
            let source = InputFile::open(file).map_err(|error| match suggest::path_hint(file) {
                Some(hint) => anyhow::Error::from(CommandError::array(&error, &hint)),
                None => error.into(),
            })?;
            let separator =
                DetectedFormat::separator_of(&source)?.separator.map_or_else(|| ",".to_owned(), |found| found.text());
            for range in ByteRange::split(std::slice::from_ref(&source), u64::MAX) {
                Csv::new().separator(&separator).read_fields(&range, |fields| {
                    let (name, title) = (fields.text()?, fields.text()?);
                    titles.insert(decode_text(&name), decode_text(&title));
                    fields.skip_rest();
                    Ok(())
                })?;
            }
        }
        Ok(Titles(titles))
    }
}

/// Users and items of a model, by their names in the training data.
pub(super) trait NamedItems {
    /// Returns the numbers of users and items.
    fn shape(&self) -> [usize; 2];
    /// Returns the index of a user by name.
    fn user(&self, name: &str) -> Option<usize>;
    /// Returns the index of an item by name.
    fn item(&self, name: &str) -> Option<usize>;
    /// Returns the names of users, if they have names.
    fn user_names(&self) -> Option<&Dictionary>;
    /// Returns the names of items, if they have names.
    fn item_names(&self) -> Option<&Dictionary>;
    /// Returns the name of an item, or its index if items have no names.
    fn item_name(&self, item: usize) -> String;
}

/// Implements [`NamedItems`] by methods of the model with the same names.
macro_rules! named_items {
    ($model:ty) => {
        impl NamedItems for $model {
            fn shape(&self) -> [usize; 2] {
                self.shape()
            }
            fn user(&self, name: &str) -> Option<usize> {
                self.user(name)
            }
            fn item(&self, name: &str) -> Option<usize> {
                self.item(name)
            }
            fn user_names(&self) -> Option<&Dictionary> {
                self.user_names()
            }
            fn item_names(&self) -> Option<&Dictionary> {
                self.item_names()
            }
            fn item_name(&self, item: usize) -> String {
                self.item_name(item)
            }
        }
    };
}

named_items!(MfModel);
#[cfg(feature = "nets")]
named_items!(hemiola_nn::saved::RatingModel);

/// Titles of items, by the name in the training data.
pub(super) struct Titles(BTreeMap<String, String>);

impl Titles {
    /// Returns the index of an item, found by name or title.
    pub(super) fn item(&self, model: &impl NamedItems, wanted: &str) -> anyhow::Result<usize> {
        if let Some(number) = model.item(wanted) {
            return Ok(number);
        }
        let lower = wanted.to_lowercase();
        let known = || self.0.iter().filter_map(|(name, title)| Some((model.item(name)?, title.as_str())));
        if let Some((number, _)) = known().find(|(_, title)| title.to_lowercase() == lower) {
            return Ok(number);
        }
        let containing: Vec<(usize, &str)> =
            known().filter(|(_, title)| !lower.is_empty() && title.to_lowercase().contains(&lower)).collect();
        match containing[..] {
            [(number, _)] => Ok(number),
            [] => {
                let titles = known().map(|(_, title)| title);
                Err(unknown("item", wanted, model.item_names(), titles, model.shape()[1]))
            }
            _ => {
                let some: Vec<String> =
                    containing.iter().take(LISTED_TITLES).map(|(_, title)| format!("`{title}`")).collect();
                let failure = CommandError::usage(format!("{} titles contain `{wanted}`", containing.len()));
                Err(failure.hint(format!("choose one: {}", some.join(", "))).into())
            }
        }
    }

    /// Returns true if there are no titles.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the title of an item, if it has one.
    pub(super) fn title(&self, item: &str) -> Option<&str> {
        self.0.get(item).map(String::as_str)
    }

    /// Adds names and titles to items and their scores.
    pub(super) fn scored(&self, model: &impl NamedItems, found: Vec<(usize, f32)>) -> Vec<ScoredItem> {
        let named = |(item, score)| {
            let item = model.item_name(item);
            ScoredItem { title: self.0.get(&item).cloned(), item, score }
        };
        found.into_iter().map(named).collect()
    }
}

/// Returns the index of a user, found by name.
pub(super) fn user(model: &impl NamedItems, wanted: &str) -> anyhow::Result<usize> {
    let unknown = || unknown("user", wanted, model.user_names(), std::iter::empty(), model.shape()[0]);
    model.user(wanted).ok_or_else(unknown)
}

fn unknown<'a>(
    what: &str,
    wanted: &str,
    names: Option<&Dictionary>,
    titles: impl Iterator<Item = &'a str>,
    count: usize,
) -> anyhow::Error {
    let failure = CommandError::usage(format!("the model has no {what} `{wanted}`"));
    let Some(names) = names else {
        return failure
            .hint(format!("the model has no names: {what}s are numbers from 0 to {}", count.saturating_sub(1)))
            .into();
    };
    let names: Vec<String> = names.names().map(decode_text).collect();
    let titles: Vec<&str> = titles.collect();
    let all = titles.iter().copied().chain(names.iter().map(String::as_str));
    let near = suggest::hint(wanted, all).or_else(|| suggest::hint_by_part(wanted, titles.iter().copied()));
    failure.hint(near.unwrap_or_else(|| "use a name of the training data".to_owned())).into()
}

/// Item with its score, for output.
#[derive(Debug, Serialize)]
pub(super) struct ScoredItem {
    item: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    score: f32,
}

/// Formats one line per item.
pub(super) fn lines(found: &[ScoredItem]) -> String {
    found.iter().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{:>8.3}  {}", line.score, line.title.as_deref().unwrap_or(&line.item));
        text
    })
}
