//! Synthetic data sets generated from a seed, with their ground truth.
//!
//! A model fitted to such a set can be judged against the truth and not only against another
//! program. Every row is a pure function of the set's parameters and its row number, so any peer
//! can generate any part in any order. Only the truth itself is kept in memory.
//!
//! A set is a struct of named parameters with defaults; its `generator` draws the truth and yields
//! the rows.
//!
//! | file | data set | ground truth |
//! |---|---|---|
//! | [`mf`] | ratings with busy users and popular items | the two factors, the noise |
//! | [`lda`] | documents | topics over words, topics of a document |
//! | [`lasso`] | a dense regression with correlated columns | the few non-zero coefficients |
//! | [`logistic`] | a sparse classification | the coefficients |
//! | [`text`] | writers in the text formats of [`read`](crate::read) | |
//! | `zipf` | sampling from a power law | |

pub mod lasso;
pub mod lda;
pub mod logistic;
pub mod mf;
pub mod text;
mod zipf;

pub use lasso::{LassoGenerator, SyntheticLasso};
pub use lda::{LdaGenerator, SyntheticLda};
pub use logistic::{LogisticGenerator, SyntheticLogistic};
pub use mf::{MfGenerator, SyntheticMf};

/// Independent random streams of a set, so that its factors and its noise share no random numbers.
#[derive(Clone, Copy)]
enum RandomStream {
    Truth = 1,
    OtherTruth = 2,
    Count = 3,
    Choice = 4,
    Noise = 5,
    Order = 6,
}

fn stream_rng(seed: u64, stream: RandomStream) -> hemiola_core::rng::PhiloxRng {
    // Odd multiples of the golden ratio are far apart; Philox does the rest.
    hemiola_core::rng::PhiloxRng::new(seed ^ (stream as u64).wrapping_mul(hemiola_core::rng::GOLDEN_GAMMA))
}
