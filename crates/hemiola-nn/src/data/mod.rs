//! Examples to train nets on: read from files, or made up; and how they are divided over peers and steps.
//!
//! Every peer holds the whole set and takes its share of each batch by itself, so that nothing is sent. Files are read through `hemiola-array`: plain or compressed, and with its errors, which name the file and what is wrong with it.
//!
//! | file | concept |
//! |---|---|
//! | [`batches`] | which peer takes which examples at which step |
//! | [`images`] | images of equal size, and what is on them |
//! | [`idx`] | the files of MNIST |
//! | [`cifar`] | the binary files of CIFAR-10 |
//! | [`text`] | words by number, cut into pieces; one sentence per line, as the Penn Treebank |
//! | [`ratings`] | users, items and ratings, as MovieLens |
//! | [`made`] | sets that are made up, of a known structure |
//! | `bytes` | whole files |

pub mod batches;
mod bytes;
pub mod cifar;
pub mod idx;
pub mod images;
pub mod made;
pub mod ratings;
pub mod text;

pub use batches::Batches;
pub use images::Images;
pub use ratings::Ratings;
pub use text::{Text, Vocabulary};

use burn::tensor::Device;

/// Examples by number, of which batches are made.
pub trait Examples {
    /// What a net is given at once.
    type Batch;

    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// These examples, in this order.
    ///
    /// # Panics
    /// If there is no example of such a number.
    fn batch(&self, examples: &[usize], device: &Device) -> Self::Batch;

    /// A number that other examples would not have: whether peers, or two runs, have the same ones. It tells changed data, not forged ones.
    fn digest(&self) -> u64;
}
