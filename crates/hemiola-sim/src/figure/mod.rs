//! Figures of papers at their own scale, with our protocols in virtual time.
//!
//! | figure | paper |
//! |---|---|
//! | [`Name::ManagedMf`], [`Name::ManagedLda`] | Bösen, figures 4 and 5: managed communication |
//! | [`Name::Ring`] | SMPFRAME, figure 8: a ring against a barrier after every iteration |
//! | [`Name::NotifyAck`] | ASAP, figure 10: NOTIFY-ACK against a barrier, and neither |
//!
//! A figure is data: lines over axes, and a table of what they come to. Numbers of peers, and what a network carries in the time of a computation, are those of the papers; data are made from a seed and small, and stand for large ones by the bytes and the time that are given to each number.

mod managed;
mod ring;
mod svm;
mod synchronization;

use std::fmt::Write as _;

/// Which figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Managed communication, matrix factorization.
    ManagedMf,
    /// Managed communication, topics.
    ManagedLda,
    /// A ring against a barrier after every iteration.
    Ring,
    /// NOTIFY-ACK against a barrier, and neither.
    NotifyAck,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// Lines over axes.
    pub panels: Vec<Panel>,
    /// What they come to: names of columns, and rows.
    pub columns: Vec<&'static str>,
    /// See [`Figure::columns`].
    pub rows: Vec<Vec<String>>,
}

/// Lines over axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Panel {
    /// What is along them.
    pub axes: [String; 2],
    /// By name.
    pub lines: Vec<(String, Vec<[f64; 2]>)>,
}

impl Name {
    /// All of them, as they are typed.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::ManagedMf, "managed-mf"),
        (Self::ManagedLda, "managed-lda"),
        (Self::Ring, "ring"),
        (Self::NotifyAck, "notify-ack"),
    ];

    /// As it is typed.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).map_or("", |(_, name)| name)
    }

    /// Runs what it shows, for these numbers of peers, or those of the paper if there are none. The first is the one whose courses are drawn. What is learned under managed communication depends on chance, and is repeated with so many seeds.
    pub fn draw(self, peers: &[usize], seeds: u64) -> Result<Figure, String> {
        let or = |papers: &[usize]| if peers.is_empty() { papers.to_vec() } else { peers.to_vec() };
        match self {
            Self::ManagedMf => managed::factors(&or(&[8, 16, 32, 64]), seeds),
            Self::ManagedLda => managed::topics(&or(&[16, 8, 32, 64]), seeds),
            Self::Ring => ring::draw(&or(&[25, 50, 100])),
            Self::NotifyAck => synchronization::draw(&or(&[25])),
        }
    }
}

impl Figure {
    /// Its table, as comma-separated values.
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

    /// Its lines, as comma-separated values.
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

    /// Its table, for reading.
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
                // Names to the left, numbers to the right.
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

/// Where a course comes to a target, in steps and in seconds, on straight lines between its points.
fn reached(course: &[(f64, f64)], target: f64) -> Option<(f64, f64)> {
    let place = course.iter().position(|(_, loss)| *loss <= target)?;
    let (end, loss) = course[place];
    let Some((begin, before)) = place.checked_sub(1).map(|place| course[place]) else { return Some((1.0, end)) };
    let share = (before - target) / (before - loss);
    Some((place as f64 + share, begin + share * (end - begin)))
}

/// A number, or nothing.
fn or_dash(number: Option<String>) -> String {
    number.unwrap_or_else(|| "-".to_owned())
}
