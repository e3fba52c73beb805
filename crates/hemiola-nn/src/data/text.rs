//! Words by number, cut into pieces; from files with one sentence per line, as the Penn Treebank.
//!
//! A text is one long row of words, with [`END`] after each sentence. An example is a piece of it and, of each of its words, the next: pieces follow each other without gap or overlap.

use super::{Examples, bytes};
use crate::models::TextBatch;
use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_array::read::{ByteRange, Lines, Mistake, Report, Source};
use hemiola_array::{Dictionary, Result};

/// The word after each sentence.
pub const END: &str = "<eos>";
/// The word for those that a vocabulary does not have.
pub const UNKNOWN: &str = "<unk>";

/// The words that there are.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    words: Dictionary,
}

impl Vocabulary {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The word of a number.
    #[must_use]
    pub fn word(&self, number: u32) -> Option<String> {
        self.words.text(number).map(std::borrow::Cow::into_owned)
    }

    /// The number of a word.
    #[must_use]
    pub fn number(&self, word: &str) -> Option<u32> {
        self.words.number(word.as_bytes())
    }
}

/// A text in pieces of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    words: Vec<u32>,
    positions: usize,
}

impl Text {
    /// From numbers of words.
    ///
    /// # Panics
    /// If a piece has no word.
    #[must_use]
    pub fn new(words: Vec<u32>, positions: usize) -> Self {
        assert!(positions > 0, "a piece has words");
        Self { words, positions }
    }

    /// A text and the words in it, in the order in which they occur, in pieces of `positions` words.
    pub fn read(pattern: &str, positions: usize) -> Result<(Self, Vocabulary)> {
        let mut vocabulary = Vocabulary::default();
        vocabulary.words.intern(END.as_bytes());
        let words = words_of(pattern, |word| Ok(vocabulary.words.intern(word.as_bytes())))?;
        let text = long_enough(pattern, words, positions)?;
        Ok((text, vocabulary))
    }

    /// A text in words that are known. Others are [`UNKNOWN`], if that is, or else an error.
    pub fn read_with(pattern: &str, positions: usize, vocabulary: &Vocabulary) -> Result<Self> {
        let words = words_of(pattern, |word| {
            let known = vocabulary.number(word).or_else(|| vocabulary.number(UNKNOWN));
            known.ok_or_else(|| format!("a word of the text to train on, which has no `{UNKNOWN}` for others"))
        })?;
        long_enough(pattern, words, positions)
    }

    /// How many words it has.
    #[must_use]
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// How many words a piece has.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// It in two: before and from a share of its pieces.
    #[must_use]
    pub fn split(self, share: f64) -> [Self; 2] {
        let pieces = (self.len() as f64 * (1.0 - share)).round() as usize;
        let at = pieces * self.positions;
        // The next word of the last one is in both.
        let first = self.words[..(at + 1).min(self.words.len())].to_vec();
        [Self { words: first, ..self }, Self { words: self.words[at.min(self.words.len())..].to_vec(), ..self }]
    }
}

impl Examples for Text {
    type Batch = TextBatch;

    fn len(&self) -> usize {
        self.words.len().saturating_sub(1) / self.positions
    }

    fn batch(&self, examples: &[usize], device: &Device) -> TextBatch {
        let tensor = |after: usize| {
            let words: Vec<i32> = examples
                .iter()
                .flat_map(|example| &self.words[example * self.positions + after..][..self.positions])
                .map(|word| word.cast_signed())
                .collect();
            Tensor::<2, Int>::from_data(TensorData::new(words, [examples.len(), self.positions]), device)
        };
        TextBatch { words: tensor(0), next: tensor(1) }
    }

    fn digest(&self) -> u64 {
        bytes::digest(self.positions as u64, self.words.iter().map(|word| u64::from(*word)))
    }
}

/// The words of all files, by what `number` says of them.
fn words_of(pattern: &str, mut number: impl FnMut(&str) -> Result<u32, String>) -> Result<Vec<u32>> {
    let sources = Source::find(pattern)?;
    let (mut words, mut reports) = (Vec::new(), Vec::new());
    for source in &sources {
        reports.push(Lines::new().read(&ByteRange::whole(source.clone()), |line| {
            let mut sentence = false;
            for word in line.split_whitespace() {
                let start = word.as_ptr() as usize - line.as_ptr() as usize;
                words.push(number(word).map_err(|expected| Mistake::at(start..start + word.len(), &expected))?);
                sentence = true;
            }
            if sentence {
                words.push(number(END).map_err(|expected| Mistake::new(&expected))?);
            }
            Ok(())
        })?);
    }
    Report::settle(&sources, reports, 0)?;
    Ok(words)
}

fn long_enough(pattern: &str, words: Vec<u32>, positions: usize) -> Result<Text> {
    let text = Text::new(words, positions);
    if text.is_empty() {
        let problem = format!(
            "it has {} words, with one for the end of each sentence; expected more than the {positions} of a piece",
            text.words()
        );
        return Err(bytes::bad(pattern.as_ref(), problem));
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
    fn a_word_is_followed_by_the_next_also_over_sentences() {
        let (_folder, path) = file(" a b a \n\n<unk> b\n");
        let (text, vocabulary) = Text::read(&path, 3).unwrap();
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
        assert_eq!(words(batch.words), [END, UNKNOWN, "b", "a", "b", "a"]);
        assert_eq!(words(batch.next), [UNKNOWN, "b", END, "b", "a", END]);
    }

    #[test]
    fn unknown_words_are_told_or_taken_for_unknown() {
        let (_first, known) = file("a b <unk>\na\n");
        let (_second, plain) = file("a b\na\n");
        let (_third, other) = file("a a\nb word a\n");
        let read = |train: &str| {
            let (_, vocabulary) = Text::read(train, 2).unwrap();
            Text::read_with(&other, 2, &vocabulary).map(|text| (text, vocabulary))
        };
        let (text, vocabulary) = read(&known).unwrap();
        assert_eq!(vocabulary.word(text.words[4]).unwrap(), UNKNOWN);
        let problem = read(&plain).unwrap_err().to_string();
        assert!(problem.contains("text.txt") && problem.contains('2') && problem.contains("word"), "{problem}");
    }

    #[test]
    fn text_that_is_too_short_or_none_is_refused() {
        let (_folder, path) = file("a b\n");
        let problem = Text::read(&path, 3).unwrap_err().to_string();
        assert!(problem.contains("it has 3 words") && problem.contains("more than the 3"), "{problem}");
        let (_folder, path) = file("");
        assert!(Text::read(&path, 3).unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn two_parts_have_all_pieces() {
        let text = Text::new((0..23).collect(), 3);
        let [first, second] = text.clone().split(0.25);
        assert_eq!((text.len(), first.len(), second.len()), (7, 5, 2));
        assert_eq!(second.words[..3], [15, 16, 17]);
    }
}
