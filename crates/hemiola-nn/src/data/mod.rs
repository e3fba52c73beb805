//! Data sets, read from files or synthetic, and their distribution over peers and steps.
//!
//! Every peer holds the whole data set and selects its share of each batch locally, so no example
//! is sent. Files are read through `hemiola-array`, plain or compressed. Its errors name the file
//! and the problem.
//!
//! | module | concept |
//! |---|---|
//! | [`batch_sampler`] | examples of each peer in each step |
//! | [`images`] | labelled images of equal size |
//! | [`idx`] | files of MNIST |
//! | [`cifar`] | binary files of CIFAR-10 |
//! | [`text`] | token sequences, from files as those of the Penn Treebank |
//! | [`ratings`] | users, items and ratings, from files as those of MovieLens |
//! | [`synthetic`] | synthetic data of known structure |
//! | `bytes` | whole files and digests |

pub mod batch_sampler;
mod bytes;
pub mod cifar;
pub mod idx;
pub mod images;
pub mod ratings;
pub mod synthetic;
pub mod text;

pub use batch_sampler::BatchSampler;
pub use images::ImageDataset;
pub use ratings::RatingDataset;
pub use text::{TextDataset, TextVocabulary};

use burn::tensor::Device;

/// A data set: indexed examples from which batches are made.
pub trait Dataset {
    /// Type of its mini-batches.
    type Batch;

    /// Number of examples in the data set.
    fn len(&self) -> usize;

    /// Returns whether the data set has no example.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Creates a batch of these examples, in this order, on `device`.
    ///
    /// # Panics
    /// If an index is out of range.
    fn batch(&self, examples: &[usize], device: &Device) -> Self::Batch;

    /// Digest of the data, by which peers or runs check that they use the same. It detects changes,
    /// not forgery.
    fn digest(&self) -> u64;
}
