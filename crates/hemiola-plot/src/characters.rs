//! Helpers of terminal output: truncated and padded texts, and bars.

use std::fmt::Write as _;

/// Truncates a text to `most` characters, with an ellipsis at its end.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        text.to_owned()
    } else {
        text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
    }
}

/// Formats a bar of `fraction` of `width` characters, with a resolution of eighths.
pub(crate) fn bar(fraction: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = ['█', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (fraction.clamp(0.0, 1.0) * (8 * width) as f64).round() as usize;
    let whole = std::iter::repeat_n(EIGHTHS[0], eighths / 8);
    whole.chain((!eighths.is_multiple_of(8)).then(|| EIGHTHS[eighths % 8])).collect()
}

/// Appends formatted text.
pub(crate) fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(arguments);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_exact_to_an_eighth() {
        assert_eq!([bar(0.0, 4), bar(0.5, 4), bar(1.0, 4), bar(0.34, 4)], ["", "██", "████", "█▍"]);
        assert_eq!([bar(f64::NAN, 4), bar(7.0, 2)], ["", "██"]);
        assert_eq!([cut("abcdef", 4), cut("abcd", 4), cut("ab", 0)], ["abc…", "abcd", "…"]);
    }
}
