//! A chart in characters, for those who look at a machine from afar.
//!
//! Lines are drawn with Braille dots, two by four in each character; letters on them say which is which, without colours.

use super::{Chart, Line, Panel};
use std::fmt::Write as _;

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
    let series = chart.series();
    let named = series.iter().enumerate().filter(|(_, (_, line))| !line.label.is_empty());
    for (place, (_, line)) in named {
        put(&mut text, format_args!("{}  {}\n", letter(place), cut(&line.label, width - 3)));
    }
    text
}

fn frame(text: &mut String, chart: &Chart, panel: &Panel, width: usize) {
    let (x, y) = panel.scales();
    let y_ticks = y.ticks(6);
    let margin = y_ticks.iter().map(|tick| tick.label.chars().count()).max().unwrap_or(0);
    let columns = width.saturating_sub(margin + 3).max(10);
    let mut dots = Dots::new(columns, ROWS);
    let place = |[a, b]: [f64; 2]| {
        let across = x.place(a) * (columns * 2 - 1) as f64;
        (x.shows(a) && y.shows(b)).then(|| [across, (1.0 - y.place(b)) * (ROWS * 4 - 1) as f64])
    };
    let series = chart.series();
    for line in &panel.lines {
        let places: Vec<Option<[f64; 2]>> = line.points.iter().map(|point| place(*point)).collect();
        for pair in places.windows(2) {
            if let [Some(from), Some(to)] = pair {
                dots.line(*from, *to);
            }
        }
        places.iter().flatten().for_each(|at| dots.line(*at, *at));
    }
    for line in &panel.lines {
        let number = series.iter().position(|(_, known)| known.label == line.label).unwrap_or(0);
        name(&mut dots, line, number, series.len(), &place);
    }
    put(text, format_args!("{}\n", cut(&panel.y.label, width)));
    for row in 0..ROWS {
        let middle = |value: f64| ((1.0 - y.place(value)) * (ROWS * 4 - 1) as f64 / 4.0) as usize;
        let tick = y_ticks.iter().find(|tick| middle(tick.value) == row);
        let (label, edge) = tick.map_or(("", '│'), |tick| (tick.label.as_str(), '┤'));
        put(text, format_args!("{label:>margin$} {edge}{}\n", dots.row(row)));
    }
    let column = |value: f64| (x.place(value) * (columns * 2 - 1) as f64 / 2.0) as usize;
    // What does not overlap: labels are centred below their ticks, and pushed in at the ends.
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
}

/// Writes the letter of a line on it, in a few places that differ from line to line.
fn name(dots: &mut Dots, line: &Line, number: usize, of: usize, place: &dyn Fn([f64; 2]) -> Option<[f64; 2]>) {
    let seen: Vec<[f64; 2]> = line.points.iter().filter_map(|point| place(*point)).collect();
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

/// The letter of a series; after `Z` come small ones, then a star for all others.
fn letter(number: usize) -> char {
    ('A'..='Z').chain('a'..='z').nth(number).unwrap_or('*')
}

/// At most `most` characters of a text.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most { text.to_owned() } else { text.chars().take(most - 1).chain(['…']).collect() }
}

/// Characters of two by four dots.
struct Dots {
    columns: usize,
    cells: Vec<u8>,
    letters: Vec<Option<char>>,
}

impl Dots {
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

    fn dot(&mut self, at: [f64; 2]) {
        /// Bits of a Braille character, row by row.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let [x, y] = at.map(|place| place.round().max(0.0) as usize);
        if let Some(cell) = self.cells.get_mut(y / 4 * self.columns + x / 2) {
            *cell |= BITS[y % 4][x % 2];
        }
    }

    fn write(&mut self, at: [f64; 2], letter: char) {
        let [x, y] = at.map(|place| place.round().max(0.0) as usize);
        if let Some(place) = self.letters.get_mut(y / 4 * self.columns + x / 2) {
            *place = Some(letter);
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

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}
