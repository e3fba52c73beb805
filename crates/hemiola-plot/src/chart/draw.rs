//! Layout of a chart on a picture.
//!
//! From top to bottom: title, legend, rows of panels. Each panel has the name of its vertical axis
//! above it, which is easier to read than rotated text, and the name of its horizontal axis below.
//! Labels are measured first, so that nothing overlaps and the frames of a column are aligned.

use super::{Chart, ChartLine, ChartPanel, LegendPlacement};
use crate::color::{ColorRole, DashPattern};
use crate::layout::{GAP, GROUP_GAP, LABEL_SIZE, MARGIN, TICK_SIZE, baseline, draw_title, title_height};
use crate::picture::{Coordinates, Picture, StrokeStyle, TextAnchor, TextStyle};
use crate::scale::AxisScale;
use crate::ticks::AxisTick;

/// Height of a row of the legend.
const LEGEND_ROW_HEIGHT: f64 = 20.0;
/// Length of the line sample beside a name.
const SAMPLE_WIDTH: f64 = 30.0;
/// Default height of a frame.
const FRAME_HEIGHT: f64 = 250.0;

/// Width of a picture by its number of columns.
fn width(columns: usize) -> f64 {
    if columns == 1 { 680.0 } else { 440.0 * columns as f64 }
}

pub(super) fn draw(chart: &Chart) -> Picture {
    let columns = chart.columns.min(chart.panels.len()).max(1);
    let rows = chart.panels.len().div_ceil(columns).max(1);
    let width = width(columns);
    let legend = ChartLegend::of(chart, width);
    let title = title_height(&chart.title);
    let frame_height = chart.frame_height.unwrap_or(FRAME_HEIGHT);
    let panel_height = LABEL_SIZE + 12.0 + frame_height + TICK_SIZE + LABEL_SIZE + 20.0;
    let row_height = panel_height + GROUP_GAP;
    let height = MARGIN + title + legend.height() + row_height * rows as f64 - GROUP_GAP + MARGIN;
    let mut picture = Picture::new(width, height);
    picture.set_title(&describe(chart));
    draw_title(&mut picture, &chart.title);
    legend.draw(&mut picture, MARGIN + title);
    let cell = (width - 2.0 * MARGIN + GROUP_GAP) / columns as f64;
    let measured: Vec<PanelLayout<'_>> = chart.panels.iter().map(|panel| PanelLayout::of(chart, panel)).collect();
    for (number, panel) in measured.iter().enumerate() {
        let (row, column) = (number / columns, number % columns);
        let flush = |measure: &dyn Fn(&PanelLayout<'_>) -> f64| {
            measured.iter().skip(column).step_by(columns).map(measure).fold(0.0, f64::max)
        };
        let left = MARGIN + cell * column as f64;
        let top = MARGIN + title + legend.height() + row_height * row as f64 + LABEL_SIZE + 12.0;
        let right = left + cell - GROUP_GAP - flush(&|panel| panel.names_width);
        let area =
            PlotArea { left: left + flush(&|panel| panel.ticks_width) + GAP, right, top, bottom: top + frame_height };
        panel.draw(&mut picture, area, left);
    }
    picture
}

/// Describes the chart in a sentence, for screen readers.
fn describe(chart: &Chart) -> String {
    let panels: Vec<String> =
        chart.panels.iter().map(|panel| format!("{} against {}", panel.y.label, panel.x.label)).collect();
    let names: Vec<&str> = chart.series().iter().map(|(_, line)| line.label.as_str()).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    let title = if chart.title.is_empty() { String::new() } else { format!("{}: ", chart.title) };
    format!("{title}{}; {}", panels.join(", "), names.join(", "))
}

fn line_stroke(number: usize, line: &ChartLine) -> StrokeStyle {
    if line.muted {
        return StrokeStyle::new(ColorRole::Muted, 1.0).opacity(0.5);
    }
    let stroke = StrokeStyle::new(ColorRole::Series(number), if line.thin { 1.2 } else { 2.2 })
        .dash(DashPattern::of_series(number));
    if line.thin { stroke.opacity(0.75) } else { stroke }
}

fn marker(picture: &mut Picture, at: Coordinates, color: ColorRole) {
    picture.circle(at, 5.0, color, Some(StrokeStyle::new(ColorRole::Background, 1.6)));
}

fn name_style() -> TextStyle {
    TextStyle::new(LABEL_SIZE, ColorRole::Text)
}

/// Names of series above the panels, in rows.
struct ChartLegend {
    entries: Vec<LegendEntry>,
    rows: usize,
}

