//! A chart in characters, for remote terminals.
//!
//! Lines are drawn with Braille dots, two by four per character. Letters on the lines identify them
//! without colors.

use super::{Chart, ChartLine, ChartPanel};
use crate::characters::{cut, put};

/// Rows of characters in a frame.
const ROWS: usize = 14;

pub(super) fn draw(chart: &Chart, width: usize) -> String {
    let width = width.max(30);
    let mut text = String::new();
    if !chart.title.is_empty() {
        put(&mut text, format_args!("{}\n\n", cut(&chart.title, width)));
    }
    for panel in &chart.panels {
        frame(&mut text, chart, panel, width);
        text.push('\n');
    }
    for (number, line) in named(chart).into_iter().enumerate() {
        put(&mut text, format_args!("{}  {}\n", letter(number), cut(&line.label, width - 3)));
    }
    text
}

/// Returns the series that have a name, and therefore a letter.
fn named(chart: &Chart) -> Vec<&ChartLine> {
    chart.series().into_iter().map(|(_, line)| line).filter(|line| !line.label.is_empty()).collect()
}

fn frame(text: &mut String, chart: &Chart, panel: &ChartPanel, width: usize) {
    let (x, y) = panel.scales();
    let y_ticks = y.ticks(6);
    let margin = y_ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0);
    let columns = width.saturating_sub(margin + 3).max(10);
    let mut dots = BrailleCanvas::new(columns, ROWS);
    let position = |[a, b]: [f64; 2]| {
        let across = x.position(a) * (columns * 2 - 1) as f64;
        (x.can_show(a) && y.can_show(b)).then(|| [across, (1.0 - y.position(b)) * (ROWS * 4 - 1) as f64])
    };
    for (value, _) in panel.rules.iter().filter(|(value, _)| x.can_show(*value)) {
        let across = x.position(*value) * (columns * 2 - 1) as f64;
        (0..ROWS * 4).step_by(2).for_each(|row| dots.dot([across, row as f64]));
    }
    for line in &panel.lines {
        for edge in 0..2 {
            let points = line.points.iter().zip(&line.band).map(|([x, _], band)| position([*x, band[edge]]));
            dots.dotted_line(&points.collect::<Vec<_>>());
        }
        let positions: Vec<Option<[f64; 2]>> = line.points.iter().map(|point| position(*point)).collect();
        for pair in positions.windows(2) {
            if let [Some(from), Some(to)] = pair {
                dots.line(*from, *to);
            }
        }
        positions.iter().flatten().for_each(|at| dots.line(*at, *at));
    }
    let series = named(chart);
    for line in &panel.lines {
        if let Some(number) = series.iter().position(|known| known.label == line.label) {
            name(&mut dots, line, number, series.len(), &position);
        }
    }
    put(text, format_args!("{}\n", cut(&panel.y.label, width)));
    for row in 0..ROWS {
        let middle = |value: f64| ((1.0 - y.position(value)) * (ROWS * 4 - 1) as f64 / 4.0) as usize;
        let tick = y_ticks.iter().find(|tick| middle(tick.value) == row);
        let (label, edge) = tick.map_or(("", '│'), |tick| (tick.label.as_str(), '┤'));
        put(text, format_args!("{label:>margin$} {edge}{}\n", dots.row(row)));
    }
    let column = |value: f64| (x.position(value) * (columns * 2 - 1) as f64 / 2.0) as usize;
    // Labels that do not overlap: centred below their ticks, and shifted inwards at the ends.
    let labels = |most: usize| {
        let placed = x.ticks(most).into_iter().map(|tick| {
            let (at, length) = (column(tick.value), tick.label.chars().count());
            (at, at.saturating_sub(length / 2).min((columns + 1).saturating_sub(length)), tick.label)
        });
        placed.collect::<Vec<_>>()
    };
    let fits = |labels: &Vec<(usize, usize, String)>| {
        labels.windows(2).all(|pair| pair[0].1 + pair[0].2.chars().count() + 1 < pair[1].1)
    };
    let labels = (2..=(columns / 12).clamp(2, 8)).rev().map(labels).find(fits).unwrap_or_default();
    let rule = |at| if labels.iter().any(|(tick, ..)| *tick == at) { '┬' } else { '─' };
    put(text, format_args!("{:margin$} └{}\n", "", (0..columns).map(rule).collect::<String>()));
    let mut below = String::new();
    for (_, from, label) in &labels {
        let before = below.chars().count();
        put(&mut below, format_args!("{:1$}{label}", "", from.saturating_sub(before)));
    }
    put(text, format_args!("{:margin$}  {below}\n", ""));
    let label = cut(&panel.x.label, columns);
    let indent = margin + 2 + (columns - label.chars().count()) / 2;
    put(text, format_args!("{:indent$}{label}\n", ""));
    for (_, label) in &panel.rules {
        put(text, format_args!("{:margin$}  vertical line: {}\n", "", cut(label, columns.saturating_sub(15))));
    }
}

