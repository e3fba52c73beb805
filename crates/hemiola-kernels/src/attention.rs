//! Causal self-attention of several heads (Vaswani et al. 2017).
//!
//! The input holds queries, keys and values of every position side by side, as one projection
//! computes them: `[batch, positions, 3 · width]`. Products read the heads in place through strided
//! views. A position attends to itself and to earlier ones. Queries are processed in blocks, and a
//! block multiplies only the keys up to its end, so half of the products of a long sequence are
//! never computed.
//!
//! The forward pass keeps the attention weights, `[batch, heads, positions, positions]`, of which
//! the elements above the diagonal are zero.

use crate::matrix::{MatrixView, multiply};
use crate::{math, parallel};

/// Queries of a block.
const QUERIES: usize = 64;

/// Sizes of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Number of sequences.
    pub batch: usize,
    /// Length of a sequence.
    pub positions: usize,
    /// Number of heads.
    pub heads: usize,
    /// Elements of a head.
    pub head: usize,
}

impl AttentionShape {
    fn width(self) -> usize {
        self.heads * self.head
    }

    /// Number of attention weights.
    #[must_use]
    pub fn weights(self) -> usize {
        self.batch * self.heads * self.positions * self.positions
    }

    /// Elements of the output, a third of those of the input.
    #[must_use]
    pub fn outputs(self) -> usize {
        self.batch * self.positions * self.width()
    }

    fn scale(self) -> f32 {
        1.0 / (self.head as f32).sqrt()
    }

    /// View of `rows` positions of a head: queries (0), keys (1) or values (2).
    fn view(self, sequence: &[f32], part: usize, head: usize, rows: std::ops::Range<usize>) -> MatrixView<'_> {
        let stride = 3 * self.width();
        let start = rows.start * stride + part * self.width() + head * self.head;
        MatrixView::new(&sequence[start..], (rows.len(), self.head), stride)
    }
}

/// Returns the output, `[batch, positions, width]`, and the attention weights.
///
/// # Panics
/// If the input has another size.
#[must_use]
pub fn forward(qkv: &[f32], shape: AttentionShape) -> (Vec<f32>, Vec<f32>) {
    assert_eq!(qkv.len(), 3 * shape.outputs(), "the size of queries, keys and values");
    let (positions, width) = (shape.positions, shape.width());
    let (mut output, mut weights) = (vec![0.0; shape.outputs()], vec![0.0; shape.weights()]);
    let square = positions * positions;
    if output.is_empty() {
        return (output, weights);
    }
    parallel::zip_blocks(
        [&mut output, &mut weights],
        [positions * width, shape.heads * square],
        |batch, [output, weights]| {
            let sequence = &qkv[batch * 3 * positions * width..(batch + 1) * 3 * positions * width];
            for (head, weights) in weights.chunks_exact_mut(square).enumerate() {
                for start in (0..positions).step_by(QUERIES) {
                    let end = positions.min(start + QUERIES);
                    let rows = &mut weights[start * positions..end * positions];
                    let queries = shape.view(sequence, 0, head, start..end);
                    let keys = shape.view(sequence, 1, head, 0..end);
                    multiply(rows, positions, queries, keys.transposed(), shape.scale(), false);
                    causal_softmax(rows, positions, start);
                    let weights = MatrixView::new(rows, (end - start, end), positions);
                    let to = &mut output[start * width + head * shape.head..];
                    multiply(to, width, weights, shape.view(sequence, 2, head, 0..end), 1.0, false);
                }
            }
        },
    );
    (output, weights)
}

/// Softmax over the first elements of each row, up to the diagonal; the others become zero. The
/// first row is that of position `start`.
fn causal_softmax(rows: &mut [f32], positions: usize, start: usize) {
    pulp::Arch::new().dispatch(|| {
        for (at, row) in rows.chunks_exact_mut(positions).enumerate() {
            let (seen, later) = row.split_at_mut(start + at + 1);
            later.fill(0.0);
            let most = math::maximum(seen);
            for value in &mut *seen {
                *value = math::exp(*value - most);
            }
            let factor = 1.0 / math::sum_by(seen, seen, |value, _| value);
            for value in seen {
                *value *= factor;
            }
        }
    });
}

