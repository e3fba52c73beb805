//! Draws what trainings came to over the steps they began with: one line for each procedure.
//!
//! `cargo run --example draw_steps -- steps.svg FIGURE NAME:STEP:REPORT...` reads reports of the examples on tables (`--report`); a training whose last figure is no number has
//! diverged, and is a gap. `benchmarks/staleness.sh` uses it.

use hemiola_plot::{Axis, Chart, Line, Panel};
use std::collections::BTreeMap;

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(figure)) = (arguments.next(), arguments.next()) else {
        return Err("expected the picture to write, a figure, and reports as NAME:STEP:REPORT".to_owned());
    };
    let mut lines: BTreeMap<String, Vec<[f64; 2]>> = BTreeMap::new();
    for argument in arguments {
        let mut parts = argument.splitn(3, ':');
        let (Some(name), Some(step), Some(report)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!("`{argument}`: expected NAME:STEP:REPORT"));
        };
        let step = step.parse().map_err(|_| format!("`{argument}`: expected a number for the step"))?;
        let text = std::fs::read_to_string(report).map_err(|error| format!("cannot read `{report}`: {error}"))?;
        lines.entry(name.to_owned()).or_default().push([step, last(&text, &figure)]);
    }
    let mut panel = Panel::new(Axis::new("first step").logarithmic(), Axis::new(&figure).logarithmic());
    for (name, mut points) in lines {
        points.sort_by(|a, b| a[0].total_cmp(&b[0]));
        panel = panel.line(Line::new(&name, points));
    }
    let svg = Chart::new().panel(panel).picture().svg();
    std::fs::write(&path, svg).map_err(|error| format!("cannot write `{path}`: {error}"))
}

/// The figure of the last epoch; not a number if it has none.
fn last(report: &str, figure: &str) -> f64 {
    let report: serde_json::Value = serde_json::from_str(report).unwrap_or_default();
    let epoch = report["progress"].as_array().and_then(|progress| progress.last());
    epoch.and_then(|epoch| epoch["train"][figure].as_f64()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_figure_is_found() {
        let report = r#"{"progress": [{"train": {"rmse": 2.0}}, {"train": {"rmse": 0.5}}]}"#;
        assert!((last(report, "rmse") - 0.5).abs() < 1e-12);
        assert!(last(r#"{"progress": [{"train": {"rmse": null}}]}"#, "rmse").is_nan());
        assert!(last("", "rmse").is_nan());
    }
}
