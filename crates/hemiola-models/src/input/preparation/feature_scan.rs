//! Statistics of feature columns, collected in a pass over the rows.
//!
//! Each worker scans a share of the files, and its statistics are merged with those of all others.
//! **Invariant:** merged statistics depend on the set of rows alone: counts and extremes are exact,
//! and so are sums ([`ExactMoments`]). The number of distinct texts that are counted is bounded.

use super::exact_moments::ExactMoments;
use super::missing::{OptionalNumber, is_missing};
use super::options::PreparationOptions;
use super::rank_scan::RankScan;
use crate::input::example_columns::FieldUse;
use crate::mf::data::decode_text;
use hemiola_array::Dictionary;
use hemiola_array::read::{Fields, ParseError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of categories, or of different numbers, of a column.
pub(super) const MAX_CATEGORIES: usize = 1 << 18;
/// Maximum number of terms of a column that are counted.
pub(super) const MAX_TERMS: usize = 1 << 23;

/// Statistics of all feature columns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FeatureScan {
    /// Number of scanned rows.
    pub(super) rows: u64,
    pub(super) columns: Vec<ColumnScan>,
}

/// Statistics of a column.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ColumnScan {
    /// The column is not read.
    Skipped,
    Number(NumberScan),
    /// Categories and their numbers of rows.
    Category(TextCounts),
    /// Terms and their numbers of texts.
    Text(TextCounts),
    /// Ranks of numbers.
    Rank(RankScan),
}

/// Statistics of a column of numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct NumberScan {
    pub(super) present: u64,
    pub(super) missing: u64,
    pub(super) least: f32,
    pub(super) most: f32,
    pub(super) moments: ExactMoments,
    /// Number of rows of each value, by bits, if the most frequent one is asked for.
    pub(super) values: Option<BTreeMap<u32, u64>>,
}

/// Texts and their counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "CountedTexts", into = "CountedTexts")]
pub(super) struct TextCounts {
    names: Dictionary,
    counts: Vec<u64>,
    pub(super) missing: u64,
    /// True if there are more texts than may be counted.
    pub(super) overflows: bool,
    /// Numbers of the terms of a text; not kept.
    terms: Vec<u32>,
}

/// Serialized form of [`TextCounts`].
#[derive(Serialize, Deserialize)]
struct CountedTexts {
    names: Vec<Vec<u8>>,
    counts: Vec<u64>,
    missing: u64,
    overflows: bool,
}

impl From<CountedTexts> for TextCounts {
    fn from(counted: CountedTexts) -> Self {
        let CountedTexts { names, counts, missing, overflows } = counted;
        let names = names.iter().map(Vec::as_slice).collect();
        Self { names, counts, missing, overflows, terms: Vec::new() }
    }
}

impl From<TextCounts> for CountedTexts {
    fn from(counts: TextCounts) -> Self {
        let TextCounts { names, counts, missing, overflows, .. } = counts;
        Self { names: names.names().map(<[u8]>::to_vec).collect(), counts, missing, overflows }
    }
}

impl TextCounts {
    /// Counts a text; returns its number.
    fn count(&mut self, text: &[u8], most: usize) {
        let number = if self.names.len() < most { Some(self.names.intern(text)) } else { self.names.index_of(text) };
        self.overflows |= number.is_none();
        if let Some(number) = number {
            self.counts.resize(self.names.len(), 0);
            self.counts[number as usize] += 1;
        }
    }

    /// Counts each term of a text once.
    fn count_terms(&mut self, text: &[u8], options: &PreparationOptions) {
        let Self { names, counts, overflows, terms, .. } = self;
        terms.clear();
        options.terms.tokenizer.terms(&decode_text(text), |term| {
            let term = term.as_bytes();
            let number = if names.len() < MAX_TERMS { Some(names.intern(term)) } else { names.index_of(term) };
            *overflows |= number.is_none();
            terms.extend(number);
        });
        terms.sort_unstable();
        terms.dedup();
        counts.resize(names.len(), 0);
        for term in &*terms {
            counts[*term as usize] += 1;
        }
    }

