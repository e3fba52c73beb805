//! Errors of models, besides those of arrays and clusters.

use hemiola_core::ErrorKind;
use std::path::PathBuf;

/// Error of training, evaluating, saving or loading a model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is outside its range.
    #[error("`{setting}` is `{found}`, which must be {expected}")]
    InvalidSetting {
        /// Name of the setting, as in the builder.
        setting: &'static str,
        /// The rejected value, formatted for the message.
        found: String,
        /// Description of the allowed values.
        expected: &'static str,
    },
    /// A column of separated values is missing, unknown or ambiguous.
    #[error(transparent)]
    Columns(#[from] crate::input::ColumnError),
    /// The training data have no ratings.
    #[error("there are no ratings to train on; check the input")]
    NoRatings,
    /// A coordinate schedule was given for a loss other than the squared loss.
    #[error("schedules are for the squared loss; leave the schedule out, or train `lasso` or `elastic-net`")]
    ScheduleUnsupported,
    /// Incremental training was requested for a loss of implicit feedback, which needs all events of
    /// a user.
    #[error(
        "the losses `one-class` and `bpr` learn from all events of a user and cannot train on some of them; train on all events"
    )]
    IncrementalUnsupported,
    /// Ratings of users or items that a model to be trained further does not have.
    #[error(
        "`{count}` ratings are of users or items that the model does not have; remove them with `mf::data::aligned_to`, or train on all ratings"
    )]
    UnknownRatings {
        /// Number of such ratings.
        count: usize,
    },
    /// A rating outside the domain of the loss.
    #[error("the rating of user `{user}` for item `{item}` is `{rating}`; the loss `{loss}` takes {expected}")]
    InvalidRating {
        /// Name of the user.
        user: String,
        /// Name of the item.
        item: String,
        /// Value of the rating.
        rating: f32,
        /// Name of the loss.
        loss: &'static str,
        /// Description of the ratings that the loss accepts.
        expected: &'static str,
    },
    /// Training diverges although the learning rate was halved many times.
    #[error(
        "training diverges even with a learning rate of `{learning_rate}`; look for outliers in the data, and scale features and ratings to be near 1"
    )]
    Diverged {
        /// Smallest learning rate that was tried.
        learning_rate: f32,
    },
    /// The normal equations of the one-class loss are numerically singular.
    #[error(
        "the normal equations of a row are singular: event weights differ too much, or there is no regularization; \
         set all weights to 1 (`--event-threshold 0`, or drop the third field), or increase `l2`"
    )]
    SingularSystem,
    /// A negative value where counts of terms are weighted.
    #[error(
        "example `{row}` has a negative value in column `{column}`, and weights of terms need counts; leave out `--tfidf` and `--binary`"
    )]
    NegativeCount {
        /// Number of the example, counted from 1.
        row: usize,
        /// Number of the column, counted from 1.
        column: usize,
    },
    /// The checkpoint to resume from was trained on features that were prepared otherwise.
    #[error(
        "the checkpoint was trained with another preparation of the features: `{setting}` differs; resume with the same settings"
    )]
    PreparationChanged {
        /// Name of the setting that differs.
        setting: &'static str,
    },
    /// Another number of weights than of examples.
    #[error("there are {weights} weights for {examples} examples; give a weight for each")]
    WeightCount {
        /// Number of weights.
        weights: usize,
        /// Number of examples.
        examples: usize,
    },
    /// A weight of an example is negative or not finite.
    #[error("the weight of example `{row}` is not a number of 0 or more; correct it or remove the example")]
    InvalidWeight {
        /// Number of the example, counted from 1.
        row: usize,
    },
    /// All training examples have weight 0.
    #[error("all training examples have weight 0; check the column of weights")]
    NoWeight,
    /// A weight was given for a class that the data do not have.
    #[error("there is no class `{class}` in the training data; the classes are `{}`", .classes.join("`, `"))]
    UnknownClass {
        /// Name or label of the class.
        class: String,
        /// Names or labels of the classes of the data.
        classes: Vec<String>,
    },
    /// The data have no examples.
    #[error("there are no examples to train on; check the input")]
    NoExamples,
    /// All training examples have the same label.
    #[error(
        "all training examples have the label {label}, and a classifier needs at least two classes; check the first field of each line"
    )]
    SingleClass {
        /// The only label, or the name of its class.
        label: String,
    },
    /// More than two labels were given to a binary model.
    #[error(
        "the labels have more than two different values, and this model is binary; use `LinearClassifier` for more classes, or \
         the squared loss for regression"
    )]
    NotBinary,
    /// Peers passed rows with different numbers of columns.
    #[error(
        "peers have rows with different numbers of columns; give every peer all columns, even those without values"
    )]
    ColumnMismatch,
    /// Too many different labels to be classes.
    #[error(
        "the labels have more than `{most}` different values, too many for classes; use a regression model for quantities"
    )]
    TooManyClasses {
        /// Maximum number of classes.
        most: usize,
    },
    /// Nearly every example has a label of its own.
    #[error(
        "{examples} examples have {classes} different labels, so these are quantities or names and not classes; train a \
         regression (`lasso`, `elastic-net`), or choose another label column with `--label`"
    )]
    LabelsAreNotClasses {
        /// Number of different labels.
        classes: usize,
        /// Number of examples.
        examples: usize,
    },
    /// All ratings are on one side of the logistic loss.
    #[error(
        "no rating is {missing}, and the loss `logistic` needs ratings above 0 and others; write negative ratings as 0 or \
         below, or learn from positive ones alone with the loss `one-class`"
    )]
    OneSidedRatings {
        /// Kind of rating that is missing: `above 0`, or `0 or below`.
        missing: &'static str,
    },
    /// More memory is needed than the machine has.
    #[error("{what} needs {}, and this machine has {} free; use a smaller model or a machine with more memory", Gib(*.needed), Gib(*.available))]
    NotEnoughMemory {
        /// Description of the content.
        what: String,
        /// Number of bytes needed.
        needed: u64,
        /// Number of bytes available.
        available: u64,
    },
    /// A label or feature is infinite or NaN.
    #[error(
        "the {what} of example `{row}`{} is not a finite number; fix it or remove the example",
        .column.map_or_else(String::new, |column| format!(" in column `{column}`"))
    )]
    NotFinite {
        /// Kind of the number: `label` or `feature`.
        what: &'static str,
        /// Number of the example, counted from 1.
        row: usize,
        /// Number of the column, counted from 1; `None` for labels.
        column: Option<usize>,
    },
    /// A word id is beyond the end of the vocabulary.
    #[error(
        "document `{document}` has the word `{word}`, and the vocabulary has {words}; give a larger vocabulary, or check the ids"
    )]
    WordOutOfRange {
        /// Number of the document, counted from 1.
        document: usize,
        /// Number of the word, counted from 1.
        word: usize,
        /// Number of words in the vocabulary.
        words: usize,
    },
    /// A word count overflows 32 bits.
    #[error("document `{document}` has the word `{word}` more than 4294967295 times; split the document")]
    CountTooLarge {
        /// Number of the document, counted from 1.
        document: usize,
        /// Number of the word, counted from 1.
        word: usize,
    },
    /// A word count is negative, fractional or too large.
    #[error(
        "document `{document}` has the word `{word}` `{count}` times; counts must be whole numbers from 0 to 16777215"
    )]
    InvalidCount {
        /// Number of the document, counted from 1.
        document: usize,
        /// Number of the word, counted from 1.
        word: usize,
        /// Value that was rejected.
        count: f32,
    },
    /// Text was given to a model whose words have no names.
    #[error(
        "the model has no vocabulary, so it cannot read text; train it with a vocabulary, or give it bags of words"
    )]
    UnnamedVocabulary,
    /// Stop words were given for a corpus whose words have no names.
    #[error("stop words need names, and these words have only ids; give a vocabulary, or no stop words")]
    StopWordsWithoutVocabulary,
    /// The documents have no known token left to predict.
    #[error(
        "no document has a token left to predict: all are empty, too short, or without a word that the model knows; check the input"
    )]
    NothingToPredict,
    /// The corpus has no tokens to train on.
    #[error("the documents have no words to train on; check the input and the word filter (stop words, rare words)")]
    NoTokens,
    /// A partition has more tokens than its index type can number.
    #[error(
        "one partition has `{tokens}` tokens and at most `{most}` can be indexed; use more partitions (`parts`), or fewer documents"
    )]
    TooManyTokens {
        /// Number of tokens that were given.
        tokens: u64,
        /// Maximum number of tokens.
        most: u64,
    },
    /// The objective became infinite or NaN.
    #[error("the objective is no longer a finite number; scale the features to be near 1")]
    NonFiniteObjective,
    /// More clusters were asked for than there are rows.
    #[error("{clusters} clusters need as many rows, and there are {rows}; ask for fewer clusters")]
    TooManyClusters {
        /// Number of clusters.
        clusters: usize,
        /// Number of training rows.
        rows: usize,
    },
    /// Every user has an event with every item.
    #[error("every user has events with all items, so no item is to rank below them; check the input, or use ratings")]
    NoUnobservedItems,
    /// No validation entry is left for a ranking metric.
    #[error(
        "no validation entry is left to rank: all are of unknown users or items, or were seen in training; check the input"
    )]
    NothingToRank,
    /// A user or item index is not in the model.
    #[error("the model has no {what} `{number}`; it has {count}")]
    IndexOutOfRange {
        /// Kind of the index: `user` or `item`.
        what: &'static str,
        /// The index, counted from 0.
        number: usize,
        /// Number of users or items in the model.
        count: usize,
    },
    /// The folder has no checkpoint to resume from.
    #[error("there is no checkpoint in `{}` to resume from; train without resuming first", .folder.display())]
    NoCheckpoint {
        /// Folder that was searched.
        folder: PathBuf,
    },
    /// The folder holds a save of something else, which must not be overwritten.
    #[error(
        "`{}` holds {}, which a model `{model}` must not replace; choose another folder or remove it",
        .folder.display(),
        .found.as_ref().map_or_else(|| "arrays".to_owned(), |found| format!("a model `{found}`"))
    )]
    FolderOccupied {
        /// Folder that is occupied.
        folder: PathBuf,
        /// Kind of the saved model; `None` for plain arrays.
        found: Option<String>,
        /// Kind of the model that was to be saved.
        model: String,
    },
    /// Folds that the data cannot be assigned to.
    #[error("folds by {by} are not for {data}; leave it out")]
    UnsupportedFolds {
        /// Property that folds were to respect.
        by: &'static str,
        /// Description of the data.
        data: &'static str,
    },
    /// Groups or times were given for another number of rows.
    #[error("there are {groups} groups or times for {rows} rows; give one for each row")]
    GroupCount {
        /// Number of groups given.
        groups: usize,
        /// Number of rows.
        rows: usize,
    },
    /// Fewer groups than folds.
    #[error("there {} for {folds} folds; use fewer folds", if *.groups == 1 { "is 1 group".to_owned() } else { format!("are {} groups", .groups) })]
    TooFewGroups {
        /// Number of groups.
        groups: usize,
        /// Number of folds.
        folds: usize,
    },
    /// A fold trains on nothing, or holds out nothing.
    #[error("fold {fold} has no records to train on, or none to evaluate on; use fewer folds")]
    EmptyFold {
        /// Number of the fold, from 1.
        fold: usize,
    },
    /// No trial of a search has succeeded.
    #[error("no trial of the search has succeeded; look at the reasons in the report, and narrow the space")]
    NoTrial,
    /// The folder has no search to resume, or another one.
    #[error("cannot resume the search in `{}`: {problem}; start again without resuming", .folder.display())]
    NoSearch {
        /// Folder of the search.
        folder: PathBuf,
        /// Reason, in words.
        problem: String,
    },
    /// The folder of a search cannot be written.
    #[error("cannot write the search in `{}`: {problem}; check the folder and the space on the disk", .folder.display())]
    SearchFolder {
        /// Folder of the search.
        folder: PathBuf,
        /// Reason, in words.
        problem: String,
    },
    /// A saved model is damaged or of another kind.
    #[error("the save is not of this model: {problem}")]
    InvalidSave {
        /// Description of the missing or unexpected part.
        problem: String,
    },
}

impl Error {
    /// Returns the error of a save that lacks something.
    pub(crate) fn missing(what: &str) -> Self {
        Self::InvalidSave { problem: format!("it has no {what}") }
    }
}

/// Number of bytes, in GiB for messages.
struct Gib(u64);

impl std::fmt::Display for Gib {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:.1} GiB", self.0 as f64 / f64::from(1 << 30))
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: ErrorKind::Usage, source: Box::new(error) }
    }
}
