//! Whole charts as bytes. `pictures` compares SVG with a golden file and examines PNG pixels;
//! `text` compares terminal output.

mod pictures;
mod text;

use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel};

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
    std::fs::write(format!("{folder}two-runs.svg"), two_runs().picture().svg()).unwrap();
    std::fs::write(format!("{folder}two-runs.txt"), two_runs().text(60)).unwrap();
}
