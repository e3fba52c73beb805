//! Text of others, safe to print.
//!
//! A name in a data file, the refusal of an unknown peer or the content of a damaged file may
//! contain control characters. On a terminal they move the cursor, change colours and titles, hide
//! what was printed before, or answer as if a person had typed. Marks of writing direction make text
//! appear in another order than it is read. [`printable`] replaces both by visible escapes.
//! **Invariant:** no result contains such a character; text without any is returned as it is.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns `text` on one line, with control characters and marks of writing direction escaped.
///
/// ```
/// assert_eq!(hemiola_core::printable("caf\u{e9} 1"), "caf\u{e9} 1");
/// assert_eq!(hemiola_core::printable("\u{1b}[2Jx\n"), "\\u{1b}[2Jx\\n");
/// ```
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Returns `text` like [`printable`], but keeps line ends and tabs: for messages of several lines.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, |letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t'))
}

fn escape(text: &str, unsafe_letter: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&unsafe_letter) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if !unsafe_letter(letter) {
            safe.push(letter);
        } else if matches!(letter, '\n' | '\r' | '\t') {
            safe.extend(letter.escape_default());
        } else {
            let _ = write!(safe, "\\u{{{:x}}}", u32::from(letter)); // a string takes everything
        }
    }
    Cow::Owned(safe)
}

/// Returns true for control characters (C0, C1, delete), line separators and marks of direction.
fn is_unsafe(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_character_is_escaped() {
        let controls: String = (0..=0x9f_u32).filter_map(char::from_u32).filter(|letter| letter.is_control()).collect();
        assert!(!printable(&controls).contains(char::is_control));
        let kept: Vec<char> = printable_lines(&controls).chars().filter(|letter| letter.is_control()).collect();
        assert_eq!(kept, ['\t', '\n']);
    }

    #[test]
    fn text_in_any_language_is_unchanged() {
        for text in ["", "Star Wars (1977)", "Amélie", "千と千尋の神隠し", "сталкер", "a `b` \\ c"] {
            assert!(matches!(printable(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn the_order_of_letters_cannot_be_turned() {
        assert_eq!(printable("abc\u{202e}fed"), "abc\\u{202e}fed");
    }
}
