//! Lays a chart out on a picture.
//!
//! From top to bottom: title, legend, rows of panels. Each panel has the name of its vertical axis above it, which is easier to
//! read than turned text, and that of its horizontal axis below. Widths of labels are measured first, so that nothing overlaps
//! and the frames of a column are flush.

use super::{Chart, Labels, Line, Panel};
use crate::ink::{Dash, Ink};
use crate::picture::{Anchor, Lettering, Pen, Picture, Point};
use crate::scale::Scale;
use crate::ticks::Tick;

const MARGIN: f64 = 18.0;
const TITLE: f64 = 16.0;
const LABEL: f64 = 12.0;
const TICK: f64 = 11.0;
/// The height of a line of the legend.
const ROW: f64 = 20.0;
/// The piece of line beside a name.
const SAMPLE: f64 = 30.0;
/// Between things that belong together.
const GAP: f64 = 7.0;
/// Between things that do not.
const SPACE: f64 = 22.0;
const FRAME_HEIGHT: f64 = 250.0;

/// The width of a picture by its columns.
fn width(columns: usize) -> f64 {
    if columns == 1 { 680.0 } else { 440.0 * columns as f64 }
}

pub(super) fn draw(chart: &Chart) -> Picture {
    let columns = chart.columns.min(chart.panels.len()).max(1);
    let rows = chart.panels.len().div_ceil(columns).max(1);
    let width = width(columns);
    let legend = Legend::of(chart, width);
    let title = if chart.title.is_empty() { 0.0 } else { TITLE + 14.0 };
    let panel_height = LABEL + 12.0 + FRAME_HEIGHT + TICK + LABEL + 20.0;
    let row_height = panel_height + SPACE;
    let height = MARGIN + title + legend.height() + row_height * rows as f64 - SPACE + MARGIN;
    let mut picture = Picture::new(width, height);
    picture.set_title(&describe(chart));
    if !chart.title.is_empty() {
        let lettering = Lettering::new(TITLE, Ink::Text).bold();
        picture.text([MARGIN, MARGIN + TITLE], &lettering.fit(&chart.title, width - 2.0 * MARGIN), lettering);
    }
    legend.draw(&mut picture, MARGIN + title);
    let cell = (width - 2.0 * MARGIN + SPACE) / columns as f64;
    let measured: Vec<Measured<'_>> = chart.panels.iter().map(|panel| Measured::of(chart, panel)).collect();
    for (number, panel) in measured.iter().enumerate() {
        let (row, column) = (number / columns, number % columns);
        let flush = |measure: &dyn Fn(&Measured<'_>) -> f64| {
            measured.iter().skip(column).step_by(columns).map(measure).fold(0.0, f64::max)
        };
        let left = MARGIN + cell * column as f64;
        let top = MARGIN + title + legend.height() + row_height * row as f64 + LABEL + 12.0;
        let right = left + cell - SPACE - flush(&|panel| panel.names_width);
        let area =
            Area { left: left + flush(&|panel| panel.ticks_width) + GAP, right, top, bottom: top + FRAME_HEIGHT };
        panel.draw(&mut picture, area, left);
    }
    picture
}

/// The chart in a sentence, for those who do not see it.
fn describe(chart: &Chart) -> String {
    let panels: Vec<String> =
        chart.panels.iter().map(|panel| format!("{} against {}", panel.y.label, panel.x.label)).collect();
    let names: Vec<&str> = chart.series().iter().map(|(_, line)| line.label.as_str()).collect();
    let title = if chart.title.is_empty() { String::new() } else { format!("{}: ", chart.title) };
    format!("{title}{}; {}", panels.join(", "), names.join(", "))
}

fn pen(number: usize, line: &Line) -> Pen {
    let pen = Pen::new(Ink::Series(number), if line.thin { 1.2 } else { 2.2 }).dash(Dash::of_series(number));
    if line.thin { pen.opacity(0.75) } else { pen }
}

fn marker(picture: &mut Picture, at: Point, ink: Ink) {
    picture.circle(at, 5.0, ink, Some(Pen::new(Ink::Ground, 1.6)));
}

fn name_lettering() -> Lettering {
    Lettering::new(LABEL, Ink::Text)
}

/// The text of a line that is centred on `y`.
fn base(y: f64, size: f64) -> f64 {
    y + size * 0.36
}

/// Names of series above the panels, in rows.
struct Legend {
    entries: Vec<Entry>,
    rows: usize,
}

struct Entry {
    left: f64,
    row: usize,
    name: String,
    /// A piece of line, or a marked point.
    sample: Option<Pen>,
}

