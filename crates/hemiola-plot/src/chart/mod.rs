//! Charts of lines: what is shown, not how. `draw.rs` lays it out on a picture, `terminal.rs` with characters.
//!
//! Lines with the same label, on whatever panels, are the same series: they share their look and their place in the legend.
//! Points that are not numbers, or not positive on a logarithmic axis, are gaps in their line.

mod draw;
mod terminal;

use crate::picture::{Picture, printable};
use crate::scale::Scale;

/// One or several panels with a title and a legend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    title: String,
    panels: Vec<Panel>,
    columns: usize,
    labels: Labels,
    mark: String,
}

/// Where lines are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// Above all panels.
    #[default]
    Legend,
    /// At the right of each panel, near the ends of its lines. For few lines with short names.
    Ends,
}

/// Lines over two axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    x: Axis,
    y: Axis,
    lines: Vec<Line>,
}

/// What one direction of a panel stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    label: String,
    logarithmic: bool,
    whole: bool,
    zero: bool,
}

/// Points that are joined, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    label: String,
    points: Vec<[f64; 2]>,
    band: Vec<[f64; 2]>,
    mark: Option<usize>,
    series: Option<usize>,
    thin: bool,
}

impl Chart {
    /// An empty chart.
    #[must_use]
    pub fn new() -> Self {
        Self { columns: 2, ..Self::default() }
    }

    /// Writes something above it.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = printable(title);
        self
    }

    /// Adds a panel.
    #[must_use]
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// How many panels are side by side; 2 unless told.
    #[must_use]
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.max(1);
        self
    }

    /// Where lines are named.
    #[must_use]
    pub fn labels(mut self, labels: Labels) -> Self {
        self.labels = labels;
        self
    }

    /// What a marked point is, for the legend.
    #[must_use]
    pub fn mark(mut self, meaning: &str) -> Self {
        self.mark = printable(meaning);
        self
    }

    /// The chart as a picture.
    #[must_use]
    pub fn picture(&self) -> Picture {
        draw::draw(self)
    }

    /// The chart in characters, `width` of them in each line, one panel below the other.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        terminal::draw(self, width)
    }

    /// All series: a line of each, with its number, in the order in which they first appear.
    fn series(&self) -> Vec<(usize, &Line)> {
        let mut all: Vec<(usize, &Line)> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            if !all.iter().any(|(_, known)| known.label == line.label) {
                all.push((line.series.unwrap_or(all.len()), line));
            }
        }
        all
    }

    /// The number of the series that a line belongs to.
    fn number(&self, line: &Line) -> usize {
        let series = self.series();
        let found = series.iter().find(|(_, known)| known.label == line.label);
        found.map_or(0, |(number, _)| *number)
    }
}

impl Panel {
    /// An empty panel.
    #[must_use]
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, lines: Vec::new() }
    }

    /// Adds a line.
    #[must_use]
    pub fn line(mut self, line: Line) -> Self {
        self.lines.push(line);
        self
    }

    /// Where values lie from left to right, and from bottom to top.
    fn scales(&self) -> (Scale, Scale) {
        // A point is seen only if both of its coordinates can be.
        let blank = |axis: &Axis| Scale::of([], axis.logarithmic);
        let (x, y) = (blank(&self.x), blank(&self.y));
        let seen = || self.lines.iter().flat_map(|line| &line.points).filter(move |[a, b]| x.shows(*a) && y.shows(*b));
        let band = self.lines.iter().flat_map(|line| line.band.iter().flatten());
        let across = Scale::of(seen().map(|[x, _]| *x), self.x.logarithmic);
        let up = Scale::of(seen().map(|[_, y]| y).chain(band).copied(), self.y.logarithmic).padded(0.06);
        let finish = |axis: &Axis, scale: Scale| {
            let scale = if axis.zero { scale.from_zero() } else { scale };
            if axis.whole { scale.whole() } else { scale }
        };
        (finish(&self.x, across), finish(&self.y, up))
    }
}

impl Axis {
    /// A linear axis.
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self { label: printable(label), logarithmic: false, whole: false, zero: false }
    }

    /// Equal factors are equally far apart.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self { logarithmic: true, ..self }
    }

    /// Labelled at whole numbers alone: things that are counted.
    #[must_use]
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Begins at 0, if it is linear and nothing is negative.
    #[must_use]
    pub fn from_zero(self) -> Self {
        Self { zero: true, ..self }
    }
}

impl Line {
    /// A line through these points, x first.
    pub fn new(label: &str, points: impl IntoIterator<Item = [f64; 2]>) -> Self {
        let points = points.into_iter().collect();
        Self { label: printable(label), points, band: Vec::new(), mark: None, series: None, thin: false }
    }

    /// A low and a high value for each point: an area around the line.
    #[must_use]
    pub fn band(mut self, band: impl IntoIterator<Item = [f64; 2]>) -> Self {
        self.band = band.into_iter().collect();
        self
    }

    /// Marks the point of this number.
    #[must_use]
    pub fn mark(mut self, point: usize) -> Self {
        self.mark = Some(point);
        self
    }

    /// Colour and dashes of this number, in place of those of its order.
    #[must_use]
    pub fn series(mut self, number: usize) -> Self {
        self.series = Some(number);
        self
    }

    /// Less heavy than the others: an aside.
    #[must_use]
    pub fn thin(mut self) -> Self {
        self.thin = true;
        self
    }
}
