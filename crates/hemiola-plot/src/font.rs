//! Embedded font: DejaVu Sans, because a machine that trains models may have no fonts.
//!
//! PNG output draws with it. SVG output leaves the font to the reader and uses these widths for the
//! layout only. DejaVu is wider than the fonts of browsers, so a text that fits here fits there.

use std::sync::LazyLock;
use ttf_parser::{Face, GlyphId, OutlineBuilder};

/// Regular and bold font. Parsing the tables costs more than measuring a word.
static FACES: LazyLock<[Face<'static>; 2]> = LazyLock::new(|| {
    [dejavu::sans::regular(), dejavu::sans::bold()]
        .map(|bytes| Face::parse(bytes, 0).expect("the font in the program is sound"))
});

fn face(bold: bool) -> &'static Face<'static> {
    &FACES[usize::from(bold)]
}

/// Width of a line of text of this size.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    widths(text, size, bold).into_iter().sum()
}

/// Advance width of each character of a line of text.
pub(crate) fn widths(text: &str, size: f64, bold: bool) -> Vec<f64> {
    let face = face(bold);
    let scale = size / f64::from(face.units_per_em());
    text.chars().map(|letter| advance(face, glyph(face, letter)) * scale).collect()
}

/// Sends the outlines of a line of text to `sink`. Its left end is at the origin, and y points
/// down.
pub(crate) fn outlines(text: &str, size: f64, bold: bool, sink: &mut dyn OutlineSink) {
    let face = face(bold);
    let scale = size / f64::from(face.units_per_em());
    let mut right = 0.0;
    for letter in text.chars() {
        let glyph = glyph(face, letter);
        // A character without an outline, such as a space, only advances.
        let _ = face.outline_glyph(glyph, &mut GlyphTransform { sink, scale, right });
        right += advance(face, glyph) * scale;
    }
}

/// Returns the glyph of a character, or the first glyph, a box, if the font lacks it.
fn glyph(face: &Face<'_>, letter: char) -> GlyphId {
    face.glyph_index(letter).unwrap_or(GlyphId(0))
}

fn advance(face: &Face<'_>, glyph: GlyphId) -> f64 {
    f64::from(face.glyph_hor_advance(glyph).unwrap_or(0))
}

/// Receiver of glyph outlines.
pub(crate) trait OutlineSink {
    fn begin(&mut self, to: [f32; 2]);
    fn line(&mut self, to: [f32; 2]);
    fn quadratic(&mut self, by: [f32; 2], to: [f32; 2]);
    fn cubic(&mut self, first: [f32; 2], second: [f32; 2], to: [f32; 2]);
    fn close(&mut self);
}

struct GlyphTransform<'a> {
    sink: &'a mut dyn OutlineSink,
    scale: f64,
    right: f64,
}

impl GlyphTransform<'_> {
    fn transform(&self, x: f32, y: f32) -> [f32; 2] {
        [(self.right + f64::from(x) * self.scale) as f32, (-f64::from(y) * self.scale) as f32]
    }
}

impl OutlineBuilder for GlyphTransform<'_> {
    fn move_to(&mut self, x: f32, y: f32) {
        self.sink.begin(self.transform(x, y));
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.sink.line(self.transform(x, y));
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.sink.quadratic(self.transform(x1, y1), self.transform(x, y));
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.sink.cubic(self.transform(x1, y1), self.transform(x2, y2), self.transform(x, y));
    }

    fn close(&mut self) {
        self.sink.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_add_up_and_grow_with_size() {
        let one = width("mean", 10.0, false);
        assert!((width("meanmean", 10.0, false) - 2.0 * one).abs() < 1e-9);
        assert!((width("mean", 20.0, false) - 2.0 * one).abs() < 1e-9);
        assert!(width("mean", 10.0, true) > one, "heavy letters are wider");
        assert!(width("中", 10.0, false) > 0.0, "a letter the font does not have takes room, too");
    }
}