struct LegendEntry {
    left: f64,
    row: usize,
    name: String,
    /// Line sample; `None` for the marked point.
    sample: Option<StrokeStyle>,
}

impl ChartLegend {
    fn of(chart: &Chart, width: f64) -> Self {
        let widest = width - 2.0 * MARGIN - SAMPLE_WIDTH - GAP;
        let mut wanted: Vec<(String, Option<StrokeStyle>)> = Vec::new();
        if chart.labels == LegendPlacement::Legend {
            let named = chart.series().into_iter().filter(|(_, line)| !line.label.is_empty());
            wanted.extend(named.map(|(number, line)| (line.label.clone(), Some(line_stroke(number, line)))));
        }
        if !chart.mark.is_empty() && chart.panels.iter().flat_map(|panel| &panel.lines).any(|line| line.mark.is_some())
        {
            wanted.push((chart.mark.clone(), None));
        }
        // Even a long name leaves room for a second one beside it.
        let limit = if wanted.len() > 1 { widest / 2.0 - SAMPLE_WIDTH - GAP } else { widest };
        let (mut left, mut row) = (MARGIN, 0);
        let mut entries = Vec::new();
        for (name, sample) in wanted {
            let name = name_style().truncate(&name, limit);
            let taken = sample.map_or(10.0, |_| SAMPLE_WIDTH) + GAP + name_style().width(&name);
            if left > MARGIN && left + taken > width - MARGIN {
                (left, row) = (MARGIN, row + 1);
            }
            entries.push(LegendEntry { left, row, name, sample });
            left += taken + GROUP_GAP;
        }
        let rows = if entries.is_empty() { 0 } else { row + 1 };
        Self { entries, rows }
    }

    fn height(&self) -> f64 {
        if self.rows == 0 { 0.0 } else { self.rows as f64 * LEGEND_ROW_HEIGHT + 10.0 }
    }

    fn draw(&self, picture: &mut Picture, top: f64) {
        for entry in &self.entries {
            let y = top + (entry.row as f64 + 0.5) * LEGEND_ROW_HEIGHT;
            let right = if let Some(stroke) = entry.sample {
                picture.line([[entry.left, y], [entry.left + SAMPLE_WIDTH, y]], stroke);
                entry.left + SAMPLE_WIDTH
            } else {
                marker(picture, [entry.left + 5.0, y], ColorRole::Muted);
                entry.left + 10.0
            };
            picture.text([right + GAP, baseline(y, LABEL_SIZE)], &entry.name, name_style());
        }
    }
}

/// Rectangle of a panel's frame.
#[derive(Clone, Copy)]
struct PlotArea {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A panel with its measured labels.
struct PanelLayout<'a> {
    chart: &'a Chart,
    panel: &'a ChartPanel,
    x: AxisScale,
    y: AxisScale,
    y_ticks: Vec<AxisTick>,
    ticks_width: f64,
    /// Width of the names at the ends of lines.
    names_width: f64,
}

impl<'a> PanelLayout<'a> {
    fn of(chart: &'a Chart, panel: &'a ChartPanel) -> Self {
        let (x, y) = panel.scales();
        let y_ticks = y.ticks(7);
        let style = TextStyle::new(TICK_SIZE, ColorRole::Muted);
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let ticks_width = widest(&mut y_ticks.iter().map(|tick| style.width(&tick.label)));
        let names_width = match chart.labels {
            LegendPlacement::Legend => 0.0,
            LegendPlacement::LineEnds => {
                let names = &mut panel.lines.iter().map(|line| name_style().width(&line.label));
                match widest(names).min(200.0) {
                    0.0 => 0.0,
                    widest => widest + SAMPLE_WIDTH + 2.0 * GAP,
                }
            }
        };
        Self { chart, panel, x, y, y_ticks, ticks_width, names_width }
    }

    fn draw(&self, picture: &mut Picture, area: PlotArea, left: f64) {
        self.axes(picture, area, left);
        self.rules(picture, area);
        // Areas first, so that they cover no line. Then lines in their order: if two coincide, the
        // solid one comes first and shows through the gaps of the dashed one.
        for line in &self.panel.lines {
            self.band(picture, area, line);
        }
        for line in &self.panel.lines {
            self.line(picture, area, line);
        }
        for line in &self.panel.lines {
            let marked =
                line.mark.and_then(|point| line.points.get(point)).and_then(|point| self.position(area, *point));
            if let Some(at) = marked {
                marker(picture, at, ColorRole::Series(self.chart.number(line)));
            }
        }
        if self.chart.labels == LegendPlacement::LineEnds {
            self.names(picture, area);
        }
    }

