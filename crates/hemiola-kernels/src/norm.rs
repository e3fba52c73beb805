//! Layer normalization (Ba et al. 2016) and group normalization (Wu and He 2018).
//!
//! Both normalize rows of consecutive elements and scale the result. In layer normalization a row
//! has one scale for each element. In group normalization a row is some channels of an image, and
//! all elements of a channel share a scale. A [`NormShape`] describes both.

use crate::{math, parallel};

/// Rows that are normalized, and the elements that share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormShape {
    /// Elements of a row.
    pub row: usize,
    /// Consecutive elements with one scale: 1 for layer normalization, the size of a channel for
    /// group normalization.
    pub channel: usize,
    /// Number of scales: consecutive channels have consecutive scales, in turn.
    pub scales: usize,
}

/// Parameters of a normalization: scale and shift of each channel, and the number that is added to
/// variances.
#[derive(Clone, Copy, Debug)]
pub struct NormParameters<'a> {
    /// Scale of each channel.
    pub scale: &'a [f32],
    /// Shift of each channel.
    pub shift: &'a [f32],
    /// Number that is added to variances.
    pub epsilon: f32,
}

impl NormShape {
    /// First scale of a row.
    fn first_scale(self, row: usize) -> usize {
        row * (self.row / self.channel) % self.scales
    }

    fn check(self, input: &[f32]) {
        assert!(
            self.row > 0 && self.channel > 0 && self.row.is_multiple_of(self.channel),
            "a row consists of whole channels"
        );
        assert_eq!(self.scales % (self.row / self.channel), 0, "scales are divided into whole rows");
        assert_eq!(input.len() % self.row, 0, "the input consists of whole rows");
    }
}

/// Rows of a block: at least four thousand elements.
fn rows_of_block(shape: NormShape) -> usize {
    (4096 / shape.row).max(1)
}

/// Normalizes rows. Returns the output and, for each row, the mean and the reciprocal of the
/// standard deviation.
///
/// # Panics
/// If the shape does not fit.
#[must_use]
pub fn forward(input: &[f32], parameters: NormParameters<'_>, shape: NormShape) -> (Vec<f32>, Vec<f32>) {
    shape.check(input);
    let NormParameters { scale, shift, epsilon } = parameters;
    assert_eq!((scale.len(), shift.len()), (shape.scales, shape.scales), "one scale and shift for each channel");
    let (mut output, mut moments) = (vec![0.0; input.len()], vec![0.0; input.len() / shape.row * 2]);
    let rows = rows_of_block(shape);
    parallel::zip_blocks([&mut output, &mut moments], [rows * shape.row, rows * 2], |block, [output, moments]| {
        pulp::Arch::new().dispatch(|| {
            for (at, (to, moments)) in output.chunks_exact_mut(shape.row).zip(moments.chunks_exact_mut(2)).enumerate() {
                let row = block * rows + at;
                let from = &input[row * shape.row..(row + 1) * shape.row];
                let count = shape.row as f32;
                let mean = math::sum_by(from, from, |value, _| value) / count;
                let variance = math::sum_by(from, from, |value, _| (value - mean) * (value - mean)) / count;
                let factor = 1.0 / (variance + epsilon).sqrt();
                (moments[0], moments[1]) = (mean, factor);
                let first = shape.first_scale(row);
                if shape.channel == 1 {
                    let (scale, shift) = (&scale[first..first + shape.row], &shift[first..first + shape.row]);
                    for (((to, from), scale), shift) in to.iter_mut().zip(from).zip(scale).zip(shift) {
                        *to = (from - mean) * factor * scale + shift;
                    }
                } else {
                    let channels = to.chunks_exact_mut(shape.channel).zip(from.chunks_exact(shape.channel));
                    for (channel, (to, from)) in channels.enumerate() {
                        let (scale, shift) = (scale[first + channel], shift[first + channel]);
                        for (to, from) in to.iter_mut().zip(from) {
                            *to = (from - mean) * factor * scale + shift;
                        }
                    }
                }
            }
        });
    });
    (output, moments)
}

/// Gradients of the input, the scale and the shift of [`forward`]. `moments` are those that it has
/// returned.
///
/// # Panics
/// If sizes differ from those of the forward pass.
#[must_use]
pub fn backward(
    input: &[f32],
    scale: &[f32],
    moments: &[f32],
    gradient: &[f32],
    shape: NormShape,
) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    shape.check(input);
    assert_eq!(
        (gradient.len(), moments.len()),
        (input.len(), input.len() / shape.row * 2),
        "sizes of the forward pass"
    );
    let rows = rows_of_block(shape);
    let blocks = input.len().div_ceil(rows * shape.row);
    let mut to = vec![0.0; input.len()];
    // Sums of each block for scale and shift.
    let mut parts = vec![0.0; blocks * 2 * shape.scales];
    parallel::zip_blocks([&mut to, &mut parts], [rows * shape.row, 2 * shape.scales], |block, [to, parts]| {
        let (of_scale, of_shift) = parts.split_at_mut(shape.scales);
        pulp::Arch::new().dispatch(|| {
            for (at, to) in to.chunks_exact_mut(shape.row).enumerate() {
                let row = block * rows + at;
                let range = row * shape.row..(row + 1) * shape.row;
                let (from, slope) = (&input[range.clone()], &gradient[range]);
                let first = shape.first_scale(row);
                backward_row(
                    to,
                    from,
                    slope,
                    (moments[2 * row], moments[2 * row + 1]),
                    shape,
                    &scale[first..],
                    (&mut of_scale[first..], &mut of_shift[first..]),
                );
            }
        });
    });
    let (mut of_scale, mut of_shift) = (vec![0.0; shape.scales], vec![0.0; shape.scales]);
    for part in parts.chunks_exact(2 * shape.scales) {
        math::add_to(&mut of_scale, &part[..shape.scales]);
        math::add_to(&mut of_shift, &part[shape.scales..]);
    }
    (to, of_scale, of_shift)
}