/// Gradient of queries, keys and values, given that of the output.
///
/// # Panics
/// If sizes differ from those of the forward pass.
#[must_use]
pub fn backward(qkv: &[f32], weights: &[f32], gradient: &[f32], shape: AttentionShape) -> Vec<f32> {
    assert_eq!(
        (qkv.len(), weights.len(), gradient.len()),
        (3 * shape.outputs(), shape.weights(), shape.outputs()),
        "sizes of the forward pass"
    );
    let (positions, width) = (shape.positions, shape.width());
    let mut to = vec![0.0; qkv.len()];
    parallel::for_blocks(&mut to, (3 * positions * width).max(1), |batch, to| {
        let sequence = &qkv[batch * 3 * positions * width..(batch + 1) * 3 * positions * width];
        let gradient = &gradient[batch * positions * width..(batch + 1) * positions * width];
        let mut slopes = vec![0.0; QUERIES.min(positions) * positions];
        for head in 0..shape.heads {
            let square = (batch * shape.heads + head) * positions * positions;
            let weights = &weights[square..square + positions * positions];
            for start in (0..positions).step_by(QUERIES) {
                let end = positions.min(start + QUERIES);
                let (count, seen) = (end - start, 0..end);
                let block = &weights[start * positions..end * positions];
                let outputs =
                    MatrixView::new(&gradient[start * width + head * shape.head..], (count, shape.head), width);
                let slopes = &mut slopes[..count * positions];
                multiply(
                    slopes,
                    positions,
                    outputs,
                    shape.view(sequence, 2, head, seen.clone()).transposed(),
                    1.0,
                    false,
                );
                softmax_backward(slopes, block, (positions, start), shape.scale());
                let slopes = MatrixView::new(slopes, (count, end), positions);
                let block = MatrixView::new(block, (count, end), positions);
                let stride = 3 * width;
                let (queries, keys, values) =
                    (head * shape.head, width + head * shape.head, 2 * width + head * shape.head);
                multiply(
                    &mut to[start * stride + queries..],
                    stride,
                    slopes,
                    shape.view(sequence, 1, head, seen),
                    1.0,
                    false,
                );
                let own = shape.view(sequence, 0, head, start..end);
                multiply(&mut to[keys..], stride, slopes.transposed(), own, 1.0, true);
                multiply(&mut to[values..], stride, block.transposed(), outputs, 1.0, true);
            }
        }
    });
    to
}

