//! Topic models: latent Dirichlet allocation (Blei, Ng and Jordan 2003).
//!
//! A document is a bag of words, each of which was drawn from one of a fixed number of topics; a topic is a distribution over words. Training finds out which
//! words were drawn from which topics, by collapsed Gibbs sampling (Griffiths and Steyvers 2004): the topic of one token is drawn anew given those of all others, over and over.
//!
//! | file | concept |
//! |---|---|
//! | `vocabulary` | words and their names |
//! | `corpus` | the documents of a peer |
//! | [`data`] | getting documents |
//! | `text`, `tokenizer`, `stop_words` | documents from plain text |
//! | `selection` | which words are worth learning from |
//! | `rows` | topics and counts by word |
//! | `model` | what comes out, and how it is kept |
//! | `describe` | the first words of topics |
//! | `infer` | what new documents are about |
//! | `perplexity`, `coherence` | how good a model is |
//! | `pyldavis` | a file for pictures by others |
//! | `settings` | what a user chooses |
//! | `layout` | how documents and words are cut |
//! | `part`, `counts`, `hashed`, `entry` | tokens of a part, and how often topics occur in its documents |
//! | `block` | the words of a block |
//! | `sampler` | ways to draw topics |
//! | `rotate` | a pass: words go around |
//! | `tables` | a pass on tables, for comparison |
//! | `trial` | which sampler to take |
//! | `state`, `keep` | where training is, in memory and on disk |
//! | `priors`, `likelihood`, `special` | what is computed from counts |
//! | `random` | random numbers by what they are for |
//! | `train` | passes, priors, figures |

mod block;
mod coherence;
mod corpus;
mod counts;
pub mod data;
mod describe;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod entry;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod hashed;
mod infer;
mod keep;
mod layout;
mod likelihood;
mod model;
mod part;
mod perplexity;
mod priors;
mod pyldavis;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod random;
mod rotate;
mod rows;
#[expect(clippy::inline_always, reason = "code must be compiled for the registers of its caller")]
mod sampler;
mod selection;
mod settings;
mod special;
mod state;
mod stop_words;
mod tables;
#[cfg(test)]
mod tests;
mod text;
mod tokenizer;
mod train;
mod trial;
mod vocabulary;

pub use corpus::{Corpus, CorpusBuilder};
pub use describe::TopWord;
pub use infer::{Inference, Mixture};
pub use model::TopicModel;
pub use perplexity::Completion;
pub use pyldavis::PyLdaVis;
pub use rows::WordTopics;
pub use selection::{LeftOut, Selection};
pub use settings::{Builder, Sampler, Settings, Way};
pub use tokenizer::Tokenizer;
pub use train::Trained;
pub use vocabulary::Vocabulary;

/// An untrained topic model.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicModelling {
    settings: Settings,
}

impl TopicModelling {
    /// Collects settings for so many topics, from good defaults.
    pub fn builder(topics: u32) -> Builder {
        Builder::new(topics)
    }

    /// What it will be trained with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}