    fn axes(&self, picture: &mut Picture, area: PlotArea, left: f64) {
        let PlotArea { left: start, right, top, bottom } = area;
        let small = TextStyle::new(TICK_SIZE, ColorRole::Muted);
        let label = TextStyle::new(LABEL_SIZE, ColorRole::Text);
        picture.text([left, top - 12.0], &label.truncate(&self.panel.y.label, right - left), label);
        for tick in &self.y_ticks {
            let y = bottom - (bottom - top) * self.y.position(tick.value);
            picture.line([[start, y], [right, y]], StrokeStyle::new(ColorRole::Grid, 1.0));
            picture.text([start - GAP, baseline(y, TICK_SIZE)], &tick.label, small.anchor(TextAnchor::End));
        }
        picture.line([[start, bottom], [right, bottom]], StrokeStyle::new(ColorRole::Muted, 1.0));
        for tick in self.x_ticks(right - start, small) {
            let x = start + (right - start) * self.x.position(tick.value);
            picture.line([[x, bottom], [x, bottom + 4.0]], StrokeStyle::new(ColorRole::Muted, 1.0));
            // Text beyond the margin would be cut off.
            let middle = x.min(right + MARGIN - small.width(&tick.label) / 2.0);
            picture.text([middle, bottom + 6.0 + TICK_SIZE], &tick.label, small.anchor(TextAnchor::Middle));
        }
        let middle = label.anchor(TextAnchor::Middle);
        let at = [f64::midpoint(start, right), bottom + TICK_SIZE + LABEL_SIZE + 13.0];
        picture.text(at, &middle.truncate(&self.panel.x.label, right - start), middle);
    }

    /// Draws vertical lines, with their labels at the top of the frame.
    fn rules(&self, picture: &mut Picture, area: PlotArea) {
        let style = TextStyle::new(TICK_SIZE, ColorRole::Muted);
        let stroke = StrokeStyle::new(ColorRole::Muted, 1.2).dash(DashPattern::Dashed);
        for (value, label) in self.panel.rules.iter().filter(|(value, _)| self.x.can_show(*value)) {
            let x = area.left + (area.right - area.left) * self.x.position(*value);
            picture.line([[x, area.top], [x, area.bottom]], stroke);
            // The label is at the side with more room, beside the name of the vertical axis.
            let (room, after) = [(area.right - x, true), (x - area.left, false)]
                .into_iter()
                .reduce(|a, b| if b.0 > a.0 { b } else { a })
                .unwrap_or_default();
            let label = style.truncate(label, room - GAP);
            let (at, anchor) = if after { (x + 5.0, TextAnchor::Start) } else { (x - 5.0, TextAnchor::End) };
            picture.text([at, area.top + TICK_SIZE], &label, style.anchor(anchor));
        }
    }

    /// Returns as many ticks as fit beside each other.
    fn x_ticks(&self, width: f64, style: TextStyle) -> Vec<AxisTick> {
        let fits = |ticks: &Vec<AxisTick>| {
            let ends = ticks.iter().map(|tick| (self.x.position(tick.value) * width, style.width(&tick.label) / 2.0));
            let ends: Vec<[f64; 2]> = ends.map(|(at, half)| [at - half, at + half]).collect();
            ends.windows(2).all(|pair| pair[0][1] + 8.0 < pair[1][0])
        };
        (2..=8).rev().map(|most| self.x.ticks(most)).find(fits).unwrap_or_default()
    }

    fn position(&self, area: PlotArea, [x, y]: [f64; 2]) -> Option<Coordinates> {
        let shown = self.x.can_show(x) && self.y.can_show(y);
        let at = || {
            let across = area.left + (area.right - area.left) * self.x.position(x);
            [across, area.bottom - (area.bottom - area.top) * self.y.position(y)]
        };
        shown.then(at)
    }

    fn line(&self, picture: &mut Picture, area: PlotArea, line: &ChartLine) {
        let stroke = line_stroke(self.chart.number(line), line);
        let positions: Vec<Option<Coordinates>> = line.points.iter().map(|point| self.position(area, *point)).collect();
        for piece in positions.split(Option::is_none) {
            let piece: Vec<Coordinates> = piece.iter().flatten().copied().collect();
            match piece.as_slice() {
                [] => {}
                [alone] => picture.circle(*alone, stroke.width * 1.2, stroke.color, None),
                _ => picture.line(decimate(&piece), stroke),
            }
        }
    }

