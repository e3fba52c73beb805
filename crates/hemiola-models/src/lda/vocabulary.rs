//! Vocabulary: the number of words, and their names where known.
//!
//! Word ids count from 0. Bags of words may come without names; then a word is shown as its number,
//! counted from 1.

use super::tokenizer::Tokenizer;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Words of a corpus, with or without names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LdaVocabulary {
    /// Names by word id; `None` without names.
    terms: Option<Vec<Box<str>>>,
    len: u32,
    /// Tokenizer of the text, if the words come from text.
    tokenizer: Option<Tokenizer>,
    /// True if the words come from LIBSVM text whose ids count from 0.
    zero_based: bool,
}

impl LdaVocabulary {
    /// Creates a vocabulary of `len` words without names.
    #[must_use]
    pub fn numbered(len: u32) -> Self {
        Self { terms: None, len, tokenizer: None, zero_based: false }
    }

    /// Creates a vocabulary of named words. Duplicate names are distinct words.
    ///
    /// # Panics
    /// If there are more than 2³² − 1 words.
    #[must_use]
    pub fn named(terms: Vec<Box<str>>) -> Self {
        let len = u32::try_from(terms.len()).expect("the number of words fits into 32 bits");
        Self { terms: Some(terms), len, tokenizer: None, zero_based: false }
    }

    /// Sets the tokenizer by which the words were found.
    #[must_use]
    pub fn with_tokenizer(mut self, tokenizer: Tokenizer) -> Self {
        self.tokenizer = Some(tokenizer);
        self
    }

    /// Sets whether ids of the LIBSVM files count from 0.
    #[must_use]
    pub fn with_zero_based(mut self, zero_based: bool) -> Self {
        self.zero_based = zero_based;
        self
    }

    /// Returns whether ids of the LIBSVM files count from 0.
    #[must_use]
    pub fn zero_based(&self) -> bool {
        self.zero_based
    }

    /// Returns the tokenizer of the text, if the words come from text.
    #[must_use]
    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_ref()
    }

    /// Returns the number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns whether there are no words.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns all names, if words have names.
    #[must_use]
    pub fn terms(&self) -> Option<&[Box<str>]> {
        self.terms.as_deref()
    }

    /// Returns the name of a word, or its number counted from 1.
    #[must_use]
    pub fn term(&self, word: u32) -> Cow<'_, str> {
        match self.terms.as_ref().and_then(|terms| terms.get(word as usize)) {
            Some(term) => Cow::Borrowed(term),
            None => Cow::Owned((u64::from(word) + 1).to_string()),
        }
    }

    /// Returns word ids by name, the first of duplicates; empty without names.
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
    fn words_have_names_or_numbers() {
        let named = LdaVocabulary::named(vec!["sea".into(), "ship".into(), "sea".into()]);
        assert_eq!((named.len(), named.term(1), named.term(2)), (3, "ship".into(), "sea".into()));
        assert_eq!(named.by_name(), BTreeMap::from([("sea", 0), ("ship", 1)]));
        let numbered = LdaVocabulary::numbered(7);
        assert_eq!((numbered.len(), numbered.term(0), numbered.terms()), (7, "1".into(), None));
        assert!(numbered.by_name().is_empty());
    }
}
