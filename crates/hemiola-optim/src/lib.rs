//! Update rules of gradient descent over slices: the arithmetic of optimizers, and nothing else.
//!
//! A rule is plain data, its hyperparameters. Its `step` takes one gradient and the state of one
//! element; its `update` does the same for slices. The caller owns values and state: the shards of
//! a parameter server keep them beside each row, a trainer beside each variable, the staleness
//! study for each worker. Every optimizer of Hemiola uses the rules of this crate.
//!
//! In the table, `x` is the value, `g` the gradient, `r` the learning rate and `e` is epsilon. An
//! arrow assigns the new value of an element.
//!
//! | rule | state | formula | source |
//! |---|---|---|---|
//! | [`Sgd`] | | `x ← x - r g` | Robbins and Monro 1951 |
//! | [`Momentum`] | `v` | `v ← k v + g`, `x ← x - r v`; Nesterov: `x ← x - r (g + k v)` | Polyak 1964; Nesterov 1983; Sutskever et al. 2013 |
//! | [`AdaGrad`] | `z` | `z ← z + g²`, `x ← x - r g / (√z + e)` | Duchi, Hazan and Singer 2011 |
//! | [`AdaRevision`] | `G`, `z`, `z'` | `b = G - G_old`, `z ← z + g² + 2 g b`, `z' ← max(z', z)`, `x ← x - r g / √z' + (r / √z'_old - r / √z') b`, `G ← G + g` | `McMahan` and Streeter 2014 |
//! | [`RmsProp`] | `z` | `z ← k z + (1 - k) g²`, `x ← x - r g / (√z + e)` | Tieleman and Hinton 2012 |
//! | [`Adam`] | `m`, `v`, step `t` | `m ← k₁ m + (1 - k₁) g`, `v ← k₂ v + (1 - k₂) g²`, `x ← x - r m̂ / (√v̂ + e)` with `m̂ = m / (1 - k₁ᵗ)`, `v̂ = v / (1 - k₂ᵗ)` | Kingma and Ba 2015 |
//! | [`AdamW`] | as Adam | `x ← x - r w x`, then Adam | Loshchilov and Hutter 2019 |
//! | [`l2`] | | `g ← s g + w x`: scaling and L2 regularization, before any rule | Krogh and Hertz 1991 |
//!
//! **Invariants.** The update of an element depends only on that element, its state and its
//! gradient, so rows and pieces can be updated in any order and by any peer. Formulas are evaluated
//! in the order of operations that the documentation of the rule states, so results are
//! bit-identical wherever a rule runs. Where users of a rule need different roundings, the order is
//! a field of the rule ([`StepOrder`], [`SquareOrder`], [`AdamForm`]). The crate has no I/O,
//! thread, clock or randomness.
//!
//! ```
//! use hemiola_optim::Momentum;
//!
//! let rule = Momentum::new(0.1, 0.9);
//! let (mut values, mut velocities) = ([1.0_f64, -1.0], [0.0; 2]);
//! for _ in 0..200 {
//!     let gradient = values.map(|value| 2.0 * value); // of the sum of squares
//!     rule.update(&mut values, &gradient, &mut velocities);
//! }
//! assert!(values.iter().all(|value| value.abs() < 1e-3));
//! ```

pub mod adagrad;
pub mod adam;
pub mod adamw;
pub mod adarevision;
pub mod float;
pub mod l2;
pub mod momentum;
pub mod order;
pub mod rmsprop;
pub mod sgd;
#[cfg(test)]
mod test_data;

pub use adagrad::AdaGrad;
pub use adam::{Adam, AdamForm, BiasCorrection};
pub use adamw::AdamW;
pub use adarevision::{AdaRevision, RevisionState};
pub use float::Float;
pub use momentum::Momentum;
pub use order::{SquareOrder, StepOrder};
pub use rmsprop::RmsProp;
pub use sgd::Sgd;
