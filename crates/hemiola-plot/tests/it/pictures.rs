//! SVG and PNG output of charts.

use crate::{assert_same, checked, path, two_runs};
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel, ColorScheme, LegendPlacement};
use tiny_skia::{Pixmap, PremultipliedColorU8};

#[test]
fn the_svg_matches_the_golden_file() {
    assert_same(&two_runs().picture().svg(), include_str!("two-runs.svg"), "two-runs.svg");
}

#[test]
fn the_svg_of_a_path_matches_the_golden_file() {
    let svg = checked(&path().picture());
    assert_same(&svg, include_str!("path.svg"), "path.svg");
    // The largest lambda is at the left.
    let at = |label: &str| {
        let tick = svg.lines().find(|line| line.ends_with(&format!(">{label}</text>"))).expect(label);
        tick.split(" x=\"").nth(1).unwrap().split('"').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(at("1") < at("0.1") && svg.contains(">chosen &lt;0.1&gt;<") && svg.contains(">age &amp; sex<"));
}

#[test]
fn the_svg_has_both_color_schemes_and_no_markup_from_names() {
    let svg = two_runs().picture().svg();
    assert_eq!(svg.matches("prefers-color-scheme:dark").count(), 1);
    assert!(svg.contains("rank &lt;4&gt; &amp; more") && !svg.contains("<4>") && !svg.contains('\u{1b}'));
    // Text takes its color from the style sheet, never from an attribute.
    assert!(!svg.contains("fill=\"") && !svg.contains("stroke=\""));
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn the_png_is_opaque_has_its_size_and_shows_every_series() {
    let picture = two_runs().picture();
    for scheme in [ColorScheme::Light, ColorScheme::Dark] {
        let pixels = Pixmap::decode_png(&picture.png(scheme, 1.5).unwrap()).unwrap();
        let [width, height] = picture.size().map(|side| (side * 1.5).round() as u32);
        assert_eq!((pixels.width(), pixels.height()), (width, height));
        let corner = pixels.pixel(0, 0).unwrap();
        assert!(pixels.pixels().iter().all(|pixel| pixel.alpha() == 255));
        let bright =
            |pixel: PremultipliedColorU8| u32::from(pixel.red()) + u32::from(pixel.green()) + u32::from(pixel.blue());
        assert_eq!(bright(corner) > 600, scheme == ColorScheme::Light);
        let drawn = pixels.pixels().iter().filter(|pixel| **pixel != corner).count();
        let share = drawn as f64 / f64::from(width * height);
        assert!((0.02..0.3).contains(&share), "{share} of the pixels are drawn on");
        // The frames of both panels have colored pixels, which text and axes have not.
        let colourful = |x: u32, y: u32| {
            let pixel = pixels.pixel(x, y).unwrap();
            let parts = [pixel.red(), pixel.green(), pixel.blue()];
            parts.iter().max().unwrap() - parts.iter().min().unwrap() > 90
        };
        for half in [0..width / 2, width / 2..width] {
            let count =
                half.flat_map(|x| (height / 2..height).map(move |y| (x, y))).filter(|(x, y)| colourful(*x, *y)).count();
            assert!(count > 200, "{count} coloured pixels");
        }
    }
}

#[test]
fn arbitrary_data_can_be_drawn() {
    let nothing = ChartPanel::new(ChartAxis::new(""), ChartAxis::new(""));
    let strange = [f64::NAN, f64::INFINITY, -1e308, 1e308, 0.0, -0.0, 5e-324, -7.0];
    let points = strange.iter().flat_map(|x| strange.iter().map(|y| [*x, *y]));
    let line = ChartLine::new("", points.clone()).band(points.map(|[x, y]| [y, x])).mark(1_000_000);
    let single = ChartLine::new(&"long ".repeat(1000), [[3.0, 3.0]]).mark(0);
    let many = (0..40).fold(nothing.clone(), |panel, n| {
        panel.line(ChartLine::new(&format!("run {n}"), [[0.0, f64::from(n)], [1.0, 2.0]]))
    });
    let panels = [
        nothing.clone(),
        ChartPanel::new(ChartAxis::new("x").logarithmic(), ChartAxis::new("y").logarithmic().integer_ticks())
            .line(line.clone()),
        nothing.clone().line(line).line(single),
        many,
    ];
    for labels in [LegendPlacement::Legend, LegendPlacement::LineEnds] {
        let chart =
            panels.iter().fold(Chart::new().labels(labels).columns(0), |chart, panel| chart.panel(panel.clone()));
        for chart in [chart, Chart::new().labels(labels)] {
            let picture = chart.picture();
            let svg = picture.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(picture.png(ColorScheme::Light, 0.5).is_ok());
            assert!(chart.text(0).lines().count() < 200);
        }
    }
}

#[test]
fn the_last_label_of_an_axis_is_not_cut_off() {
    let points = (0..=4).map(|n| [1.0 + 2.5e-5 * f64::from(n), f64::from(n)]);
    let picture = Chart::new()
        .panel(ChartPanel::new(ChartAxis::new("x"), ChartAxis::new("y")).line(ChartLine::new("a", points)))
        .picture();
    let svg = picture.svg();
    let labels = svg.split("<text ").filter(|text| text.contains("font-size=\"11\" text-anchor=\"middle\""));
    let right_ends = labels.map(|text| {
        let x: f64 = text.split(" x=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        let label = text.split('>').nth(1).unwrap().split('<').next().unwrap();
        // Digits of this font are seven units wide.
        (x + 3.5 * (label.chars().count() - 1) as f64, label.to_owned())
    });
    let (end, label) = right_ends.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    assert!(label.len() > 6 && end <= picture.size()[0], "`{label}` ends at {end}");
}
