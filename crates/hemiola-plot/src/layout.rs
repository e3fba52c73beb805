//! Sizes and helpers that all pictures share, so that they look alike side by side.

use crate::color::ColorRole;
use crate::picture::{Coordinates, Picture, TextStyle};

/// Distance from the border to the content.
pub(crate) const MARGIN: f64 = 18.0;
pub(crate) const TITLE_SIZE: f64 = 16.0;
pub(crate) const LABEL_SIZE: f64 = 12.0;
pub(crate) const TICK_SIZE: f64 = 11.0;
/// Distance between elements of one group.
pub(crate) const GAP: f64 = 7.0;
/// Distance between groups of elements.
pub(crate) const GROUP_GAP: f64 = 22.0;

/// Height of the title with the space below it; 0 without a title.
pub(crate) fn title_height(title: &str) -> f64 {
    if title.is_empty() { 0.0 } else { TITLE_SIZE + 14.0 }
}

/// Draws the title in the upper left corner.
pub(crate) fn draw_title(picture: &mut Picture, title: &str) {
    if !title.is_empty() {
        let style = TextStyle::new(TITLE_SIZE, ColorRole::Text).bold();
        let [width, _] = picture.size();
        picture.text([MARGIN, MARGIN + TITLE_SIZE], &style.truncate(title, width - 2.0 * MARGIN), style);
    }
}

/// Baseline of a text that is vertically centred on `y`.
pub(crate) fn baseline(y: f64, size: f64) -> f64 {
    y + size * 0.36
}

/// Corners of a rectangle from its upper left corner, width and height.
pub(crate) fn rectangle([left, top]: Coordinates, width: f64, height: f64) -> [Coordinates; 4] {
    [[left, top], [left + width, top], [left + width, top + height], [left, top + height]]
}

/// Formats a fraction in percent with three digits at most: `0.25 %`, `4.1 %`, `100 %`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = 100.0 * fraction;
    let decimals = match percent {
        _ if percent == 0.0 || percent >= 99.95 => 0,
        _ if percent < 0.995 => 2,
        _ => 1,
    };
    format!("{percent:.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_have_three_digits_at_most() {
        let cases = [(0.0, "0 %"), (0.0025, "0.25 %"), (0.0412, "4.1 %"), (0.999, "99.9 %"), (0.9999, "100 %")];
        assert!(cases.iter().all(|(fraction, text)| percent(*fraction) == *text), "{}", percent(0.9999));
    }
}