#[inline(always)]
fn backward_row(
    to: &mut [f32],
    from: &[f32],
    slope: &[f32],
    (mean, factor): (f32, f32),
    shape: NormShape,
    scale: &[f32],
    (of_scale, of_shift): (&mut [f32], &mut [f32]),
) {
    let count = shape.row as f32;
    // Sums of the scaled gradient, alone and multiplied by the normalized input.
    let (mut sum, mut product) = (0.0, 0.0);
    if shape.channel == 1 {
        for ((((to, from), slope), scale), (of_scale, of_shift)) in
            to.iter_mut().zip(from).zip(slope).zip(scale).zip(of_scale.iter_mut().zip(of_shift))
        {
            *to = slope * scale;
            *of_scale += slope * ((from - mean) * factor);
            *of_shift += slope;
        }
        sum = math::sum_by(to, to, |value, _| value);
        product = math::sum_by(to, from, |value, from| value * ((from - mean) * factor));
    } else {
        let channels = from.chunks_exact(shape.channel).zip(slope.chunks_exact(shape.channel));
        for (channel, (from, slope)) in channels.enumerate() {
            let whole = math::sum_by(slope, slope, |value, _| value);
            let weighted = math::sum_by(slope, from, |value, from| value * ((from - mean) * factor));
            of_shift[channel] += whole;
            of_scale[channel] += weighted;
            sum += whole * scale[channel];
            product += weighted * scale[channel];
        }
        for (channel, (to, slope)) in
            to.chunks_exact_mut(shape.channel).zip(slope.chunks_exact(shape.channel)).enumerate()
        {
            for (to, slope) in to.iter_mut().zip(slope) {
                *to = slope * scale[channel];
            }
        }
    }
    let (sum, product) = (sum / count, product / count);
    for (to, from) in to.iter_mut().zip(from) {
        *to = factor * (*to - sum - (from - mean) * factor * product);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::on_threads;
    use crate::testing::{assert_close, numbers, numeric_gradient};

    const SHAPES: [(usize, NormShape); 4] = [
        (1, NormShape { row: 1, channel: 1, scales: 1 }),
        (5, NormShape { row: 37, channel: 1, scales: 37 }),
        // Two images of three groups of two channels of 35 pixels.
        (6, NormShape { row: 70, channel: 35, scales: 6 }),
        (2, NormShape { row: 48, channel: 16, scales: 3 }),
    ];

    fn reference(input: &[f64], scale: &[f32], shift: &[f32], shape: NormShape) -> Vec<f64> {
        let mut output = Vec::new();
        for (index, row) in input.chunks(shape.row).enumerate() {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / row.len() as f64;
            for (at, value) in row.iter().enumerate() {
                let channel = (index * shape.row + at) / shape.channel % shape.scales;
                output.push(
                    (value - mean) / (variance + 1e-5).sqrt() * f64::from(scale[channel]) + f64::from(shift[channel]),
                );
            }
        }
        output
    }

    #[test]
    fn outputs_and_gradients_equal_those_in_double_precision() {
        for (rows, shape) in SHAPES {
            let input: Vec<f32> = numbers(rows * shape.row, 1).iter().map(|value| 3.0 * value + 0.5).collect();
            let (scale, shift, slopes) = (numbers(shape.scales, 2), numbers(shape.scales, 3), numbers(input.len(), 4));
            let exact: Vec<f64> = input.iter().map(|value| f64::from(*value)).collect();
            let parameters = NormParameters { scale: &scale, shift: &shift, epsilon: 1e-5 };
            let (output, moments) = forward(&input, parameters, shape);
            let expected: Vec<f32> =
                reference(&exact, &scale, &shift, shape).iter().map(|value| *value as f32).collect();
            assert_close(&output, &expected, 2e-6);
            let weighted = |output: &[f64]| {
                output.iter().zip(&slopes).map(|(value, slope)| value * f64::from(*slope)).sum::<f64>()
            };
            let (of_input, of_scale, of_shift) = backward(&input, &scale, &moments, &slopes, shape);
            let expected = numeric_gradient(&input, |at| weighted(&reference(at, &scale, &shift, shape)));
            // Central differences have six digits.
            assert_close(&of_input, &expected, 2e-5);
            let single = |values: &[f64]| values.iter().map(|value| *value as f32).collect::<Vec<_>>();
            // Linear in scale and shift, so a difference of one is exact.
            let base = weighted(&reference(&exact, &scale, &shift, shape));
            for index in 0..shape.scales {
                let (mut other, mut moved) = (scale.clone(), shift.clone());
                other[index] += 1.0;
                moved[index] += 1.0;
                let exact_scale = weighted(&reference(&exact, &other, &shift, shape)) - base;
                let exact_shift = weighted(&reference(&exact, &scale, &moved, shape)) - base;
                assert_close(&[of_scale[index], of_shift[index]], &single(&[exact_scale, exact_shift]), 1e-4);
            }
        }
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        for shape in [NormShape { row: 129, channel: 1, scales: 129 }, NormShape { row: 800, channel: 100, scales: 16 }]
        {
            let input = numbers(shape.row * 300, 1);
            let (scale, shift, slopes) = (numbers(shape.scales, 2), numbers(shape.scales, 3), numbers(input.len(), 4));
            let run = || {
                let (output, moments) =
                    forward(&input, NormParameters { scale: &scale, shift: &shift, epsilon: 1e-5 }, shape);
                (backward(&input, &scale, &moments, &slopes, shape), output)
            };
            assert!(on_threads(3, run) == run());
        }
    }
}
