//! Reading ratings from files whose users and items have names, and generating synthetic ratings.

use super::model::MfModel;
use crate::Error;
use crate::input::{
    ColumnError, ColumnRole, DuplicateHandling, FileHead, InputSchema, InspectError, RatingColumns, head_of,
};
use hemiola_array::Dictionary;
use hemiola_array::dist::{LazyArray, RecordSource, find_files};
use hemiola_array::read::detect::DetectedFormat;
use hemiola_array::read::{ByteRange, Csv, InputFile, InputPaths, ParseError, ReadReport};
use hemiola_array::sparse::DuplicatePolicy;
use hemiola_array::synthetic::MfGenerator;
use hemiola_array::{DistArray, ReadExt};
use hemiola_cluster::{Cluster, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Number of users whose synthetic ratings are generated in one unit of work.
const USERS_PER_UNIT: usize = 64;

/// *Collective.* Reads ratings: `user, item, rating` on each line, with any separator and any
/// further fields. Users and items may have any names; the array stores them. A name that is not
/// UTF-8 is decoded as Latin-1.
pub fn read(cluster: &Cluster, options: Option<Csv>, paths: impl Into<InputPaths>) -> Result<DistArray<f32, 2>> {
    let sources = find_files(cluster, paths)?;
    let options = match options {
        Some(options) => options,
        None => detect_csv(cluster, &sources)?,
    };
    cluster.read_named(options, sources, |fields| {
        let entry = ([utf8_name(fields.text()?), utf8_name(fields.text()?)], fields.next::<f32>()?);
        fields.skip_rest();
        Ok(entry)
    })
}

/// *Collective.* Reads events (implicit feedback): `user, item` on each line, and a weight if there
/// is a third field; further fields are ignored. Weights of repeated pairs are summed.
pub fn read_events(cluster: &Cluster, options: Option<Csv>, paths: impl Into<InputPaths>) -> Result<DistArray<f32, 2>> {
    let sources = find_files(cluster, paths)?;
    let options = match options {
        Some(options) => options,
        None => detect_csv(cluster, &sources)?,
    };
    cluster.read_named_as(options, sources, DuplicatePolicy::sum(), |fields| {
        let names = [utf8_name(fields.text()?), utf8_name(fields.text()?)];
        let weight = if fields.is_empty() { 1.0 } else { fields.next::<f32>()? };
        fields.skip_rest();
        Ok((names, weight))
    })
}

/// Options for reading ratings or events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RatingReadOptions {
    /// Field separator; `None` detects it from the first file.
    pub separator: Option<String>,
    /// Maximum number of malformed lines to skip.
    pub skip_bad_lines: u64,
    /// Columns of user, item and rating, by name or by number counted from 1. Default: those of
    /// the schema, or the first three.
    pub columns: Vec<String>,
    /// Layout of the training files of a model, by which these files are read.
    pub schema: Option<InputSchema>,
    /// Read events: ratings may be missing, and weights of repeated pairs are summed.
    pub events: bool,
    /// Treatment of a user and an item that occur together twice; `None` is an error for ratings,
    /// and the sum for events.
    pub duplicates: Option<DuplicateHandling>,
}

/// Ratings or events read from files.
#[derive(Debug)]
pub struct LoadedRatings {
    /// Ratings by user and item, with their names.
    pub entries: DistArray<f32, 2>,
    /// Layout of the files.
    pub schema: InputSchema,
}

