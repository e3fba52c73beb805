//! `hemiola coefficients`: lists the coefficients of a sparse regression by feature name.

use super::serving::{ModelArgs, ModelFamily};
use crate::error::CommandError;
use crate::plural::counted;
use clap::Args;
use hemiola_models::Predictor;
use hemiola_models::sparse::SparseModel;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Arguments of `hemiola coefficients`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  hemiola coefficients --model model
  hemiola coefficients --model model -k 10
  hemiola coefficients --model model --report coefficients.json

Coefficients are in the units of the data, the largest first. Features have the names in the header of separated values, or \
their number, from 1.")]
pub(crate) struct CoefficientsArgs {
    #[command(flatten)]
    common: ModelArgs,

    /// Number of coefficients to list, the largest first [default: all nonzero ones]
    #[arg(short, long, value_name = "N")]
    k: Option<usize>,
}

/// Report of `hemiola coefficients`.
#[derive(Debug, Serialize)]
struct CoefficientReport {
    intercept: f64,
    lambda: f64,
    features: usize,
    coefficients: Vec<CoefficientRow>,
}

#[derive(Debug, Serialize)]
struct CoefficientRow {
    name: String,
    value: f64,
}

impl CoefficientsArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        if self.common.family()? != ModelFamily::Sparse {
            let message = format!("`{}` has no coefficients to list", self.common.model.display());
            let hint =
                "`hemiola coefficients` is for models of `train lasso`, `elastic-net` and `logistic --penalty l1`";
            return Err(CommandError::usage(message).hint(hint).into());
        }
        self.common.with_model(SparseModel::load, |_, model| {
            let report = largest(model, self.k);
            self.common.write(&text(&report, model.coefficients.len()), &report)
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

fn largest(model: &SparseModel, limit: Option<usize>) -> CoefficientReport {
    let mut coefficients: Vec<CoefficientRow> =
        model.named().map(|(name, value)| CoefficientRow { name, value }).collect();
    coefficients.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
    coefficients.truncate(limit.unwrap_or(usize::MAX));
    CoefficientReport { intercept: model.intercept, lambda: model.lambda, features: model.columns, coefficients }
}

fn text(report: &CoefficientReport, all: usize) -> String {
    let mut text =
        format!("{} of {} nonzero, lambda {:.6}\n", counted(all, "coefficient"), report.features, report.lambda);
    let names = || report.coefficients.iter().map(|coefficient| coefficient.name.chars().count());
    let width = names().max().unwrap_or(0).max("intercept".len());
    let mut line = |name: &str, value: f64| {
        let _ = writeln!(text, "{name:<width$}  {value:>14.6}");
    };
    line("intercept", report.intercept);
    for CoefficientRow { name, value } in &report.coefficients {
        line(name, *value);
    }
    text
}
