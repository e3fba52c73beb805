//! Reading ratings from files whose users and items have names, and generating synthetic ratings.

use super::model::MfModel;
use hemiola_array::Dictionary;
use hemiola_array::dist::{LazyArray, RecordSource};
use hemiola_array::read::detect::DetectedFormat;
use hemiola_array::read::{Csv, InputFile, ParseError, ReadReport};
use hemiola_array::sparse::DuplicatePolicy;
use hemiola_array::synthetic::MfGenerator;
use hemiola_array::{DistArray, ReadExt};
use hemiola_cluster::{Cluster, Result};
use std::borrow::Cow;

/// Number of users whose synthetic ratings are generated in one unit of work.
const USERS_PER_UNIT: usize = 64;

/// *Collective.* Reads ratings: `user, item, rating` on each line, with any separator and any
/// further fields. Users and items may have any names; the array stores them. A name that is not
/// UTF-8 is decoded as Latin-1.
pub fn read(cluster: &Cluster, options: Option<Csv>, pattern: &str) -> Result<DistArray<f32, 2>> {
    let options = match options {
        Some(options) => options,
        None => detect_csv(cluster, pattern)?,
    };
    cluster.read_named(options, pattern, |fields| {
        let entry = ([utf8_name(fields.text()?), utf8_name(fields.text()?)], fields.next::<f32>()?);
        fields.skip_rest();
        Ok(entry)
    })
}

/// *Collective.* Reads events (implicit feedback): `user, item` on each line, and a weight if there
/// is a third field; further fields are ignored. Weights of repeated pairs are summed.
pub fn read_events(cluster: &Cluster, options: Option<Csv>, pattern: &str) -> Result<DistArray<f32, 2>> {
    let options = match options {
        Some(options) => options,
        None => detect_csv(cluster, pattern)?,
    };
    cluster.read_named_as(options, pattern, DuplicatePolicy::sum(), |fields| {
        let names = [utf8_name(fields.text()?), utf8_name(fields.text()?)];
        let weight = if fields.is_empty() { 1.0 } else { fields.next::<f32>()? };
        fields.skip_rest();
        Ok((names, weight))
    })
}

/// Converts a name to UTF-8, so that it can be detected up and printed.
fn utf8_name(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if std::str::from_utf8(&bytes).is_ok() { bytes } else { Cow::Owned(decode_text(&bytes).into_bytes()) }
}

/// Decodes UTF-8, or else Latin-1, as in old data sets. Names in data and titles in files are
/// decoded alike.
#[must_use]
pub fn decode_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// *Collective.* Converts ratings to events: ratings of at least `least` become events of weight 1,
/// the others are dropped.
pub fn from_threshold(ratings: &DistArray<f32, 2>, least: f32) -> Result<DistArray<f32, 2>> {
    let events = ratings.entries().filter(|_, rating| *rating >= least).map(|_, _| 1.0).materialize()?;
    Ok(events.with_names([ratings.shared_names(0), ratings.shared_names(1)]))
}

/// *Collective.* Detects the field separator and the comment prefix from the beginning of a file.
fn detect_csv(cluster: &Cluster, pattern: &str) -> Result<Csv> {
    // The root inspects the file and broadcasts the result, so that all peers read alike.
    let detected = if cluster.is_root() {
        let found = InputFile::find(pattern).and_then(|sources| match sources.first() {
            Some(source) => DetectedFormat::separator_of(source),
            None => Err(hemiola_array::Error::NoFiles { pattern: pattern.to_owned() }),
        });
        Some(found.map(|guess| (guess.separator.map(|separator| separator.text()), guess.comment)))
    } else {
        None
    };
    let (separator, comment) = match cluster.broadcast(detected)? {
        Some(guess) => guess?,
        None => (None, None),
    };
    let options = Csv::new().comment(comment);
    Ok(match separator {
        Some(separator) => options.separator(&separator),
        None => options,
    })
}

