//! The words there are: how many, and what they are called where that is known.
//!
//! Words are numbers from 0. Bags of words may come without names; then a word goes by its number, counted from 1.

use super::tokenizer::Tokenizer;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// How many words there are, and their names where they have some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    /// Names by word; `None` where only numbers are known.
    terms: Option<Vec<Box<str>>>,
    len: u32,
    /// How the text was divided into words, if they come from text.
    tokenizer: Option<Tokenizer>,
}

impl Vocabulary {
    /// So many words without names.
    #[must_use]
    pub fn numbered(len: u32) -> Self {
        Self { terms: None, len, tokenizer: None }
    }

    /// Words with these names. A name may come twice: those are two words.
    ///
    /// # Panics
    /// If there are more than 2³² − 1.
    #[must_use]
    pub fn named(terms: Vec<Box<str>>) -> Self {
        let len = u32::try_from(terms.len()).expect("words are numbered in 32 bits");
        Self { terms: Some(terms), len, tokenizer: None }
    }

    /// The same, found in text in this way.
    #[must_use]
    pub fn read_by(mut self, tokenizer: Tokenizer) -> Self {
        self.tokenizer = Some(tokenizer);
        self
    }

    /// How the text was divided into words, if they come from text.
    #[must_use]
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// How many words there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All names, if words have some.
    #[must_use]
    pub fn terms(&self) -> Option<&[Box<str>]> {
        self.terms.as_deref()
    }

    /// What a word is called; without names its number, from 1.
    #[must_use]
    pub fn term(&self, word: u32) -> Cow<'_, str> {
        match self.terms.as_ref().and_then(|terms| terms.get(word as usize)) {
            Some(term) => Cow::Borrowed(term),
            None => Cow::Owned((u64::from(word) + 1).to_string()),
        }
    }

    /// Words by name, the first of those that have the same; nothing where there are no names.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&str, u32> {
        let mut found = BTreeMap::new();
        for (word, term) in self.terms.iter().flatten().enumerate() {
            found.entry(&**term).or_insert(word as u32);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_by_name_or_by_number() {
        let named = Vocabulary::named(vec!["sea".into(), "ship".into(), "sea".into()]);
        assert_eq!((named.len(), named.term(1), named.term(2)), (3, "ship".into(), "sea".into()));
        assert_eq!(named.by_name(), BTreeMap::from([("sea", 0), ("ship", 1)]));
        let numbered = Vocabulary::numbered(7);
        assert_eq!((numbered.len(), numbered.term(0), numbered.terms()), (7, "1".into(), None));
        assert!(numbered.by_name().is_empty());
    }
}