impl Legend {
    fn of(chart: &Chart, width: f64) -> Self {
        let widest = width - 2.0 * MARGIN - SAMPLE - GAP;
        let mut wanted: Vec<(String, Option<Pen>)> = Vec::new();
        if chart.labels == Labels::Legend {
            let named = chart.series().into_iter().filter(|(_, line)| !line.label.is_empty());
            wanted.extend(named.map(|(number, line)| (line.label.clone(), Some(pen(number, line)))));
        }
        if !chart.mark.is_empty() && chart.panels.iter().flat_map(|panel| &panel.lines).any(|line| line.mark.is_some())
        {
            wanted.push((chart.mark.clone(), None));
        }
        // Even a long name leaves room for a second one beside it.
        let limit = if wanted.len() > 1 { widest / 2.0 - SAMPLE - GAP } else { widest };
        let (mut left, mut row) = (MARGIN, 0);
        let mut entries = Vec::new();
        for (name, sample) in wanted {
            let name = name_lettering().fit(&name, limit);
            let taken = sample.map_or(10.0, |_| SAMPLE) + GAP + name_lettering().width(&name);
            if left > MARGIN && left + taken > width - MARGIN {
                (left, row) = (MARGIN, row + 1);
            }
            entries.push(Entry { left, row, name, sample });
            left += taken + SPACE;
        }
        let rows = if entries.is_empty() { 0 } else { row + 1 };
        Self { entries, rows }
    }

    fn height(&self) -> f64 {
        if self.rows == 0 { 0.0 } else { self.rows as f64 * ROW + 10.0 }
    }

    fn draw(&self, picture: &mut Picture, top: f64) {
        for entry in &self.entries {
            let y = top + (entry.row as f64 + 0.5) * ROW;
            let right = if let Some(pen) = entry.sample {
                picture.line([[entry.left, y], [entry.left + SAMPLE, y]], pen);
                entry.left + SAMPLE
            } else {
                marker(picture, [entry.left + 5.0, y], Ink::Muted);
                entry.left + 10.0
            };
            picture.text([right + GAP, base(y, LABEL)], &entry.name, name_lettering());
        }
    }
}

/// Where a frame is.
#[derive(Clone, Copy)]
struct Area {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

/// A panel whose labels have been measured.
struct Measured<'a> {
    chart: &'a Chart,
    panel: &'a Panel,
    x: Scale,
    y: Scale,
    y_ticks: Vec<Tick>,
    ticks_width: f64,
    /// What names at the ends of lines take.
    names_width: f64,
}

impl<'a> Measured<'a> {
    fn of(chart: &'a Chart, panel: &'a Panel) -> Self {
        let (x, y) = panel.scales();
        let y_ticks = y.ticks(7);
        let lettering = Lettering::new(TICK, Ink::Muted);
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let ticks_width = widest(&mut y_ticks.iter().map(|tick| lettering.width(&tick.label)));
        let names_width = match chart.labels {
            Labels::Legend => 0.0,
            Labels::Ends => {
                let names = &mut panel.lines.iter().map(|line| name_lettering().width(&line.label));
                widest(names).min(200.0) + SAMPLE + 2.0 * GAP
            }
        };
        Self { chart, panel, x, y, y_ticks, ticks_width, names_width }
    }

    fn draw(&self, picture: &mut Picture, area: Area, left: f64) {
        self.axes(picture, area, left);
        // Areas first, so that they cover no line. Then lines in their order: where two lie on each other, the solid one comes
        // first and shows through the gaps of the dashed one.
        for line in &self.panel.lines {
            self.band(picture, area, line);
        }
        for line in &self.panel.lines {
            self.line(picture, area, line);
        }
        for line in &self.panel.lines {
            let marked = line.mark.and_then(|point| line.points.get(point)).and_then(|point| self.place(area, *point));
            if let Some(at) = marked {
                marker(picture, at, Ink::Series(self.chart.number(line)));
            }
        }
        if self.chart.labels == Labels::Ends {
            self.names(picture, area);
        }
    }

    fn axes(&self, picture: &mut Picture, area: Area, left: f64) {
        let Area { left: start, right, top, bottom } = area;
        let small = Lettering::new(TICK, Ink::Muted);
        let label = Lettering::new(LABEL, Ink::Text);
        picture.text([left, top - 12.0], &label.fit(&self.panel.y.label, right - left), label);
        for tick in &self.y_ticks {
            let y = bottom - (bottom - top) * self.y.place(tick.value);
            picture.line([[start, y], [right, y]], Pen::new(Ink::Grid, 1.0));
            picture.text([start - GAP, base(y, TICK)], &tick.label, small.anchor(Anchor::End));
        }
        picture.line([[start, bottom], [right, bottom]], Pen::new(Ink::Muted, 1.0));
        for tick in self.x_ticks(right - start, small) {
            let x = start + (right - start) * self.x.place(tick.value);
            picture.line([[x, bottom], [x, bottom + 4.0]], Pen::new(Ink::Muted, 1.0));
            // What lies beyond the margin would be cut off.
            let middle = x.min(right + MARGIN - small.width(&tick.label) / 2.0);
            picture.text([middle, bottom + 6.0 + TICK], &tick.label, small.anchor(Anchor::Middle));
        }
        let middle = label.anchor(Anchor::Middle);
        let at = [f64::midpoint(start, right), bottom + TICK + LABEL + 13.0];
        picture.text(at, &middle.fit(&self.panel.x.label, right - start), middle);
    }

