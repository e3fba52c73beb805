//! A picture as SVG, in light or dark as the reader's system has it.
//!
//! Every ink is a class of a style sheet in the file, with a second set of colours behind `prefers-color-scheme`. Programs that
//! do not know media queries see the light one. Classes rather than CSS variables, which several converters do not know. The
//! ground is drawn, since a page need not have the ground that the reader's system asks for.

use crate::ink::{Dash, Ground, Ink};
use crate::picture::{Anchor, Lettering, Pen, Picture, Point, Shape};
use std::collections::BTreeSet;
use std::fmt::Write as _;

const FONTS: &str = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Verdana, sans-serif";

impl Picture {
    /// The picture as SVG that is readable on light and dark pages.
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
        let mut inks = BTreeSet::from([Ink::Ground, Ink::Text]);
        for shape in &self.shapes {
            match shape {
                Shape::Line { pen, .. } => _ = inks.insert(pen.ink),
                Shape::Polygon { ink, .. } => _ = inks.insert(*ink),
                Shape::Circle { ink, rim, .. } => inks.extend([*ink].into_iter().chain(rim.map(|rim| rim.ink))),
                Shape::Text { lettering, .. } => _ = inks.insert(lettering.ink),
            }
        }
        let rules = |svg: &mut String, ground: Ground| {
            put(svg, format_args!(".hemiola-plot{{color:{}}}\n", ground.color(Ink::Text)));
            for ink in inks.iter().filter(|ink| **ink != Ink::Text) {
                let (class, color) = (ink.class(), ground.color(*ink));
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
        rules(svg, Ground::Light);
        svg.push_str("@media (prefers-color-scheme:dark){\n");
        rules(svg, Ground::Dark);
        svg.push_str("}\n</style>\n");
    }
}

fn draw(svg: &mut String, shape: &Shape) {
    match shape {
        Shape::Line { points, pen } => {
            let (class, places) = (pen.ink.class(), places(points));
            put(svg, format_args!("<polyline class=\"{class}-line\"{} points=\"{places}\"/>\n", stroke(pen)));
        }
        Shape::Polygon { points, ink, opacity } => {
            let (class, places) = (ink.class(), places(points));
            put(svg, format_args!("<polygon class=\"{class}\"{} points=\"{places}\"/>\n", faint("fill", *opacity)));
        }
        Shape::Circle { center: [x, y], radius, ink, rim } => {
            let [x, y, radius] = [*x, *y, *radius].map(number);
            let class = rim.map_or_else(|| ink.class(), |rim| format!("{} {}-line", ink.class(), rim.ink.class()));
            let rim = rim.as_ref().map(stroke).unwrap_or_default();
            put(svg, format_args!("<circle class=\"{class}\"{rim} cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>\n"));
        }
        Shape::Text { at: [x, y], text, lettering } => {
            let Lettering { size, ink, anchor, bold } = lettering;
            let [x, y, size] = [*x, *y, *size].map(number);
            let anchor = match anchor {
                Anchor::Start => "",
                Anchor::Middle => " text-anchor=\"middle\"",
                Anchor::End => " text-anchor=\"end\"",
            };
            let weight = if *bold { " font-weight=\"600\"" } else { "" };
            let (class, text) = (ink.class(), escaped(text));
            put(
                svg,
                format_args!(
                    "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" font-size=\"{size}\"{anchor}{weight}>{text}</text>\n"
                ),
            );
        }
    }
}

/// How a line is drawn, but for its colour.
fn stroke(pen: &Pen) -> String {
    let mut text = format!(" stroke-width=\"{}\"", number(pen.width));
    if pen.dash != Dash::Solid {
        let pattern: Vec<String> = pen.dash.pattern(pen.width).into_iter().map(number).collect();
        put(&mut text, format_args!(" stroke-dasharray=\"{}\"", pattern.join(" ")));
    }
    text + &faint("stroke", pen.opacity)
}

fn faint(what: &str, opacity: f64) -> String {
    if opacity < 1.0 { format!(" {what}-opacity=\"{}\"", number(opacity)) } else { String::new() }
}

fn places(points: &[Point]) -> String {
    let places: Vec<String> = points.iter().map(|[x, y]| format!("{},{}", number(*x), number(*y))).collect();
    places.join(" ")
}

/// Up to two decimals, which is finer than anybody sees.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}
