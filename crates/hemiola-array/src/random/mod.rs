//! Random values that depend on the seed and the index alone, never on who computes them.
//!
//! A counter-based generator has no state to hand on: the value at index `i` is a function of `(seed, i)`. So
//! `uniform`, `normal` and `from_fn` give the same array on one peer or on forty, and a lost block can be made again.
//!
//! | file | concept |
//! |---|---|
//! | [`philox`] | the generator: four random words for a seed and a counter |
//! | [`values`] | uniform and normal numbers, whole numbers below a bound, at an index |
//! | [`permutation`] | a keyed permutation of `0..n` with its inverse, without a table |

pub mod permutation;
pub mod philox;
pub mod values;

pub use permutation::Permutation;
pub use philox::Philox;
pub use values::Values;
