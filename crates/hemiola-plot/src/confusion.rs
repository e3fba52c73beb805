//! Confusion matrix of a classifier: counts of examples by true and predicted class.
//!
//! The shade of a cell is its fraction of the examples of the true class, so that rare classes show
//! as well as frequent ones. Up to 30 classes have their counts in the cells, with the recall and
//! the number of examples beside each row; beyond that there are shades only, and as many names as
//! have room. **Invariant:** every row has a count for each class.

use crate::characters::{cut, put};
use crate::color::ColorRole;
use crate::layout::{
    GAP, GROUP_GAP, LABEL_SIZE, MARGIN, TICK_SIZE, baseline, draw_title, percent, rectangle, title_height,
};
use crate::picture::{Picture, TextAnchor, TextStyle, printable};

/// Maximum number of classes whose counts are written into the cells.
const MOST_WITH_COUNTS: usize = 30;
/// Maximum number of classes with large cells, in which zeros are written, too.
const MOST_WITH_ZEROS: usize = 12;
/// Side of a cell without a count, if it is not smaller to fit the largest side of the matrix.
const PLAIN_CELL: f64 = 16.0;
/// Largest side of a matrix without counts.
const PLAIN_SIDE: f64 = 640.0;
/// Widest class name of a row, and of a column.
const NAME_WIDTH: f64 = 150.0;
const COLUMN_NAME_WIDTH: f64 = 110.0;
/// From this shade on, counts have the color of the background.
const DARK_SHADE: f64 = 0.75;
pub(crate) const SHADE_COLOR: ColorRole = ColorRole::Series(0);
/// Sine of 45 degrees, the slope of column names.
const SLOPE: f64 = std::f64::consts::FRAC_1_SQRT_2;
/// Number of class pairs in the text of a matrix that is wider than the terminal.
const LISTED_PAIRS: usize = 10;
/// Number of classes in such a text.
const LISTED_CLASSES: usize = 30;
/// Up to this many classes, columns are widened to hold their names, up to this width.
const MOST_WIDE: usize = 8;
const WIDE_CELL: f64 = 90.0;

/// Counts of examples by true and predicted class, as a picture or text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ConfusionPlot {
    title: String,
    classes: Vec<String>,
    rows: Vec<ConfusionRow>,
}

/// Examples of one true class.
#[derive(Clone, Debug, PartialEq)]
struct ConfusionRow {
    name: String,
    /// Number of examples by predicted class.
    counts: Vec<u64>,
    /// Predicted class that is correct, if there is one.
    correct: Option<usize>,
}

impl ConfusionRow {
    fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Fraction of the row in a cell; 0 in an empty row.
    fn fraction(&self, column: usize) -> f64 {
        self.counts[column] as f64 / (self.total() as f64).max(1.0)
    }

    /// Fraction of the examples that are predicted correctly.
    fn recall(&self) -> Option<f64> {
        self.correct.filter(|_| self.total() > 0).map(|class| self.fraction(class))
    }
}

impl ConfusionPlot {
    /// Creates a matrix of these class names, and for each class a row of counts by predicted
    /// class. Missing counts are 0.
    #[must_use]
    pub fn new(classes: &[String], counts: &[Vec<u64>]) -> Self {
        let names: Vec<String> = classes.iter().map(|name| printable(name)).collect();
        let row = |class: usize| ConfusionRow {
            name: names[class].clone(),
            counts: resized(counts.get(class).map_or(&[], Vec::as_slice), names.len()),
            correct: Some(class),
        };
        Self { title: String::new(), rows: (0..names.len()).map(row).collect(), classes: names }
    }

    /// Adds a row of examples that belong to no class of the classifier, by predicted class.
    #[must_use]
    pub fn other(mut self, name: &str, counts: &[u64]) -> Self {
        let counts = resized(counts, self.classes.len());
        self.rows.push(ConfusionRow { name: printable(name), counts, correct: None });
        self
    }

