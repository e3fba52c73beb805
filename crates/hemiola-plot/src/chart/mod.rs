//! Line charts as data. `draw.rs` lays a chart out on a picture, `terminal.rs` with characters.
//!
//! Lines with the same label, on any panels, are one series: they share their style and their entry
//! in the legend. Points that are NaN or infinite, or not positive on a logarithmic axis, are gaps
//! in their line.

mod draw;
mod terminal;

use crate::picture::{Picture, printable};
use crate::scale::AxisScale;

/// One or several panels with a title and a legend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    title: String,
    panels: Vec<ChartPanel>,
    columns: usize,
    labels: LegendPlacement,
    mark: String,
    frame_height: Option<f64>,
}

/// Placement of the names of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LegendPlacement {
    /// In a legend above all panels.
    #[default]
    Legend,
    /// At the right of each panel, near the ends of its lines. For few lines with short names.
    LineEnds,
}

/// Lines over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartPanel {
    x: ChartAxis,
    y: ChartAxis,
    lines: Vec<ChartLine>,
    rules: Vec<(f64, String)>,
    /// Values that the horizontal axis covers besides those of lines and rules.
    included: Vec<f64>,
}

/// Horizontal or vertical axis of a panel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own, set by a method")]
pub struct ChartAxis {
    label: String,
    logarithmic: bool,
    whole: bool,
    zero: bool,
    reversed: bool,
}

/// Points connected in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    label: String,
    points: Vec<[f64; 2]>,
    band: Vec<[f64; 2]>,
    mark: Option<usize>,
    series: Option<usize>,
    thin: bool,
    muted: bool,
}

impl Chart {
    /// Creates an empty chart.
    #[must_use]
    pub fn new() -> Self {
        Self { columns: 2, ..Self::default() }
    }

    /// Sets the title above the panels.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = printable(title);
        self
    }

    /// Adds a panel after the others.
    #[must_use]
    pub fn panel(mut self, panel: ChartPanel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Sets the number of panels side by side. Defaults to 2.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.max(1);
        self
    }

    /// Sets the placement of the names of lines.
    #[must_use]
    pub fn labels(mut self, labels: LegendPlacement) -> Self {
        self.labels = labels;
        self
    }

    /// Sets the meaning of marked points, for the legend.
    #[must_use]
    pub fn mark(mut self, meaning: &str) -> Self {
        self.mark = printable(meaning);
        self
    }

    /// Sets the height of a panel's frame in units. Defaults to 250.
    #[must_use]
    pub fn frame_height(mut self, height: f64) -> Self {
        self.frame_height = Some(height.max(50.0));
        self
    }

    /// Draws the chart as a picture.
    #[must_use]
    pub fn picture(&self) -> Picture {
        draw::draw(self)
    }

    /// Draws the chart in characters, `width` of them per line, one panel below the other.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        terminal::draw(self, width)
    }

    /// All series: the first line of each, with its number, in order of appearance.
    fn series(&self) -> Vec<(usize, &ChartLine)> {
        let mut all: Vec<(usize, &ChartLine)> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            if !all.iter().any(|(_, known)| known.label == line.label) {
                all.push((line.series.unwrap_or(all.len()), line));
            }
        }
        all
    }

    /// Number of the series that a line belongs to.
    fn number(&self, line: &ChartLine) -> usize {
        let series = self.series();
        let found = series.iter().find(|(_, known)| known.label == line.label);
        found.map_or(0, |(number, _)| *number)
    }
}

impl ChartPanel {
    /// Creates an empty panel.
    #[must_use]
    pub fn new(x: ChartAxis, y: ChartAxis) -> Self {
        Self { x, y, lines: Vec::new(), rules: Vec::new(), included: Vec::new() }
    }

    /// Adds a line, drawn over earlier ones.
    #[must_use]
    pub fn line(mut self, line: ChartLine) -> Self {
        self.lines.push(line);
        self
    }

    /// Adds a vertical line at a value of the horizontal axis, with a label.
    #[must_use]
    pub fn rule(mut self, x: f64, label: &str) -> Self {
        self.rules.push((x, printable(label)));
        self
    }

    /// Extends the horizontal axis to these values, so that panels below each other agree.
    #[must_use]
    pub fn including_x(mut self, values: impl IntoIterator<Item = f64>) -> Self {
        self.included.extend(values);
        self
    }

    /// Scales of the horizontal and of the vertical axis.
    fn scales(&self) -> (AxisScale, AxisScale) {
        // A point is visible only if both of its coordinates are.
        let blank = |axis: &ChartAxis| AxisScale::of([], axis.logarithmic);
        let (x, y) = (blank(&self.x), blank(&self.y));
        let seen =
            || self.lines.iter().flat_map(|line| &line.points).filter(move |[a, b]| x.can_show(*a) && y.can_show(*b));
        let band = self.lines.iter().flat_map(|line| line.band.iter().flatten());
        let rules = self.rules.iter().map(|(x, _)| *x).chain(self.included.iter().copied());
        let across = AxisScale::of(seen().map(|[x, _]| *x).chain(rules), self.x.logarithmic);
        let up = AxisScale::of(seen().map(|[_, y]| y).chain(band).copied(), self.y.logarithmic).padded(0.06);
        let finish = |axis: &ChartAxis, scale: AxisScale| {
            let scale = if axis.zero { scale.from_zero() } else { scale };
            let scale = if axis.whole { scale.integer_ticks() } else { scale };
            if axis.reversed { scale.reversed() } else { scale }
        };
        (finish(&self.x, across), finish(&self.y, up))
    }
}

impl ChartAxis {
    /// Creates a linear axis.
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self { label: printable(label), logarithmic: false, whole: false, zero: false, reversed: false }
    }

    /// Makes the axis logarithmic.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self { logarithmic: true, ..self }
    }

    /// Labels integers only, for counts.
    #[must_use]
    pub fn integer_ticks(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Starts the axis at 0, if it is linear and no value is negative.
    #[must_use]
    pub fn from_zero(self) -> Self {
        Self { zero: true, ..self }
    }

    /// Lets the axis descend: the largest value is at its start.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { reversed: true, ..self }
    }
}

impl ChartLine {
    /// Creates a line through these `[x, y]` points.
    pub fn new(label: &str, points: impl IntoIterator<Item = [f64; 2]>) -> Self {
        let points = points.into_iter().collect();
        Self { label: printable(label), points, band: Vec::new(), mark: None, series: None, thin: false, muted: false }
    }

    /// Sets a low and a high value for each point, drawn as an area around the line.
    #[must_use]
    pub fn band(mut self, band: impl IntoIterator<Item = [f64; 2]>) -> Self {
        self.band = band.into_iter().collect();
        self
    }

    /// Marks the point with this index.
    #[must_use]
    pub fn mark(mut self, point: usize) -> Self {
        self.mark = Some(point);
        self
    }

    /// Sets the number of the series, which determines color and dashes. Defaults to the order of
    /// appearance.
    #[must_use]
    pub fn series(mut self, number: usize) -> Self {
        self.series = Some(number);
        self
    }

    /// Draws the line thinner than the others.
    #[must_use]
    pub fn thin(mut self) -> Self {
        self.thin = true;
        self
    }

    /// Draws the line thin and gray, as the background of others.
    #[must_use]
    pub fn muted(mut self) -> Self {
        self.muted = true;
        self
    }
}
