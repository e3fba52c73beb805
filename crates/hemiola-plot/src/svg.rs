//! SVG output of a picture, light or dark as the reader's system is set.
//!
//! Every color role is a class of a style sheet in the file, with a second set of colors behind
//! `prefers-color-scheme`. Programs without media queries show the light one. Classes are used
//! instead of CSS variables, which several converters do not support. The background is drawn,
//! because a page may have another background than the system setting.

use crate::characters::put;
use crate::color::{ColorRole, ColorScheme, DashPattern};
use crate::picture::{Coordinates, Picture, StrokeStyle, TextAnchor, TextStyle, VectorShape};
use std::collections::BTreeSet;

const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Verdana, sans-serif";

impl Picture {
    /// Encodes the picture as SVG that is readable on light and dark pages.
    #[must_use]
    pub fn svg(&self) -> String {
        let (width, height) = (number(self.width), number(self.height));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" class=\"hemiola-plot\">\n"
        );
        if !self.title.is_empty() {
            put(&mut svg, format_args!("<title>{}</title>\n", escaped(&self.title)));
        }
        self.style(&mut svg);
        put(&mut svg, format_args!("<rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n"));
        self.shapes.iter().for_each(|shape| draw(&mut svg, shape));
        svg + "</svg>\n"
    }

    fn style(&self, svg: &mut String) {
        let mut colors = BTreeSet::from([ColorRole::Background, ColorRole::Text]);
        for shape in &self.shapes {
            match shape {
                VectorShape::Line { stroke, .. } => _ = colors.insert(stroke.color),
                VectorShape::Polygon { color, .. } => _ = colors.insert(*color),
                VectorShape::Circle { color, outline, .. } => {
                    colors.extend([*color].into_iter().chain(outline.map(|outline| outline.color)));
                }
                VectorShape::Text { style, .. } => _ = colors.insert(style.color),
            }
        }
        let rules = |svg: &mut String, scheme: ColorScheme| {
            put(svg, format_args!(".hemiola-plot{{color:{}}}\n", scheme.color(ColorRole::Text)));
            for color in colors.iter().filter(|color| **color != ColorRole::Text) {
                let (class, color) = (color.class(), scheme.color(*color));
                put(
                    svg,
                    format_args!(
                        ".hemiola-plot .{class}{{fill:{color}}}.hemiola-plot .{class}-line{{stroke:{color}}}\n"
                    ),
                );
            }
        };
        put(svg, format_args!("<style>\n.hemiola-plot{{font-family:{FONTS}}}\n"));
        svg.push_str(".hemiola-plot polyline{fill:none;stroke-linejoin:round}\n");
        svg.push_str(".hemiola-plot .text{fill:currentColor}.hemiola-plot .text-line{stroke:currentColor}\n");
        rules(svg, ColorScheme::Light);
        svg.push_str("@media (prefers-color-scheme:dark){\n");
        rules(svg, ColorScheme::Dark);
        svg.push_str("}\n</style>\n");
    }
}

fn draw(svg: &mut String, shape: &VectorShape) {
    match shape {
        VectorShape::Line { points, stroke } => {
            let (class, coordinates) = (stroke.color.class(), coordinates(points));
            put(
                svg,
                format_args!(
                    "<polyline class=\"{class}-line\"{} points=\"{coordinates}\"/>\n",
                    stroke_attributes(stroke)
                ),
            );
        }
        VectorShape::Polygon { points, color, opacity } => {
            let (class, coordinates) = (color.class(), coordinates(points));
            put(
                svg,
                format_args!(
                    "<polygon class=\"{class}\"{} points=\"{coordinates}\"/>\n",
                    opacity_attribute("fill", *opacity)
                ),
            );
        }
        VectorShape::Circle { center: [x, y], radius, color, outline } => {
            let [x, y, radius] = [*x, *y, *radius].map(number);
            let class =
                outline.map_or_else(|| color.class(), |line| format!("{} {}-line", color.class(), line.color.class()));
            let outline = outline.as_ref().map(stroke_attributes).unwrap_or_default();
            put(svg, format_args!("<circle class=\"{class}\"{outline} cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>\n"));
        }
        VectorShape::Text { at: [x, y], text, style } => {
            let TextStyle { size, color, anchor, bold, slanted } = style;
            let [x, y, size] = [*x, *y, *size].map(number);
            let anchor = match anchor {
                TextAnchor::Start => "",
                TextAnchor::Middle => " text-anchor=\"middle\"",
                TextAnchor::End => " text-anchor=\"end\"",
            };
            let weight = if *bold { " font-weight=\"600\"" } else { "" };
            let turn = if *slanted { format!(" transform=\"rotate(-45 {x} {y})\"") } else { String::new() };
            let (class, text) = (color.class(), escaped(text));
            put(
                svg,
                format_args!(
                    "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{weight}{turn}>{text}</text>\n"
                ),
            );
        }
    }
}

/// Attributes of a stroke, except for its color.
fn stroke_attributes(style: &StrokeStyle) -> String {
    let mut text = format!(" stroke-width=\"{}\"", number(style.width));
    if style.dash != DashPattern::Solid {
        let pattern: Vec<String> = style.dash.pattern(style.width).into_iter().map(number).collect();
        put(&mut text, format_args!(" stroke-dasharray=\"{}\"", pattern.join(" ")));
    }
    text + &opacity_attribute("stroke", style.opacity)
}

fn opacity_attribute(what: &str, opacity: f64) -> String {
    if opacity < 1.0 { format!(" {what}-opacity=\"{}\"", number(opacity)) } else { String::new() }
}

fn coordinates(points: &[Coordinates]) -> String {
    let coordinates: Vec<String> = points.iter().map(|[x, y]| format!("{},{}", number(*x), number(*y))).collect();
    coordinates.join(" ")
}

/// Formats up to two decimals, finer than visible.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
