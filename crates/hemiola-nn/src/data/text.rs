//! Token sequences from text files with one sentence per line, as those of the Penn Treebank.
//!
//! A text is one long sequence of tokens, with [`END_OF_SENTENCE`] after each sentence. An example
//! is a part of fixed length with the next token of each position. Examples follow each other
//! without gap or overlap.

use super::tokenizer::TokenEncoder;
use super::{Dataset, TextTokenizer, bytes};
use crate::models::TextBatch;
use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_array::read::{ByteRange, InputFile, LineReader, ParseError, ReadReport};
use hemiola_array::{Dictionary, Result};

/// Token after each sentence.
pub const END_OF_SENTENCE: &str = "<eos>";
/// Token for words outside the vocabulary.
pub const UNKNOWN: &str = "<unk>";

/// Files of a text.
#[derive(Clone, Copy, Debug)]
pub struct TextPaths<'a> {
    /// Path, pattern or folder of the files.
    pub pattern: &'a str,
    /// Column of tables (JSON lines, Parquet or Arrow IPC) whose values are the texts; `None` for
    /// files of text.
    pub column: Option<&'a str>,
}

impl<'a> From<&'a str> for TextPaths<'a> {
    fn from(pattern: &'a str) -> Self {
        Self { pattern, column: None }
    }
}

impl<'a> From<&'a String> for TextPaths<'a> {
    fn from(pattern: &'a String) -> Self {
        Self { pattern, column: None }
    }
}

impl TextPaths<'_> {
    fn files(self) -> Result<Vec<InputFile>> {
        let files = InputFile::find(self.pattern)?;
        match self.column {
            Some(column) => InputFile::as_texts(files, column),
            None => Ok(files),
        }
    }
}

/// Vocabulary of a text: words and their indices.
#[derive(Clone, Debug, Default)]
pub struct TextVocabulary {
    words: Dictionary,
}

impl TextVocabulary {
    /// Number of words in the vocabulary.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns whether the vocabulary is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Creates a vocabulary of these words, in this order.
    pub fn from_words(words: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut vocabulary = Self::default();
        for word in words {
            vocabulary.words.intern(word.as_ref().as_bytes());
        }
        vocabulary
    }

    /// Returns all words, in the order of their indices.
    pub fn words(&self) -> impl Iterator<Item = String> {
        self.words.names().map(|word| String::from_utf8_lossy(word).into_owned())
    }

    /// Returns the word with this index.
    #[must_use]
    pub fn word(&self, number: u32) -> Option<String> {
        self.words.name_lossy(number).map(std::borrow::Cow::into_owned)
    }

    /// Returns the index of a word.
    #[must_use]
    pub fn number(&self, word: &str) -> Option<u32> {
        self.words.index_of(word.as_bytes())
    }
}

/// A text, cut into sequences of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextDataset {
    words: Vec<u32>,
    sequence_length: usize,
}

impl TextDataset {
    /// Creates a data set from token indices.
    ///
    /// # Panics
    /// If `positions` is 0.
    #[must_use]
    pub fn new(words: Vec<u32>, positions: usize) -> Self {
        assert!(positions > 0, "a sequence has at least one token");
        Self { words, sequence_length: positions }
    }

    /// Reads a text and its vocabulary, in order of first occurrence, as sequences of `positions`
    /// tokens.
    pub fn read<'a>(source: impl Into<TextPaths<'a>>, positions: usize) -> Result<(Self, TextVocabulary)> {
        let source = source.into();
        let mut vocabulary = TextVocabulary::default();
        vocabulary.words.intern(END_OF_SENTENCE.as_bytes());
        let words = words_of(source, |word| Ok(vocabulary.words.intern(word.as_bytes())))?;
        let text = long_enough(source, "words, including one for the end of each sentence", words, positions)?;
        Ok((text, vocabulary))
    }

    /// Reads a text with a given vocabulary. Other words become [`UNKNOWN`] if the vocabulary has
    /// it, and are an error otherwise.
    pub fn read_with<'a>(
        source: impl Into<TextPaths<'a>>,
        positions: usize,
        vocabulary: &TextVocabulary,
    ) -> Result<Self> {
        let source = source.into();
        let words = words_of(source, |word| {
            let known = vocabulary.number(word).or_else(|| vocabulary.number(UNKNOWN));
            known.ok_or_else(|| format!("a word of the training set, which has no `{UNKNOWN}` for other words"))
        })?;
        long_enough(source, "words, including one for the end of each sentence", words, positions)
    }

    /// Reads a text with a tokenizer. Every line is encoded by itself, with its line break; a token
    /// for the end of a text follows each file, or each value of a column.
    pub fn read_tokens<'a>(
        source: impl Into<TextPaths<'a>>,
        positions: usize,
        tokenizer: &TextTokenizer,
    ) -> Result<Self> {
        let source = source.into();
        let (mut encoder, mut tokens) = (TokenEncoder::new(tokenizer), Vec::new());
        for file in source.files()? {
            let path = file.path().to_owned();
            let text = String::from_utf8(bytes::read_all(&file)?).map_err(|error| {
                let at = error.utf8_error().valid_up_to();
                bytes::bad_file(&path, format!("it is not UTF-8 at byte {at}; convert it"))
            })?;
            for line in text.split_inclusive('\n') {
                if source.column.is_some() {
                    encoder.encode(line.trim_end_matches('\n'), &mut tokens);
                    tokens.extend(tokenizer.end_of_text());
                } else {
                    encoder.encode(line, &mut tokens);
                }
            }
            if source.column.is_none() {
                tokens.extend(tokenizer.end_of_text());
            }
        }
        long_enough(source, "tokens", tokens, positions)
    }

    /// Number of tokens of the text.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Number of tokens of an example.
    #[must_use]
    pub fn sequence_length(&self) -> usize {
        self.sequence_length
    }

    /// Splits into a training set and a validation set, which is the last share of the sequences.
    #[must_use]
    pub fn split(self, share: f64) -> [Self; 2] {
        let pieces = (self.len() as f64 * (1.0 - share)).round() as usize;
        let at = pieces * self.sequence_length;
        // The next token of the last one belongs to both.
        let first = self.words[..(at + 1).min(self.words.len())].to_vec();
        [Self { words: first, ..self }, Self { words: self.words[at.min(self.words.len())..].to_vec(), ..self }]
    }
}

