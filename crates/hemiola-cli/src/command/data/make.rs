//! `hemiola data make`: synthetic data sets with known ground truth, in text formats.
//!
//! Every row is a function of the seed, the sizes and its index. Rows are generated on all workers
//! and written in order, so the same command writes the same bytes on any number of workers. The
//! ground truth is written beside the data; [`SetWriter`] makes all files appear at once.

use super::set_writer::{FileLayout, SetWriter};
use crate::error::CommandError;
use clap::{Args, Subcommand};
use hemiola_array::synthetic::{SyntheticLasso, SyntheticLda, SyntheticLogistic, SyntheticMf, mf, text};
use hemiola_array::{DenseArray, Shape};
use serde::Serialize;
use std::process::ExitCode;

const FILES_HELP: &str = "\
Beside PATH the command writes PATH.truth, a folder with the ground truth (a manifest and safetensors files, also readable in \
Python), and PATH.json with the sizes and the seed. A PATH that ends with `.gz` or `.zst` is compressed. Files appear complete \
or not at all, and are overwritten with --force only. The same seed and sizes give the same bytes on any machine.";

/// Synthetic data sets of `hemiola data make`.
#[derive(Debug, Subcommand)]
pub(crate) enum MakeCommand {
    /// Ratings from a low-rank matrix with power-law users and items: `user,item,rating`.
    #[command(after_help = format!("\
Examples:
  hemiola data make mf --output ratings.csv
  hemiola data make mf --output big.tsv.zst --users 10000 --items 3000 --ratings 1000000

Ids count from 1. The separator is a tab if PATH ends with `.tsv`, `::` if it ends with `.dat`, else a comma. A rating is 3.5 \
plus the product of the true factors of user and item plus noise, so --noise is the smallest RMSE that a model can reach. The \
ground truth has the factors `w` (users by rank) and `h` (items by rank).

{FILES_HELP}"))]
    Mf(MakeMfArgs),

    /// Documents from a topic model: UCI bag of words and a vocabulary.
    #[command(after_help = format!("\
Examples:
  hemiola data make lda --output docword.toy.txt
  hemiola data make lda --output docword.big.txt.gz --documents 100000 --topics 100
  hemiola train lda --data docword.toy.txt --topics 20 --output model

The vocabulary goes to `vocab.NAME` beside `docword.NAME`, or to PATH.vocab if PATH has another form. The ground truth has `topics` \
(topics by words) and `mixtures` (documents by topics).

{FILES_HELP}"))]
    Lda(MakeLdaArgs),

    /// Dense regression with sparse true coefficients and correlated columns: LIBSVM.
    #[command(after_help = format!("\
Examples:
  hemiola data make lasso --output lasso.libsvm
  hemiola data make lasso --output wide.libsvm.zst --columns 20000 --correlation 0.9

The ground truth has `coefficients`, one per column, of which --support are nonzero.

{FILES_HELP}"))]
    Lasso(MakeLassoArgs),

    /// Sparse classification: LIBSVM with labels +1 and -1.
    #[command(after_help = format!("\
Examples:
  hemiola data make logistic --output clicks.libsvm
  hemiola data make logistic --output big.libsvm.gz --rows 1000000 --seed 7

The ground truth has `coefficients`, one per column. Labels are sampled from the logistic model, so that even the true \
coefficients misclassify some rows.

{FILES_HELP}"))]
    Logistic(MakeLogisticArgs),
}

/// Parser of a size from 1 to 10^9.
fn size() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..=1_000_000_000)
}

/// Arguments of `hemiola data make mf`.
#[derive(Args, Debug, Serialize)]
pub(crate) struct MakeMfArgs {
    #[command(flatten)]
    #[serde(skip)]
    layout: FileLayout,

    /// Number of users.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = size())]
    users: usize,

    /// Number of items.
    #[arg(long, value_name = "N", default_value = "500", value_parser = size())]
    items: usize,

    /// Number of ratings.
    #[arg(long, value_name = "N", default_value = "50000", value_parser = size())]
    ratings: usize,

    /// Rank of the matrix.
    #[arg(long, value_name = "N", default_value = "8", value_parser = size())]
    rank: usize,

    /// Standard deviation of the noise.
    #[arg(long, value_name = "X", default_value = "0.1", value_parser = not_negative)]
    noise: f64,

    /// Power-law exponent of ratings per user; 0 for a uniform distribution.
    #[arg(long, value_name = "X", default_value = "0.6", value_parser = not_negative)]
    user_skew: f64,

    /// Power-law exponent of ratings per item; 0 for a uniform distribution.
    #[arg(long, value_name = "X", default_value = "0.8", value_parser = not_negative)]
    item_skew: f64,

