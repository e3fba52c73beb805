//! Translation between text and the tokens of a language model: words of a vocabulary, or the tokens
//! of a tokenizer.
//!
//! **Invariant:** a text that a codec has read, and a prompt of the same words, have the same tokens.

use super::text::{END_OF_SENTENCE, TextPaths, UNKNOWN};
use super::{TextDataset, TextTokenizer, TextVocabulary};
use hemiola_array::Result;

/// Translation between text and tokens.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TextCodec {
    /// Words, separated by white space; lines are sentences.
    Words(TextVocabulary),
    /// Tokens of any text.
    Tokenizer(Box<TextTokenizer>),
}

impl TextCodec {
    /// Number of different tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Words(vocabulary) => vocabulary.len(),
            Self::Tokenizer(tokenizer) => tokenizer.len(),
        }
    }

    /// Returns whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the name of a token for messages: `word` or `token`.
    #[must_use]
    pub const fn unit(&self) -> &'static str {
        match self {
            Self::Words(_) => "word",
            Self::Tokenizer(_) => "token",
        }
    }

    /// Reads a text, as sequences of `positions` tokens.
    pub fn read<'a>(&self, source: impl Into<TextPaths<'a>>, positions: usize) -> Result<TextDataset> {
        match self {
            Self::Words(vocabulary) => TextDataset::read_with(source, positions, vocabulary),
            Self::Tokenizer(tokenizer) => TextDataset::read_tokens(source, positions, tokenizer),
        }
    }

    /// Returns the token that precedes a text: the end of the one before, if there is one.
    #[must_use]
    pub fn start(&self) -> Option<u32> {
        match self {
            Self::Words(vocabulary) => vocabulary.number(END_OF_SENTENCE),
            Self::Tokenizer(tokenizer) => tokenizer.end_of_text(),
        }
    }

    /// Returns the tokens of a prompt. Words that are not in a vocabulary become [`UNKNOWN`]; without
    /// that, the first of them is the error. Line breaks end sentences.
    pub fn encode(&self, prompt: &str) -> Result<Vec<u32>, String> {
        let vocabulary = match self {
            Self::Words(vocabulary) => vocabulary,
            Self::Tokenizer(tokenizer) => return Ok(tokenizer.encode(prompt)),
        };
        let mut tokens = Vec::new();
        for (line, sentence) in prompt.lines().enumerate() {
            if line > 0 {
                tokens.extend(vocabulary.number(END_OF_SENTENCE));
            }
            for word in sentence.split_whitespace() {
                let known = vocabulary.number(word).or_else(|| vocabulary.number(UNKNOWN));
                tokens.push(known.ok_or_else(|| word.to_owned())?);
            }
        }
        Ok(tokens)
    }

    /// Returns the text of tokens. Sentences of words are lines.
    #[must_use]
    pub fn decode(&self, tokens: &[u32]) -> String {
        let vocabulary = match self {
            Self::Words(vocabulary) => vocabulary,
            Self::Tokenizer(tokenizer) => return tokenizer.decode(tokens),
        };
        let mut text = String::new();
        for token in tokens {
            let word = vocabulary.word(*token).unwrap_or_default();
            if word == END_OF_SENTENCE {
                text.push('\n');
                continue;
            }
            if !text.is_empty() && !text.ends_with('\n') {
                text.push(' ');
            }
            text += &word;
        }
        text
    }
}