/// Writes the letter of a line on it, at a few positions that differ from line to line.
fn name(
    dots: &mut BrailleCanvas,
    line: &ChartLine,
    number: usize,
    of: usize,
    position: &dyn Fn([f64; 2]) -> Option<[f64; 2]>,
) {
    let seen: Vec<[f64; 2]> = line.points.iter().filter_map(|point| position(*point)).collect();
    let Some(last) = seen.last() else { return };
    let share = (number as f64 + 0.5) / of.max(1) as f64;
    for third in 0..3 {
        let wanted = seen[0][0] + (last[0] - seen[0][0]) * (f64::from(third) + share) / 3.0;
        let at = seen.windows(2).find(|pair| (pair[0][0]..=pair[1][0]).contains(&wanted)).map_or(*last, |pair| {
            let ([x0, y0], [x1, y1]) = (pair[0], pair[1]);
            let share = if x1 > x0 { (wanted - x0) / (x1 - x0) } else { 0.0 };
            [wanted, y0 + (y1 - y0) * share]
        });
        dots.write(at, letter(number));
    }
}

/// Letter of a series; after `Z` come lower-case letters, then a star for all others.
fn letter(number: usize) -> char {
    ('A'..='Z').chain('a'..='z').nth(number).unwrap_or('*')
}

/// Characters of two by four dots.
struct BrailleCanvas {
    columns: usize,
    cells: Vec<u8>,
    letters: Vec<Option<char>>,
}

impl BrailleCanvas {
    fn new(columns: usize, rows: usize) -> Self {
        Self { columns, cells: vec![0; columns * rows], letters: vec![None; columns * rows] }
    }

    fn line(&mut self, from: [f64; 2], to: [f64; 2]) {
        let steps = (to[0] - from[0]).abs().max((to[1] - from[1]).abs()).ceil().max(1.0) as usize;
        for step in 0..=steps {
            let share = step as f64 / steps as f64;
            self.dot([from[0] + (to[0] - from[0]) * share, from[1] + (to[1] - from[1]) * share]);
        }
    }

    /// Draws every third dot of a line, for the edges of a band.
    fn dotted_line(&mut self, points: &[Option<[f64; 2]>]) {
        for pair in points.windows(2) {
            let [Some(from), Some(to)] = pair else { continue };
            for x in (from[0].ceil() as i64..=to[0] as i64).filter(|x| x % 3 == 0) {
                let share = if to[0] > from[0] { (x as f64 - from[0]) / (to[0] - from[0]) } else { 0.0 };
                self.dot([x as f64, from[1] + (to[1] - from[1]) * share]);
            }
        }
    }

    fn dot(&mut self, at: [f64; 2]) {
        /// Bits of a Braille character, row by row.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let [x, y] = at.map(|position| position.round().max(0.0) as usize);
        if let Some(cell) = self.cells.get_mut(y / 4 * self.columns + x / 2) {
            *cell |= BITS[y % 4][x % 2];
        }
    }

    fn write(&mut self, at: [f64; 2], letter: char) {
        let [x, y] = at.map(|position| position.round().max(0.0) as usize);
        if let Some(cell) = self.letters.get_mut(y / 4 * self.columns + x / 2) {
            *cell = Some(letter);
        }
    }

    fn row(&self, row: usize) -> String {
        let cells = row * self.columns..(row + 1) * self.columns;
        let cell = |at: usize| match (self.letters[at], self.cells[at]) {
            (Some(letter), _) => letter,
            (None, 0) => ' ',
            (None, bits) => char::from_u32(0x2800 + u32::from(bits)).unwrap_or(' '),
        };
        cells.map(cell).collect::<String>().trim_end().to_owned()
    }
}
