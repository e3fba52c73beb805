//! What can go wrong with models, besides what arrays and clusters report.

use hemiola::core::ErrorKind;
use std::path::PathBuf;

/// Why a model cannot be trained or used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting makes no sense.
    #[error("{setting} is {found}, which must be {expected}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// Its value.
        found: String,
        /// What it may be.
        expected: &'static str,
    },
    /// There is nothing to learn from.
    #[error("there are no ratings to learn from; check the input")]
    NoRatings,
    /// A loss that no schedule is for.
    #[error("schedules are for the squared loss; leave the schedule out, or train `lasso` or `elastic-net`")]
    NotScheduled,
    /// A loss that has no steps to go around with.
    #[error(
        "the loss `one-class` is trained by alternating least squares, not by rotation; take `squared` or `logistic`"
    )]
    NotRotating,
    /// A rating that the loss has no place for.
    #[error("the rating of user `{user}` for item `{item}` is {rating}; the loss `{loss}` takes {expected}")]
    Rating {
        /// Whose, by name.
        user: String,
        /// Of what, by name.
        item: String,
        /// Its value.
        rating: f32,
        /// The loss.
        loss: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// Steps became ever smaller and it still diverges.
    #[error("training diverges even with a step of {step}; look for values that are out of proportion in the ratings")]
    Diverges {
        /// The last step tried.
        step: f32,
    },
    /// The equations of the one-class loss have no sound solution.
    #[error(
        "the equations of a row cannot be solved: weights of events are out of proportion, or there is no penalty; \
         make all weights 1 (`--events-from 0`, or leave the third field out), or l2 larger"
    )]
    Unsolvable,
    /// There are no examples.
    #[error("there are no examples to learn from; check the input")]
    NoExamples,
    /// All examples have the same label.
    #[error(
        "all examples to train on have the label {label}, and a classifier needs two classes at least; check the first field of each line"
    )]
    OneClass {
        /// The label, or its name.
        label: String,
    },
    /// There are more classes than the model can tell apart.
    #[error(
        "the labels of the examples have more than two different values, and this model tells two classes apart; use `LinearClassifier` for more, or \
         the squared loss for quantities"
    )]
    NotTwoClasses,
    /// Peers have rows of different widths.
    #[error(
        "peers have rows with different numbers of columns; give all of them all columns, if need be without values"
    )]
    OtherColumns,
    /// Labels are no classes.
    #[error(
        "the labels of the examples have more than {most} different values: those are no classes; this model learns classes, not quantities"
    )]
    ManyClasses {
        /// How many there may be.
        most: usize,
    },
    /// A number that is none.
    #[error(
        "the {what} of example {row}{} is not a finite number; mend it or leave the example out",
        .column.map_or_else(String::new, |column| format!(" in column {column}"))
    )]
    NotFinite {
        /// `label` or `feature`.
        what: &'static str,
        /// The number of the example, from 1.
        row: u64,
        /// The number of the column, from 1.
        column: Option<u64>,
    },
    /// A word beyond the vocabulary.
    #[error(
        "document {document} has the word {word}, and there are {words}; give a larger vocabulary, or check the ids"
    )]
    UnknownWord {
        /// The number of the document, from 1.
        document: u64,
        /// The number of the word, from 1.
        word: u64,
        /// How many words there are.
        words: u64,
    },
    /// A word occurs too often to be counted.
    #[error("document {document} has the word {word} more than 4294967295 times; divide the document")]
    CountTooLarge {
        /// The number of the document, from 1.
        document: u64,
        /// The number of the word, from 1.
        word: u64,
    },
    /// Something that is no count of a word.
    #[error("document {document} has the word {word} {count} times; counts are whole numbers from 0 to 16777215")]
    NotACount {
        /// The number of the document, from 1.
        document: u64,
        /// The number of the word, from 1.
        word: u64,
        /// What is there.
        count: f32,
    },
    /// Words are to be found by name, and have none.
    #[error(
        "the model knows words by number alone, and text has names; train it with a vocabulary, or give it bags of words"
    )]
    NoNames,
    /// Stop words for words without names.
    #[error("stop words are names, and these words are numbers alone; give a vocabulary, or no stop words")]
    NamelessStopWords,
    /// Documents without a word to foretell.
    #[error(
        "no document has a word left to foretell: they are empty or too short, or the model knows none of their words"
    )]
    NothingToForetell,
    /// There is not a single word to learn from.
    #[error(
        "the documents have no words to learn from; check the input, and what is left out (stop words, rare words)"
    )]
    NoTokens,
    /// There are more tokens than can be numbered.
    #[error(
        "there are {tokens} words to learn from in one place, and at most {most} can be counted; use more parts, or fewer documents"
    )]
    TooManyTokens {
        /// How many there are.
        tokens: u64,
        /// How many there may be.
        most: u64,
    },
    /// Numbers became infinite.
    #[error("the objective is not a finite number any more: features are out of proportion; scale them to be near 1")]
    OutOfRange,
    /// Nothing is left to rank.
    #[error("no held-out entry is left to rank: all are of unknown users or items, or were seen in training")]
    NothingToRank,
    /// A user or item that is not in the model.
    #[error("the model has no {what} {number}; it has {count}")]
    Unknown {
        /// `user` or `item`.
        what: &'static str,
        /// Its number.
        number: u64,
        /// How many there are.
        count: u64,
    },
    /// There is nothing to go on from.
    #[error("there is no checkpoint in `{}` to go on from; train without resuming first", .folder.display())]
    NoCheckpoint {
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// Training cannot go on with other settings.
    #[error(
        "the checkpoint was made with other settings: {}; use the same, or train anew without resuming",
        .differences.join(", ")
    )]
    OtherSettings {
        /// What was and is, by setting.
        differences: Vec<String>,
    },
    /// Training cannot go on with other data.
    #[error("the checkpoint was made from other data: {difference}; use the same, or train anew without resuming")]
    OtherData {
        /// In what they differ.
        difference: String,
    },
    /// Something is saved there that is not to be replaced.
    #[error(
        "`{}` holds {}, which a model `{model}` must not replace; choose another folder or remove it",
        .folder.display(),
        .found.as_ref().map_or_else(|| "arrays".to_owned(), |found| format!("a model `{found}`"))
    )]
    Taken {
        /// Where.
        folder: PathBuf,
        /// The model it is of; `None` if it is of none.
        found: Option<String>,
        /// The model that was to go there.
        model: String,
    },
    /// A save that holds something else.
    #[error("the save is not of this model: {problem}")]
    NotThisModel {
        /// What is missing or different.
        problem: String,
    },
}

impl From<Error> for hemiola::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: ErrorKind::Usage, source: Box::new(error) }
    }
}
