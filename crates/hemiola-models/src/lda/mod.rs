//! Topic models: latent Dirichlet allocation (Blei, Ng and Jordan 2003).
//!
//! A document is a bag of words, each of which was drawn from one of a fixed number of topics; a topic is a distribution over words. Training finds out which
//! words were drawn from which topics.
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

mod coherence;
mod corpus;
pub mod data;
mod describe;
mod infer;
mod model;
mod perplexity;
mod pyldavis;
mod rows;
mod selection;
mod stop_words;
mod text;
mod tokenizer;
mod vocabulary;

pub use corpus::{Corpus, CorpusBuilder};
pub use describe::TopWord;
pub use infer::{Inference, Mixture};
pub use model::TopicModel;
pub use perplexity::Completion;
pub use pyldavis::PyLdaVis;
pub use rows::WordTopics;
pub use selection::{LeftOut, Selection};
pub use tokenizer::Tokenizer;
pub use vocabulary::Vocabulary;
