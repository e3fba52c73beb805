//! Data sets made from a seed, with the truth they were made from.
//!
//! A model that is fitted to such a set can be judged against what is true and not only against another program. Every row
//! is a pure function of the set's parameters and its row number, so any peer can make any part, in any order, and the whole
//! is the same; nothing but the truth itself is kept in memory.
//!
//! | file | set | truth |
//! |---|---|---|
//! | [`mf`] | ratings with busy users and popular items | the two factors, the noise |
//! | [`lda`] | documents | topics over words, topics of a document |
//! | [`lasso`] | a dense regression with correlated columns | the few non-zero coefficients |
//! | [`logistic`] | a sparse classification | the coefficients |
//! | [`text`] | writing any of them in the text formats of [`read`](crate::read) | |
//! | `zipf` | drawing from a power law | |

pub mod lasso;
pub mod lda;
pub mod logistic;
pub mod mf;
pub mod text;
mod zipf;

pub use lasso::Lasso;
pub use lda::Lda;
pub use logistic::Logistic;
pub use mf::Mf;

/// Seeds of the independent parts of a set, so that its factors and its noise do not share random numbers.
#[derive(Clone, Copy)]
enum Part {
    Truth = 1,
    OtherTruth = 2,
    Count = 3,
    Choice = 4,
    Noise = 5,
    Order = 6,
}

fn values(seed: u64, part: Part) -> crate::random::Values {
    // Odd multiples of the golden ratio are far apart; Philox does the rest.
    crate::random::Values::new(seed ^ (part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
