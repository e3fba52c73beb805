//! Pictures of many kinds and sizes. The test leaves them as SVG, PNG (light and dark) and text in
//! `target/tmp/gallery`, for visual inspection after a change.

use hemiola_plot::{
    Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme, ConfusionPlot, LegendPlacement, Picture, TopicsPlot,
};
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

/// Coefficients against a descending penalty: eight with names, and twelve small ones without.
fn coefficients() -> Chart {
    let lambda = |step: i32| 10_f64.powf(f64::from(-step) / 12.0);
    let value = |number: usize, step: i32| {
        let after = f64::from(step) - 2.0 * number as f64;
        let size = if number < 8 { 1.4 - 0.15 * number as f64 } else { 0.12 };
        (if number % 3 == 1 { -size } else { size }) * (1.0 - (-after.max(0.0) / 9.0).exp())
    };
    let axis = ChartAxis::new("lambda").logarithmic().reversed();
    let panel = (0..20).rev().fold(ChartPanel::new(axis, ChartAxis::new("coefficient")), |panel, number| {
        let name = if number < 8 { format!("feature_{}", number * 17 + 3) } else { String::new() };
        let line = ChartLine::new(&name, (0..36).map(|step| [lambda(step), value(number, step)])).series(number);
        panel.line(if number < 8 { line } else { line.muted() })
    });
    let chart = Chart::new().panel(panel.rule(0.021, "chosen: 0.021")).columns(1).frame_height(340.0);
    chart.labels(LegendPlacement::LineEnds).title("Coefficient path")
}

/// Confusion matrix in which most errors are between neighbouring classes.
fn confusion(names: &[String], examples: u64) -> ConfusionPlot {
    let count = |row: usize, column: usize| match row.abs_diff(column) {
        0 => examples - examples * (row as u64 % 7) / 20,
        distance if distance < 4 => examples * ((row * 31 + column * 17) % 5) as u64 / (25 * distance as u64),
        _ => u64::from((row * 7 + column * 13).is_multiple_of(41)),
    };
    let counts: Vec<Vec<u64>> =
        (0..names.len()).map(|row| (0..names.len()).map(|column| count(row, column)).collect()).collect();
    ConfusionPlot::new(names, &counts)
}

fn numbered(count: usize, name: &str) -> Vec<String> {
    (0..count).map(|number| format!("{name}{number}")).collect()
}

/// Topics whose prevalence and weights decrease.
fn topics(count: usize) -> TopicsPlot {
    let words = ["network", "gradient", "kernel", "likelihood", "reinforcement", "spike", "classification", "eye"];
    let total: f64 = (1..=count).map(|topic| 1.0 / topic as f64).sum();
    (0..count).fold(TopicsPlot::new().title("Topics"), |plot, topic| {
        let weight = |rank: usize| 0.12 / (1.0 + rank as f64) / (1.0 + (topic % 9) as f64 / 4.0);
        let terms = (0..8).map(|rank| (words[(topic * 3 + rank) % words.len()], weight(rank)));
        plot.topic(&(topic * 7 % count + 1).to_string(), 1.0 / (topic + 1) as f64 / total, terms)
    })
}

/// Writes a picture in all formats.
fn write(folder: &Path, name: &str, picture: &Picture, text: &str) {
    let write = |end: &str, bytes: &[u8]| std::fs::write(folder.join(format!("{name}{end}")), bytes).unwrap();
    let svg = picture.svg();
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
    assert!(!text.trim().is_empty(), "{name}");
    write(".svg", svg.as_bytes());
    write(".png", &picture.png(ColorScheme::Light, 1.0).unwrap());
    write("-dark.png", &picture.png(ColorScheme::Dark, 1.0).unwrap());
    write(".txt", text.as_bytes());
}

#[test]
fn pictures_of_all_kinds_and_sizes_are_drawn() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gallery");
    std::fs::create_dir_all(&folder).unwrap();
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
        ("coefficients", coefficients()),
    ];
    for (name, chart) in charts {
        write(&folder, name, &chart.picture(), &chart.text(80));
    }
    let iris = ["setosa", "versicolor", "virginica"].map(str::to_owned);
    let newsgroups = numbered(20, "comp.sys.ibm.pc.hardware.");
    let matrices = [
        ("confusion-1", confusion(&iris[..1], 10)),
        ("confusion-2", confusion(&["-1".into(), "1".into()], 25_000).title("Two classes")),
        ("confusion-3", confusion(&iris, 50).other("label not in the model", &[1, 0, 2])),
        ("confusion-10", confusion(&numbered(10, ""), 1000).title("Handwritten digits")),
        ("confusion-20", confusion(&newsgroups, 390)),
        ("confusion-30", confusion(&numbered(30, "class "), 4_000_000)),
        ("confusion-60", confusion(&numbered(60, "class "), 200)),
        ("confusion-400", confusion(&numbered(400, "class "), 20)),
    ];
    for (name, matrix) in matrices {
        write(&folder, name, &matrix.picture(), &matrix.text(80));
    }
    for count in [3, 20, 100] {
        let plot = topics(count).note("and 12 more topics with 3.1 % of the tokens");
        write(&folder, &format!("topics-{count}"), &plot.picture(), &plot.text(100));
    }
}