    /// Sets the title above the matrix.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.title = printable(title);
        self
    }

    /// Draws the matrix as a picture.
    #[must_use]
    pub fn picture(&self) -> Picture {
        ConfusionLayout::of(self).draw()
    }

    /// Formats the matrix in lines of at most `width` characters, and at least 40: as a table if it fits, otherwise
    /// as the recall of the classes and the most frequent errors.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let width = width.max(40);
        let mut text = String::new();
        if !self.title.is_empty() {
            put(&mut text, format_args!("{}\n\n", cut(&self.title, width)));
        }
        if !self.table(&mut text, width) {
            self.list(&mut text, width);
        }
        text
    }

    /// Appends a table of counts; returns false if it does not fit.
    fn table(&self, text: &mut String, width: usize) -> bool {
        let (columns, recall) = (self.classes.len(), "  recall".len());
        let most = self.rows.iter().flat_map(|row| &row.counts).max().copied().unwrap_or(0);
        let names = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        // The roomy form, and the tight one: shorter heading, percentages without decimals.
        let forms = [("true \\ predicted", 2, "97.1%".len()), ("true", 1, "100%".len())];
        let fitting = forms.into_iter().find_map(|(corner, gap, least)| {
            let (least, head) = (most.to_string().len().max(least), names.clamp(corner.len(), corner.len().max(24)));
            let free = |head: usize| width.saturating_sub(head + recall) / columns.max(1);
            let head = if free(head) < least + gap { names.clamp(corner.len(), corner.len().max(12)) } else { head };
            (columns > 0 && free(head) >= least + gap).then(|| (corner, gap, least, head, free(head) - gap))
        });
        let Some((corner, gap, least, head, room)) = fitting else { return false };
        let cell = self.classes.iter().map(|name| name.chars().count()).max().unwrap_or(0).clamp(least, room);
        let decimals = usize::from(cell >= "97.1%".len());
        put(text, format_args!("{corner:<head$}"));
        for name in &self.classes {
            put(text, format_args!("{:gap$}{:>cell$}", "", cut(name, cell)));
        }
        put(text, format_args!("  recall\n"));
        for row in &self.rows {
            put(text, format_args!("{:<head$}", cut(&row.name, head)));
            for count in &row.counts {
                put(text, format_args!("{:gap$}{count:>cell$}", ""));
            }
            put(text, format_args!("  {:>6}\n", short_percent(row.recall(), 1)));
        }
        put(text, format_args!("{:<head$}", cut("precision", head)));
        for class in 0..columns {
            let precision = short_percent(self.precision(class), decimals);
            put(text, format_args!("{:gap$}{precision:>cell$}", ""));
        }
        text.push('\n');
        true
    }

    /// Appends the recall of each class, and the most frequent errors.
    fn list(&self, text: &mut String, width: usize) {
        let head = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(5, width - 30);
        let mut listed: Vec<&ConfusionRow> = self.rows.iter().collect();
        if listed.len() > LISTED_CLASSES {
            put(text, format_args!("the {LISTED_CLASSES} of {} classes with the lowest recall\n", listed.len()));
            listed.sort_by(|a, b| a.recall().unwrap_or(2.0).total_cmp(&b.recall().unwrap_or(2.0)));
            listed.truncate(LISTED_CLASSES);
        }
        put(text, format_args!("{:<head$}  examples  recall  precision\n", "class"));
        for row in listed {
            let line = format!(
                "{:<head$}  {:>8}  {:>6}  {:>9}",
                cut(&row.name, head),
                row.total(),
                short_percent(row.recall(), 1),
                short_percent(row.correct.and_then(|class| self.precision(class)), 1),
            );
            put(text, format_args!("{}\n", cut(&line, width)));
        }
        let mut errors: Vec<(u64, usize, usize)> = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let wrong =
                row.counts.iter().enumerate().filter(|(class, count)| row.correct != Some(*class) && **count > 0);
            errors.extend(wrong.map(|(class, count)| (*count, number, class)));
        }
        errors.sort_by_key(|(count, row, class)| (std::cmp::Reverse(*count), *row, *class));
        if !errors.is_empty() {
            text.push_str("\nmost frequent errors\n");
        }
        for (count, row, class) in errors.into_iter().take(LISTED_PAIRS) {
            let line = format!("{count:>8}  {} predicted as {}", self.rows[row].name, self.classes[class]);
            put(text, format_args!("{}\n", cut(&line, width)));
        }
    }

    /// Fraction of the predictions of a class that are correct.
    fn precision(&self, class: usize) -> Option<f64> {
        let predicted: u64 = self.rows.iter().map(|row| row.counts[class]).sum();
        (predicted > 0).then(|| self.rows[class].counts[class] as f64 / predicted as f64)
    }
}

