//! Figures of papers, reproduced at their scale with Hemiola's protocols in virtual time.
//!
//! | figure | paper |
//! |---|---|
//! | [`FigureName::ManagedMf`], [`FigureName::ManagedLda`] | Bösen, figures 4 and 5: bandwidth-managed communication |
//! | [`FigureName::Ring`] | SMPFRAME, figure 8: rotation against a barrier after every iteration |
//! | [`FigureName::NotifyAck`] | ASAP, figure 10: NOTIFY-ACK against a barrier and asynchronous averaging |
//!
//! A figure is data: lines over axes, and a table of their key values. The numbers of peers and the
//! ratio of network to compute speed are those of the papers. Data are synthetic and small; each
//! value stands for many by the bytes and the time that it is given.

mod managed_communication;
mod notify_ack;
mod rotation;
mod svm;

use std::fmt::Write as _;

/// Name of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureName {
    /// Bandwidth-managed communication, matrix factorization.
    ManagedMf,
    /// Bandwidth-managed communication, topic model.
    ManagedLda,
    /// Rotation against a barrier after every iteration.
    Ring,
    /// NOTIFY-ACK against a barrier and asynchronous averaging.
    NotifyAck,
}

/// Data of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperFigure {
    /// Title of the figure.
    pub title: String,
    /// Panels with lines over axes.
    pub panels: Vec<FigurePanel>,
    /// Column names of the table.
    pub columns: Vec<&'static str>,
    /// Rows of the table.
    pub rows: Vec<Vec<String>>,
}

/// Lines over a pair of axes.
#[derive(Clone, Debug, PartialEq)]
pub struct FigurePanel {
    /// Labels of the x and y axis.
    pub axes: [String; 2],
    /// Lines with their names and points.
    pub lines: Vec<(String, Vec<[f64; 2]>)>,
}

impl FigureName {
    /// All figures with their names on the command line.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::ManagedMf, "managed-mf"),
        (Self::ManagedLda, "managed-lda"),
        (Self::Ring, "ring"),
        (Self::NotifyAck, "notify-ack"),
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, name)| name)
    }

    /// Runs the simulations of the figure for these numbers of peers; if empty, those of the paper.
    /// Learning curves are drawn for the first number. Results under managed communication are
    /// random and repeated with `seeds` seeds.
    pub fn draw(self, peers: &[usize], seeds: u64) -> Result<PaperFigure, String> {
        let or = |papers: &[usize]| if peers.is_empty() { papers.to_vec() } else { peers.to_vec() };
        match self {
            Self::ManagedMf => managed_communication::factors(&or(&[8, 16, 32, 64]), seeds),
            Self::ManagedLda => managed_communication::topics(&or(&[16, 8, 32, 64]), seeds),
            Self::Ring => rotation::draw(&or(&[25, 50, 100])),
            Self::NotifyAck => notify_ack::draw(&or(&[25])),
        }
    }
}

impl PaperFigure {
    /// Formats the table as CSV.
    #[must_use]
    pub fn table_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text.push('\n');
        for row in &self.rows {
            text.push_str(&row.join(","));
            text.push('\n');
        }
        text
    }

    /// Formats the points of all lines as CSV.
    #[must_use]
    pub fn lines_csv(&self) -> String {
        let mut text = String::from("panel,line,x,y\n");
        for (number, panel) in self.panels.iter().enumerate() {
            for (name, points) in &panel.lines {
                for [x, y] in points {
                    let _ = writeln!(text, "{number},{name},{x},{y}");
                }
            }
        }
        text
    }

    /// Formats the table as aligned text.
    #[must_use]
    pub fn table(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].chars().count());
            cells.chain([self.columns[column].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        let names: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
        for row in std::iter::once(&names).chain(&self.rows) {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Names are left-aligned, numbers right-aligned.
                let _ = match column {
                    0 => write!(text, "{cell:<width$}"),
                    _ => write!(text, "  {cell:>width$}"),
                };
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

/// Returns the steps and seconds at which a learning curve reaches a target, by linear
/// interpolation.
fn reached(course: &[(f64, f64)], target: f64) -> Option<(f64, f64)> {
    let place = course.iter().position(|(_, loss)| *loss <= target)?;
    let (end, loss) = course[place];
    let Some((begin, before)) = place.checked_sub(1).map(|place| course[place]) else { return Some((1.0, end)) };
    let share = (before - target) / (before - loss);
    Some((place as f64 + share, begin + share * (end - begin)))
}

/// Returns a dash for a missing number.
fn or_dash(number: Option<String>) -> String {
    number.unwrap_or_else(|| "-".to_owned())
}
