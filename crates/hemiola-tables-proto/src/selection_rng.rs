//! Random generator of the row selection. Its whole state is a seed and a counter, so a snapshot
//! can save it.

use hemiola_core::rng::PhiloxRng;
use serde::{Deserialize, Serialize};

/// Counter-based generator (Philox) with serializable state.
///
/// ```
/// use hemiola_tables_proto::SelectionRng;
/// let mut random = SelectionRng::new(7);
/// random.below(10);
/// let mut copy = random.clone();
/// assert_eq!(random.below(1000), copy.below(1000));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionRng {
    seed: u64,
    counter: u64,
}

impl SelectionRng {
    /// Creates the generator of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, counter: 0 }
    }

    /// Uniform index in `0..bound`.
    ///
    /// # Panics
    /// If the bound is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "the bound must be positive");
        let index = PhiloxRng::new(self.seed).random_below(self.counter, 0, bound as u64);
        self.counter += 1;
        index as usize
    }
}