/// Formats a fraction in percent without a space, for a narrow column.
fn short_percent(fraction: Option<f64>, decimals: usize) -> String {
    fraction.map_or_else(|| "-".to_owned(), |fraction| format!("{:.decimals$}%", 100.0 * fraction))
}

fn resized(counts: &[u64], length: usize) -> Vec<u64> {
    let mut counts = counts.to_vec();
    counts.resize(length, 0);
    counts
}

/// Formats a count in at most five characters: `99999`, `123k`, `4.1M`.
fn short_count(count: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G"), (1_000_000_000_000, "T")];
    if count < 100_000 {
        return count.to_string();
    }
    let (unit, suffix) = UNITS.iter().rev().find(|(unit, _)| count >= *unit).copied().unwrap_or((1, ""));
    let value = count as f64 / unit as f64;
    if value < 9.95 { format!("{value:.1}{suffix}") } else { format!("{value:.0}{suffix}") }
}

/// Positions and sizes of the parts of a picture.
struct ConfusionLayout<'a> {
    plot: &'a ConfusionPlot,
    /// Side of a cell, a whole number, so that no seam shows between cells.
    cell: f64,
    /// Font size of counts; `None` for shades only.
    count_size: Option<f64>,
    /// A name is drawn for every so many rows and columns.
    every: usize,
    /// Column names rise to the right, because they are wider than a column.
    slanted: bool,
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

const NAME_STYLE_SIZE: f64 = TICK_SIZE;

impl<'a> ConfusionLayout<'a> {
    fn of(plot: &'a ConfusionPlot) -> Self {
        let classes = plot.classes.len();
        let name = TextStyle::new(NAME_STYLE_SIZE, ColorRole::Text);
        let widest = |names: &mut dyn Iterator<Item = &String>, limit: f64| {
            names.map(|text| name.width(text).min(limit)).fold(0.0, f64::max)
        };
        let column_width = widest(&mut plot.classes.iter(), COLUMN_NAME_WIDTH);
        let (cell, count_size) = if classes <= MOST_WITH_COUNTS {
            let size = if classes <= MOST_WITH_ZEROS { LABEL_SIZE } else { 9.0 };
            let style = TextStyle::new(size, ColorRole::Text);
            let counts = plot.rows.iter().flat_map(|row| &row.counts);
            let widest = counts.map(|count| style.width(&short_count(*count))).fold(0.0, f64::max);
            let least: f64 = if classes <= MOST_WITH_ZEROS { 44.0 } else { 26.0 };
            let cell = (widest + 8.0).max(least);
            let wide = classes <= MOST_WIDE && column_width + 8.0 <= WIDE_CELL;
            (if wide { cell.max(column_width + 8.0) } else { cell }.ceil(), Some(size))
        } else {
            ((PLAIN_SIDE / classes as f64).floor().clamp(2.0, PLAIN_CELL), None)
        };
        let slanted = column_width + 6.0 > cell;
        let every = ((NAME_STYLE_SIZE + 3.0) / cell).ceil().max(1.0) as usize;
        let row_width = widest(&mut plot.rows.iter().map(|row| &row.name), NAME_WIDTH);
        let label = TextStyle::new(LABEL_SIZE, ColorRole::Text);
        let left = MARGIN + row_width.max(label.width("true class")) + GAP;
        let names_height = if slanted { column_width * SLOPE + NAME_STYLE_SIZE } else { NAME_STYLE_SIZE + 4.0 };
        let top = MARGIN + title_height(&plot.title) + LABEL_SIZE + GAP + names_height + GAP;
        let side = cell * classes as f64;
        // Beside the matrix: recall and examples of each row, or the ends of slanted names.
        let overhang = if slanted { column_width * SLOPE } else { 0.0 };
        let columns = if count_size.is_some() { RECALL_WIDTH + EXAMPLES_WIDTH } else { 0.0 };
        let right = left + side + overhang.max(columns);
        let legend = TextStyle::new(TICK_SIZE, ColorRole::Muted);
        let needed = left + LEGEND_WIDTH + legend.width(LEGEND) + 4.0 * GAP + legend.width("100 %");
        Self {
            plot,
            cell,
            count_size,
            every,
            slanted,
            left,
            top,
            width: right.max(needed).ceil() + MARGIN,
            height: (top + cell * plot.rows.len() as f64 + GROUP_GAP + LEGEND_HEIGHT).ceil() + MARGIN,
        }
    }

