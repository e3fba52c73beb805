//! Random numbers: pure functions of a seed, identical on every machine.
//!
//! A counter-based generator has no state to pass on: the value at index `i` is a function of
//! `(seed, i)`. An array filled from it is therefore the same on one peer or on forty, and a lost
//! block can be recomputed. A sequential generator is cheaper where one owner draws one number
//! after the other.
//!
//! | file | concept |
//! |---|---|
//! | [`philox`] | [`Philox`]: four random words for a seed and a counter |
//! | [`counter_rng`] | [`PhiloxRng`]: uniform and normal numbers, integers below a bound, at an index |
//! | [`seed`] | [`Seed`]: random seed as an argument |
//! | [`permutation`] | [`Permutation`] of `0..n` with its inverse, without a table |
//! | [`split_mix`] | [`SplitMix64`]: sequential generator; [`mix64`]: hash of 64 bits |

pub mod counter_rng;
pub mod permutation;
pub mod philox;
pub mod seed;
pub mod split_mix;

pub use counter_rng::PhiloxRng;
pub use permutation::Permutation;
pub use philox::Philox;
pub use seed::Seed;
pub use split_mix::{GOLDEN_GAMMA, SplitMix64, mix64};