/// *Collective.* Reads ratings or events with options: separator, columns, and the layout of the
/// training files of a model. Files are separated values, JSON lines, or with the feature `arrow`
/// Parquet and Arrow IPC.
pub fn read_with(
    cluster: &Cluster,
    options: &RatingReadOptions,
    paths: impl Into<InputPaths>,
) -> Result<LoadedRatings> {
    // The root inspects the files and broadcasts the result, so that all peers read alike.
    let sources = find_files(cluster, paths)?;
    let inspected = if cluster.is_root() { Some(inspect(options, sources)) } else { None };
    let Some(inspected) = cluster.broadcast(inspected)? else { unreachable!("the root has inspected the files") };
    let RatingFiles { sources, columns, schema, comment } = match inspected {
        Ok(files) => files,
        Err(InspectError::Read(error)) => return Err(error.into()),
        Err(InspectError::Columns(error)) => return Err(Error::from(error).into()),
    };
    let csv = Csv::new()
        .comment(comment)
        .skip_bad_lines(options.skip_bad_lines)
        .separator(schema.separator.as_deref().unwrap_or(","));
    let RatingColumns { user, item, rating } = columns;
    let names_end = user.max(item);
    let rating = if options.events { rating } else { rating.or(Some(names_end + 1)) };
    let last = rating.map_or(names_end, |rating| rating.max(names_end));
    let events = options.events;
    let handling = options.duplicates.unwrap_or(if events { DuplicateHandling::Sum } else { DuplicateHandling::Error });
    let entries = cluster.read_named_as(csv, sources, handling.policy(), |fields| {
        let mut names = [Cow::default(), Cow::default()];
        let mut value = 1.0;
        for position in 0..=last {
            if events && position > names_end && fields.is_empty() {
                break;
            }
            match position {
                position if position == user => names[0] = utf8_name(fields.text()?),
                position if position == item => names[1] = utf8_name(fields.text()?),
                position if Some(position) == rating => value = fields.next::<f32>()?,
                _ => drop(fields.text()?),
            }
        }
        fields.skip_rest();
        Ok((names, value))
    })?;
    Ok(LoadedRatings { entries, schema })
}

/// Reads the users and items of files, in order, without ratings: for predictions. `visit` gets up
/// to `batch` pairs of names at a time. Runs on this peer alone.
pub fn read_pairs(
    options: &RatingReadOptions,
    paths: impl Into<InputPaths>,
    batch: usize,
    mut visit: impl FnMut(&[[String; 2]]) -> Result<()>,
) -> Result<()> {
    let sources = paths.into().find()?;
    let options = &RatingReadOptions { events: true, ..options.clone() };
    let RatingFiles { sources, columns, schema, comment } = match inspect(options, sources) {
        Ok(files) => files,
        Err(InspectError::Read(error)) => return Err(error.into()),
        Err(InspectError::Columns(error)) => return Err(Error::from(error).into()),
    };
    let csv = Csv::new().comment(comment).separator(schema.separator.as_deref().unwrap_or(","));
    let RatingColumns { user, item, .. } = columns;
    let (mut pairs, mut failed) = (Vec::with_capacity(batch), Ok(()));
    for source in &sources {
        let header = text_header(&csv, source, options.schema.as_ref())?;
        let (user, item) = header.unwrap_or((user, item));
        let mut is_header = header.is_some();
        let report = csv.read_fields(&ByteRange::whole(source.clone()), |fields| {
            let mut pair = [String::new(), String::new()];
            for position in 0..=user.max(item) {
                let text = fields.text()?;
                if position == user {
                    pair[0] = decode_text(&text);
                } else if position == item {
                    pair[1] = decode_text(&text);
                }
            }
            fields.skip_rest();
            if std::mem::take(&mut is_header) {
                return Ok(());
            }
            pairs.push(pair);
            if pairs.len() == batch && failed.is_ok() {
                failed = visit(&pairs);
                pairs.clear();
            }
            Ok(())
        })?;
        ReadReport::merge(std::slice::from_ref(source), [report], 0)?;
    }
    failed?;
    if pairs.is_empty() { Ok(()) } else { visit(&pairs) }
}

/// Returns the positions of user and item in a header that cannot be told from records because all
/// columns are texts, as in a file of pairs without ratings: the names of the training files.
fn text_header(csv: &Csv, source: &InputFile, schema: Option<&InputSchema>) -> Result<Option<(usize, usize)>> {
    let Some(schema) = schema.filter(|schema| schema.header) else { return Ok(None) };
    if csv.column_names(source)?.is_some() {
        return Ok(None);
    }
    let first = csv.first_records(source, 1)?;
    let position = |role: ColumnRole| {
        let (_, column) = schema.with_role(role).next()?;
        first.first()?.iter().position(|name| name.trim() == column.name)
    };
    Ok(position(ColumnRole::User).zip(position(ColumnRole::Item)))
}

