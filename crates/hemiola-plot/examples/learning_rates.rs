//! Plots the final value of a metric over the learning rate: one line for each update rule.
//!
//! `cargo run -p hemiola-plot --example learning_rates -- out.svg METRIC NAME:RATE:REPORT...` reads
//! reports of `hemiola bench staleness`. A training run whose last value is not a number has
//! diverged and appears as a gap. `benchmarks/staleness.sh` calls this example.

use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel};
use std::collections::BTreeMap;

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(metric)) = (arguments.next(), arguments.next()) else {
        return Err("expected an output file, a metric, and reports as NAME:RATE:REPORT".to_owned());
    };
    let mut lines: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
    for argument in arguments {
        let mut parts = argument.splitn(3, ':');
        let (Some(name), Some(rate), Some(report)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("`{argument}`: expected NAME:RATE:REPORT"));
        };
        let rate = rate.parse().map_err(|_| format!("`{argument}`: expected a number for the learning rate"))?;
        let text = std::fs::read_to_string(report).map_err(|error| format!("cannot read `{report}`: {error}"))?;
        lines.entry(name.to_owned()).or_default().push([rate, final_value(&text, &metric)]);
    }
    let mut panel =
        ChartPanel::new(ChartAxis::new("learning rate").logarithmic(), ChartAxis::new(&metric).logarithmic());
    for (name, mut points) in lines {
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        panel = panel.line(ChartLine::new(&name, points));
    }
    let svg = Chart::new().panel(panel).picture().svg();
    std::fs::write(&path, svg).map_err(|error| format!("cannot write `{path}`: {error}"))
}

/// Value of the metric in the last epoch; NaN if the report has none.
fn final_value(report: &str, metric: &str) -> f64 {
    let report: serde_json::Value = serde_json::from_str(report).unwrap_or_default();
    let epoch = report["progress"].as_array().and_then(|progress| progress.last());
    epoch.and_then(|epoch| epoch["train"][metric].as_f64()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_the_last_epoch_is_read() {
        let report = r#"{"progress": [{"train": {"rmse": 2.0}}, {"train": {"rmse": 0.5}}]}"#;
        assert!((final_value(report, "rmse") - 0.5).abs() < 1e-12);
        assert!(final_value(r#"{"progress": [{"train": {"rmse": null}}]}"#, "rmse").is_nan());
        assert!(final_value("", "rmse").is_nan());
    }
}
