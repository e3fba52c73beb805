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
//! | [`image_folder`] | folders of JPEG and PNG images, a folder per class |
//! | `image_file`, `packed_images` | decoding of image files, and many of them in one file |
//! | `augmentation` | random changes of training images |
//! | `text_codec` | [words or tokens](TextCodec) of a text |
//! | [`tokenizer`] | byte-level BPE tokenizers, from files of Hugging Face |
//! | [`text`] | token sequences, from files as those of the Penn Treebank |
//! | [`ratings`] | users, items and ratings, from files as those of MovieLens |
//! | [`synthetic`] | synthetic data of known structure |
//! | `bytes` | whole files and digests |

mod augmentation;
pub mod batch_sampler;
mod bytes;
pub mod cifar;
pub mod idx;
mod image_file;
pub mod image_folder;
pub mod images;
mod packed_images;
pub mod ratings;
pub mod synthetic;
pub mod text;
mod text_codec;
pub mod tokenizer;

pub use augmentation::ImageAugmentation;
pub use batch_sampler::BatchSampler;
pub use image_folder::ImageReadOptions;
pub use images::ImageDataset;
pub use ratings::RatingDataset;
pub use text::{TextDataset, TextPaths, TextVocabulary};
pub use text_codec::TextCodec;
pub use tokenizer::TextTokenizer;

use burn::tensor::Device;

/// A data set: indexed examples from which batches are made, by several threads at once.
pub trait Dataset: Sync {
    /// Type of its mini-batches.
    type Batch: Send;

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

    /// Creates a batch for training in an epoch, with random changes of the examples if the data set
    /// has some. They must depend on the epoch and the examples only.
    ///
    /// # Panics
    /// If an index is out of range.
    fn training_batch(&self, examples: &[usize], epoch: u32, device: &Device) -> Self::Batch {
        let _ = epoch;
        self.batch(examples, device)
    }

    /// Digest of the data, by which peers or runs check that they use the same. It detects changes,
    /// not forgery.
    fn digest(&self) -> u64;
}
