//! Getting ratings: from files whose users and items have names, or made up.

use super::model::Model;
use hemiola::array::Dictionary;
use hemiola::array::dist::{Lazy, RecordSource};
use hemiola::array::read::guess::Guess;
use hemiola::array::read::{Csv, Mistake, Report, Source};
use hemiola::array::sparse::DuplicatePolicy;
use hemiola::array::synthetic::Mf;
use hemiola::prelude::*;
use hemiola::{Cluster, Result};
use std::borrow::Cow;

/// Users whose made-up ratings are made together.
const USERS_PER_UNIT: u64 = 64;

/// *Collective.* Reads ratings: `user, item, rating` on each line, with any separator and any further fields. Users and items
/// may have any names; the array remembers them. A name that is not UTF-8 is taken for Latin-1.
pub fn read(cluster: &Cluster, options: Option<Csv>, pattern: &str) -> Result<DistArray<f32, 2>> {
    let options = match options {
        Some(options) => options,
        None => guessed(cluster, pattern)?,
    };
    cluster.read_named(options, pattern, |fields| {
        let entry = ([name(fields.text()?), name(fields.text()?)], fields.next::<f32>()?);
        fields.skip_rest();
        Ok(entry)
    })
}

/// *Collective.* Reads events: `user, item` on each line, and a weight if there is a third field; further fields are ignored. What
/// occurs more than once has the sum of the weights.
pub fn read_events(cluster: &Cluster, options: Option<Csv>, pattern: &str) -> Result<DistArray<f32, 2>> {
    let options = match options {
        Some(options) => options,
        None => guessed(cluster, pattern)?,
    };
    cluster.read_named_as(options, pattern, DuplicatePolicy::sum(), |fields| {
        let names = [name(fields.text()?), name(fields.text()?)];
        let weight = if fields.is_empty() { 1.0 } else { fields.next::<f32>()? };
        fields.skip_rest();
        Ok((names, weight))
    })
}

/// A name as it is kept: UTF-8, so that it can be asked for and shown.
fn name(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if std::str::from_utf8(&bytes).is_ok() { bytes } else { Cow::Owned(text(&bytes).into_bytes()) }
}

/// Text that is UTF-8, or else Latin-1, as old data sets are. Names in data and titles in files are read alike.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// *Collective.* Ratings as events: those of at least `least` are events of weight 1, the others are left out.
pub fn from_threshold(ratings: &DistArray<f32, 2>, least: f32) -> Result<DistArray<f32, 2>> {
    let events = ratings.entries().filter(|_, rating| *rating >= least).map(|_, _| 1.0).materialize()?;
    Ok(events.named([ratings.names_shared(0), ratings.names_shared(1)]))
}

/// *Collective.* What separates the fields of a file, as its beginning shows.
fn guessed(cluster: &Cluster, pattern: &str) -> Result<Csv> {
    // The root looks; the others hear, so that all read alike.
    let looked = if cluster.is_root() {
        let found = Source::find(pattern).and_then(|sources| match sources.first() {
            Some(source) => Guess::separator_of(source),
            None => Err(hemiola::array::Error::NoFiles { pattern: pattern.to_owned() }),
        });
        Some(found.map(|guess| (guess.separator.map(|separator| separator.text()), guess.comment)))
    } else {
        None
    };
    let (separator, comment) = match cluster.broadcast(looked)? {
        Some(guess) => guess?,
        None => (None, None),
    };
    let options = Csv::new().comment(comment);
    Ok(match separator {
        Some(separator) => options.separator(&separator),
        None => options,
    })
}

/// *Collective.* Ratings with the numbers that `like` gives the same users and items; those of others are left out.
pub fn aligned(ratings: &DistArray<f32, 2>, like: &DistArray<f32, 2>) -> Result<DistArray<f32, 2>> {
    renumbered(ratings, like.shape().extents(), [like.names(0), like.names(1)])
}

/// *Collective.* The same for the users and items of a model.
pub fn aligned_to(ratings: &DistArray<f32, 2>, model: &Model) -> Result<DistArray<f32, 2>> {
    renumbered(ratings, model.shape(), [model.user_factors.names(0), model.item_factors.names(0)])
}

fn renumbered(
    ratings: &DistArray<f32, 2>,
    extents: [u64; 2],
    names: [Option<&Dictionary>; 2],
) -> Result<DistArray<f32, 2>> {
    let numbers = Numbers::between(ratings, extents, names);
    let number = |dimension, index| numbers.number(dimension, index);
    ratings
        .entries()
        .filter(|[user, item], _| number(0, user).is_some() && number(1, item).is_some())
        .map_keys(|[user, item]| [number(0, user).unwrap_or(0), number(1, item).unwrap_or(0)])
        .materialize()
}

/// The numbers that a model gives the users and items of other data, by their names.
pub(super) struct Numbers {
    /// By dimension: of each number there, if names tell.
    known: [Option<Vec<Option<u64>>>; 2],
    extents: [u64; 2],
}

impl Numbers {
    pub(super) fn of(model: &Model, ratings: &DistArray<f32, 2>) -> Self {
        Self::between(ratings, model.shape(), [model.user_factors.names(0), model.item_factors.names(0)])
    }

    /// From the numbers of `ratings` to those of `names`, or to the same numbers where either has no names.
    pub(super) fn between(ratings: &DistArray<f32, 2>, extents: [u64; 2], names: [Option<&Dictionary>; 2]) -> Self {
        let known = std::array::from_fn(|dimension| {
            let (mine, theirs) = (ratings.names(dimension)?, names[dimension]?);
            Some(mine.names().map(|name| theirs.number(name).map(u64::from)).collect())
        });
        Self { known, extents }
    }

    /// The number of an index, if it is known.
    pub(super) fn number(&self, dimension: usize, index: u64) -> Option<u64> {
        match &self.known[dimension] {
            Some(numbers) => numbers[index as usize],
            None => Some(index).filter(|index| *index < self.extents[dimension]),
        }
    }
}

/// *Collective.* Made-up ratings of a known structure, the same for the same seed.
pub fn made_up(cluster: &Cluster, made: &Mf) -> Result<DistArray<f32, 2>> {
    Lazy::over(cluster, MadeUp(made)).materialize()
}

struct MadeUp<'a>(&'a Mf);

impl RecordSource for MadeUp<'_> {
    type Record = ([u64; 2], f32);

    fn units(&self) -> usize {
        self.0.shape().extent(0).div_ceil(USERS_PER_UNIT) as usize
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola::array::Result<(), Box<Mistake>>,
    ) -> hemiola::array::Result<Report> {
        let first = unit as u64 * USERS_PER_UNIT;
        let mut report = Report::default();
        for user in first..(first + USERS_PER_UNIT).min(self.0.shape().extent(0)) {
            for (item, rating) in self.0.row(user) {
                report.records += 1;
                // Made-up entries are never refused.
                let _ = visit(([user, item], rating));
            }
        }
        Ok(report)
    }

    fn extents(&self) -> Option<Vec<u64>> {
        Some(self.0.shape().extents().to_vec())
    }
}
