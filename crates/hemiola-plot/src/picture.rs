//! The surface everything is drawn on: shapes in order, the later over the earlier.
//!
//! A picture is data. It knows inks and not colours, so that one picture serves light and dark; `svg.rs` and `png.rs` turn it
//! into bytes. **Invariant:** texts hold no control characters, which XML forbids and terminals obey.

use crate::font;
use crate::ink::{Dash, Ink};

/// A place on a picture: units to the right and down from the upper left corner.
pub type Point = [f64; 2];

/// Shapes on a ground of some size.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) title: String,
    pub(crate) shapes: Vec<Shape>,
}

/// What can be drawn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Shape {
    /// A line through points.
    Line {
        /// Where it goes.
        points: Vec<Point>,
        /// What it is drawn with.
        pen: Pen,
    },
    /// A filled area.
    Polygon {
        /// Its corners.
        points: Vec<Point>,
        /// What fills it.
        ink: Ink,
        /// From 0, invisible, to 1.
        opacity: f64,
    },
    /// A filled circle with a rim.
    Circle {
        /// Its centre.
        center: Point,
        /// Its radius, to the middle of the rim.
        radius: f64,
        /// What fills it.
        ink: Ink,
        /// What its rim is drawn with.
        rim: Option<Pen>,
    },
    /// A line of text.
    Text {
        /// A point of the line it stands on.
        at: Point,
        /// What it says.
        text: String,
        /// How it looks.
        lettering: Lettering,
    },
}

/// How lines are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pen {
    /// Which ink.
    pub ink: Ink,
    /// How thick.
    pub width: f64,
    /// In which pattern.
    pub dash: Dash,
    /// From 0, invisible, to 1.
    pub opacity: f64,
}

impl Pen {
    /// An opaque, solid pen.
    #[must_use]
    pub fn new(ink: Ink, width: f64) -> Self {
        Self { ink, width, dash: Dash::Solid, opacity: 1.0 }
    }

    /// The same in a pattern.
    #[must_use]
    pub fn dash(self, dash: Dash) -> Self {
        Self { dash, ..self }
    }

    /// The same, translucent.
    #[must_use]
    pub fn opacity(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }
}

/// Which point of a text is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

/// How text looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lettering {
    /// The height of a line of it.
    pub size: f64,
    /// Which ink.
    pub ink: Ink,
    /// Which point of it is placed.
    pub anchor: Anchor,
    /// Whether it is heavy.
    pub bold: bool,
}

impl Lettering {
    /// Plain text that begins where it is placed.
    #[must_use]
    pub fn new(size: f64, ink: Ink) -> Self {
        Self { size, ink, anchor: Anchor::Start, bold: false }
    }

    /// The same, placed by another point.
    #[must_use]
    pub fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// The same, heavy.
    #[must_use]
    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// How wide a text is.
    #[must_use]
    pub fn width(&self, text: &str) -> f64 {
        font::width(text, self.size, self.bold)
    }

    /// A text, with an ellipsis in its middle if it is wider than `limit`.
    #[must_use]
    pub fn fit(&self, text: &str, limit: f64) -> String {
        let widths = font::widths(text, self.size, self.bold);
        if widths.iter().sum::<f64>() <= limit {
            return text.to_owned();
        }
        // Letters are taken from both ends in turn, as long as there is room.
        let mut room = limit - self.width("…");
        let (mut head, mut tail) = (0, widths.len());
        while head < tail {
            let from_head = head <= widths.len() - tail;
            room -= if from_head { widths[head] } else { widths[tail - 1] };
            if room < 0.0 {
                break;
            }
            if from_head { head += 1 } else { tail -= 1 }
        }
        text.chars().take(head).chain(['…']).chain(text.chars().skip(tail)).collect()
    }
}

impl Picture {
    /// An empty picture.
    #[must_use]
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, title: String::new(), shapes: Vec::new() }
    }

    /// Says in words what it shows, for those who do not see it.
    pub fn set_title(&mut self, title: &str) {
        self.title = printable(title);
    }

    /// Its width and height.
    #[must_use]
    pub fn size(&self) -> [f64; 2] {
        [self.width, self.height]
    }

    /// What is on it, the first undermost.
    #[must_use]
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Draws a line through points.
    pub fn line(&mut self, points: impl Into<Vec<Point>>, pen: Pen) {
        self.shapes.push(Shape::Line { points: points.into(), pen });
    }

    /// Fills an area.
    pub fn polygon(&mut self, points: impl Into<Vec<Point>>, ink: Ink, opacity: f64) {
        self.shapes.push(Shape::Polygon { points: points.into(), ink, opacity });
    }

    /// Draws a filled circle.
    pub fn circle(&mut self, center: Point, radius: f64, ink: Ink, rim: Option<Pen>) {
        self.shapes.push(Shape::Circle { center, radius, ink, rim });
    }

    /// Writes a line of text.
    pub fn text(&mut self, at: Point, text: &str, lettering: Lettering) {
        self.shapes.push(Shape::Text { at, text: printable(text), lettering });
    }
}

/// A text without control characters.
pub(crate) fn printable(text: &str) -> String {
    let letter = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    text.chars().filter(|letter| !matches!(letter, '\u{fffe}' | '\u{ffff}')).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle() {
        let lettering = Lettering::new(12.0, Ink::Text);
        let long = "first-".repeat(10) + "last";
        let short = lettering.fit(&long, 100.0);
        assert!(lettering.width(&short) <= 100.0 && lettering.width(&short) > 85.0, "{short}");
        assert!(short.starts_with("first") && short.contains('…') && short.ends_with("last"), "{short}");
        assert_eq!(lettering.fit("short", 100.0), "short");
        assert_eq!(lettering.fit("short", 1.0), "…");
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_kept() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{ffff}"), "a\u{fffd}[2Jb\u{fffd}c");
    }
}
