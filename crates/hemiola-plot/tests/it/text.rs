//! Terminal output of charts.

use crate::{assert_same, path, two_runs};
use hemiola_plot::{Chart, ChartAxis, ChartLine, ChartPanel};

#[test]
fn the_text_matches_the_golden_file() {
    assert_same(&two_runs().text(60), include_str!("two-runs.txt"), "two-runs.txt");
}

#[test]
fn the_text_of_a_path_matches_the_golden_file() {
    let text = path().text(60);
    assert_same(&text, include_str!("path.txt"), "path.txt");
    assert!(
        text.ends_with("vertical line: chosen <0.1>\n\nA  age & sex\nB  size\n"),
        "gray lines have no letter: {text}"
    );
}

#[test]
fn no_line_is_wider_than_asked_for() {
    for width in [30, 47, 80, 200] {
        let widest = two_runs().text(width).lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width), "{widest:?} of {width}");
    }
}

#[test]
fn a_rising_line_rises_and_letters_tell_lines_apart() {
    let panel = ChartPanel::new(ChartAxis::new("x"), ChartAxis::new("y"))
        .line(ChartLine::new("up", [[0.0, 0.0], [1.0, 1.0]]))
        .line(ChartLine::new("down", [[0.0, 1.0], [1.0, 0.0]]));
    let text = Chart::new().panel(panel).text(60);
    let places = |letter: char| {
        let rows = text.lines().enumerate().take_while(|(_, line)| !line.contains('└'));
        let found = rows.filter_map(|(row, line)| Some((line.chars().position(|found| found == letter)?, row)));
        let mut places: Vec<(usize, usize)> = found.collect();
        places.sort_unstable();
        places.into_iter().map(|(_, row)| row).collect::<Vec<_>>()
    };
    let (up, down) = (places('A'), places('B'));
    assert!(up.len() >= 2 && up.windows(2).all(|pair| pair[0] > pair[1]), "{up:?}\n{text}");
    assert!(down.len() >= 2 && down.windows(2).all(|pair| pair[0] < pair[1]), "{down:?}\n{text}");
    assert!(text.ends_with("A  up\nB  down\n"), "{text}");
}

#[test]
fn long_names_are_cut() {
    let long = "name ".repeat(50);
    let panel = ChartPanel::new(ChartAxis::new(&long), ChartAxis::new(&long))
        .line(ChartLine::new(&long, [[0.0, 1.0], [1.0, 2.0]]));
    let text = Chart::new().title(&long).panel(panel).text(50);
    assert!(text.lines().all(|line| line.chars().count() <= 50) && text.matches('…').count() == 4, "{text}");
}
