//! Draws charts of many kinds into a folder, for visual inspection after a change:
//! `cargo run -p hemiola-plot --example gallery -- FOLDER` writes SVG, PNG (light and dark) and text.

use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme, LegendPlacement};
use std::path::Path;

/// Synthetic learning curve over 40 epochs.
fn curve(number: usize) -> impl Iterator<Item = [f64; 2]> {
    let (rate, level) = (0.12 + 0.07 * (number % 5) as f64, 0.86 + 0.013 * number as f64);
    (1..=40).map(f64::from).map(move |epoch| [epoch, level + 0.35 * (-rate * epoch).exp() + 0.0004 * epoch])
}

/// Learning curves over epochs and over seconds, side by side.
fn runs(names: &[&str]) -> Chart {
    let x = [ChartAxis::new("epochs").integer_ticks().from_zero(), ChartAxis::new("seconds of training").from_zero()];
    let [mut epochs, mut seconds] = x.map(|x| ChartPanel::new(x, ChartAxis::new("validation error (RMSE)")));
    for (number, name) in names.iter().enumerate() {
        let per_epoch = 0.21 + 0.05 * number as f64;
        epochs = epochs.line(ChartLine::new(name, curve(number)).mark(25));
        seconds = seconds.line(ChartLine::new(name, curve(number).map(|[x, y]| [x * per_epoch, y])).mark(25));
    }
    Chart::new().panel(epochs).panel(seconds).mark("model that was kept")
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder")?;
    let eight = ["one", "two", "three", "four", "five", "six", "seven", "eight"];
    let long = "movielens-1m-rank-64-step-0.05-l2-0.02-seed-".repeat(4);
    let axes = || (ChartAxis::new("epoch").integer_ticks(), ChartAxis::new("error"));
    let bands = eight[..3].iter().enumerate().fold(ChartPanel::new(axes().0, axes().1), |panel, (number, name)| {
        let band = curve(number).map(|[_, y]| [y - 0.02, y + 0.03]);
        panel.line(ChartLine::new(name, curve(number)).band(band))
    });
    let fall = (0..60).map(f64::from).map(|n| [10_f64.powf(n / 8.0), 10_f64.powf(-n / 9.0)]);
    let logarithmic = ChartPanel::new(ChartAxis::new("bytes").logarithmic(), ChartAxis::new("objective").logarithmic())
        .line(ChartLine::new("falls", fall));
    let gaps = (0..20).map(|n| [f64::from(n), if n % 7 == 3 { f64::NAN } else { f64::from(n * n) * 1e5 }]);
    let gaps = ChartPanel::new(axes().0, axes().1).line(ChartLine::new("with gaps", gaps));
    let charts = [
        ("one", runs(&eight[..1])),
        ("eight", runs(&eight).title("Eight runs of matrix factorization")),
        ("long", runs(&[&long]).title(&"A title that is far too long for its picture, ".repeat(5))),
        ("bands", Chart::new().panel(bands).labels(LegendPlacement::LineEnds).title("Mean, lowest and highest")),
        ("wide", Chart::new().panel(logarithmic).panel(gaps)),
        ("empty", Chart::new().panel(ChartPanel::new(axes().0, axes().1))),
    ];
    for (name, chart) in charts {
        let write = |end: &str, bytes: &[u8]| std::fs::write(Path::new(&folder).join(format!("{name}{end}")), bytes);
        let picture = chart.picture();
        write(".svg", picture.svg().as_bytes())?;
        write(".png", &picture.png(ColorScheme::Light, 2.0)?)?;
        write("-dark.png", &picture.png(ColorScheme::Dark, 2.0)?)?;
        write(".txt", chart.text(80).as_bytes())?;
    }
    Ok(())
}
