//! Topic models: latent Dirichlet allocation (LDA; Blei, Ng and Jordan 2003).
//!
//! A document is a bag of words, each drawn from one of a fixed number of topics; a topic is a
//! distribution over words. Training infers the topic of every token by collapsed Gibbs sampling
//! (Griffiths and Steyvers 2004): the topic of one token is sampled given those of all others,
//! sweep after sweep.
//!
//! | file | concept |
//! |---|---|
//! | `vocabulary` | words and their names |
//! | `corpus_files` | files of a corpus: format, and the extent of a document |
//! | `corpus` | the documents of a peer |
//! | [`data`] | reading documents |
//! | `text`, `tokenizer`, `stop_words` | documents from plain text |
//! | `vocabulary_filter` | filtering of words by frequency |
//! | `word_topics` | topic counts by word |
//! | `model` | the trained model and saving |
//! | `describe` | top words of topics |
//! | `infer` | inference: topic mixtures of new documents |
//! | `perplexity`, `coherence` | evaluation of a model |
//! | `pyldavis` | export for pyLDAvis |
//! | `settings` | settings and their builder |
//! | `layout` | partitioning of documents and words |
//! | `partition`, `counts`, `hash_tables`, `topic_count` | tokens of a partition, and topic counts of its documents |
//! | `block` | topic counts of the words of a block |
//! | `sampler` | Gibbs samplers |
//! | `rotation` | a sweep by rotation of word blocks |
//! | `tables` | a sweep on parameter-server tables, for comparison |
//! | `sampler_trial` | choice of the sampler by a trial |
//! | `state`, `checkpoint` | training state in memory and on disk |
//! | `priors`, `likelihood`, `special` | computations from counts |
//! | `rng` | counter-based random numbers |
//! | `train` | sweeps, priors, metrics |
//! | `tune` | search and cross-validation |

mod block;
mod checkpoint;
mod coherence;
mod corpus;
mod corpus_files;
mod counts;
pub mod data;
mod describe;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod hash_tables;
mod infer;
mod layout;
mod likelihood;
mod model;
mod partition;
mod perplexity;
mod priors;
mod pyldavis;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod rng;
mod rotation;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod sampler;
mod sampler_trial;
mod settings;
mod special;
mod state;
mod stop_words;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod tokenizer;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod topic_count;
mod train;
mod tune;
mod vocabulary;
mod vocabulary_filter;
mod word_topics;

pub use corpus::{Corpus, CorpusBuilder};
pub use describe::TopWord;
pub use infer::{InferenceSettings, TopicMixture};
pub use model::LdaModel;
pub use perplexity::DocumentCompletion;
pub use pyldavis::PyLdaVisWriter;
pub use settings::{LdaBuilder, LdaExecutionMode, LdaSampler, LdaSettings};
pub use tokenizer::Tokenizer;
pub use vocabulary::LdaVocabulary;
pub use vocabulary_filter::{FilteredWords, VocabularyFilter};
pub use word_topics::WordTopics;

/// Topic model estimator: settings of a model to be trained.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicModelling {
    settings: LdaSettings,
}

impl TopicModelling {
    /// Returns a builder with default settings for `topics` topics.
    pub fn builder(topics: u32) -> LdaBuilder {
        LdaBuilder::new(topics)
    }
}
