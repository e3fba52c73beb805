//! Models whose loops write through buffers equal serial loops with equally delayed updates, bit for
//! bit.
//!
//! | file | writes |
//! |---|---|
//! | `adarevision` | gradients with the sum that their worker saw, to four arrays at once |
//! | `lda` | changes of totals that a worker sees at once and the others later |
//! | `sparse_logistic` | gradients of served weights, at indices from the data |

mod adarevision;
mod lda;
mod sparse_logistic;
