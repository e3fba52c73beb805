//! Settings of a preparation, before it is fitted.

use crate::Error;
use crate::lda::Tokenizer;
use crate::setters::require;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Number of bits of a hash of features.
const HASH_BITS: RangeInclusive<u32> = 4..=28;
/// Maximum number of words of an n-gram.
const MAX_WORDS: u32 = 8;

/// Columns of separated values whose texts are categories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CategoricalColumns {
    /// No column.
    #[default]
    None,
    /// Every feature column with a text that is no number among the first records of the first
    /// file.
    Detect,
    /// These columns, by name or by number counted from 1.
    Named(Vec<String>),
}

/// Treatment of missing values in columns of numbers. In columns of categories, missing is a
/// category of its own, unless the most frequent one is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MissingHandling {
    /// An error that names the line.
    #[default]
    Error,
    /// The mean of the column in the training set.
    Mean,
    /// The median of the column in the training set.
    Median,
    /// Zero.
    Zero,
    /// The most frequent value of the training set, of equally frequent ones the smallest.
    MostFrequent,
}

/// Scaling of columns of numbers by statistics of the training set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FeatureScaling {
    /// Values as they are.
    #[default]
    None,
    /// Mean 0 and standard deviation 1. LIBSVM text is divided by the standard deviation alone,
    /// because a shift would fill in all zeros.
    Standard,
    /// From 0 to 1.
    MinMax,
    /// From -1 to 1, with zeros unchanged.
    MaxAbs,
}

/// Implements names, display and parsing of an enum of unit variants.
macro_rules! named_choices {
    ($type:ty, $($variant:ident => $name:literal),+) => {
        impl $type {
            /// All choices, in the order of this enum.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name of the choice on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let names = || Self::ALL.iter().map(|choice| choice.name()).collect::<Vec<_>>().join(", ");
                Self::ALL.iter().copied().find(|choice| choice.name() == text)
                    .ok_or_else(|| format!("expected one of {}", names()))
            }
        }
    };
}
named_choices!(MissingHandling, Error => "error", Mean => "mean", Median => "median", Zero => "zero", MostFrequent => "most-frequent");
named_choices!(FeatureScaling, None => "none", Standard => "standard", MinMax => "min-max", MaxAbs => "max-abs");

/// Weighting of the counts of terms, in LIBSVM text and in columns of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermWeighting {
    /// Replaces counts by 1.
    pub binary: bool,
    /// Multiplies counts by the inverse document frequency, `ln((1 + documents) / (1 + documents
    /// with the term)) + 1`, and divides each example by its Euclidean norm: `TfidfTransformer` of
    /// scikit-learn.
    pub tfidf: bool,
    /// With `tfidf`: replaces a count by 1 plus its logarithm.
    pub sublinear: bool,
}

impl TermWeighting {
    /// Returns true if counts change at all.
    pub(crate) fn is_active(self) -> bool {
        self.binary || self.tfidf
    }

    /// Returns the weight of a count before the document frequency.
    pub(super) fn local(self, count: f64) -> f64 {
        let count = if self.binary { 1.0 } else { count };
        if self.tfidf && self.sublinear { 1.0 + count.ln() } else { count }
    }
}

/// Selection of the terms of columns of text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TermSelection {
    /// Words of a text.
    pub tokenizer: Tokenizer,
    /// Minimum number of training texts with the term.
    pub min_documents: u64,
    /// Maximum fraction of the training texts with the term.
    pub max_share: f64,
    /// Maximum number of terms of a column: those in most texts; of equals the first by name.
    pub most: Option<usize>,
}

impl Default for TermSelection {
    /// All words of at least two letters or digits, in lower case.
    fn default() -> Self {
        let tokenizer = Tokenizer { numbers: true, shortest: 2, stop_words: BTreeSet::new(), ngrams: (1, 1) };
        Self { tokenizer, min_documents: 1, max_share: 1.0, most: None }
    }
}

