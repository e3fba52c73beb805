//! Activations that are computed in one pass: GELU and `ReLU`.

use crate::{math, parallel};

/// Elements of a block.
const BLOCK: usize = 4096;

/// Formula of GELU (Hendrycks and Gimpel 2016).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GeluForm {
    /// `x · Φ(x)`, with the normal distribution function.
    #[default]
    Exact,
    /// The approximation by `tanh`, which GPT-2 uses.
    Tanh,
}

/// `√(2/π)` and the coefficient of `x³` in the approximation by `tanh`.
const TANH_SCALE: f32 = 0.797_884_6;
const TANH_CUBE: f32 = 0.044_715;

/// Value and derivative of the approximation.
#[inline(always)]
fn gelu_tanh(x: f32) -> (f32, f32) {
    let t = math::tanh(TANH_SCALE * (x + TANH_CUBE * x * x * x));
    let slope = TANH_SCALE * (1.0 + 3.0 * TANH_CUBE * x * x) * (1.0 - t * t);
    (0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * slope)
}

/// Value and derivative of `x · Φ(x)`.
#[inline(always)]
fn gelu_exact(x: f32) -> (f32, f32) {
    let (cumulative, density) = math::normal(x);
    (x * cumulative, cumulative + x * density)
}

/// Writes `body` of the elements of `left` and `right` to `to`.
fn zip(to: &mut [f32], left: &[f32], right: &[f32], body: impl Fn(f32, f32) -> f32 + Sync) {
    assert_eq!((to.len(), to.len()), (left.len(), right.len()), "slices of an activation are of equal length");
    parallel::for_blocks(to, BLOCK, |block, part| {
        let range = block * BLOCK..block * BLOCK + part.len();
        let (left, right) = (&left[range.clone()], &right[range]);
        pulp::Arch::new().dispatch(|| {
            for ((to, left), right) in part.iter_mut().zip(left).zip(right) {
                *to = body(*left, *right);
            }
        });
    });
}

/// Writes GELU of `input` to `output`.
pub fn gelu(output: &mut [f32], input: &[f32], form: GeluForm) {
    match form {
        GeluForm::Exact => zip(
            output,
            input,
            input,
            #[inline(always)]
            |x, _| gelu_exact(x).0,
        ),
        GeluForm::Tanh => zip(
            output,
            input,
            input,
            #[inline(always)]
            |x, _| gelu_tanh(x).0,
        ),
    }
}

/// Writes the gradient of `input` to `to`, given that of the output.
pub fn gelu_backward(to: &mut [f32], input: &[f32], gradient: &[f32], form: GeluForm) {
    match form {
        GeluForm::Exact => zip(
            to,
            input,
            gradient,
            #[inline(always)]
            |x, slope| slope * gelu_exact(x).1,
        ),
        GeluForm::Tanh => zip(
            to,
            input,
            gradient,
            #[inline(always)]
            |x, slope| slope * gelu_tanh(x).1,
        ),
    }
}

/// Writes `max(input, 0)` to `output`; NaN stays NaN.
pub fn relu(output: &mut [f32], input: &[f32]) {
    zip(
        output,
        input,
        input,
        #[inline(always)]
        |x, _| if x < 0.0 { 0.0 } else { x },
    );
}

/// Writes the gradient of the input of [`relu`] to `to`, given its output and the gradient of that.
pub fn relu_backward(to: &mut [f32], output: &[f32], gradient: &[f32]) {
    zip(
        to,
        output,
        gradient,
        #[inline(always)]
        |y, slope| if y > 0.0 { slope } else { 0.0 },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_close, numbers, numeric_gradient};

    #[test]
    fn gelu_and_its_gradient() {
        let input: Vec<f32> = numbers(1_003, 1).iter().map(|value| 6.0 * value).collect();
        let slopes = numbers(input.len(), 2);
        let exact = |x: f64| {
            // Midpoint sums of the density in double precision.
            let steps = 2_000;
            let integral: f64 =
                (0..steps).map(|at| (f64::from(at) + 0.5) / f64::from(steps) * x).map(|t| (-t * t / 2.0).exp()).sum();
            x * (0.5 + integral * x / f64::from(steps) / (2.0 * std::f64::consts::PI).sqrt())
        };
        let approximate =
            |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh());
        for form in [GeluForm::Exact, GeluForm::Tanh] {
            let of = |x: f64| if form == GeluForm::Exact { exact(x) } else { approximate(x) };
            let expected: Vec<f32> = input.iter().map(|x| of(f64::from(*x)) as f32).collect();
            let mut output = vec![0.0; input.len()];
            gelu(&mut output, &input, form);
            // The error function has an absolute error of 1.5e-7; outputs go up to 6.
            assert_close(&output, &expected, 1e-6);
            let mut found = vec![0.0; input.len()];
            gelu_backward(&mut found, &input, &slopes, form);
            let expected: Vec<f32> = input
                .iter()
                .zip(&slopes)
                .map(|(x, slope)| slope * numeric_gradient(&[*x], |at| of(at[0]))[0])
                .collect();
            assert_close(&found, &expected, 2e-6);
        }
    }

    #[test]
    fn relu_passes_gradients_of_positive_outputs() {
        let (mut output, mut gradient) = (vec![9.0; 4], vec![9.0; 4]);
        relu(&mut output, &[-1.0, 0.0, 2.0, f32::NAN]);
        assert!(output[..3] == [0.0, 0.0, 2.0] && output[3].is_nan());
        relu_backward(&mut gradient, &output, &[5.0, 6.0, 7.0, 8.0]);
        assert_eq!(gradient[..3], [0.0, 0.0, 7.0]);
    }
}
