//! Scaling of gradients and L2 regularization, before a rule applies them.

use crate::Float;

/// Scales a gradient and adds the gradient of `w x² / 2` to it: `g ← g s + w x`.
///
/// The scale averages a gradient that was summed over the peers. A weight decay of 0 scales only.
#[inline]
pub fn scale_and_decay<W: Float>(gradient: &mut [W], values: &[W], scale: W, weight_decay: W) {
    for (gradient, value) in gradient.iter_mut().zip(values) {
        *gradient = *gradient * scale + weight_decay * *value;
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;
    use crate::Sgd;

    #[test]
    fn gradients_are_scaled_and_values_decay() {
        let (mut gradient, mut values) = ([8.0_f32, 0.0], [4.0, 2.0]);
        scale_and_decay(&mut gradient, &values, 0.25, 0.5);
        assert_eq!(gradient, [4.0, 1.0]);
        Sgd::new(0.5).update(&mut values, &gradient);
        assert_eq!(values, [2.0, 1.5]);
    }
}