impl Dataset for TextDataset {
    type Batch = TextBatch;

    fn len(&self) -> usize {
        self.words.len().saturating_sub(1) / self.sequence_length
    }

    fn batch(&self, examples: &[usize], device: &Device) -> TextBatch {
        let tensor = |after: usize| {
            let words: Vec<i32> = examples
                .iter()
                .flat_map(|example| &self.words[example * self.sequence_length + after..][..self.sequence_length])
                .map(|word| word.cast_signed())
                .collect();
            Tensor::<2, Int>::from_data(TensorData::new(words, [examples.len(), self.sequence_length]), device)
        };
        TextBatch { tokens: tensor(0), targets: tensor(1) }
    }

    fn digest(&self) -> u64 {
        bytes::digest(self.sequence_length as u64, self.words.iter().map(|word| u64::from(*word)))
    }
}

/// Returns the tokens of all files; `index_of` gives the index of a word.
fn words_of(source: TextPaths<'_>, mut number: impl FnMut(&str) -> Result<u32, String>) -> Result<Vec<u32>> {
    let sources = source.files()?;
    let (mut words, mut reports) = (Vec::new(), Vec::new());
    for source in &sources {
        reports.push(LineReader::new().read(&ByteRange::whole(source.clone()), |line| {
            let mut sentence = false;
            for word in line.split_whitespace() {
                let start = word.as_ptr() as usize - line.as_ptr() as usize;
                words.push(number(word).map_err(|expected| ParseError::at(start..start + word.len(), &expected))?);
                sentence = true;
            }
            if sentence {
                words.push(number(END_OF_SENTENCE).map_err(|expected| ParseError::new(&expected))?);
            }
            Ok(())
        })?);
    }
    ReadReport::merge(&sources, reports, 0)?;
    Ok(words)
}

fn long_enough(source: TextPaths<'_>, unit: &str, words: Vec<u32>, positions: usize) -> Result<TextDataset> {
    let text = TextDataset::new(words, positions);
    if text.is_empty() {
        let problem = format!("it has {} {unit}; expected more than the sequence length of {positions}", text.words());
        return Err(bytes::bad_file(source.pattern.as_ref(), problem));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn file(text: &str) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("text.txt");
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (folder, path)
    }

    #[test]
    fn targets_are_the_next_tokens_across_sentences() {
        let (_folder, path) = file(" a b a \n\n<unk> b\n");
        let (text, vocabulary) = TextDataset::read(&path, 3).unwrap();
        assert_eq!((text.words(), text.len(), vocabulary.len()), (7, 2, 4));
        let words = |tensor: Tensor<2, Int>| {
            tensor
                .into_data()
                .try_to_vec::<i32>()
                .unwrap()
                .into_iter()
                .map(|word| vocabulary.word(word as u32).unwrap())
                .collect::<Vec<_>>()
        };
        let batch = text.batch(&[1, 0], &Device::flex());
        assert_eq!(words(batch.tokens), [END_OF_SENTENCE, UNKNOWN, "b", "a", "b", "a"]);
        assert_eq!(words(batch.targets), [UNKNOWN, "b", END_OF_SENTENCE, "b", "a", END_OF_SENTENCE]);
    }

    #[test]
    fn unknown_words_are_refused_or_mapped() {
        let (_first, known) = file("a b <unk>\na\n");
        let (_second, plain) = file("a b\na\n");
        let (_third, other) = file("a a\nb word a\n");
        let read = |train: &str| {
            let (_, vocabulary) = TextDataset::read(train, 2).unwrap();
            TextDataset::read_with(&other, 2, &vocabulary).map(|text| (text, vocabulary))
        };
        let (text, vocabulary) = read(&known).unwrap();
        assert_eq!(vocabulary.word(text.words[4]).unwrap(), UNKNOWN);
        let problem = read(&plain).unwrap_err().to_string();
        assert!(problem.contains("text.txt") && problem.contains('2') && problem.contains("word"), "{problem}");
    }

    #[test]
    fn short_or_empty_text_is_refused() {
        let (_folder, path) = file("a b\n");
        let problem = TextDataset::read(&path, 3).unwrap_err().to_string();
        assert!(problem.contains("it has 3 words") && problem.contains("sequence length of 3"), "{problem}");
        let (_folder, path) = file("");
        assert!(TextDataset::read(&path, 3).unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn a_split_keeps_all_sequences() {
        let text = TextDataset::new((0..23).collect(), 3);
        let [first, second] = text.clone().split(0.25);
        assert_eq!((text.len(), first.len(), second.len()), (7, 5, 2));
        assert_eq!(second.words[..3], [15, 16, 17]);
    }
}
