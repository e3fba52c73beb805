//! PNG output of a picture in one color scheme.

use crate::color::{ColorRole, ColorScheme, DashPattern, RgbColor};
use crate::font::{self, OutlineSink};
use crate::picture::{Coordinates, Picture, StrokeStyle, TextAnchor, VectorShape};
use std::f64::consts::FRAC_1_SQRT_2;
use tiny_skia::{FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

/// Reason why a picture has no PNG.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A side is zero, or exceeds the limit.
    #[error("a picture of {width} × {height} pixels cannot be drawn; each side must be from 1 to {most}")]
    Size {
        /// Requested width in pixels.
        width: u64,
        /// Requested height in pixels.
        height: u64,
        /// Largest side in pixels.
        most: u32,
    },
    /// The PNG encoder failed.
    #[error("cannot encode the picture: {0}")]
    Encode(String),
}

/// Largest side in pixels. Four bytes per pixel: 1 GiB at most.
const MAX_SIDE: u32 = 1 << 14;

impl Picture {
    /// Encodes the picture as PNG on an opaque background, with `scale` pixels per unit.
    pub fn png(&self, scheme: ColorScheme, scale: f64) -> Result<Vec<u8>, Error> {
        let [width, height] = self.size().map(|side| (side * scale).round());
        let drawable = |side: f64| (1.0..=f64::from(MAX_SIDE)).contains(&side);
        let size_error = || Error::Size { width: width as u64, height: height as u64, most: MAX_SIDE };
        if !drawable(width) || !drawable(height) {
            return Err(size_error());
        }
        let pixels = Pixmap::new(width as u32, height as u32).ok_or_else(size_error)?;
        let mut canvas = PngCanvas { pixels, scheme, transform: Transform::from_scale(scale as f32, scale as f32) };
        canvas.pixels.fill(solid(scheme.color(ColorRole::Background), 1.0));
        self.shapes.iter().for_each(|shape| canvas.draw(shape));
        canvas.pixels.encode_png().map_err(|error| Error::Encode(error.to_string()))
    }
}

struct PngCanvas {
    pixels: Pixmap,
    scheme: ColorScheme,
    transform: Transform,
}

impl PngCanvas {
    fn draw(&mut self, shape: &VectorShape) {
        match shape {
            VectorShape::Line { points, stroke } => {
                if let Some(path) = path(points, false) {
                    self.stroke(&path, stroke);
                }
            }
            VectorShape::Polygon { points, color, opacity } => {
                if let Some(path) = path(points, true) {
                    self.fill(&path, *color, *opacity);
                }
            }
            VectorShape::Circle { center: [x, y], radius, color, outline } => {
                if let Some(path) = PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32) {
                    self.fill(&path, *color, 1.0);
                    if let Some(stroke) = outline {
                        self.stroke(&path, stroke);
                    }
                }
            }
            VectorShape::Text { at: [x, y], text, style } => {
                let shift = match style.anchor {
                    TextAnchor::Start => 0.0,
                    TextAnchor::Middle => style.width(text) / 2.0,
                    TextAnchor::End => style.width(text),
                };
                let mut letters = GlyphPathBuilder(PathBuilder::new());
                font::outlines(text, style.size, style.bold, &mut letters);
                // Constants, because the sine of a machine's library may differ in the last bit.
                let [cos, sin] = if style.slanted { [FRAC_1_SQRT_2, -FRAC_1_SQRT_2] } else { [1.0, 0.0] };
                let left = [x - shift * cos, y - shift * sin];
                let [cos, sin, x, y] = [cos, sin, left[0], left[1]].map(|value| value as f32);
                let placed = Transform::from_row(cos, sin, -sin, cos, x, y);
                if let Some(path) = letters.0.finish().and_then(|path| path.transform(placed)) {
                    self.fill(&path, style.color, 1.0);
                }
            }
        }
    }

    fn fill(&mut self, path: &Path, color: ColorRole, opacity: f64) {
        let paint = self.paint(color, opacity);
        self.pixels.fill_path(path, &paint, FillRule::Winding, self.transform, None);
    }

    fn stroke(&mut self, path: &Path, style: &StrokeStyle) {
        let pattern = style.dash.pattern(style.width).into_iter().map(|length| length as f32).collect();
        let stroke = Stroke {
            width: style.width as f32,
            line_join: LineJoin::Round,
            line_cap: LineCap::Butt,
            dash: if style.dash == DashPattern::Solid { None } else { StrokeDash::new(pattern, 0.0) },
            ..Stroke::default()
        };
        let paint = self.paint(style.color, style.opacity);
        self.pixels.stroke_path(path, &paint, &stroke, self.transform, None);
    }

    fn paint(&self, color: ColorRole, opacity: f64) -> Paint<'static> {
        let mut paint = Paint { anti_alias: true, ..Paint::default() };
        paint.set_color(solid(self.scheme.color(color), opacity));
        paint
    }
}

