//! `hemiola coefficients`: what a sparse regression has found, by the names of its features.

use super::serving::{ModelArgs, ModelFamily};
use crate::error::CommandError;
use crate::plural::counted;
use clap::Args;
use hemiola_models::sparse::SparseModel;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The arguments of `hemiola coefficients`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola coefficients --model model
  hemiola coefficients --model model -k 10
  hemiola coefficients --model model --report coefficients.json

Coefficients are in the units of the data, the largest first. Features go by the names in the first line of separated values, or by their number, from 1.")]
pub(crate) struct CoefficientsArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Only so many, the largest. Default: all that are not 0.
    #[arg(short, long, value_name = "N")]
    k: Option<usize>,
}

/// What comes out for programs.
#[derive(Debug, Serialize)]
struct CoefficientReport {
    intercept: f64,
    lambda: f64,
    features: u64,
    coefficients: Vec<CoefficientRow>,
}

#[derive(Debug, Serialize)]
struct CoefficientRow {
    name: String,
    value: f64,
}

impl CoefficientsArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if self.common.kind()? != ModelFamily::Sparse {
            let message = format!("`{}` has no coefficients to list", self.common.model.display());
            let hint =
                "`hemiola coefficients` is for models of `train lasso`, `elastic-net` and `logistic --penalty l1`";
            return Err(CommandError::usage(message).hint(hint).into());
        }
        self.common.with_sparse(|_, model| {
            let found = found(model, self.k);
            self.common.write(&text(&found, model.coefficients.len()), &found)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn found(model: &SparseModel, most: Option<usize>) -> CoefficientReport {
    let mut coefficients: Vec<CoefficientRow> =
        model.named().map(|(name, value)| CoefficientRow { name, value }).collect();
    coefficients.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
    coefficients.truncate(most.unwrap_or(usize::MAX));
    CoefficientReport { intercept: model.intercept, lambda: model.lambda, features: model.columns, coefficients }
}

fn text(found: &CoefficientReport, all: usize) -> String {
    let mut text =
        format!("{} of {} not 0, lambda {:.6}\n", counted(all as u64, "coefficient"), found.features, found.lambda);
    let names = || found.coefficients.iter().map(|coefficient| coefficient.name.chars().count());
    let width = names().max().unwrap_or(0).max("intercept".len());
    let mut line = |name: &str, value: f64| {
        let _ = writeln!(text, "{name:<width$}  {value:>14.6}");
    };
    line("intercept", found.intercept);
    for CoefficientRow { name, value } in &found.coefficients {
        line(name, *value);
    }
    text
}