    /// Write a header line with column names.
    #[arg(long)]
    header: bool,
}

/// Arguments of `hemiola data make lda`.
#[derive(Args, Debug, Serialize)]
pub(crate) struct MakeLdaArgs {
    #[command(flatten)]
    #[serde(skip)]
    layout: FileLayout,

    /// Number of documents.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = size())]
    documents: usize,

    /// Vocabulary size.
    #[arg(long, value_name = "N", default_value = "2000", value_parser = size())]
    words: usize,

    /// Number of topics.
    #[arg(long, value_name = "N", default_value = "20", value_parser = size())]
    topics: usize,

    /// Mean number of tokens per document.
    #[arg(long, value_name = "N", default_value = "100", value_parser = size())]
    document_length: usize,

    /// Dirichlet prior of topics in a document.
    #[arg(long, value_name = "X", default_value = "0.1", value_parser = positive)]
    alpha: f64,
}

/// Arguments of `hemiola data make lasso`.
#[derive(Args, Debug, Serialize)]
pub(crate) struct MakeLassoArgs {
    #[command(flatten)]
    #[serde(skip)]
    layout: FileLayout,

    /// Number of rows.
    #[arg(long, value_name = "N", default_value = "200", value_parser = size())]
    rows: usize,

    /// Number of columns.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = size())]
    columns: usize,

    /// Number of nonzero coefficients.
    #[arg(long, value_name = "N", default_value = "20", value_parser = size())]
    support: usize,

    /// Correlation of neighbouring columns, in [0, 1).
    #[arg(long, value_name = "X", default_value = "0.5", value_parser = correlation)]
    correlation: f64,

    /// Standard deviation of the noise.
    #[arg(long, value_name = "X", default_value = "0.1", value_parser = not_negative)]
    noise: f64,
}

/// Arguments of `hemiola data make logistic`.
#[derive(Args, Debug, Serialize)]
pub(crate) struct MakeLogisticArgs {
    #[command(flatten)]
    #[serde(skip)]
    layout: FileLayout,

    /// Number of rows.
    #[arg(long, value_name = "N", default_value = "10000", value_parser = size())]
    rows: usize,

    /// Number of columns.
    #[arg(long, value_name = "N", default_value = "5000", value_parser = size())]
    columns: usize,

    /// Mean number of features per row.
    #[arg(long, value_name = "N", default_value = "20", value_parser = size())]
    features_per_row: usize,

    /// Standard deviation of the coefficients; larger values separate the classes better.
    #[arg(long, value_name = "X", default_value = "1", value_parser = positive)]
    coefficient_scale: f64,
}

impl MakeCommand {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Mf(arguments) => arguments.make(),
            Self::Lda(arguments) => arguments.make(),
            Self::Lasso(arguments) => arguments.make(),
            Self::Logistic(arguments) => arguments.make(),
        }
    }
}

impl MakeMfArgs {
    fn make(self) -> anyhow::Result<ExitCode> {
        if self.users.saturating_mul(self.items) < self.ratings {
            let message = format!("{} users and {} items cannot have {} ratings", self.users, self.items, self.ratings);
            return Err(CommandError::usage(message).hint("use fewer `--ratings`").into());
        }
        let separator = match self.layout.extension().as_deref() {
            Some("tsv") => "\t",
            Some("dat") => "::",
            _ => ",",
        };
        let mut writer = SetWriter::begin(&self.layout, None)?;
        let seed = self.layout.seed;
        let Self { users, items, rank, noise, user_skew, item_skew, .. } = self;
        let set = SyntheticMf { users, items, entries: self.ratings, rank, noise, user_skew, item_skew, seed };
        let set = set.generator();
        if self.header {
            writer.write(["user", "item", "rating\n"].join(separator).as_bytes())?;
        }
        let written = writer.rows(self.users, self.ratings / self.users * 24, |user, out| {
            let ratings = set.row(user);
            text::write_csv(out, separator, 1, ratings.iter().map(|&(item, rating)| ([user, item], rating)))?;
            Ok(ratings.len() as u64)
        })?;
        let (w, h) = set.truth()?;
        writer.truth("w", &w)?;
        writer.truth("h", &h)?;
        writer.finish("mf", &self, &serde_json::json!({ "ratings": written, "mean": mf::MEAN_RATING }))
    }
}

