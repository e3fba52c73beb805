//! Pictures for notebooks.

use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Line of a chart: its label and its points.
type LabelledPoints = (String, Vec<[f64; 2]>);

/// Draws lines over axes; returns the picture as SVG, as PNG, and as text for a terminal.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn draw_chart<'py>(
    py: Python<'py>,
    title: &str,
    x: &str,
    y: &str,
    lines: Vec<LabelledPoints>,
) -> PyResult<(String, Bound<'py, PyBytes>, String)> {
    let panel = ChartPanel::new(ChartAxis::new(x).integer_ticks(), ChartAxis::new(y));
    let panel =
        lines.iter().fold(panel, |panel, (label, points)| panel.line(ChartLine::new(label, points.iter().copied())));
    let chart = Chart::new().title(title).panel(panel);
    let picture = chart.picture();
    let png = picture.png(ColorScheme::Light, 2.0).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((picture.svg(), PyBytes::new(py, &png), chart.text(80)))
}
