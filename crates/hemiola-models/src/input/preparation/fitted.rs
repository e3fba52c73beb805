//! Fitted preparation, as stored with a model.

use super::options::PreparationOptions;
use crate::Error;
use crate::input::schema::{ColumnRole, InputSchema};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Version of the stored form. Later ones are refused.
const VERSION: u32 = 1;
/// Maximum number of columns in a summary.
const COLUMNS_SHOWN: usize = 6;

/// Preparation of features with the statistics of a training set: it turns the columns of a file into
/// the features of a model, and is applied alike to all later files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    version: u32,
    /// Settings that were fitted.
    pub options: PreparationOptions,
    /// Number of rows of the training set.
    pub rows: u64,
    /// Separated values: the feature columns, in file order.
    pub columns: Vec<PreparedColumn>,
    /// LIBSVM text: statistics of the features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse: Option<SparseStatistics>,
}

/// Fitted column of separated values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
#[non_exhaustive]
pub enum PreparedColumn {
    /// Number: `(x - shift) / scale`.
    Number {
        /// Value in place of a missing one; `None` if that is an error.
        fill: Option<f32>,
        /// True if a second feature is 1 where a value is missing.
        indicator: bool,
        /// Amount that is subtracted.
        shift: f64,
        /// Divisor.
        scale: f64,
    },
    /// Categories: a feature each, 1 in the rows of the category.
    Category {
        /// Names of the categories, sorted.
        names: Vec<String>,
        /// True if missing values have a feature, after the categories.
        missing: bool,
        /// True if rare categories, and those that were not seen in training, have a feature, the last.
        rare: bool,
        /// Category in place of a missing one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<String>,
    },
    /// Categories that are hashed into features shared by all such columns, after all others.
    Hashed {
        /// Category in place of a missing one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<String>,
    },
    /// Text: a feature per term.
    Text {
        /// Terms, sorted.
        terms: Vec<String>,
        /// Number of training texts with each term.
        frequencies: Vec<u64>,
    },
}

/// Statistics of the features of LIBSVM text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SparseStatistics {
    /// Number of training rows with each feature, for document frequencies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frequencies: Vec<u64>,
    /// Divisor of each feature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scales: Vec<f64>,
}

impl PreparedColumn {
    /// Returns the number of features of the column, without hashed ones.
    pub(super) fn width(&self) -> usize {
        match self {
            Self::Number { indicator, .. } => 1 + usize::from(*indicator),
            Self::Category { names, missing, rare, .. } => names.len() + usize::from(*missing) + usize::from(*rare),
            Self::Hashed { .. } => 0,
            Self::Text { terms, .. } => terms.len(),
        }
    }
}

/// Inverse document frequency, as in scikit-learn's `TfidfTransformer` with `smooth_idf`.
pub(super) fn inverse_document_frequency(documents: u64, of: u64) -> f64 {
    ((1.0 + documents as f64) / (1.0 + of as f64)).ln() + 1.0
}

impl Preparation {
    pub(super) fn new(
        options: &PreparationOptions,
        rows: u64,
        columns: Vec<PreparedColumn>,
        sparse: Option<SparseStatistics>,
    ) -> Self {
        Self { version: VERSION, options: options.clone(), rows, columns, sparse }
    }

    /// Returns an error if a loaded preparation does not fit with the columns of its schema.
    pub(crate) fn check(&self, schema: &InputSchema) -> Result<(), Error> {
        let features = schema.with_role(ColumnRole::Feature).count();
        let consistent = |column: &PreparedColumn| match column {
            PreparedColumn::Number { shift, scale, .. } => shift.is_finite() && scale.is_finite() && *scale > 0.0,
            PreparedColumn::Text { terms, frequencies } => terms.len() == frequencies.len(),
            PreparedColumn::Hashed { .. } => self.options.hash_bits.is_some(),
            PreparedColumn::Category { .. } => true,
        };
        let problem = if self.version > VERSION {
            format!("its preparation has version {}, and this program knows {VERSION}", self.version)
        } else if self.columns.len() != features
            || !self.columns.iter().all(consistent)
            || self.options.check().is_err()
        {
            format!("its preparation does not fit its {features} feature columns")
        } else {
            return Ok(());
        };
        Err(Error::InvalidSave { problem })
    }

    /// Returns the number of features of separated values.
    #[must_use]
    pub fn features(&self) -> usize {
        let hashes = self.columns.iter().any(|column| matches!(column, PreparedColumn::Hashed { .. }));
        let hashed = if hashes { 1 << self.options.hash_bits.unwrap_or(0) } else { 0 };
        self.columns.iter().map(PreparedColumn::width).sum::<usize>() + hashed
    }

    /// Returns the names of the features of separated values, up to the hashed ones, which have none:
    /// `size`, `size (missing)`, `color=red`, `color=(rare)`, `text:word`.
    #[must_use]
    pub fn feature_names(&self, schema: &InputSchema) -> Vec<String> {
        let mut names = Vec::new();
        for ((_, column), prepared) in schema.with_role(ColumnRole::Feature).zip(&self.columns) {
            let column = &column.name;
            match prepared {
                PreparedColumn::Number { indicator, .. } => {
                    names.push(column.clone());
                    names.extend(indicator.then(|| format!("{column} (missing)")));
                }
                PreparedColumn::Category { names: categories, missing, rare, .. } => {
                    names.extend(categories.iter().map(|category| format!("{column}={category}")));
                    names.extend(missing.then(|| format!("{column}=(missing)")));
                    names.extend(rare.then(|| format!("{column}=(rare)")));
                }
                PreparedColumn::Hashed { .. } => {}
                PreparedColumn::Text { terms, .. } => names.extend(terms.iter().map(|term| format!("{column}:{term}"))),
            }
        }
        // A name stands for one feature.
        let mut known = BTreeSet::new();
        for (index, name) in names.iter_mut().enumerate() {
            while !known.insert(name.clone()) {
                *name = format!("{name} ({})", index + 1);
            }
        }
        names
    }

    /// Returns the summary of the columns and settings, with the names of the columns.
    #[must_use]
    pub fn summary(&self, schema: &InputSchema) -> String {
        let columns = || schema.with_role(ColumnRole::Feature).zip(&self.columns);
        let of_kind = |title: &str, text: &dyn Fn(&str, &PreparedColumn) -> Option<String>| {
            let all: Vec<String> =
                columns().filter_map(|((_, column), prepared)| text(&column.name, prepared)).collect();
            let more = if all.len() > COLUMNS_SHOWN { ", ..." } else { "" };
            let shown = all[..all.len().min(COLUMNS_SHOWN)].join(", ");
            (!all.is_empty()).then(|| format!("{title} {shown}{more}"))
        };
        let categories = of_kind("categories of", &|name, column| match column {
            PreparedColumn::Category { .. } => Some(format!("`{name}` ({})", column.width())),
            PreparedColumn::Hashed { .. } => Some(format!("`{name}`")),
            _ => None,
        });
        let terms = of_kind("terms of", &|name, column| match column {
            PreparedColumn::Text { terms, .. } => Some(format!("`{name}` ({})", terms.len())),
            _ => None,
        });
        let settings = Some(self.options.to_string()).filter(|text| !text.is_empty());
        [categories, terms, settings].into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// Summary of the settings.
impl fmt::Display for Preparation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(formatter)
    }
}
