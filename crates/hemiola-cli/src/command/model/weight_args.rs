//! Flags for the weights of training examples.

use crate::arguments::GivenFlags;
use crate::error::{CommandError, into_cluster_error};
use clap::Args;
use hemiola_array::read::{InputFile, lines::read_names};
use hemiola_cluster::Result;
use hemiola_models::{ClassWeights, ExampleWeights};
use std::path::Path;

/// Weights of training examples.
#[derive(Args, Debug)]
#[command(next_help_heading = "Weights")]
pub(super) struct WeightArgs {
    /// Weights of classes: `balanced`, `CLASS=W,..`, or a file with a class and a weight on each line.
    #[arg(long, value_name = "balanced|FILE|CLASS=W,..")]
    class_weight: Option<String>,

    #[command(flatten)]
    pub(super) of_rows: WeightColumnArg,
}

/// Column with the weights of training examples.
#[derive(Args, Debug)]
#[command(next_help_heading = "Weights")]
pub(super) struct WeightColumnArg {
    /// Separated values: column of the weight of each example, by name or number.
    #[arg(long, value_name = "COLUMN")]
    weight_column: Option<String>,
}

impl WeightColumnArg {
    /// Returns the column of weights.
    pub(super) fn column(&self) -> Option<&str> {
        self.weight_column.as_deref()
    }

    /// Refuses weights of rows where rows are selected.
    pub(super) fn refuse_with_selection() -> anyhow::Result<()> {
        let reason = "a search and a cross-validation select rows, and a weight belongs to a row of the file";
        let hint = "leave it out; where there are classes, --class-weight is possible";
        GivenFlags::of_process().refuse(&["--weight-column"], reason, hint)
    }
}

impl WeightArgs {
    /// Flags of this group.
    pub(super) const FLAGS: [&str; 2] = ["--class-weight", "--weight-column"];

    /// Returns the column of weights.
    pub(super) fn column(&self) -> Option<&str> {
        self.of_rows.column()
    }

    /// Returns an error, before data are read, if class weights cannot be parsed.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.classes().map(|_| ())
    }

    /// Returns the weights of examples whose column of weights was read.
    pub(super) fn weights(&self, of_rows: Option<Vec<f32>>) -> Result<ExampleWeights> {
        let classes = self.classes().map_err(into_cluster_error)?;
        Ok(ExampleWeights::default().of_rows(of_rows).of_classes(classes))
    }

    fn classes(&self) -> anyhow::Result<ClassWeights> {
        let named = match self.class_weight.as_deref() {
            None => return Ok(ClassWeights::Equal),
            Some("balanced") => return Ok(ClassWeights::Balanced),
            Some(list) if list.contains('=') && !Path::new(list).exists() => {
                list.split(',').map(|pair| class_weight(pair, pair.rsplit_once('='))).collect::<anyhow::Result<_>>()?
            }
            Some(file) => {
                let lines = InputFile::open(Path::new(file)).and_then(|source| read_names(&source));
                let hint = "give `balanced`, `CLASS=W,..`, or a file with a class and a weight on each line";
                let lines = lines.map_err(|error| CommandError::array(&error, hint))?;
                let lines = lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
                let pair = |line: &str| class_weight(line, line.rsplit_once([' ', '\t', ',', '=']));
                lines.map(pair).collect::<anyhow::Result<_>>()?
            }
        };
        Ok(ClassWeights::Named(named))
    }
}

/// Parses a class and its weight.
fn class_weight(text: &str, pair: Option<(&str, &str)>) -> anyhow::Result<(String, f64)> {
    let parsed = pair.and_then(|(class, weight)| {
        let weight = weight.trim().parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight >= 0.0)?;
        Some((class.trim().to_owned(), weight))
    });
    parsed.filter(|(class, _)| !class.is_empty()).ok_or_else(|| {
        let failure = CommandError::usage(format!("`{text}` is not a class and its weight, a number of 0 or more"));
        failure.hint("write `--class-weight spam=5,ham=1`, or `balanced`").into()
    })
}