/// Settings of a [`Preparation`](super::Preparation). The default changes nothing.
///
/// ```
/// use hemiola_models::input::{CategoricalColumns, FeatureScaling, MissingHandling, PreparationOptions};
/// use hemiola_models::linear::LinearLoss;
/// use hemiola_models::linear::data::{self, LinearReadOptions};
/// use hemiola_models::prelude::*;
///
/// let folder = tempfile::tempdir().unwrap();
/// let file = folder.path().join("houses.csv");
/// let text = "sold,size,city\nno,100,Bonn\nyes,,Rome\nyes,120,Rome\nno,90,Bonn\nno,NA,Oslo\nyes,110,Rome\n";
/// std::fs::write(&file, text).unwrap();
/// let preparation = PreparationOptions {
///     categorical: CategoricalColumns::Named(vec!["city".into()]),
///     missing: MissingHandling::Mean,
///     scale: FeatureScaling::Standard,
///     ..PreparationOptions::default()
/// };
/// hemiola::standalone(1).run(|cluster| {
///     let options = LinearReadOptions { preparation: preparation.clone(), ..LinearReadOptions::default() };
///     let examples = data::read(cluster, &options, file.to_str().unwrap())?;
///     let names: Vec<_> = examples.labelled.features.names(1).unwrap().names().map(String::from_utf8_lossy).collect();
///     assert_eq!(names, ["size", "city=Bonn", "city=Oslo", "city=Rome"]);
///
///     // The model keeps the fitted preparation, and new files are prepared alike.
///     let svm = LinearClassifier::builder(LinearLoss::SquaredHinge).build()?.named(examples.names);
///     let model = svm.with_input(Some(examples.schema)).fit(cluster, &examples.labelled)?.model;
///     let options = LinearReadOptions { schema: model.input.clone(), names: model.names.clone(), ..LinearReadOptions::default() };
///     let again = data::read(cluster, &options, file.to_str().unwrap())?;
///     assert_eq!(again.labelled.features.collect()?, examples.labelled.features.collect()?);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PreparationOptions {
    /// Columns of categories: one feature per category.
    pub categorical: CategoricalColumns,
    /// Categories in fewer training rows than this share one feature.
    pub min_frequency: u64,
    /// Hashes categories into `2^bits` features in place of a feature per category.
    pub hash_bits: Option<u32>,
    /// Missing values of columns of numbers.
    pub missing: MissingHandling,
    /// Adds a feature that is 1 where a value is missing, for each column of numbers with missing
    /// values in the training set.
    pub missing_indicator: bool,
    /// Scaling of columns of numbers; of all features of LIBSVM text.
    pub scale: FeatureScaling,
    /// Columns of text, by name or number: one feature per term.
    pub text: Vec<String>,
    /// Terms of columns of text.
    pub terms: TermSelection,
    /// Weighting of terms, in columns of text and in LIBSVM text.
    pub weighting: TermWeighting,
}

impl PreparationOptions {
    /// Returns true if files are read as they are.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        *self == Self { terms: self.terms.clone(), ..Self::default() }
    }

    /// Returns an error if a setting is out of range.
    pub fn check(&self) -> Result<(), Error> {
        let bits = self.hash_bits.unwrap_or(*HASH_BITS.start());
        require("hash_bits", &bits, HASH_BITS.contains(&bits), "from 4 to 28")?;
        let TermSelection { tokenizer, max_share, .. } = &self.terms;
        require("max_share", max_share, *max_share > 0.0 && *max_share <= 1.0, "above 0 and at most 1")?;
        let (least, most) = tokenizer.ngrams;
        let valid = (1..=most).contains(&least) && most <= MAX_WORDS;
        require("ngrams", &format!("{least}-{most}"), valid, "from 1-1 to 8-8, with the smaller number first")
    }

    /// Returns the names of the settings that differ from those of a fitted preparation.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<&'static str> {
        let Self { categorical, min_frequency, hash_bits, missing, missing_indicator, scale, text, terms, weighting } =
            self;
        [
            ("categorical", *categorical == other.categorical),
            ("min_frequency", *min_frequency == other.min_frequency),
            ("hash_bits", *hash_bits == other.hash_bits),
            ("missing", *missing == other.missing),
            ("missing_indicator", *missing_indicator == other.missing_indicator),
            ("scale", *scale == other.scale),
            ("text", *text == other.text),
            ("terms", *terms == other.terms),
            ("weighting", *weighting == other.weighting),
        ]
        .into_iter()
        .find(|(_, same)| !same)
        .map(|(name, _)| name)
    }
}

/// Summary of the settings that change something: `missing mean, scale standard`.
impl fmt::Display for PreparationOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if let Some(bits) = self.hash_bits {
            parts.push(format!("hashed into 2^{bits} features"));
        }
        if self.min_frequency > 1 {
            parts.push(format!("categories in fewer than {} rows are rare", self.min_frequency));
        }
        if self.missing != MissingHandling::Error {
            parts.push(format!("missing {}", self.missing));
        }
        if self.missing_indicator {
            parts.push("missing indicators".to_owned());
        }
        let TermWeighting { binary, tfidf, sublinear } = self.weighting;
        parts.extend(binary.then(|| "binary".to_owned()));
        parts.extend(tfidf.then(|| if sublinear { "sublinear tf-idf" } else { "tf-idf" }.to_owned()));
        if self.scale != FeatureScaling::None {
            parts.push(format!("scale {}", self.scale));
        }
        formatter.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_others_refused() {
        for choice in MissingHandling::ALL {
            assert_eq!(choice.name().parse::<MissingHandling>(), Ok(*choice));
        }
        for choice in FeatureScaling::ALL {
            assert_eq!(choice.name().parse::<FeatureScaling>(), Ok(*choice));
        }
        assert!("average".parse::<MissingHandling>().unwrap_err().contains("most-frequent"));
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let plain = PreparationOptions::default();
        assert!(plain.check().is_ok() && plain.is_identity());
        assert!(PreparationOptions { hash_bits: Some(40), ..plain.clone() }.check().is_err());
        let mut wrong = plain.clone();
        wrong.terms.tokenizer.ngrams = (2, 1);
        assert!(wrong.check().is_err());
        wrong.terms.tokenizer.ngrams = (1, 2);
        wrong.terms.max_share = 0.0;
        assert!(wrong.check().is_err());
        let scaled = PreparationOptions { scale: FeatureScaling::Standard, ..plain.clone() };
        assert_eq!((scaled.difference(&plain), plain.difference(&plain)), (Some("scale"), None));
        assert_eq!(scaled.to_string(), "scale standard");
    }
}