    fn draw(&self) -> Picture {
        let plot = self.plot;
        let mut picture = Picture::new(self.width, self.height);
        picture.set_title(&self.describe());
        draw_title(&mut picture, &plot.title);
        self.names(&mut picture);
        let top = self.top.ceil();
        let gap = if self.count_size.is_some() { 1.0 } else { 0.0 };
        for (number, row) in plot.rows.iter().enumerate() {
            let y = top + self.cell * number as f64;
            for (column, count) in row.counts.iter().enumerate() {
                let at = [self.left.ceil() + self.cell * column as f64, y];
                let fraction = row.fraction(column);
                let side = self.cell - gap;
                if self.count_size.is_some() {
                    picture.polygon(rectangle(at, side, side), ColorRole::Grid, 0.45);
                }
                if *count > 0 {
                    picture.polygon(rectangle(at, side, side), SHADE_COLOR, shade(fraction));
                }
                self.count(&mut picture, at, *count, fraction);
            }
            if self.count_size.is_some() {
                self.sums(&mut picture, row, y);
            }
        }
        self.frame(&mut picture);
        self.legend(&mut picture);
        picture
    }

    /// Describes the matrix in a sentence, for screen readers.
    fn describe(&self) -> String {
        let plot = self.plot;
        let title = if plot.title.is_empty() { String::new() } else { format!("{}: ", plot.title) };
        let total: u64 = plot.rows.iter().map(ConfusionRow::total).sum();
        let correct: u64 = plot.rows.iter().filter_map(|row| row.correct.map(|class| row.counts[class])).sum();
        format!(
            "{title}confusion matrix of {} classes; {correct} of {total} examples are predicted correctly",
            plot.classes.len()
        )
    }

    fn names(&self, picture: &mut Picture) {
        let style = TextStyle::new(NAME_STYLE_SIZE, ColorRole::Text);
        let label = TextStyle::new(LABEL_SIZE, ColorRole::Muted);
        let (left, top) = (self.left.ceil(), self.top.ceil());
        let side = self.cell * self.plot.classes.len() as f64;
        let at = [left, MARGIN + title_height(&self.plot.title) + LABEL_SIZE];
        picture.text(at, "predicted class", label);
        picture.text([left - GAP, top - GAP], "true class", label.anchor(TextAnchor::End));
        for (column, name) in self.plot.classes.iter().enumerate().step_by(self.every) {
            let middle = left + self.cell * (column as f64 + 0.5);
            let name = style.truncate(name, COLUMN_NAME_WIDTH);
            if self.slanted {
                picture.text([middle + 3.0, top - 4.0], &name, style.slanted());
            } else {
                picture.text([middle, top - GAP], &name, style.anchor(TextAnchor::Middle));
            }
        }
        for (number, row) in self.plot.rows.iter().enumerate() {
            // A row without a class is always named, however narrow the rows are.
            if number % self.every == 0 || row.correct.is_none() {
                let y = top + self.cell * (number as f64 + 0.5);
                let name = style.truncate(&row.name, NAME_WIDTH);
                picture.text([left - GAP, baseline(y, NAME_STYLE_SIZE)], &name, style.anchor(TextAnchor::End));
            }
        }
        if self.count_size.is_some() {
            let right = left + side;
            let label = TextStyle::new(NAME_STYLE_SIZE, ColorRole::Muted).anchor(TextAnchor::End);
            picture.text([right + RECALL_WIDTH, top - GAP], "recall", label);
            picture.text([right + RECALL_WIDTH + EXAMPLES_WIDTH, top - GAP], "examples", label);
        }
    }