fn solid(RgbColor([red, green, blue]): RgbColor, opacity: f64) -> tiny_skia::Color {
    tiny_skia::Color::from_rgba8(red, green, blue, (opacity.clamp(0.0, 1.0) * 255.0).round() as u8)
}

fn path(points: &[Coordinates], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (number, [x, y]) in points.iter().enumerate() {
        if number == 0 { path.move_to(*x as f32, *y as f32) } else { path.line_to(*x as f32, *y as f32) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

struct GlyphPathBuilder(PathBuilder);

impl OutlineSink for GlyphPathBuilder {
    fn begin(&mut self, [x, y]: [f32; 2]) {
        self.0.move_to(x, y);
    }

    fn line(&mut self, [x, y]: [f32; 2]) {
        self.0.line_to(x, y);
    }

    fn quadratic(&mut self, [x1, y1]: [f32; 2], [x, y]: [f32; 2]) {
        self.0.quad_to(x1, y1, x, y);
    }

    fn cubic(&mut self, [x1, y1]: [f32; 2], [x2, y2]: [f32; 2], [x, y]: [f32; 2]) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::TextStyle;

    #[test]
    fn shapes_are_drawn_at_their_coordinates_and_the_background_is_opaque() {
        let mut picture = Picture::new(40.0, 30.0);
        picture.polygon([[0.0, 0.0], [20.0, 0.0], [20.0, 15.0], [0.0, 15.0]], ColorRole::Series(0), 1.0);
        picture.circle([30.0, 22.0], 4.0, ColorRole::Series(1), None);
        picture.text([21.0, 13.0], "▉▉", TextStyle::new(12.0, ColorRole::Text));
        for scheme in [ColorScheme::Light, ColorScheme::Dark] {
            let pixels = Pixmap::decode_png(&picture.png(scheme, 2.0).unwrap()).unwrap();
            assert_eq!((pixels.width(), pixels.height()), (80, 60));
            assert!(pixels.pixels().iter().all(|pixel| pixel.alpha() == 255));
            let at = |x, y| pixels.pixel(x, y).map(|pixel| RgbColor([pixel.red(), pixel.green(), pixel.blue()]));
            assert_eq!(at(10, 10), Some(scheme.color(ColorRole::Series(0))));
            assert_eq!(at(60, 44), Some(scheme.color(ColorRole::Series(1))));
            assert_eq!(at(46, 16), Some(scheme.color(ColorRole::Text)));
            assert_eq!(at(5, 55), Some(scheme.color(ColorRole::Background)));
        }
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        for (picture, scale) in
            [(Picture::new(0.0, 10.0), 1.0), (Picture::new(10.0, 1e9), 1.0), (Picture::new(9.0, 9.0), f64::NAN)]
        {
            assert!(matches!(picture.png(ColorScheme::Light, scale), Err(Error::Size { most: MAX_SIDE, .. })));
        }
    }
}
