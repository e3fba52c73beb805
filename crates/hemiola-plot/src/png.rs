//! A picture as PNG, on one ground.

use crate::font::{self, Outline};
use crate::ink::{Color, Dash, Ground, Ink};
use crate::picture::{Anchor, Pen, Picture, Point, Shape};
use tiny_skia::{FillRule, LineCap, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform};

/// Why a picture has no PNG.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It would not fit into memory, or be empty.
    #[error("a picture of {width} × {height} pixels cannot be drawn; each side must be from 1 to {most}")]
    Size {
        /// Pixels.
        width: u64,
        /// Pixels.
        height: u64,
        /// The most that is drawn.
        most: u32,
    },
    /// The encoder refused.
    #[error("cannot encode the picture: {0}")]
    Encode(String),
}

/// The longest side. Four bytes for each pixel: 1 GiB at most.
const MOST: u32 = 1 << 14;

impl Picture {
    /// The picture as PNG on an opaque ground, with `scale` pixels for each unit.
    pub fn png(&self, ground: Ground, scale: f64) -> Result<Vec<u8>, Error> {
        let [width, height] = self.size().map(|side| (side * scale).round());
        let drawable = |side: f64| (1.0..=f64::from(MOST)).contains(&side);
        let wrong = || Error::Size { width: width as u64, height: height as u64, most: MOST };
        if !drawable(width) || !drawable(height) {
            return Err(wrong());
        }
        let pixels = Pixmap::new(width as u32, height as u32).ok_or_else(wrong)?;
        let mut canvas = Canvas { pixels, ground, transform: Transform::from_scale(scale as f32, scale as f32) };
        canvas.pixels.fill(solid(ground.color(Ink::Ground), 1.0));
        self.shapes.iter().for_each(|shape| canvas.draw(shape));
        canvas.pixels.encode_png().map_err(|error| Error::Encode(error.to_string()))
    }
}

struct Canvas {
    pixels: Pixmap,
    ground: Ground,
    transform: Transform,
}

impl Canvas {
    fn draw(&mut self, shape: &Shape) {
        match shape {
            Shape::Line { points, pen } => {
                if let Some(path) = path(points, false) {
                    self.stroke(&path, pen);
                }
            }
            Shape::Polygon { points, ink, opacity } => {
                if let Some(path) = path(points, true) {
                    self.fill(&path, *ink, *opacity);
                }
            }
            Shape::Circle { center: [x, y], radius, ink, rim } => {
                if let Some(path) = PathBuilder::from_circle(*x as f32, *y as f32, *radius as f32) {
                    self.fill(&path, *ink, 1.0);
                    if let Some(pen) = rim {
                        self.stroke(&path, pen);
                    }
                }
            }
            Shape::Text { at: [x, y], text, lettering } => {
                let shift = match lettering.anchor {
                    Anchor::Start => 0.0,
                    Anchor::Middle => lettering.width(text) / 2.0,
                    Anchor::End => lettering.width(text),
                };
                let mut letters = Letters(PathBuilder::new());
                font::outlines(text, lettering.size, lettering.bold, &mut letters);
                let place = Transform::from_translate((x - shift) as f32, *y as f32);
                if let Some(path) = letters.0.finish().and_then(|path| path.transform(place)) {
                    self.fill(&path, lettering.ink, 1.0);
                }
            }
        }
    }

    fn fill(&mut self, path: &Path, ink: Ink, opacity: f64) {
        let paint = self.paint(ink, opacity);
        self.pixels.fill_path(path, &paint, FillRule::Winding, self.transform, None);
    }

    fn stroke(&mut self, path: &Path, pen: &Pen) {
        let pattern = pen.dash.pattern(pen.width).into_iter().map(|length| length as f32).collect();
        let stroke = Stroke {
            width: pen.width as f32,
            line_join: LineJoin::Round,
            line_cap: LineCap::Butt,
            dash: if pen.dash == Dash::Solid { None } else { StrokeDash::new(pattern, 0.0) },
            ..Stroke::default()
        };
        let paint = self.paint(pen.ink, pen.opacity);
        self.pixels.stroke_path(path, &paint, &stroke, self.transform, None);
    }

    fn paint(&self, ink: Ink, opacity: f64) -> Paint<'static> {
        let mut paint = Paint { anti_alias: true, ..Paint::default() };
        paint.set_color(solid(self.ground.color(ink), opacity));
        paint
    }
}

fn solid(Color([red, green, blue]): Color, opacity: f64) -> tiny_skia::Color {
    tiny_skia::Color::from_rgba8(red, green, blue, (opacity.clamp(0.0, 1.0) * 255.0).round() as u8)
}

fn path(points: &[Point], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (number, [x, y]) in points.iter().enumerate() {
        if number == 0 { path.move_to(*x as f32, *y as f32) } else { path.line_to(*x as f32, *y as f32) }
    }
    if closed {
        path.close();
    }
    path.finish()
}

struct Letters(PathBuilder);

impl Outline for Letters {
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
    use crate::picture::Lettering;

    #[test]
    fn shapes_are_where_they_were_put_and_the_ground_is_opaque() {
        let mut picture = Picture::new(40.0, 30.0);
        picture.polygon([[0.0, 0.0], [20.0, 0.0], [20.0, 15.0], [0.0, 15.0]], Ink::Series(0), 1.0);
        picture.circle([30.0, 22.0], 4.0, Ink::Series(1), None);
        picture.text([21.0, 13.0], "▉▉", Lettering::new(12.0, Ink::Text));
        for ground in [Ground::Light, Ground::Dark] {
            let pixels = Pixmap::decode_png(&picture.png(ground, 2.0).unwrap()).unwrap();
            assert_eq!((pixels.width(), pixels.height()), (80, 60));
            assert!(pixels.pixels().iter().all(|pixel| pixel.alpha() == 255));
            let at = |x, y| pixels.pixel(x, y).map(|pixel| Color([pixel.red(), pixel.green(), pixel.blue()]));
            assert_eq!(at(10, 10), Some(ground.color(Ink::Series(0))));
            assert_eq!(at(60, 44), Some(ground.color(Ink::Series(1))));
            assert_eq!(at(46, 16), Some(ground.color(Ink::Text)));
            assert_eq!(at(5, 55), Some(ground.color(Ink::Ground)));
        }
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        for (picture, scale) in
            [(Picture::new(0.0, 10.0), 1.0), (Picture::new(10.0, 1e9), 1.0), (Picture::new(9.0, 9.0), f64::NAN)]
        {
            assert!(matches!(picture.png(Ground::Light, scale), Err(Error::Size { most: MOST, .. })));
        }
    }
}
