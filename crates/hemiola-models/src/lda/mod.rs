//! Topic models: latent Dirichlet allocation (Blei, Ng and Jordan 2003).
//!
//! A document is a bag of words, each of which was drawn from one of a fixed number of topics; a topic is a distribution over words. Training finds out which
//! words were drawn from which topics.
//!
//! | file | concept |
//! |---|---|
//! | `vocabulary` | words and their names |
//! | `corpus` | the documents of a peer |
//! | `rows` | topics and counts by word |
//! | `model` | what comes out, and how it is kept |

mod corpus;
mod model;
mod rows;
mod vocabulary;

pub use corpus::{Corpus, CorpusBuilder};
pub use model::TopicModel;
pub use rows::WordTopics;
pub use vocabulary::Vocabulary;