    fn count(&self, picture: &mut Picture, [left, top]: [f64; 2], count: u64, fraction: f64) {
        let Some(size) = self.count_size else { return };
        if count == 0 && self.plot.classes.len() > MOST_WITH_ZEROS {
            return;
        }
        let color = if count == 0 { ColorRole::Muted } else { count_color(shade(fraction)) };
        let middle = (self.cell - 1.0) / 2.0;
        let style = TextStyle::new(size, color).anchor(TextAnchor::Middle);
        picture.text([left + middle, baseline(top + middle, size)], &short_count(count), style);
    }

    /// Draws recall and number of examples beside a row.
    fn sums(&self, picture: &mut Picture, row: &ConfusionRow, top: f64) {
        let style = TextStyle::new(NAME_STYLE_SIZE, ColorRole::Muted).anchor(TextAnchor::End);
        let right = self.left.ceil() + self.cell * self.plot.classes.len() as f64;
        let y = baseline(top + self.cell / 2.0, NAME_STYLE_SIZE);
        let recall = row.recall().map_or_else(|| "–".to_owned(), percent);
        picture.text([right + RECALL_WIDTH, y], &recall, style);
        picture.text([right + RECALL_WIDTH + EXAMPLES_WIDTH, y], &short_count(row.total()), style);
    }

    /// Draws a frame around shades without counts, where most cells are empty.
    fn frame(&self, picture: &mut Picture) {
        if self.count_size.is_none() {
            let [width, height] = [self.plot.classes.len(), self.plot.rows.len()].map(|cells| self.cell * cells as f64);
            let mut corners = rectangle([self.left.ceil(), self.top.ceil()], width, height).to_vec();
            corners.push(corners[0]);
            picture.line(corners, crate::picture::StrokeStyle::new(ColorRole::Grid, 1.0));
        }
    }

    fn legend(&self, picture: &mut Picture) {
        let style = TextStyle::new(TICK_SIZE, ColorRole::Muted);
        let top = (self.top + self.cell * self.plot.rows.len() as f64 + GROUP_GAP).ceil();
        let mut left = self.left.ceil();
        let y = baseline(top + LEGEND_HEIGHT / 2.0, TICK_SIZE);
        picture.text([left, y], LEGEND, style);
        left += (style.width(LEGEND) + 2.0 * GAP).ceil();
        picture.text([left, y], "0", style);
        left += (style.width("0") + GAP).ceil();
        let steps = 48;
        let step = LEGEND_WIDTH / f64::from(steps);
        for number in 0..steps {
            let at = [left + step * f64::from(number), top];
            let fraction = (f64::from(number) + 0.5) / f64::from(steps);
            picture.polygon(rectangle(at, step, LEGEND_HEIGHT), SHADE_COLOR, shade(fraction));
        }
        picture.text([left + LEGEND_WIDTH + GAP, y], "100 %", style);
    }
}

const LEGEND: &str = "fraction of the true class";
const LEGEND_WIDTH: f64 = 144.0;
const LEGEND_HEIGHT: f64 = 12.0;
/// Widths of the columns beside the matrix.
const RECALL_WIDTH: f64 = 54.0;
const EXAMPLES_WIDTH: f64 = 66.0;

/// Opacity of a cell. One error of a thousand is visible.
fn shade(fraction: f64) -> f64 {
    0.06 + 0.94 * fraction.clamp(0.0, 1.0)
}

/// Color of a count on a shade, whichever has the better contrast.
pub(crate) fn count_color(shade: f64) -> ColorRole {
    if shade >= DARK_SHADE { ColorRole::Background } else { ColorRole::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_at_most_five_characters() {
        let cases = [(0, "0"), (99_999, "99999"), (123_456, "123k"), (4_100_000, "4.1M"), (u64::MAX, "18446744T")];
        assert!(cases[..4].iter().all(|(count, text)| short_count(*count) == *text && text.len() <= 5));
        assert_eq!(short_count(cases[4].0), cases[4].1, "beyond any data set");
    }

    #[test]
    fn an_empty_class_has_no_recall() {
        let plot = ConfusionPlot::new(&["a".into(), "b".into()], &[vec![3, 1], vec![]]);
        assert_eq!((plot.rows[0].recall(), plot.rows[1].recall()), (Some(0.75), None));
        assert_eq!((plot.precision(0), plot.precision(1)), (Some(1.0), Some(0.0)));
    }
}
