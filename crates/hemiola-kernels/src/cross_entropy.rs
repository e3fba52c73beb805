//! Softmax and cross-entropy of logits, with label smoothing.
//!
//! With smoothing `s` and `C` classes, the target of an example is `1 - s` for its label plus `s/C`
//! for every class (Szegedy et al. 2016). The loss of a row is `log Σ exp(x) - Σ target · x`, its
//! gradient `softmax(x) - target`. The forward pass keeps one number per row, the logarithm of the
//! sum, and the backward pass computes the softmax again from the logits.

use crate::{math, parallel};

/// Rows of a block.
const ROWS: usize = 8;

/// Loss and `log Σ exp` of each row of `logits`, which has `classes` columns.
///
/// # Panics
/// If there is not one label per row, or a label is not below `classes`.
#[must_use]
pub fn forward(logits: &[f32], labels: &[usize], classes: usize, smoothing: f32) -> (Vec<f32>, Vec<f32>) {
    check(logits, labels, classes);
    let (mut losses, mut sums) = (vec![0.0; labels.len()], vec![0.0; labels.len()]);
    let rows = labels.len();
    let results = parallel::map_blocks(rows.div_ceil(ROWS), logits.len(), |block| {
        let range = block * ROWS..rows.min((block + 1) * ROWS);
        let mut part = [(0.0, 0.0); ROWS];
        pulp::Arch::new().dispatch(|| {
            for (result, row) in part.iter_mut().zip(range) {
                let values = &logits[row * classes..(row + 1) * classes];
                let most = math::maximum(values);
                let sum = most + math::sum_by(values, values, |value, _| math::exp(value - most)).ln();
                let spread = if smoothing == 0.0 { 0.0 } else { math::sum_by(values, values, |value, _| sum - value) };
                let own = sum - values[labels[row]];
                *result = ((1.0 - smoothing) * own + smoothing / classes as f32 * spread, sum);
            }
        });
        part
    });
    for (row, (loss, sum)) in results.into_iter().flatten().take(rows).enumerate() {
        (losses[row], sums[row]) = (loss, sum);
    }
    (losses, sums)
}

/// Writes `scale` times the gradient of the sum of losses to `gradient`. `sums` are those of
/// [`forward`].
///
/// # Panics
/// If sizes differ from those of the forward pass.
pub fn backward(
    gradient: &mut [f32],
    logits: &[f32],
    labels: &[usize],
    sums: &[f32],
    (classes, smoothing, scale): (usize, f32, f32),
) {
    check(logits, labels, classes);
    assert_eq!((gradient.len(), sums.len()), (logits.len(), labels.len()), "sizes of the forward pass");
    parallel::for_blocks(gradient, (ROWS * classes).max(1), |block, part| {
        pulp::Arch::new().dispatch(|| {
            for (at, to) in part.chunks_exact_mut(classes).enumerate() {
                let row = block * ROWS + at;
                let (sum, base) = (sums[row], scale * smoothing / classes as f32);
                for (to, value) in to.iter_mut().zip(&logits[row * classes..(row + 1) * classes]) {
                    *to = scale * math::exp(value - sum) - base;
                }
                to[labels[row]] -= scale * (1.0 - smoothing);
            }
        });
    });
}

fn check(logits: &[f32], labels: &[usize], classes: usize) {
    assert_eq!(logits.len(), labels.len() * classes, "one row of logits for each label");
    for label in labels {
        assert!(*label < classes, "label {label} with {classes} classes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::on_threads;
    use crate::testing::{assert_close, numbers};

    /// Losses and gradient of their sum in double precision.
    fn reference(logits: &[f32], labels: &[usize], classes: usize, smoothing: f64) -> (Vec<f32>, Vec<f32>) {
        let (mut losses, mut gradient) = (Vec::new(), Vec::new());
        for (row, label) in logits.chunks(classes).zip(labels) {
            let row: Vec<f64> = row.iter().map(|value| f64::from(*value)).collect();
            let sum = row.iter().map(|value| value.exp()).sum::<f64>();
            let target = |class| smoothing / classes as f64 + if class == *label { 1.0 - smoothing } else { 0.0 };
            losses.push((0..classes).map(|class| target(class) * (sum.ln() - row[class])).sum::<f64>() as f32);
            gradient.extend((0..classes).map(|class| (row[class].exp() / sum - target(class)) as f32));
        }
        (losses, gradient)
    }

    #[test]
    fn losses_and_gradients_equal_those_in_double_precision() {
        for (rows, classes, smoothing) in [(1, 1, 0.0), (3, 10, 0.0), (17, 33, 0.1), (9, 1000, 0.2)] {
            let logits: Vec<f32> = numbers(rows * classes, 3).iter().map(|value| 9.0 * value).collect();
            let labels: Vec<usize> = (0..rows).map(|row| row * 7 % classes).collect();
            let (expected, expected_gradient) = reference(&logits, &labels, classes, f64::from(smoothing));
            let (losses, sums) = forward(&logits, &labels, classes, smoothing);
            // Errors of `exp` and of sums of a thousand terms in lanes.
            assert_close(&losses, &expected, 2e-6);
            let mut gradient = vec![0.0; logits.len()];
            backward(&mut gradient, &logits, &labels, &sums, (classes, smoothing, 1.0));
            assert_close(&gradient, &expected_gradient, 2e-6);
        }
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        let (rows, classes) = (100, 777);
        let (logits, labels) = (numbers(rows * classes, 5), (0..rows).collect::<Vec<_>>());
        let run = || {
            let (losses, sums) = forward(&logits, &labels, classes, 0.1);
            let mut gradient = vec![0.0; logits.len()];
            backward(&mut gradient, &logits, &labels, &sums, (classes, 0.1, 0.01));
            (losses, gradient)
        };
        assert!(on_threads(3, run) == run());
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let (losses, _) = forward(&[1e4, -1e4, 0.0], &[1], 3, 0.0);
        assert_eq!(losses, [2e4]);
        assert!(forward(&[f32::NAN, 0.0], &[1], 2, 0.0).0[0].is_nan());
    }

    #[test]
    #[should_panic(expected = "label 3 with 3 classes")]
    fn a_label_beyond_the_classes_is_refused() {
        let _ = forward(&[0.0; 3], &[3], 3, 0.0);
    }
}
