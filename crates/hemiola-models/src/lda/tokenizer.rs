//! Tokenizer: lines of plain text become words.
//!
//! 1. A word is a run of letters, digits and combining marks, in any script. Everything else ends
//!    it: spaces, hyphens, underscores, punctuation. Soft hyphens are ignored.
//! 2. An apostrophe between two letters belongs to the word and is normalized to `'` (`don’t` is
//!    `don't`); at either end it does not, and a final `'s` is stripped (`the ship's` has the word
//!    `ship`).
//! 3. Words are converted to lower case.
//! 4. Words of digits alone (`1987`, but not `3d`), words shorter than the minimum length, and stop
//!    words are dropped.
//!
//! With [`ngrams`](Tokenizer::ngrams), terms are sequences of adjacent words, joined by a space. Dropped
//! words are left out first, so `the ship of state` has the pair `ship state`.
//!
//! There is no stemming, and languages without spaces need word segmentation first. A line that is
//! not UTF-8 is decoded as Latin-1.
//!
//! **Invariant:** the words of a line depend on the line and the settings alone.

use super::stop_words;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Settings of the tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokenizer {
    /// Keeps words of digits alone.
    pub numbers: bool,
    /// Minimum number of letters of a word.
    pub shortest: u32,
    /// Words to drop, in lower case.
    pub stop_words: BTreeSet<String>,
    /// Minimum and maximum number of words of a term: `(1, 2)` for words and pairs of words.
    #[serde(default = "single_words")]
    pub ngrams: (u32, u32),
}

fn single_words() -> (u32, u32) {
    (1, 1)
}

impl Default for Tokenizer {
    /// Drops numbers, single letters and the stop words of English.
    fn default() -> Self {
        Self { numbers: false, shortest: 2, stop_words: stop_words::english(), ngrams: single_words() }
    }
}

impl Tokenizer {
    /// Calls `visit` for the terms of a line: its words, or sequences of them. Returns the number of
    /// dropped words.
    ///
    /// ```
    /// use hemiola_models::lda::Tokenizer;
    /// let mut terms = Vec::new();
    /// let tokenizer = Tokenizer { ngrams: (1, 2), ..Tokenizer::default() };
    /// tokenizer.terms("not a good film", |term| terms.push(term.to_owned()));
    /// assert_eq!(terms, ["good", "film", "good film"]);
    /// ```
    pub fn terms(&self, line: &str, mut visit: impl FnMut(&str)) -> u64 {
        let (least, most) = self.ngrams;
        if most <= 1 {
            return self.words(line, visit);
        }
        // The last words of the line, joined by spaces, and the start of each.
        let (mut text, mut starts) = (String::new(), VecDeque::new());
        self.words(line, |word| {
            if starts.len() == most as usize {
                starts.pop_front();
            }
            if !text.is_empty() {
                text.push(' ');
            }
            starts.push_back(text.len());
            text.push_str(word);
            for count in least..=most {
                if let Some(start) = starts.len().checked_sub(count as usize).and_then(|index| starts.get(index)) {
                    visit(&text[*start..]);
                }
            }
        })
    }

    /// Calls `visit` for the words of a line, in order. Returns the number of dropped words.
    ///
    /// ```
    /// use hemiola_models::lda::Tokenizer;
    /// let mut words = Vec::new();
    /// let line = "The Captain’s well-worn 74-gun ship didn't sail in 1805.";
    /// let dropped = Tokenizer::default().words(line, |word| words.push(word.to_owned()));
    /// assert_eq!(words, ["captain", "well", "worn", "gun", "ship", "sail"]);
    /// assert_eq!(dropped, 5); // the, 74, didn't, in, 1805
    /// ```
    pub fn words(&self, line: &str, mut visit: impl FnMut(&str)) -> u64 {
        let mut dropped = 0;
        let mut word = String::new();
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            if is_apostrophe(letter) {
                let joins = word.chars().next_back().is_some_and(char::is_alphabetic)
                    && letters.peek().is_some_and(|next| next.is_alphabetic());
                if joins {
                    word.push('\'');
                } else {
                    dropped += self.end(&mut word, &mut visit);
                }
            } else if letter.is_alphanumeric() || is_mark(letter) && !word.is_empty() {
                word.extend(letter.to_lowercase());
            } else if letter != '\u{ad}' {
                dropped += self.end(&mut word, &mut visit);
            }
        }
        dropped + self.end(&mut word, &mut visit)
    }

    /// Ends a word, if there is one; returns 1 if it is dropped.
    fn end(&self, word: &mut String, visit: &mut impl FnMut(&str)) -> u64 {
        if word.is_empty() {
            return 0;
        }
        // Test before the possessive is stripped: `it's` is not `it`, though both are stop words.
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

/// Combining marks and joiners that `char::is_alphanumeric` does not cover.
fn is_mark(letter: char) -> bool {
    matches!(letter, '\u{300}'..='\u{36f}' | '\u{200c}' | '\u{200d}' | '\u{94d}' | '\u{9cd}' | '\u{e4d}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        let everything = Tokenizer { numbers: true, shortest: 1, stop_words: BTreeSet::new(), ngrams: (1, 1) };
        everything.words(line, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn apostrophes_join_or_end_words() {
        assert_eq!(
            words("'tis the captains' don't DON’T o'clock' ''"),
            ["tis", "the", "captains", "don't", "don't", "o'clock"]
        );
        assert_eq!(words("ship's it's 90's s' 's"), ["ship", "it", "90", "s", "s", "s"]);
        assert_eq!(words("rock'n'roll"), ["rock'n'roll"]);
    }

    #[test]
    fn words_of_any_script_are_found() {
        assert_eq!(
            words("Straße ÉTÉ naïve e\u{301}te\u{301} co\u{ad}operate"),
            ["straße", "été", "naïve", "e\u{301}te\u{301}", "cooperate"]
        );
        assert_eq!(words("Война и мир, 日本語 हिन्दी"), ["война", "и", "мир", "日本語", "हिन्दी"]);
        assert_eq!(words("a_b-c/d.e@f 3d 10,000 \u{301}x"), ["a", "b", "c", "d", "e", "f", "3d", "10", "000", "x"]);
        assert_eq!(words(" \t—…!"), Vec::<String>::new());
    }

    #[test]
    fn terms_are_all_sequences_of_adjacent_words() {
        let terms = |ngrams: (u32, u32)| {
            let (mut terms, tokenizer) = (Vec::new(), Tokenizer { ngrams, ..Tokenizer::default() });
            tokenizer.terms("red green blue grey", |term| terms.push(term.to_owned()));
            terms
        };
        assert_eq!(terms((1, 1)), ["red", "green", "blue", "grey"]);
        assert_eq!(terms((2, 3)), ["red green", "green blue", "red green blue", "blue grey", "green blue grey"]);
        assert_eq!(terms((5, 5)), Vec::<String>::new());
    }

    #[test]
    fn dropped_words_are_counted() {
        let mut kept = Vec::new();
        let tokenizer = Tokenizer { shortest: 3, ..Tokenizer::default() };
        let dropped =
            tokenizer.words("It's 1999 and the sea of x ²³ go gone seas", |word| kept.push(word.to_owned()));
        assert_eq!((kept, dropped), (vec!["sea".to_owned(), "gone".to_owned(), "seas".to_owned()], 8));
    }
}