impl MakeLdaArgs {
    fn make(self) -> anyhow::Result<ExitCode> {
        let vocabulary = self.layout.vocabulary();
        let mut writer = SetWriter::begin(&self.layout, Some(&vocabulary))?;
        let Self { documents, words, topics, document_length: length, alpha, .. } = self;
        let set = SyntheticLda { documents, words, topics, length, alpha, seed: self.layout.seed }.generator();
        // The header counts the entries, so documents are generated twice rather than kept in
        // memory.
        let entries = writer.sum_over_rows(self.documents, |document| set.row(document).len() as u64)?;
        writer.write(format!("{}\n{}\n{entries}\n", self.documents, self.words).as_bytes())?;
        writer.rows(self.documents, self.document_length * 12, |document, out| {
            let words = set.row(document);
            text::write_csv(out, " ", 1, words.iter().map(|&(word, count)| ([document, word], count)))?;
            Ok(words.len() as u64)
        })?;
        let mut words = Vec::new();
        text::write_vocabulary(&mut words, self.words)?;
        writer.companion(&words)?;
        writer.truth("topics", &dense(self.topics, self.words, |topic| set.topic(topic))?)?;
        writer.truth("mixtures", &dense(self.documents, self.topics, |document| set.mixture(document))?)?;
        writer.finish("lda", &self, &serde_json::json!({ "entries": entries }))
    }
}

impl MakeLassoArgs {
    fn make(self) -> anyhow::Result<ExitCode> {
        if self.support > self.columns {
            let message = format!("{} columns cannot have {} nonzero coefficients", self.columns, self.support);
            return Err(CommandError::usage(message).hint("use a smaller `--support`").into());
        }
        let mut writer = SetWriter::begin(&self.layout, None)?;
        let Self { rows, columns, support, correlation, noise, .. } = self;
        let set = SyntheticLasso { rows, columns, support, correlation, noise, seed: self.layout.seed }.generator();
        let entries = writer.rows(self.rows, self.columns * 18, |row, out| {
            let (target, features) = set.row(row);
            let count = features.len() as u64;
            // Readers parse labels as `f32`, so labels are written with that precision.
            text::write_libsvm(out, [(target as f32, (0..).zip(features))])?;
            Ok(count)
        })?;
        let mut coefficients = DenseArray::filled(Shape::new([self.columns]), 0_f64)?;
        for &(column, value) in set.truth() {
            coefficients[[column]] = value;
        }
        writer.truth("coefficients", &coefficients)?;
        writer.finish("lasso", &self, &serde_json::json!({ "entries": entries }))
    }
}

impl MakeLogisticArgs {
    fn make(self) -> anyhow::Result<ExitCode> {
        let mut writer = SetWriter::begin(&self.layout, None)?;
        let Self { rows, columns, features_per_row, coefficient_scale: scale, .. } = self;
        let set = SyntheticLogistic { rows, columns, features_per_row, scale, seed: self.layout.seed }.generator();
        let entries = writer.rows(self.rows, self.features_per_row * 18, |row, out| {
            let (label, features) = set.row(row);
            let count = features.len() as u64;
            text::write_libsvm(out, [(if label > 0.0 { "+1" } else { "-1" }, features)])?;
            Ok(count)
        })?;
        let coefficients = DenseArray::from_fn(Shape::new([self.columns]), |column| set.truth(column))?;
        writer.truth("coefficients", &coefficients)?;
        writer.finish("logistic", &self, &serde_json::json!({ "entries": entries }))
    }
}

/// Builds a dense array from its rows.
fn dense(rows: usize, columns: usize, row: impl Fn(usize) -> Vec<f64>) -> hemiola_array::Result<DenseArray<f32, 2>> {
    let mut dense = DenseArray::filled(Shape::new([rows, columns]), 0_f32)?;
    for (number, cells) in (0..).zip(dense.rows_mut()) {
        cells.iter_mut().zip(row(number)).for_each(|(cell, value)| *cell = value as f32);
    }
    Ok(dense)
}

/// Parses a finite number that `allowed` accepts.
fn number(text: &str, allowed: impl Fn(f64) -> bool, expected: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && allowed(*value))
        .ok_or_else(|| format!("expected {expected}"))
}

fn not_negative(text: &str) -> Result<f64, String> {
    number(text, |value| value >= 0.0, "a number not below 0")
}

fn positive(text: &str) -> Result<f64, String> {
    number(text, |value| value > 0.0, "a number above 0")
}

fn correlation(text: &str) -> Result<f64, String> {
    number(text, |value| (0.0..1.0).contains(&value), "a number from 0 to below 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_parsers_check_their_ranges() {
        assert_eq!((not_negative("0"), positive("0.5"), correlation("0.9")), (Ok(0.0), Ok(0.5), Ok(0.9)));
        for text in ["-1", "nan", "inf", "x", ""] {
            assert!(not_negative(text).is_err() && positive(text).is_err() && correlation(text).is_err(), "{text}");
        }
        assert!(positive("0").is_err() && correlation("1").is_err());
    }
}