    /// As many ticks as have room beside each other.
    fn x_ticks(&self, width: f64, lettering: Lettering) -> Vec<Tick> {
        let fits = |ticks: &Vec<Tick>| {
            let ends = ticks.iter().map(|tick| (self.x.place(tick.value) * width, lettering.width(&tick.label) / 2.0));
            let ends: Vec<[f64; 2]> = ends.map(|(at, half)| [at - half, at + half]).collect();
            ends.windows(2).all(|pair| pair[0][1] + 8.0 < pair[1][0])
        };
        (2..=8).rev().map(|most| self.x.ticks(most)).find(fits).unwrap_or_default()
    }

    fn place(&self, area: Area, [x, y]: [f64; 2]) -> Option<Point> {
        let shown = self.x.shows(x) && self.y.shows(y);
        let at = || {
            let across = area.left + (area.right - area.left) * self.x.place(x);
            [across, area.bottom - (area.bottom - area.top) * self.y.place(y)]
        };
        shown.then(at)
    }

    fn line(&self, picture: &mut Picture, area: Area, line: &Line) {
        let pen = pen(self.chart.number(line), line);
        let places: Vec<Option<Point>> = line.points.iter().map(|point| self.place(area, *point)).collect();
        for piece in places.split(Option::is_none) {
            let piece: Vec<Point> = piece.iter().flatten().copied().collect();
            match piece.as_slice() {
                [] => {}
                [alone] => picture.circle(*alone, pen.width * 1.2, pen.ink, None),
                _ => picture.line(thinned(&piece), pen),
            }
        }
    }

    fn band(&self, picture: &mut Picture, area: Area, line: &Line) {
        let edges = line
            .points
            .iter()
            .zip(&line.band)
            .map(|([x, _], [low, high])| self.place(area, [*x, *low]).zip(self.place(area, [*x, *high])));
        let edges: Vec<Option<(Point, Point)>> = edges.collect();
        for piece in edges.split(Option::is_none).filter(|piece| piece.len() > 1) {
            let (low, high): (Vec<Point>, Vec<Point>) = piece.iter().flatten().copied().unzip();
            let around: Vec<Point> = thinned(&low).into_iter().chain(thinned(&high).into_iter().rev()).collect();
            picture.polygon(around, Ink::Series(self.chart.number(line)), 0.18);
        }
    }

    /// Names beside the ends of lines, pushed apart where they would overlap.
    fn names(&self, picture: &mut Picture, area: Area) {
        let end = |line: &'a Line| {
            let at = line.points.iter().rev().find_map(|point| self.place(area, *point))?;
            Some((at[1], line))
        };
        let mut ends: Vec<(f64, &Line)> = self.panel.lines.iter().filter_map(end).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wanted: Vec<f64> = ends.iter().map(|(at, _)| *at).collect();
        for (y, (_, line)) in apart(&wanted, LABEL + 4.0, area.top, area.bottom).into_iter().zip(ends) {
            let left = area.right + GAP;
            picture.line([[left, y], [left + SAMPLE, y]], pen(self.chart.number(line), line));
            let name = name_lettering().fit(&line.label, 200.0);
            picture.text([left + SAMPLE + GAP, base(y, LABEL)], &name, name_lettering());
        }
    }
}

/// Ascending places at least `least` apart, near those wanted, and between the ends if there is room.
fn apart(wanted: &[f64], least: f64, top: f64, bottom: f64) -> Vec<f64> {
    let mut places: Vec<f64> = wanted.to_vec();
    for at in 1..places.len() {
        places[at] = places[at].max(places[at - 1] + least);
    }
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - least;
    }
    let over = top - places.first().copied().unwrap_or(top);
    if over > 0.0 {
        places = places.into_iter().map(|place| place + over).collect();
    }
    places
}

/// A line with no more points than can be seen: in each unit of width its first, lowest, highest and last.
fn thinned(points: &[Point]) -> Vec<Point> {
    let unit = |point: &Point| point[0].floor() as i64;
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
        let points: Vec<Point> = (0..1_000_000).map(|n| [f64::from(n) / 2000.0, f64::from(n % 1013)]).collect();
        let kept = thinned(&points);
        assert!(kept.len() <= 4 * 500 && kept.first() == points.first() && kept.last() == points.last());
        assert!((0..500).all(|unit| kept.iter().any(|[x, y]| *x as i32 == unit && *y >= 1012.0)));
    }

    proptest! {
        #[test]
        fn names_do_not_overlap_and_stay_inside(mut wanted in proptest::collection::vec(0.0..100.0f64, 0..6)) {
            wanted.sort_by(f64::total_cmp);
            let places = apart(&wanted, 15.0, 0.0, 100.0);
            prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 15.0 - 1e-9));
            prop_assert!(places.iter().all(|place| (-1e-9..=100.0 + 1e-9).contains(place)), "{places:?}");
        }
    }
}
