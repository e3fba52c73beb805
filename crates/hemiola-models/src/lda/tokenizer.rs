//! Lines of plain text become words.
//!
//! 1. A word is a run of letters, digits and the marks that combine with them, in any script. Everything else ends it: spaces, hyphens, underscores,
//!    punctuation. Soft hyphens are as if they were not there.
//! 2. An apostrophe between two letters belongs to the word and is written `'`, whichever it was (`don’t` is `don't`); at either end it does not, and a final `'s` is
//!    cut off (`the ship's` has the word `ship`).
//! 3. Words are in lower case.
//! 4. Left out are words of digits alone (`1987`, but not `3d`), words of fewer letters than the shortest allowed, and stop words.
//!
//! Nothing is stemmed, and languages that write without spaces need their words divided by spaces first. A line that is not UTF-8 is taken for Latin-1.
//!
//! **Invariant:** the words of a line depend on the line and the settings alone.

use super::stop_words;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How text is divided into words, and which of them count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokenizer {
    /// Whether words of digits alone count.
    pub numbers: bool,
    /// The letters that a word has at least.
    pub shortest: u32,
    /// Words that do not count, in lower case.
    pub stop_words: BTreeSet<String>,
}

impl Default for Tokenizer {
    /// Without numbers, single letters and the stop words of English.
    fn default() -> Self {
        Self { numbers: false, shortest: 2, stop_words: stop_words::english() }
    }
}

impl Tokenizer {
    /// Every word counts, whatever it is.
    #[must_use]
    pub fn everything() -> Self {
        Self { numbers: true, shortest: 1, stop_words: BTreeSet::new() }
    }

    /// Hands the words of a line to `visit`, in order. How many were left out because they are stop words, numbers or too short.
    ///
    /// ```
    /// use hemiola_models::lda::Tokenizer;
    /// let mut words = Vec::new();
    /// let left_out = Tokenizer::default().words("The Captain’s well-worn 74-gun ship didn't sail in 1805.", |word| words.push(word.to_owned()));
    /// assert_eq!(words, ["captain", "well", "worn", "gun", "ship", "sail"]);
    /// assert_eq!(left_out, 5); // the, 74, didn't, in, 1805
    /// ```
    pub fn words(&self, line: &str, mut visit: impl FnMut(&str)) -> u64 {
        let mut left_out = 0;
        let mut word = String::new();
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            if is_apostrophe(letter) {
                let joins = word.chars().next_back().is_some_and(char::is_alphabetic)
                    && letters.peek().is_some_and(|next| next.is_alphabetic());
                if joins {
                    word.push('\'');
                } else {
                    left_out += self.end(&mut word, &mut visit);
                }
            } else if letter.is_alphanumeric() || is_mark(letter) && !word.is_empty() {
                word.extend(letter.to_lowercase());
            } else if letter != '\u{ad}' {
                left_out += self.end(&mut word, &mut visit);
            }
        }
        left_out + self.end(&mut word, &mut visit)
    }

    /// The end of a word, if there is one; 1 if it is left out.
    fn end(&self, word: &mut String, visit: &mut impl FnMut(&str)) -> u64 {
        if word.is_empty() {
            return 0;
        }
        // Before possessives are cut: `it's` is no `it`, though both are stop words.
        let stops = self.stop_words.contains(word.as_str());
        let plain = word.strip_suffix("'s").unwrap_or(word);
        let counts = !stops
            && plain.chars().take(self.shortest as usize).count() == self.shortest as usize
            && (self.numbers || !plain.chars().all(char::is_numeric))
            && !self.stop_words.contains(plain);
        if counts {
            visit(plain);
        }
        word.clear();
        u64::from(!counts)
    }
}

fn is_apostrophe(letter: char) -> bool {
    matches!(letter, '\'' | '\u{2019}' | '\u{2bc}' | '\u{ff07}')
}

/// Marks that combine with the letter before them and joiners: those that `char::is_alphanumeric` does not count.
fn is_mark(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{94d}' | '\u{9cd}' | '\u{e4d}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        Tokenizer::everything().words(line, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn apostrophes_are_no_trouble() {
        assert_eq!(
            words("'tis the captains' don't DON’T o'clock' ''"),
            ["tis", "the", "captains", "don't", "don't", "o'clock"]
        );
        assert_eq!(words("ship's it's 90's s' 's"), ["ship", "it", "90", "s", "s", "s"]);
        assert_eq!(words("rock'n'roll"), ["rock'n'roll"]);
    }

    #[test]
    fn words_are_those_of_any_script() {
        assert_eq!(
            words("Straße ÉTÉ naïve e\u{301}te\u{301} co\u{ad}operate"),
            ["straße", "été", "naïve", "e\u{301}te\u{301}", "cooperate"]
        );
        assert_eq!(words("Война и мир, 日本語 हिन्दी"), ["война", "и", "мир", "日本語", "हिन्दी"]);
        assert_eq!(words("a_b-c/d.e@f 3d 10,000 \u{301}x"), ["a", "b", "c", "d", "e", "f", "3d", "10", "000", "x"]);
        assert_eq!(words(" \t—…!"), Vec::<String>::new());
    }

    #[test]
    fn what_does_not_count_is_counted() {
        let mut kept = Vec::new();
        let tokenizer = Tokenizer { shortest: 3, ..Tokenizer::default() };
        let left_out =
            tokenizer.words("It's 1999 and the sea of x ²³ go gone seas", |word| kept.push(word.to_owned()));
        assert_eq!((kept, left_out), (vec!["sea".to_owned(), "gone".to_owned(), "seas".to_owned()], 8));
    }
}
