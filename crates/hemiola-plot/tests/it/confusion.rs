//! Confusion matrices as pictures and text.

use crate::{assert_same, checked, checked_svg};
use hemiola_plot::ConfusionPlot;

/// Three classes whose names need escaping, and examples of a fourth.
pub(crate) fn iris() -> ConfusionPlot {
    let classes = ["setosa", "versi<color>", "virginica\u{1b}&"].map(str::to_owned);
    let counts = [vec![50, 0, 0], vec![0, 47, 3], vec![0, 1, 49]];
    ConfusionPlot::new(&classes, &counts).other("not in the model", &[0, 2, 1]).title("Iris")
}

fn numbered(count: usize, name: &str) -> Vec<String> {
    (0..count).map(|number| format!("{name}{number}")).collect()
}

/// Matrix of `count` classes in which a class is confused with the next one.
fn neighbours(count: usize, name: &str) -> ConfusionPlot {
    let row = |class: usize| {
        (0..count).map(|other| if other == class { 90 } else { u64::from(other == (class + 1) % count) * 10 }).collect()
    };
    ConfusionPlot::new(&numbered(count, name), &(0..count).map(row).collect::<Vec<Vec<u64>>>())
}

#[test]
fn picture_and_text_match_the_golden_files() {
    let svg = checked(&iris().picture());
    assert_same(&svg, include_str!("iris.svg"), "iris.svg");
    assert!(svg.contains(">versi&lt;color&gt;<") && svg.contains("virginica\u{fffd}&amp;"), "{svg}");
    assert_same(&iris().text(80), include_str!("iris.txt"), "iris.txt");
}

#[test]
fn counts_are_written_for_thirty_classes_and_shades_alone_beyond() {
    for (classes, counts) in [(1, true), (2, true), (12, true), (30, true), (31, false), (300, false)] {
        let svg = checked_svg(&neighbours(classes, "class ").picture());
        assert_eq!(svg.contains(">90<"), counts, "{classes}");
        assert!(svg.contains(">class 0<") && svg.contains("recall") == counts, "{classes}");
        // A shade for each count, and the scale below.
        let shades = svg.matches("<polygon class=\"series-0\"").count();
        assert_eq!(shades, 48 + if classes == 1 { 1 } else { 2 * classes }, "{classes}");
    }
}

#[test]
fn degenerate_matrices_can_be_drawn() {
    let long = "a class with a name that is far too long for any column of a matrix ".repeat(9);
    for plot in [
        ConfusionPlot::new(&[], &[]),
        ConfusionPlot::new(&["a".into()], &[]).title(&long),
        ConfusionPlot::new(&["a".into(), String::new()], &[vec![u64::MAX / 4; 2], vec![]]),
        ConfusionPlot::new(&[long.clone(), "\u{1b}]0;<script>\u{7}".into()], &[vec![1, 2, 3], vec![4]])
            .other(&long, &[1]),
        neighbours(20, &long),
    ] {
        checked(&plot.picture());
        for width in [0, 40, 80, 200] {
            let text = plot.text(width);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= width.max(40) && !text.contains('\u{1b}'), "{width}: {text}");
        }
    }
}

#[test]
fn a_wide_matrix_becomes_a_list_of_classes_and_errors() {
    let text = neighbours(40, "class ").text(80);
    assert!(text.starts_with("the 30 of 40 classes with the lowest recall\n"), "{text}");
    assert!(text.contains("class 7        100   90.0%      90.0%\n"), "{text}");
    assert!(text.contains("      10  class 0 predicted as class 1\n") && text.lines().count() == 44, "{text}");
    let twelve = neighbours(12, "").text(80);
    assert!(twelve.starts_with("true") && twelve.lines().count() == 14 && !twelve.contains("errors"), "{twelve}");
}