/// Files of ratings, inspected by the root.
#[derive(Debug, Serialize, Deserialize)]
struct RatingFiles {
    sources: Vec<InputFile>,
    columns: RatingColumns,
    schema: InputSchema,
    comment: Option<u8>,
}

/// Finds separator and columns, which all files must share.
fn inspect(options: &RatingReadOptions, sources: Vec<InputFile>) -> Result<RatingFiles, InspectError> {
    let sources = InputFile::as_tables(sources)?;
    let nothing = || InspectError::from(hemiola_array::Error::NoFiles { pattern: String::new() });
    let first = sources.iter().find(|source| source.bytes() > 0).or(sources.first()).ok_or_else(nothing)?;
    let detected = match (&options.separator, DetectedFormat::separator_of(first)) {
        (_, Ok(detected)) => Some(detected),
        (Some(_), Err(_)) => None,
        (None, Err(error)) => return Err(error.into()),
    };
    let comment = detected.as_ref().and_then(|detected| detected.comment);
    let detected = detected.and_then(|detected| detected.separator).map(|separator| separator.text());
    let trained = options.schema.as_ref().and_then(|schema| schema.separator.clone());
    let candidates = match &options.separator {
        Some(separator) => vec![separator.clone()],
        None => trained.into_iter().chain(detected).collect(),
    };
    let mut problem = None;
    for separator in &candidates {
        match file_columns(options, &sources, separator, comment) {
            Ok((columns, schema)) => return Ok(RatingFiles { sources, columns, schema, comment }),
            Err(error) => problem = Some(error),
        }
    }
    Err(problem.unwrap_or_else(nothing))
}

/// Returns the columns of all files and their schema.
fn file_columns(
    options: &RatingReadOptions,
    sources: &[InputFile],
    separator: &str,
    comment: Option<u8>,
) -> Result<(RatingColumns, InputSchema), InspectError> {
    let csv = Csv::new().comment(comment).separator(separator);
    let mut found: Option<(&InputFile, RatingColumns, InputSchema)> = None;
    let mut named: Option<(&InputFile, Vec<String>)> = None;
    for source in sources {
        let (header, fields) = head_of(&csv, source)?;
        if fields == 0 {
            continue;
        }
        let head = FileHead { path: source.path(), header: header.as_deref(), fields };
        let columns = match &options.schema {
            Some(schema) if options.columns.is_empty() && !schema.columns.is_empty() => {
                RatingColumns::match_file(head, schema, !options.events)?
            }
            _ => RatingColumns::choose(head, &options.columns)?,
        };
        if columns.rating.is_none() && !options.events {
            return Err(ColumnError::NoRating { file: source.path().to_owned() }.into());
        }
        let different = |first: &InputFile| {
            let (first, other) = (first.path().to_owned(), source.path().to_owned());
            Err(ColumnError::DifferentFiles { first, other }.into())
        };
        match &found {
            None => found = Some((source, columns, columns.schema(head, separator))),
            Some((first, before, _)) if *before != columns => return different(first),
            Some(_) => {}
        }
        // Columns at the same positions must have the same names, where files name them.
        if header.is_some() {
            let names = columns.names_in(head);
            match &named {
                None => named = Some((source, names)),
                Some((first, before)) if *before != names => return different(first),
                Some(_) => {}
            }
        }
    }
    // The reading pass reports files without records.
    let empty = RatingColumns { user: 0, item: 1, rating: Some(2) };
    let empty_schema = InputSchema { separator: Some(separator.to_owned()), ..InputSchema::default() };
    Ok(found.map_or((empty, empty_schema), |(_, columns, schema)| (columns, schema)))
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
fn detect_csv(cluster: &Cluster, sources: &[InputFile]) -> Result<Csv> {
    // The root inspects the file and broadcasts the result, so that all peers read alike.
    let detected = sources.first().filter(|_| cluster.is_root()).map(|source| {
        DetectedFormat::separator_of(source)
            .map(|guess| (guess.separator.map(|separator| separator.text()), guess.comment))
    });
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
