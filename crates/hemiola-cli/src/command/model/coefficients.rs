//! `hemiola coefficients`: lists the coefficients of a regression by feature name.

use super::example_models::ExampleModelKind;
use super::serving::{ModelArgs, ModelFamily};
use crate::error::CommandError;
use crate::plural::counted;
use clap::Args;
use hemiola_models::Predictor;
use hemiola_models::ridge::RidgeModel;
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
    /// Penalty of a sparse regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    lambda: Option<f64>,
    /// Penalty of a ridge regression.
    #[serde(skip_serializing_if = "Option::is_none")]
    alpha: Option<f64>,
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
        match self.common.family()? {
            ModelFamily::Sparse => self.common.with_model(SparseModel::load, |_, model| {
                let penalty = (Some(model.lambda), None);
                self.print(model.intercept, penalty, model.columns, model.named())
            })?,
            ModelFamily::Examples(ExampleModelKind::Ridge) => {
                self.common.with_model(RidgeModel::load, |_, model| {
                    let penalty = (None, Some(model.settings.alpha));
                    self.print(model.intercept, penalty, model.weights().len(), model.named())
                })?;
            }
            _ => {
                let message = format!("`{}` has no coefficients to list", self.common.model.display());
                let hint = "`hemiola coefficients` is for models of `train lasso`, `elastic-net`, `ridge` and \
                            `logistic --penalty l1`";
                return Err(CommandError::usage(message).hint(hint).into());
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints the largest coefficients, or writes the report.
    fn print(
        &self,
        intercept: f64,
        (lambda, alpha): (Option<f64>, Option<f64>),
        features: usize,
        named: impl Iterator<Item = (String, f64)>,
    ) -> anyhow::Result<()> {
        let mut coefficients: Vec<CoefficientRow> = named.map(|(name, value)| CoefficientRow { name, value }).collect();
        let all = coefficients.len();
        coefficients.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
        coefficients.truncate(self.k.unwrap_or(usize::MAX));
        let report = CoefficientReport { intercept, lambda, alpha, features, coefficients };
        self.common.write(&text(&report, all), &report)
    }
}

fn text(report: &CoefficientReport, all: usize) -> String {
    let mut text = format!("{} of {} nonzero", counted(all, "coefficient"), report.features);
    for (name, penalty) in [("lambda", report.lambda), ("alpha", report.alpha)] {
        if let Some(penalty) = penalty {
            let _ = write!(text, ", {name} {penalty:.6}");
        }
    }
    text.push('\n');
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
