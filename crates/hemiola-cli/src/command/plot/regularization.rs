//! Regularization path: coefficients, and the cross-validated loss, against the penalty.
//!
//! The penalty descends to the right, so that coefficients appear from left to right as in the
//! lasso literature, and their names stand where they are largest.

use super::PlotArgs;
use super::report_file::PlottedRun;
use crate::error::CommandError;
use crate::plural::counted;
use hemiola_models::sparse::{CoefficientPath, CrossValidation, FeaturePath, RegularizationReport};
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel, LegendPlacement};

/// Number of features with a name and a color; others are gray.
const NAMED_FEATURES: usize = 10;
const FRAME_HEIGHT: f64 = 320.0;

impl PlotArgs {
    /// Plots the regularization path of a run.
    pub(super) fn regularization(&self, run: &PlottedRun) -> anyhow::Result<Chart> {
        let missing = |what: &str| {
            let hint = "train with `hemiola train lasso --regularization-path --report FILE`, or with --folds for the \
                        cross-validated loss";
            CommandError::usage(format!("`{}` has no {what}", run.label)).hint(hint)
        };
        let Some(regularization) = &run.regularization else {
            return Err(missing("regularization path: it is no report of a sparse regression").into());
        };
        let mut chart = Chart::new().columns(1).labels(LegendPlacement::LineEnds).frame_height(FRAME_HEIGHT);
        if let Some(title) = &self.title {
            chart = chart.title(title);
        }
        let mut panels = 0;
        if let Some(path) = regularization.path.as_ref().filter(|path| !path.coefficients.is_empty()) {
            // Both panels have one axis. A path may end before its last penalty.
            let penalties =
                regularization.cross_validation.iter().flat_map(|validation| validation.lambdas.iter().copied());
            chart = chart.panel(coefficients(regularization, path).including_x(penalties));
            panels += 1;
        }
        if let Some(validation) = &regularization.cross_validation {
            let penalties = regularization.path.iter().flat_map(|path| path.lambdas.iter().copied());
            chart = chart.panel(losses(regularization, validation, &run.model).including_x(penalties));
            panels += 1;
        }
        match (panels, &regularization.path) {
            (0, Some(_)) => Err(missing("coefficient to plot: all are 0 for every lambda").into()),
            (0, None) => Err(missing("regularization path").into()),
            _ => Ok(chart),
        }
    }
}

fn axis() -> ChartAxis {
    ChartAxis::new("lambda (regularization strength)").logarithmic().reversed()
}

fn coefficients(chosen: &RegularizationReport, path: &CoefficientPath) -> ChartPanel {
    let shown = path.coefficients.len();
    let label = match path.features {
        all if all == shown => counted(all, "nonzero coefficient"),
        all => format!("the {shown} largest of {all} nonzero coefficients"),
    };
    let panel = ChartPanel::new(axis(), ChartAxis::new(&label)).rule(chosen.lambda, &rule(chosen));
    // Gray lines come first, so that they do not cover the named ones.
    let (named, others) = path.coefficients.split_at(shown.min(NAMED_FEATURES));
    let gray = |feature: &FeaturePath| ChartLine::new("", points(&path.lambdas, feature)).muted();
    let panel = others.iter().fold(panel, |panel, feature| panel.line(gray(feature)));
    named.iter().enumerate().fold(panel, |panel, (number, feature)| {
        panel.line(ChartLine::new(&label_of(&feature.name), points(&path.lambdas, feature)).series(number))
    })
}

/// Returns the label of a feature, which may have a number for a name.
fn label_of(name: &str) -> String {
    if name.parse::<u64>().is_ok() { format!("feature {name}") } else { name.to_owned() }
}

/// Returns the points of a feature from the last penalty before its coefficient appears.
fn points(lambdas: &[f64], feature: &FeaturePath) -> Vec<[f64; 2]> {
    let first = feature.values.iter().position(|value| *value != 0.0).unwrap_or(0).saturating_sub(1);
    let points = lambdas.iter().zip(&feature.values).map(|(lambda, value)| [*lambda, *value]);
    points.skip(first).collect()
}

fn losses(chosen: &RegularizationReport, validation: &CrossValidation, model: &str) -> ChartPanel {
    let loss = if model == "sparse-logistic" { "log loss" } else { "mean squared error" };
    let label = format!("cross-validated {loss} (band: one standard error)");
    let points = validation.lambdas.iter().zip(&validation.mean).map(|(lambda, mean)| [*lambda, *mean]);
    let band = validation.mean.iter().zip(&validation.error).map(|(mean, error)| [mean - error, mean + error]);
    ChartPanel::new(axis(), ChartAxis::new(&label))
        .rule(chosen.lambda, &rule(chosen))
        .line(ChartLine::new("", points).band(band).series(0).mark(validation.best))
}

fn rule(chosen: &RegularizationReport) -> String {
    format!("lambda of the model: {}", short(chosen.lambda))
}

/// Formats a number with three significant digits.
fn short(number: f64) -> String {
    let digits = format!("{number:.2e}").parse::<f64>().unwrap_or(number);
    if (1e-4..1e6).contains(&digits.abs()) { digits.to_string() } else { format!("{number:.2e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([0.012_345, 1.0, 123.4, 1.5e-7].map(short), ["0.0123", "1", "123", "1.50e-7"]);
    }

    #[test]
    fn a_line_starts_where_its_coefficient_appears() {
        let feature = FeaturePath { name: "x".into(), values: vec![0.0, 0.0, 0.5, 0.0] };
        let found = points(&[4.0, 3.0, 2.0, 1.0], &feature);
        assert_eq!(found, [[3.0, 0.0], [2.0, 0.5], [1.0, 0.0]]);
    }
}
