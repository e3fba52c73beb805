//! `AdaRevision` (`McMahan` and Streeter 2014): delay-tolerant `AdaGrad` that revises the steps
//! taken since a gradient was computed.
//!
//! State: `G`, the sum of all applied gradients, 0 at first; `z` and its running maximum `z'`, both
//! 1 at first. The step size is `r / √z'`. A gradient `g` computed when `G` was `G_old` has missed
//! `b = G - G_old`:
//!
//! ```text
//! z ← z + g² + 2 g b      z' ← max(z', z)      x ← x - new g + (old - new) b      G ← G + g
//! ```
//!
//! `old` and `new` are the step sizes before and after the change of `z'`. Without delay `b` is
//! zero, and the rule is [`AdaGrad`](crate::AdaGrad) bit for bit. The caller knows `G_old`: a
//! parameter server sends `G` along with a row, or keeps its snapshots.

use crate::Float;
use serde::{Deserialize, Serialize};

/// `AdaRevision`: `AdaGrad` for gradients that are applied late.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdaRevision {
    /// Initial learning rate of all elements.
    pub learning_rate: f64,
}

/// State of `AdaRevision` for the elements of a slice.
#[derive(Debug)]
pub struct RevisionState<'a, W> {
    /// Sums `G` of the applied gradients.
    pub gradient_sums: &'a mut [W],
    /// Sums `z` of squares, revised by the missed gradients.
    pub squares: &'a mut [W],
    /// Running maxima `z'` of `squares`.
    pub maxima: &'a mut [W],
}

impl<'a, W: Float> RevisionState<'a, W> {
    /// Initial value of `z` and of `z'`.
    pub const INITIAL_SQUARE: f64 = 1.0;

    /// Splits a slice into the three parts of the state, each a third of it.
    #[must_use]
    pub fn split(state: &'a mut [W]) -> Self {
        let width = state.len() / 3;
        let (gradient_sums, rest) = state.split_at_mut(width);
        let (squares, maxima) = rest.split_at_mut(width);
        Self { gradient_sums, squares, maxima }
    }

    /// Sets the state of elements that have seen no gradient.
    pub fn reset(&mut self) {
        self.gradient_sums.fill(W::from_f64(0.0));
        self.squares.fill(W::from_f64(Self::INITIAL_SQUARE));
        self.maxima.fill(W::from_f64(Self::INITIAL_SQUARE));
    }
}

impl AdaRevision {
    /// Creates the rule with this initial learning rate.
    #[must_use]
    pub const fn new(learning_rate: f64) -> Self {
        Self { learning_rate }
    }

    /// Updates the value at `index` with a gradient that was computed when the gradient sum was
    /// `old_sum`.
    ///
    /// # Panics
    /// If the index is out of range.
    #[inline]
    pub fn update_at<W: Float>(
        self,
        values: &mut [W],
        index: usize,
        (gradient, old_sum): (W, W),
        state: &mut RevisionState<'_, W>,
    ) {
        let (sum, z) = (&mut state.gradient_sums[index], &mut state.squares[index]);
        self.revise(&mut values[index], (gradient, old_sum), (sum, z, &mut state.maxima[index]));
    }

    /// Updates values with a gradient of the same length that was computed when the gradient sums
    /// were `old_sums`: as long as the gradient, or empty if all sums were zero.
    #[inline]
    pub fn update<W: Float>(self, values: &mut [W], gradient: &[W], old_sums: &[W], state: &mut RevisionState<'_, W>) {
        let RevisionState { gradient_sums, squares, maxima } = state;
        let state = gradient_sums.iter_mut().zip(squares.iter_mut()).zip(maxima.iter_mut());
        let elements = values.iter_mut().zip(gradient).zip(state);
        if old_sums.is_empty() {
            for ((value, gradient), ((sum, z), maximum)) in elements {
                self.revise(value, (*gradient, W::from_f64(0.0)), (sum, z, maximum));
            }
        } else {
            for (((value, gradient), ((sum, z), maximum)), old_sum) in elements.zip(old_sums) {
                self.revise(value, (*gradient, *old_sum), (sum, z, maximum));
            }
        }
    }

    #[inline]
    fn revise<W: Float>(self, value: &mut W, (gradient, old_sum): (W, W), (sum, z, maximum): (&mut W, &mut W, &mut W)) {
        let rate = W::from_f64(self.learning_rate);
        let missed = *sum - old_sum;
        let old_step = rate / maximum.sqrt();
        *z = *z + gradient * gradient + (gradient + gradient) * missed;
        *maximum = if *z > *maximum { *z } else { *maximum };
        let new_step = rate / maximum.sqrt();
        *value = *value - new_step * gradient + (old_step - new_step) * missed;
        *sum = *sum + gradient;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AdaGrad;
    use crate::test_data::{gradients, wave};
    use proptest::prelude::*;

    #[test]
    fn updates_with_delay_match_the_paper() {
        const DELAY: usize = 3;
        let rule = AdaRevision::new(0.3);
        let (mut values, mut state) = ([1.0_f64; 2], [0.0; 6]);
        RevisionState::split(&mut state).reset();
        let (mut x, mut sum, mut z, mut top) = ([1.0_f64; 2], [0.0_f64; 2], [1.0_f64; 2], [1.0_f64; 2]);
        let mut history = vec![sum];
        for step in 0..60_usize {
            let seen = step.saturating_sub(DELAY);
            let gradient = [wave(step as u32, 0), wave(step as u32, 1)];
            // The first gradients were computed from values that had seen none.
            let old: &[f64] = if seen == 0 { &[] } else { &history[seen] };
            rule.update(&mut values, &gradient, old, &mut RevisionState::split(&mut state));
            for k in 0..2 {
                let b = sum[k] - history[seen][k];
                let old = 0.3 / top[k].sqrt();
                z[k] += gradient[k] * gradient[k] + 2.0 * gradient[k] * b;
                top[k] = top[k].max(z[k]);
                let new = 0.3 / top[k].sqrt();
                x[k] += -new * gradient[k] + (old - new) * b;
                sum[k] += gradient[k];
            }
            history.push(sum);
            assert!(values.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-11), "{values:?} {x:?}");
        }
    }

    proptest! {
        #[test]
        fn without_delay_it_is_adagrad_bit_for_bit(gradients in gradients()) {
            let (revision, adagrad) = (AdaRevision::new(0.3), AdaGrad::new(0.3));
            let (mut values, mut state) = ([1.0_f32; 4], [0.0; 12]);
            RevisionState::split(&mut state).reset();
            let (mut plain, mut sums) = ([1.0_f32; 4], [adagrad.initial_sum as f32; 4]);
            for gradient in gradients {
                let current = state;
                revision.update(&mut values, &gradient, &current[..4], &mut RevisionState::split(&mut state));
                adagrad.update(&mut plain, &gradient, &mut sums);
                prop_assert_eq!(values.map(f32::to_bits), plain.map(f32::to_bits));
            }
        }
    }
}
