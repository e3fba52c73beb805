//! Whole charts as bytes. `pictures` compares SVG with a golden file and examines PNG pixels;
//! `text` compares terminal output; `confusion` and `topics` do both for their plots.

mod confusion;
mod gallery;
mod pictures;
mod text;
mod topics;

use hemiola_plot::{
    Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme, LegendPlacement, Picture, TextAnchor, VectorShape,
};
use std::f64::consts::FRAC_1_SQRT_2;
use tiny_skia::Pixmap;

/// Two runs on two panels, with a gap, a band, a mark and names that need escaping.
fn two_runs() -> Chart {
    let error = |rate: f64| (1..=12).map(move |pass| [f64::from(pass), 0.5 + 1.0 / (1.0 + rate * f64::from(pass))]);
    let seconds = |rate: f64| error(rate).map(|[pass, error]| [pass * 0.4, error]);
    let gap = |[pass, error]: [f64; 2]| [pass, if (pass - 6.0).abs() < 0.5 { f64::NAN } else { error }];
    let epochs = ChartPanel::new(ChartAxis::new("epochs").integer_ticks().from_zero(), ChartAxis::new("rmse"))
        .line(ChartLine::new("rank <4> & more", error(0.3)).band(error(0.3).map(|[_, y]| [y - 0.05, y + 0.05])).mark(9))
        .line(ChartLine::new("rank \"8\"\u{1b}", error(0.8).map(gap)));
    let seconds = ChartPanel::new(ChartAxis::new("seconds").from_zero(), ChartAxis::new("rmse").logarithmic())
        .line(ChartLine::new("rank <4> & more", seconds(0.3)))
        .line(ChartLine::new("rank \"8\"\u{1b}", seconds(0.8)).thin());
    Chart::new().title("Two runs").panel(epochs).panel(seconds).mark("best")
}

/// Two named coefficients and a gray one over a descending axis, with a rule at the chosen value.
fn path() -> Chart {
    let lambda = [1.0, 0.3, 0.1, 0.03];
    let line = |name: &str, values: [f64; 4]| ChartLine::new(name, lambda.iter().zip(values).map(|(x, y)| [*x, y]));
    let panel = ChartPanel::new(ChartAxis::new("lambda").logarithmic().reversed(), ChartAxis::new("coefficient"))
        .rule(0.1, "chosen <0.1>")
        .line(line("", [0.0, 0.0, 0.05, 0.1]).muted())
        .line(line("age & sex", [0.0, 0.4, 0.7, 0.8]).series(0))
        .line(line("size", [0.0, 0.0, -0.2, -0.4]).series(1));
    Chart::new().title("Path").panel(panel).labels(LegendPlacement::LineEnds).columns(1).frame_height(200.0)
}

/// Checks that a picture is valid in all formats. Returns its SVG.
fn checked(picture: &Picture) -> String {
    for scheme in [ColorScheme::Light, ColorScheme::Dark] {
        let pixels = Pixmap::decode_png(&picture.png(scheme, 0.5).unwrap()).unwrap();
        assert_eq!([pixels.width(), pixels.height()], picture.size().map(|side| (side / 2.0).round() as u32));
    }
    checked_svg(picture)
}

/// Checks that the SVG has no markup or control characters of names, and all text inside the
/// picture. Returns it.
fn checked_svg(picture: &Picture) -> String {
    let svg = picture.svg();
    assert!(!svg.contains("NaN") && !svg.contains("inf\"") && !svg.contains("<script"), "{svg}");
    assert!(!svg.chars().any(|letter| letter.is_control() && letter != '\n'), "{svg}");
    let [width, height] = picture.size();
    for shape in picture.shapes() {
        let VectorShape::Text { at: [x, y], text, style } = shape else { continue };
        let length = style.width(text);
        let left = match style.anchor {
            TextAnchor::Start => *x,
            TextAnchor::Middle => x - length / 2.0,
            TextAnchor::End => x - length,
        };
        let (right, top) = if style.slanted {
            (x + length * FRAC_1_SQRT_2, y - (length + style.size) * FRAC_1_SQRT_2)
        } else {
            (left + length, y - style.size)
        };
        let inside = left >= 0.0 && right <= width && top >= 0.0 && *y <= height;
        assert!(inside, "`{text}` at {x}, {y} of {width} × {height}");
    }
    svg
}

/// Compares with a golden file in this folder. After an intended change, run
/// `cargo test -p hemiola-plot --test it -- --ignored rewrite`, review the difference, and commit
/// it.
fn assert_same(found: &str, expected: &str, name: &str) {
    let differs = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    let length = (found.lines().count() != expected.lines().count()).then(|| found.lines().count());
    if let Some(line) = differs.or(length) {
        let of = |text: &str| text.lines().nth(line).unwrap_or("(the end)").to_owned();
        panic!("{name} differs in line {}:\n  found    {}\n  expected {}", line + 1, of(found), of(expected));
    }
}

#[test]
#[ignore = "rewrites the files that others compare with"]
fn rewrite() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/");
    let write = |name: &str, picture: &Picture, text: &str| {
        std::fs::write(format!("{folder}{name}.svg"), picture.svg()).unwrap();
        std::fs::write(format!("{folder}{name}.txt"), text).unwrap();
    };
    write("two-runs", &two_runs().picture(), &two_runs().text(60));
    write("path", &path().picture(), &path().text(60));
    write("iris", &confusion::iris().picture(), &confusion::iris().text(80));
    write("topics", &topics::three().picture(), &topics::three().text(80));
}
