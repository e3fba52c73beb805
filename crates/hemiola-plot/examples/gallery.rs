//! Draws charts of many kinds into a folder, for visual inspection after a change:
//! `cargo run -p hemiola-plot --example gallery -- FOLDER`.

use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme, LegendPlacement};
use std::path::Path;

fn curve(number: usize, seconds: bool) -> impl Iterator<Item = [f64; 2]> {
    let rate = 0.12 + 0.07 * (number % 5) as f64;
    let level = 0.86 + 0.013 * number as f64;
    (1..=40).map(move |epoch| {
        let x = f64::from(epoch) * if seconds { 0.21 + 0.05 * number as f64 } else { 1.0 };
        [x, level + 0.35 * (-rate * f64::from(epoch)).exp() + 0.0004 * f64::from(epoch)]
    })
}

fn runs(names: &[&str]) -> Chart {
    let mut epochs = ChartPanel::new(
        ChartAxis::new("epochs").integer_ticks().from_zero(),
        ChartAxis::new("rmse on held-out entries"),
    );
    let mut seconds =
        ChartPanel::new(ChartAxis::new("seconds of training").from_zero(), ChartAxis::new("rmse on held-out entries"));
    for (number, name) in names.iter().enumerate() {
        epochs = epochs.line(ChartLine::new(name, curve(number, false)).mark(25));
        seconds = seconds.line(ChartLine::new(name, curve(number, true)).mark(25));
    }
    Chart::new().panel(epochs).panel(seconds).mark("model that was kept")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let eight = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let long = "movielens-1m-rank-64-step-0.05-l2-0.02-seed-";
    let long: Vec<String> = (1..=4).map(|seed| format!("{}{seed}", long.repeat(seed))).collect();
    let long: Vec<&str> = long.iter().map(String::as_str).collect();
    let spread = |number: usize| curve(number, false).map(|[_, y]| [y - 0.02, y + 0.03]);
    let bands = (0..3)
        .fold(ChartPanel::new(ChartAxis::new("pass").integer_ticks(), ChartAxis::new("error")), |panel, number| {
            panel.line(ChartLine::new(eight[number], curve(number, false)).band(spread(number)))
        });
    let wide = (0..3).fold(
        ChartPanel::new(ChartAxis::new("bytes").logarithmic(), ChartAxis::new("objective").logarithmic()),
        |panel, number| {
            let fall = (0..60)
                .map(move |n| [10f64.powf(f64::from(n) / 8.0), 10f64.powf(-f64::from(n) / (9.0 + number as f64))]);
            panel.line(ChartLine::new(eight[number], fall))
        },
    );
    let holes = ChartPanel::new(ChartAxis::new("epochs").integer_ticks().from_zero(), ChartAxis::new("objective"))
        .line(ChartLine::new(
            "with gaps",
            (0..20).map(|n| [f64::from(n), if n % 7 == 3 || n == 5 { f64::NAN } else { f64::from(n * n) * 1e5 }]),
        ));
    let charts = [
        ("one", runs(&eight[..1])),
        ("two", runs(&eight[..2]).title("Two runs")),
        ("eight", runs(&eight).title("Eight runs of matrix factorization")),
        ("long", runs(&long).title(&"A title that is far too long for its picture, ".repeat(5))),
        (
            "bands",
            Chart::new()
                .panel(bands)
                .labels(LegendPlacement::LineEnds)
                .title("Mean, with the lowest and highest of five"),
        ),
        ("wide", Chart::new().panel(wide).panel(holes)),
        ("empty", Chart::new().panel(ChartPanel::new(ChartAxis::new("x"), ChartAxis::new("y")))),
    ];
    for (name, chart) in charts {
        let write =
            |ending: &str, bytes: &[u8]| std::fs::write(Path::new(&folder).join(format!("{name}{ending}")), bytes);
        let picture = chart.picture();
        write(".svg", picture.svg().as_bytes())?;
        write(".png", &picture.png(ColorScheme::Light, 2.0)?)?;
        write("-dark.png", &picture.png(ColorScheme::Dark, 2.0)?)?;
        write(".txt", chart.text(80).as_bytes())?;
    }
    Ok(())
}