    fn merge(&mut self, other: &Self, most: usize) {
        let renumbered = self.names.merge(&other.names);
        self.counts.resize(self.names.len(), 0);
        for (number, count) in renumbered.iter().zip(&other.counts) {
            self.counts[*number as usize] += count;
        }
        self.missing += other.missing;
        self.overflows |= other.overflows || self.names.len() > most;
    }

    /// Returns the texts and their counts, in the order of the texts.
    pub(super) fn sorted(&self) -> Vec<(String, u64)> {
        let mut all: Vec<(String, u64)> =
            self.names.names().map(decode_text).zip(self.counts.iter().copied()).collect();
        all.sort_unstable();
        // Bytes that are not UTF-8 may decode to a text that occurs as well.
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        all
    }
}

impl NumberScan {
    pub(super) fn new(counts_values: bool) -> Self {
        Self {
            present: 0,
            missing: 0,
            least: f32::INFINITY,
            most: f32::NEG_INFINITY,
            moments: ExactMoments::default(),
            values: counts_values.then(BTreeMap::new),
        }
    }

    pub(super) fn add(&mut self, number: Option<f32>) {
        let Some(number) = number else {
            self.missing += 1;
            return;
        };
        // 0 and -0 are the same value.
        let number = number + 0.0;
        self.present += 1;
        self.least = self.least.min(number);
        self.most = self.most.max(number);
        self.moments.add(number);
        if let Some(values) = &mut self.values
            && (values.len() <= MAX_CATEGORIES || values.contains_key(&number.to_bits()))
        {
            *values.entry(number.to_bits()).or_default() += 1;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.present += other.present;
        self.missing += other.missing;
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.moments.merge(&other.moments);
        if let (Some(values), Some(others)) = (&mut self.values, &other.values) {
            for (value, count) in others {
                *values.entry(*value).or_default() += count;
            }
        }
    }
}

impl FeatureScan {
    /// Adds the features of a row.
    pub(crate) fn add_row(
        &mut self,
        fields: &mut Fields<'_>,
        uses: &[FieldUse],
        options: &PreparationOptions,
    ) -> hemiola_array::Result<(), Box<ParseError>> {
        self.rows += 1;
        for field in uses {
            let column = match field {
                FieldUse::Feature(feature) => self.columns.get_mut(*feature),
                _ => None,
            };
            match column {
                None | Some(ColumnScan::Skipped) => drop(fields.text()?),
                Some(ColumnScan::Number(scan)) => scan.add(fields.next::<OptionalNumber>()?.0),
                Some(ColumnScan::Rank(scan)) => {
                    if let Some(number) = fields.next::<OptionalNumber>()?.0 {
                        scan.add(number);
                    }
                }
                Some(ColumnScan::Category(scan)) => {
                    let text = fields.text()?;
                    if is_missing(&text) {
                        scan.missing += 1;
                    } else {
                        scan.count(text.trim_ascii(), MAX_CATEGORIES);
                    }
                }
                Some(ColumnScan::Text(scan)) => scan.count_terms(&fields.text()?, options),
            }
        }
        Ok(())
    }

    /// Adds the statistics of other rows.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        for (mine, theirs) in self.columns.iter_mut().zip(&other.columns) {
            match (mine, theirs) {
                (ColumnScan::Number(mine), ColumnScan::Number(theirs)) => mine.merge(theirs),
                (ColumnScan::Category(mine), ColumnScan::Category(theirs)) => mine.merge(theirs, MAX_CATEGORIES),
                (ColumnScan::Text(mine), ColumnScan::Text(theirs)) => mine.merge(theirs, MAX_TERMS),
                (ColumnScan::Rank(mine), ColumnScan::Rank(theirs)) => mine.merge(theirs),
                _ => {}
            }
        }
    }
}