/// Turns gradients of attention weights into gradients of scaled logits, in place.
fn softmax_backward(slopes: &mut [f32], weights: &[f32], (positions, start): (usize, usize), scale: f32) {
    pulp::Arch::new().dispatch(|| {
        for (at, (slopes, weights)) in
            slopes.chunks_exact_mut(positions).zip(weights.chunks_exact(positions)).enumerate()
        {
            let (seen, later) = slopes.split_at_mut(start + at + 1);
            later.fill(0.0);
            let weights = &weights[..seen.len()];
            let mean = math::sum_by(seen, weights, |slope, weight| slope * weight);
            for (slope, weight) in seen.iter_mut().zip(weights) {
                *slope = scale * weight * (*slope - mean);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::on_threads;
    use crate::testing::{assert_close, numbers, numeric_gradient};

    fn reference(qkv: &[f64], shape: AttentionShape) -> Vec<f64> {
        let (positions, width) = (shape.positions, shape.width());
        let mut output = vec![0.0; shape.outputs()];
        for batch in 0..shape.batch {
            for head in 0..shape.heads {
                let at = |position: usize, part: usize, element: usize| {
                    qkv[(batch * positions + position) * 3 * width + part * width + head * shape.head + element]
                };
                for query in 0..positions {
                    let dot = |key: usize| {
                        (0..shape.head).map(|element| at(query, 0, element) * at(key, 1, element)).sum::<f64>()
                    };
                    let chances: Vec<f64> =
                        (0..=query).map(|key| (dot(key) / (shape.head as f64).sqrt()).exp()).collect();
                    let sum: f64 = chances.iter().sum();
                    for element in 0..shape.head {
                        let value: f64 =
                            chances.iter().enumerate().map(|(key, chance)| chance / sum * at(key, 2, element)).sum();
                        output[(batch * positions + query) * width + head * shape.head + element] = value;
                    }
                }
            }
        }
        output
    }

    #[test]
    fn outputs_and_gradients_equal_those_in_double_precision() {
        for (batch, positions, heads, head) in [(1, 1, 1, 1), (2, 5, 3, 4), (1, 13, 1, 7)] {
            let shape = AttentionShape { batch, positions, heads, head };
            let (qkv, slopes) = (numbers(3 * shape.outputs(), 1), numbers(shape.outputs(), 2));
            let exact: Vec<f64> = qkv.iter().map(|value| f64::from(*value)).collect();
            let (output, weights) = forward(&qkv, shape);
            let expected: Vec<f32> = reference(&exact, shape).iter().map(|value| *value as f32).collect();
            assert_close(&output, &expected, 1e-6);
            let loss = |at: &[f64]| {
                reference(at, shape).iter().zip(&slopes).map(|(value, slope)| value * f64::from(*slope)).sum()
            };
            assert_close(&backward(&qkv, &weights, &slopes, shape), &numeric_gradient(&qkv, loss), 1e-5);
        }
    }

    #[test]
    fn blocks_of_queries_give_the_output_of_one_block() {
        // 150 positions are three blocks. Gradients: with the sum of all outputs of the last
        // position, earlier queries have none.
        let shape = AttentionShape { batch: 2, positions: 150, heads: 2, head: 8 };
        let qkv = numbers(3 * shape.outputs(), 1);
        let exact: Vec<f64> = qkv.iter().map(|value| f64::from(*value)).collect();
        let (output, weights) = forward(&qkv, shape);
        let expected: Vec<f32> = reference(&exact, shape).iter().map(|value| *value as f32).collect();
        assert_close(&output, &expected, 1e-6);
        let mut slopes = vec![0.0; output.len()];
        slopes[149 * 16..150 * 16].fill(1.0);
        let found = backward(&qkv, &weights, &slopes, shape);
        assert!((0..149).all(|position| found[position * 48..position * 48 + 16].iter().all(|value| *value == 0.0)));
        let loss = |at: &[f64]| reference(at, AttentionShape { batch: 1, ..shape })[149 * 16..].iter().sum();
        let mut probe = exact[..150 * 48].to_vec();
        for index in [0, 20, 40, 70 * 48 + 17, 149 * 48 + 3, 149 * 48 + 47] {
            let middle = probe[index];
            probe[index] = middle + 1e-5;
            let above: f64 = loss(&probe);
            probe[index] = middle - 1e-5;
            let slope = (above - loss(&probe)) / 2e-5;
            probe[index] = middle;
            assert!(
                (f64::from(found[index]) - slope).abs() < 1e-5,
                "element {index}: {} instead of {slope}",
                found[index]
            );
        }
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        let shape = AttentionShape { batch: 5, positions: 70, heads: 2, head: 16 };
        let (qkv, slopes) = (numbers(3 * shape.outputs(), 1), numbers(shape.outputs(), 2));
        let run = || {
            let (output, weights) = forward(&qkv, shape);
            (backward(&qkv, &weights, &slopes, shape), output)
        };
        assert!(on_threads(3, run) == run());
    }
}
