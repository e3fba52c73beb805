//! Flags for the preparation of features, common to all models of examples.

use super::documents::ngrams;
use crate::error::CommandError;
use clap::Args;
use hemiola_models::input::{
    CategoricalColumns, FeatureScaling, MissingHandling, PreparationOptions, TermSelection, TermWeighting,
};
use hemiola_models::lda::Tokenizer;

/// Preparation of features. It is fitted to the training rows and kept with the model.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Features")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub(super) struct PreparationArgs {
    /// Columns of categories, by name or number, or `auto` for all columns with words: a feature per
    /// category.
    #[arg(long, value_name = "COLUMN,..|auto", value_delimiter = ',')]
    categorical: Vec<String>,

    /// Hash categories into 2^BITS features with signs, instead of a feature per category.
    #[arg(long, value_name = "BITS", requires = "categorical", value_parser = clap::value_parser!(u32).range(4..=28))]
    hash_features: Option<u32>,

    /// Categories in fewer than N training rows share one feature [default: 1]
    #[arg(long, value_name = "N", requires = "categorical")]
    min_frequency: Option<u64>,

    /// Missing values of numbers (empty, NA, NaN, null, ?): error, mean, median, zero or most-frequent.
    #[arg(long, value_name = "CHOICE", default_value = "error")]
    missing: MissingHandling,

    /// Add a feature that marks missing values, for each column of numbers that has some.
    #[arg(long)]
    missing_indicator: bool,

    /// Scale numbers by statistics of the training set: none, standard, min-max or max-abs.
    #[arg(long, value_name = "CHOICE", default_value = "none")]
    scale: FeatureScaling,

    /// Columns of text, by name or number: a feature per term.
    #[arg(long, value_name = "COLUMN,..", value_delimiter = ',')]
    text_column: Vec<String>,

    /// Weight terms by inverse document frequency, of LIBSVM files and text columns, and scale each
    /// example to norm 1.
    #[arg(long)]
    tfidf: bool,

    /// With --tfidf: replace counts by 1 plus their logarithm.
    #[arg(long, requires = "tfidf")]
    sublinear_tf: bool,

    /// Replace the counts of terms by 1.
    #[arg(long)]
    binary: bool,

    /// Text columns: terms of one to N adjacent words (`1-2`), instead of single words.
    #[arg(long, value_name = "N-N", default_value = "1-1", value_parser = ngrams, requires = "text_column")]
    ngrams: (u32, u32),

    /// Text columns: minimum number of training texts that contain a term [default: 1]
    #[arg(long, value_name = "N", requires = "text_column", value_parser = clap::value_parser!(u64).range(1..))]
    min_df: Option<u64>,

    /// Text columns: maximum fraction of the training texts that contain a term [default: 1]
    #[arg(long, value_name = "FRACTION", requires = "text_column")]
    max_df: Option<f64>,

    /// Text columns: keep the N terms that occur in most texts [default: all]
    #[arg(long, value_name = "N", requires = "text_column")]
    max_terms: Option<usize>,
}

impl PreparationArgs {
    /// Flags of this group, which need files.
    pub(super) const FLAGS: [&str; 10] = [
        "--categorical",
        "--missing",
        "--missing-indicator",
        "--scale",
        "--tfidf",
        "--binary",
        "--hash-features",
        "--min-frequency",
        "--max-terms",
        "--weight-column",
    ];

    /// Returns the settings, or an error if one is out of range.
    pub(super) fn options(&self) -> anyhow::Result<PreparationOptions> {
        let categorical = match self.categorical.as_slice() {
            [] => CategoricalColumns::None,
            [auto] if auto == "auto" => CategoricalColumns::Detect,
            columns => CategoricalColumns::Named(columns.to_vec()),
        };
        let usual = TermSelection::default();
        let options = PreparationOptions {
            categorical,
            min_frequency: self.min_frequency.unwrap_or(0),
            hash_bits: self.hash_features,
            missing: self.missing,
            missing_indicator: self.missing_indicator,
            scale: self.scale,
            text: self.text_column.clone(),
            terms: TermSelection {
                tokenizer: Tokenizer { ngrams: self.ngrams, ..usual.tokenizer },
                min_documents: self.min_df.unwrap_or(usual.min_documents),
                max_share: self.max_df.unwrap_or(usual.max_share),
                most: self.max_terms,
            },
            weighting: TermWeighting { binary: self.binary, tfidf: self.tfidf, sublinear: self.sublinear_tf },
        };
        if self.missing_indicator && self.missing == MissingHandling::Error {
            let failure = CommandError::usage("`--missing-indicator` marks missing values, which are errors");
            return Err(failure.hint("add `--missing mean` (or median, zero, most-frequent)").into());
        }
        options.check().map_err(hemiola_cluster::Error::from)?;
        Ok(options)
    }
}
