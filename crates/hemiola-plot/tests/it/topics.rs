//! Topics as pictures and text.

use crate::{assert_same, checked, checked_svg};
use hemiola_plot::TopicsPlot;

/// Three topics with terms that need escaping, and one value that is not a number.
pub(crate) fn three() -> TopicsPlot {
    TopicsPlot::new()
        .title("Topics")
        .topic("2", 0.512, [("network", 0.081), ("<b>gradient</b>", 0.04), ("training & test", 0.0391)])
        .topic(
            "1",
            0.4851,
            [("spike", 0.0512), ("neuron\u{1b}[31m", 0.03), ("a-term-that-is-much-too-long-for-a-column", 0.02)],
        )
        .topic("3", 0.0029, [("cell", f64::NAN)])
        .note("not shown: 1 topic")
}

#[test]
fn picture_and_text_match_the_golden_files() {
    let svg = checked(&three().picture());
    assert_same(&svg, include_str!("topics.svg"), "topics.svg");
    assert!(svg.contains("&lt;b&gt;gradient&lt;/b&gt;") && svg.contains("training &amp; test"), "{svg}");
    assert_same(&three().text(80), include_str!("topics.txt"), "topics.txt");
}

#[test]
fn a_hundred_topics_are_rows_without_overlap() {
    let plot = (0..100).fold(TopicsPlot::new(), |plot, topic| {
        plot.topic(&topic.to_string(), 0.01, (0..20).map(|_| ("internationalization", 0.25)))
    });
    let svg = checked_svg(&plot.picture());
    // Eight terms of each, truncated to their columns.
    assert_eq!(svg.matches(">.250<").count(), 800);
    assert_eq!(plot.text(80).lines().count(), 101);
}

#[test]
fn degenerate_topics_can_be_drawn() {
    let long = "topic ".repeat(50);
    for plot in [
        TopicsPlot::new(),
        TopicsPlot::new().title(&long).note(&long),
        TopicsPlot::new().topic("", f64::NAN, []).topic(
            &long,
            f64::INFINITY,
            [("", -1.0), ("<script>", f64::NEG_INFINITY)],
        ),
    ] {
        checked(&plot.picture());
        for width in [0, 40, 200] {
            let text = plot.text(width);
            assert!(text.lines().all(|line| line.chars().count() <= width.max(40)), "{width}: {text}");
        }
    }
}