/// *Collective.* Renumbers users and items by name as in `like`; entries of unknown users or items
/// are dropped.
pub fn aligned(ratings: &DistArray<f32, 2>, like: &DistArray<f32, 2>) -> Result<DistArray<f32, 2>> {
    renumbered(ratings, like.shape().extents(), [like.names(0), like.names(1)])
}

/// *Collective.* Renumbers users and items by name as in `model`; entries of unknown users or items
/// are dropped.
pub fn aligned_to(ratings: &DistArray<f32, 2>, model: &MfModel) -> Result<DistArray<f32, 2>> {
    renumbered(ratings, model.shape(), [model.user_factors.names(0), model.item_factors.names(0)])
}

fn renumbered(
    ratings: &DistArray<f32, 2>,
    extents: [usize; 2],
    names: [Option<&Dictionary>; 2],
) -> Result<DistArray<f32, 2>> {
    let numbers = IndexMapping::between(ratings, extents, names);
    let number = |dimension, index| numbers.number(dimension, index);
    ratings
        .entries()
        .filter(|[user, item], _| number(0, user).is_some() && number(1, item).is_some())
        .map_keys(|[user, item]| [number(0, user).unwrap_or(0), number(1, item).unwrap_or(0)])
        .materialize()
}

/// Maps user and item indices of other data to those of a model, by name.
pub(super) struct IndexMapping {
    /// Per dimension, the mapped index of each index, where both sides have names.
    known: [Option<Vec<Option<usize>>>; 2],
    extents: [usize; 2],
}

impl IndexMapping {
    pub(super) fn of(model: &MfModel, ratings: &DistArray<f32, 2>) -> Self {
        Self::between(ratings, model.shape(), [model.user_factors.names(0), model.item_factors.names(0)])
    }

    /// Maps indices of `ratings` to those of `names`, or to themselves where either side has no
    /// names.
    pub(super) fn between(ratings: &DistArray<f32, 2>, extents: [usize; 2], names: [Option<&Dictionary>; 2]) -> Self {
        let known = std::array::from_fn(|dimension| {
            let (mine, theirs) = (ratings.names(dimension)?, names[dimension]?);
            Some(mine.names().map(|name| theirs.index_of(name).map(|index| index as usize)).collect())
        });
        Self { known, extents }
    }

    /// Returns the mapped index, if the name is known.
    pub(super) fn number(&self, dimension: usize, index: usize) -> Option<usize> {
        match &self.known[dimension] {
            Some(numbers) => numbers[index],
            None => Some(index).filter(|index| *index < self.extents[dimension]),
        }
    }
}

/// *Collective.* Generates ratings of a known low-rank structure; the same seed gives the same
/// ratings.
pub fn synthetic(cluster: &Cluster, generator: &MfGenerator) -> Result<DistArray<f32, 2>> {
    LazyArray::from_source(cluster, SyntheticRatingSource(generator)).materialize()
}

struct SyntheticRatingSource<'a>(&'a MfGenerator);

impl RecordSource for SyntheticRatingSource<'_> {
    type Record = ([usize; 2], f32);

    fn units(&self) -> usize {
        self.0.shape().extent(0).div_ceil(USERS_PER_UNIT)
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn visit(
        &self,
        unit: usize,
        mut visit: impl FnMut(Self::Record) -> hemiola_array::Result<(), Box<ParseError>>,
    ) -> hemiola_array::Result<ReadReport> {
        let first = unit * USERS_PER_UNIT;
        let mut report = ReadReport::default();
        for user in first..(first + USERS_PER_UNIT).min(self.0.shape().extent(0)) {
            for (item, rating) in self.0.row(user) {
                report.records += 1;
                // Synthetic entries are never rejected.
                let _ = visit(([user, item], rating));
            }
        }
        Ok(report)
    }

    fn extents(&self) -> Option<Vec<usize>> {
        Some(self.0.shape().extents().to_vec())
    }
}
