//! A picture as a list of shapes, drawn in order.
//!
//! A picture is data. Its colors are roles, so that one picture serves light and dark schemes;
//! `svg.rs` and `png.rs` turn it into bytes. **Invariant:** texts hold no control characters, which
//! XML forbids and terminals execute.

use crate::color::{ColorRole, DashPattern};
use crate::font;

/// Point of a picture: units to the right and down from the upper left corner.
pub type Coordinates = [f64; 2];

/// Shapes on a background of fixed size.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) title: String,
    pub(crate) shapes: Vec<VectorShape>,
}

/// A drawing primitive of a picture.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum VectorShape {
    /// A line through points.
    Line {
        /// Points of the line, in order.
        points: Vec<Coordinates>,
        /// Style of the line.
        stroke: StrokeStyle,
    },
    /// A filled area without outline.
    Polygon {
        /// Corners of the area, in order.
        points: Vec<Coordinates>,
        /// Fill color of the area.
        color: ColorRole,
        /// Opacity from 0 (invisible) to 1.
        opacity: f64,
    },
    /// A filled circle with an optional outline.
    Circle {
        /// Centre of the circle.
        center: Coordinates,
        /// Radius to the middle of the outline.
        radius: f64,
        /// Fill color of the circle.
        color: ColorRole,
        /// Style of the outline, if there is one.
        outline: Option<StrokeStyle>,
    },
    /// A line of text.
    Text {
        /// Position of the text's anchor on its baseline.
        at: Coordinates,
        /// Text without control characters.
        text: String,
        /// Size, color, anchor and weight.
        style: TextStyle,
    },
}

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StrokeStyle {
    /// Color of the line.
    pub color: ColorRole,
    /// Thickness of the line in units.
    pub width: f64,
    /// Dash pattern of the line.
    pub dash: DashPattern,
    /// Opacity from 0 (invisible) to 1.
    pub opacity: f64,
}

impl StrokeStyle {
    /// Creates an opaque, solid style.
    #[must_use]
    pub fn new(color: ColorRole, width: f64) -> Self {
        Self { color, width, dash: DashPattern::Solid, opacity: 1.0 }
    }

    /// Sets the dash pattern.
    #[must_use]
    pub fn dash(self, dash: DashPattern) -> Self {
        Self { dash, ..self }
    }

    /// Sets the opacity, from 0 to 1.
    #[must_use]
    pub fn opacity(self, opacity: f64) -> Self {
        Self { opacity, ..self }
    }
}

/// Point of a text that is placed at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextAnchor {
    /// Left end of the text.
    Start,
    /// Middle of the text.
    Middle,
    /// Right end of the text.
    End,
}

/// Style of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextStyle {
    /// Font size in units.
    pub size: f64,
    /// Color of the text.
    pub color: ColorRole,
    /// Point of the text that is placed at its position.
    pub anchor: TextAnchor,
    /// Selects the bold font.
    pub bold: bool,
    /// Turns the text around its anchor by 45 degrees, so that it rises to the right.
    pub slanted: bool,
}

impl TextStyle {
    /// Creates a regular style that is anchored at the start.
    #[must_use]
    pub fn new(size: f64, color: ColorRole) -> Self {
        Self { size, color, anchor: TextAnchor::Start, bold: false, slanted: false }
    }

    /// Sets the anchor of the text.
    #[must_use]
    pub fn anchor(self, anchor: TextAnchor) -> Self {
        Self { anchor, ..self }
    }

    /// Selects the bold font.
    #[must_use]
    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Turns the text around its anchor by 45 degrees, so that it rises to the right.
    #[must_use]
    pub fn slanted(self) -> Self {
        Self { slanted: true, ..self }
    }

    /// Width of a text in this style.
    #[must_use]
    pub fn width(&self, text: &str) -> f64 {
        font::width(text, self.size, self.bold)
    }

    /// Truncates a text that is wider than `limit`, with an ellipsis in its middle.
    #[must_use]
    pub fn truncate(&self, text: &str, limit: f64) -> String {
        let widths = font::widths(text, self.size, self.bold);
        if widths.iter().sum::<f64>() <= limit {
            return text.to_owned();
        }
        // Characters are taken from both ends in turn, as long as there is room.
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
    /// Creates an empty picture.
    #[must_use]
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, title: String::new(), shapes: Vec::new() }
    }

    /// Sets a description of the picture, for screen readers.
    pub fn set_title(&mut self, title: &str) {
        self.title = printable(title);
    }

    /// Width and height of the picture.
    #[must_use]
    pub fn size(&self) -> [f64; 2] {
        [self.width, self.height]
    }

    /// Shapes in drawing order, the first at the bottom.
    #[must_use]
    pub fn shapes(&self) -> &[VectorShape] {
        &self.shapes
    }

    /// Draws a line through points.
    pub fn line(&mut self, points: impl Into<Vec<Coordinates>>, stroke: StrokeStyle) {
        self.shapes.push(VectorShape::Line { points: points.into(), stroke });
    }

    /// Fills a polygon with these corners.
    pub fn polygon(&mut self, points: impl Into<Vec<Coordinates>>, color: ColorRole, opacity: f64) {
        self.shapes.push(VectorShape::Polygon { points: points.into(), color, opacity });
    }

    /// Draws a filled circle.
    pub fn circle(&mut self, center: Coordinates, radius: f64, color: ColorRole, outline: Option<StrokeStyle>) {
        self.shapes.push(VectorShape::Circle { center, radius, color, outline });
    }

    /// Draws a line of text.
    pub fn text(&mut self, at: Coordinates, text: &str, style: TextStyle) {
        self.shapes.push(VectorShape::Text { at, text: printable(text), style });
    }
}

/// Replaces control characters in a text.
pub(crate) fn printable(text: &str) -> String {
    let letter = |letter: char| if letter.is_control() { '\u{fffd}' } else { letter };
    text.chars().filter(|letter| !matches!(letter, '\u{fffe}' | '\u{ffff}')).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_lose_their_middle() {
        let style = TextStyle::new(12.0, ColorRole::Text);
        let long = "first-".repeat(10) + "last";
        let short = style.truncate(&long, 100.0);
        assert!(style.width(&short) <= 100.0 && style.width(&short) > 85.0, "{short}");
        assert!(short.starts_with("first") && short.contains('…') && short.ends_with("last"), "{short}");
        assert_eq!(style.truncate("short", 100.0), "short");
        assert_eq!(style.truncate("short", 1.0), "…");
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{ffff}"), "a\u{fffd}[2Jb\u{fffd}c");
    }
}