    fn band(&self, picture: &mut Picture, area: PlotArea, line: &ChartLine) {
        let edges = line
            .points
            .iter()
            .zip(&line.band)
            .map(|([x, _], [low, high])| self.position(area, [*x, *low]).zip(self.position(area, [*x, *high])));
        let edges: Vec<Option<(Coordinates, Coordinates)>> = edges.collect();
        for piece in edges.split(Option::is_none).filter(|piece| piece.len() > 1) {
            let (low, high): (Vec<Coordinates>, Vec<Coordinates>) = piece.iter().flatten().copied().unzip();
            let around: Vec<Coordinates> =
                decimate(&low).into_iter().chain(decimate(&high).into_iter().rev()).collect();
            picture.polygon(around, ColorRole::Series(self.chart.number(line)), 0.18);
        }
    }

    /// Draws names beside the ends of lines, pushed apart where they would overlap.
    fn names(&self, picture: &mut Picture, area: PlotArea) {
        let end = |line: &'a ChartLine| {
            let at = line.points.iter().rev().find_map(|point| self.position(area, *point))?;
            Some((at[1], line))
        };
        let named = self.panel.lines.iter().filter(|line| !line.label.is_empty());
        let mut ends: Vec<(f64, &ChartLine)> = named.filter_map(end).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wanted: Vec<f64> = ends.iter().map(|(at, _)| *at).collect();
        for (y, (_, line)) in spread_apart(&wanted, LABEL_SIZE + 4.0, area.top, area.bottom).into_iter().zip(ends) {
            let left = area.right + GAP;
            picture.line([[left, y], [left + SAMPLE_WIDTH, y]], line_stroke(self.chart.number(line), line));
            let name = name_style().truncate(&line.label, 200.0);
            picture.text([left + SAMPLE_WIDTH + GAP, baseline(y, LABEL_SIZE)], &name, name_style());
        }
    }
}

/// Returns ascending positions at least `least` apart, near the wanted ones, and between the ends
/// if there is room.
fn spread_apart(wanted: &[f64], least: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut positions: Vec<f64> = wanted.to_vec();
    for at in 1..positions.len() {
        positions[at] = positions[at].max(positions[at - 1] + least);
    }
    let mut limit = bottom;
    for position in positions.iter_mut().rev() {
        *position = position.min(limit);
        limit = *position - least;
    }
    let over = top - positions.first().copied().unwrap_or(top);
    if over > 0.0 {
        positions = positions.into_iter().map(|position| position + over).collect();
    }
    positions
}

/// Reduces a line to its visible points: the first, lowest, highest and last in each unit of width.
fn decimate(points: &[Coordinates]) -> Vec<Coordinates> {
    let unit = |point: &Coordinates| point[0].floor() as i64;
    let mut kept = Vec::new();
    for piece in points.chunk_by(|a, b| unit(a) == unit(b)) {
        if piece.len() <= 4 {
            kept.extend_from_slice(piece);
            continue;
        }
        let by_height = |a: &usize, b: &usize| piece[*a][1].total_cmp(&piece[*b][1]);
        let lowest = (0..piece.len()).min_by(by_height).unwrap_or(0);
        let highest = (0..piece.len()).max_by(by_height).unwrap_or(0);
        let mut chosen = [0, lowest, highest, piece.len() - 1];
        chosen.sort_unstable();
        let mut last = None;
        for at in chosen.into_iter().filter(|at| last.replace(*at) != Some(*at)) {
            kept.push(piece[at]);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_million_points_become_a_few_thousand_with_the_same_extremes() {
        let points: Vec<Coordinates> = (0..1_000_000).map(|n| [f64::from(n) / 2000.0, f64::from(n % 1013)]).collect();
        let kept = decimate(&points);
        assert!(kept.len() <= 4 * 500 && kept.first() == points.first() && kept.last() == points.last());
        assert!((0..500).all(|unit| kept.iter().any(|[x, y]| *x as i32 == unit && *y >= 1012.0)));
    }

    proptest! {
        #[test]
        fn names_do_not_overlap_and_stay_inside(mut wanted in proptest::collection::vec(0.0..100.0f64, 0..6)) {
            wanted.sort_by(f64::total_cmp);
            let positions = spread_apart(&wanted, 15.0, 0.0, 100.0);
            prop_assert!(positions.windows(2).all(|pair| pair[1] - pair[0] >= 15.0 - 1e-9));
            prop_assert!(positions.iter().all(|position| (-1e-9..=100.0 + 1e-9).contains(position)), "{positions:?}");
        }
    }
}
