//! An LSTM layer (Hochreiter and Schmidhuber 1997) over whole sequences, from a state of zero.
//!
//! Weights are those of one linear layer over the input and the previous output,
//! `[inputs + hidden, 4 · hidden]`, with input, forget and output gate and the cell candidate side
//! by side. The forget gate gets a bias of 1 in addition to the learned one. The products with the
//! inputs of all positions are one matrix product, and so are the gradients of the weights: only
//! the product with the previous output is left for each position.

use crate::matrix::{MatrixView, add_row_sums, multiply};
use crate::{math, parallel};

/// Sizes of an LSTM layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LstmShape {
    /// Number of sequences.
    pub batch: usize,
    /// Length of a sequence.
    pub positions: usize,
    /// Elements of an input.
    pub inputs: usize,
    /// Elements of an output and of a cell.
    pub hidden: usize,
}

/// Activations that the backward pass needs.
#[derive(Clone, Debug)]
pub struct LstmTrace {
    /// Gates and candidates after their activation functions, `[batch, positions, 4 · hidden]`.
    pub gates: Vec<f32>,
    /// Cells, `[batch, positions, hidden]`.
    pub cells: Vec<f32>,
}

/// Gradients of an LSTM layer.
#[derive(Clone, Debug)]
pub struct LstmGradients {
    /// Of the inputs.
    pub input: Vec<f32>,
    /// Of the weights.
    pub weight: Vec<f32>,
    /// Of the bias.
    pub bias: Vec<f32>,
}

impl LstmShape {
    fn check(self, input: &[f32], weight: &[f32]) {
        assert_eq!(input.len(), self.batch * self.positions * self.inputs, "the size of the inputs");
        assert_eq!(weight.len(), (self.inputs + self.hidden) * 4 * self.hidden, "the size of the weights");
    }

    fn outputs(self) -> usize {
        self.batch * self.positions * self.hidden
    }
}

/// Returns the outputs, `[batch, positions, hidden]`, and the trace of the pass.
///
/// # Panics
/// If a slice has another size.
#[must_use]
pub fn forward(input: &[f32], weight: &[f32], bias: &[f32], shape: LstmShape) -> (Vec<f32>, LstmTrace) {
    shape.check(input, weight);
    let LstmShape { batch, positions, inputs, hidden } = shape;
    assert_eq!(bias.len(), 4 * hidden, "the size of the bias");
    let rows = batch * positions;
    let mut gates = bias.repeat(rows);
    let (of_input, of_output) = weight.split_at(inputs * 4 * hidden);
    let products = (MatrixView::dense(input, rows, inputs), MatrixView::dense(of_input, inputs, 4 * hidden));
    multiply(&mut gates, 4 * hidden, products.0, products.1, 1.0, true);
    let (mut outputs, mut cells) = (vec![0.0; shape.outputs()], vec![0.0; shape.outputs()]);
    let of_output = MatrixView::dense(of_output, hidden, 4 * hidden);
    for position in 0..positions {
        if position > 0 {
            let before = MatrixView::new(&outputs[(position - 1) * hidden..], (batch, hidden), positions * hidden);
            multiply(&mut gates[position * 4 * hidden..], positions * 4 * hidden, before, of_output, 1.0, true);
        }
        let widths = [positions * hidden, positions * hidden, positions * 4 * hidden];
        let body = |_: usize, [outputs, cells, gates]: [&mut [f32]; 3]| {
            let gates = &mut gates[position * 4 * hidden..(position + 1) * 4 * hidden];
            let (before, cells) = cells.split_at_mut(position * hidden);
            let before = before.last_chunk_of(hidden);
            cell_forward(&mut outputs[position * hidden..], &mut cells[..hidden], before, gates);
        };
        sequences([&mut outputs, &mut cells, &mut gates], widths, batch * hidden, body);
    }
    (outputs, LstmTrace { gates, cells })
}

/// Last elements of a slice, or an empty slice.
trait LastChunk {
    fn last_chunk_of(&self, count: usize) -> &[f32];
}

impl LastChunk for [f32] {
    fn last_chunk_of(&self, count: usize) -> &[f32] {
        &self[self.len().saturating_sub(count)..]
    }
}

/// Runs `body` on each sequence; `work` is the number of elements of this position.
fn sequences<const N: usize>(
    slices: [&mut [f32]; N],
    widths: [usize; N],
    work: usize,
    body: impl Fn(usize, [&mut [f32]; N]) + Sync,
) {
    if work >= parallel::PARALLEL_ELEMENTS {
        parallel::zip_blocks(slices, widths, body);
        return;
    }
    let mut chunks: Vec<_> =
        slices.into_iter().zip(widths).map(|(slice, width)| slice.chunks_mut(width.max(1))).collect();
    for index in 0.. {
        let mut parts: [&mut [f32]; N] = std::array::from_fn(|_| &mut [][..]);
        for (part, chunks) in parts.iter_mut().zip(&mut chunks) {
            match chunks.next() {
                Some(chunk) => *part = chunk,
                None => return,
            }
        }
        body(index, parts);
    }
}

/// One position of one sequence. `before` are the previous cells, empty at the first position.
fn cell_forward(output: &mut [f32], cell: &mut [f32], before: &[f32], gates: &mut [f32]) {
    let hidden = cell.len();
    let (input, rest) = gates.split_at_mut(hidden);
    let (forget, rest) = rest.split_at_mut(hidden);
    let (open, candidate) = rest.split_at_mut(hidden);
    let (output, candidate) = (&mut output[..hidden], &mut candidate[..hidden]);
    pulp::Arch::new().dispatch(|| {
        for index in 0..hidden {
            input[index] = math::sigmoid(input[index]);
            forget[index] = math::sigmoid(forget[index] + 1.0);
            open[index] = math::sigmoid(open[index]);
            candidate[index] = math::tanh(candidate[index]);
            cell[index] = input[index] * candidate[index];
        }
        for (index, before) in before.iter().enumerate().take(hidden) {
            cell[index] += forget[index] * before;
        }
        for index in 0..hidden {
            output[index] = open[index] * math::tanh(cell[index]);
        }
    });
}

/// Gradients, given the outputs, the gates and cells of the [trace](LstmTrace) and the gradient of
/// the outputs. Without `wants_input`, that of the inputs stays empty.
///
/// # Panics
/// If sizes differ from those of the forward pass.
#[must_use]
pub fn backward(
    (input, weight): (&[f32], &[f32]),
    output: &[f32],
    (all_gates, all_cells): (&[f32], &[f32]),
    gradient: &[f32],
    shape: LstmShape,
    wants_input: bool,
) -> LstmGradients {
    shape.check(input, weight);
    let LstmShape { batch, positions, inputs, hidden } = shape;
    let rows = batch * positions;
    assert_eq!(
        (output.len(), gradient.len(), all_cells.len(), all_gates.len()),
        (shape.outputs(), shape.outputs(), shape.outputs(), 4 * shape.outputs()),
        "sizes of the forward pass"
    );
    let (of_input, of_output) = weight.split_at(inputs * 4 * hidden);
    let of_output = MatrixView::dense(of_output, hidden, 4 * hidden).transposed();
    // Gradients of the arguments of the activation functions; of outputs and cells of one position.
    let mut slopes = vec![0.0; rows * 4 * hidden];
    let (mut outputs, mut cells) = (vec![0.0; batch * hidden], vec![0.0; batch * hidden]);
    for position in (0..positions).rev() {
        let body = |sequence: usize, [slopes, outputs, cells]: [&mut [f32]; 3]| {
            let row = sequence * positions + position;
            let gates = &all_gates[row * 4 * hidden..(row + 1) * 4 * hidden];
            let cell = &all_cells[row * hidden..(row + 1) * hidden];
            let before = if position == 0 { &[][..] } else { &all_cells[(row - 1) * hidden..row * hidden] };
            math::add_to(outputs, &gradient[row * hidden..(row + 1) * hidden]);
            let slopes = &mut slopes[position * 4 * hidden..(position + 1) * 4 * hidden];
            cell_backward(slopes, outputs, cells, (gates, cell, before));
        };
        let widths = [positions * 4 * hidden, hidden, hidden];
        sequences([&mut slopes, &mut outputs, &mut cells], widths, batch * hidden, body);
        if position > 0 {
            let own = MatrixView::new(&slopes[position * 4 * hidden..], (batch, 4 * hidden), positions * 4 * hidden);
            multiply(&mut outputs, hidden, own, of_output, 1.0, false);
        }
    }
    let all = MatrixView::dense(&slopes, rows, 4 * hidden);
    let mut of_weight = vec![0.0; weight.len()];
    let (first, second) = of_weight.split_at_mut(inputs * 4 * hidden);
    multiply(first, 4 * hidden, MatrixView::dense(input, rows, inputs).transposed(), all, 1.0, false);
    // Outputs of all positions but the last belong to the slopes of the next ones.
    for sequence in 0..batch {
        if positions > 1 {
            let start = sequence * positions;
            let before = MatrixView::dense(&output[start * hidden..], positions - 1, hidden).transposed();
            let own = MatrixView::dense(&slopes[(start + 1) * 4 * hidden..], positions - 1, 4 * hidden);
            multiply(second, 4 * hidden, before, own, 1.0, true);
        }
    }
    let mut bias = vec![0.0; 4 * hidden];
    add_row_sums(&mut bias, &slopes);
    let mut of_inputs = Vec::new();
    if wants_input {
        of_inputs = vec![0.0; input.len()];
        multiply(&mut of_inputs, inputs, all, MatrixView::dense(of_input, inputs, 4 * hidden).transposed(), 1.0, false);
    }
    LstmGradients { input: of_inputs, weight: of_weight, bias }
}

/// One position of one sequence: `outputs` are gradients of the output, `cells` those of the cell,
/// which become those of the previous cell.
fn cell_backward(
    slopes: &mut [f32],
    outputs: &[f32],
    cells: &mut [f32],
    (gates, cell, before): (&[f32], &[f32], &[f32]),
) {
    let hidden = cell.len();
    let (to_input, rest) = slopes.split_at_mut(hidden);
    let (to_forget, rest) = rest.split_at_mut(hidden);
    let (to_open, to_candidate) = rest.split_at_mut(hidden);
    let (input, rest) = gates.split_at(hidden);
    let (forget, rest) = rest.split_at(hidden);
    let (open, candidate) = rest.split_at(hidden);
    let (outputs, cells) = (&outputs[..hidden], &mut cells[..hidden]);
    let (to_candidate, candidate) = (&mut to_candidate[..hidden], &candidate[..hidden]);
    pulp::Arch::new().dispatch(|| {
        for index in 0..hidden {
            let bent = math::tanh(cell[index]);
            let slope = cells[index] + outputs[index] * open[index] * (1.0 - bent * bent);
            to_open[index] = outputs[index] * bent * open[index] * (1.0 - open[index]);
            to_input[index] = slope * candidate[index] * input[index] * (1.0 - input[index]);
            to_candidate[index] = slope * input[index] * (1.0 - candidate[index] * candidate[index]);
            to_forget[index] = slope * forget[index] * (1.0 - forget[index]);
            cells[index] = slope * forget[index];
        }
        if before.is_empty() {
            to_forget.fill(0.0);
        }
        for (to, before) in to_forget.iter_mut().zip(before) {
            *to *= before;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::on_threads;
    use crate::testing::{assert_close, numbers, numeric_gradient};

    fn reference(input: &[f64], weight: &[f64], bias: &[f64], shape: LstmShape) -> Vec<f64> {
        let LstmShape { batch, positions, inputs, hidden } = shape;
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let mut outputs = Vec::new();
        for sequence in 0..batch {
            let (mut output, mut cell) = (vec![0.0; hidden], vec![0.0; hidden]);
            for position in 0..positions {
                let start = (sequence * positions + position) * inputs;
                let joined: Vec<f64> = input[start..start + inputs].iter().chain(&output).copied().collect();
                let gate = |column: usize| {
                    bias[column]
                        + joined
                            .iter()
                            .enumerate()
                            .map(|(row, value)| value * weight[row * 4 * hidden + column])
                            .sum::<f64>()
                };
                for (index, cell) in cell.iter_mut().enumerate() {
                    let remembered = sigmoid(gate(hidden + index) + 1.0) * *cell;
                    *cell = remembered + sigmoid(gate(index)) * gate(3 * hidden + index).tanh();
                }
                output = (0..hidden).map(|index| sigmoid(gate(2 * hidden + index)) * cell[index].tanh()).collect();
                outputs.extend(&output);
            }
        }
        outputs
    }

    #[test]
    fn outputs_and_gradients_equal_those_in_double_precision() {
        for (batch, positions, inputs, hidden) in [(1, 1, 1, 1), (3, 4, 5, 7), (2, 6, 3, 17)] {
            let shape = LstmShape { batch, positions, inputs, hidden };
            let (input, weight) = (numbers(batch * positions * inputs, 1), numbers((inputs + hidden) * 4 * hidden, 2));
            let (bias, slopes) = (numbers(4 * hidden, 3), numbers(batch * positions * hidden, 4));
            let exact = |values: &[f32]| values.iter().map(|value| f64::from(*value)).collect::<Vec<_>>();
            let (x, w, b) = (exact(&input), exact(&weight), exact(&bias));
            let (output, trace) = forward(&input, &weight, &bias, shape);
            let expected: Vec<f32> = reference(&x, &w, &b, shape).iter().map(|value| *value as f32).collect();
            assert_close(&output, &expected, 3e-6);
            let found = backward((&input, &weight), &output, (&trace.gates, &trace.cells), &slopes, shape, true);
            let weighted = |outputs: Vec<f64>| {
                outputs.iter().zip(&slopes).map(|(value, slope)| value * f64::from(*slope)).sum::<f64>()
            };
            assert_close(&found.input, &numeric_gradient(&input, |at| weighted(reference(at, &w, &b, shape))), 1e-5);
            assert_close(&found.weight, &numeric_gradient(&weight, |at| weighted(reference(&x, at, &b, shape))), 1e-5);
            assert_close(&found.bias, &numeric_gradient(&bias, |at| weighted(reference(&x, &w, at, shape))), 1e-5);
        }
    }

    #[test]
    fn bits_do_not_depend_on_threads() {
        let shape = LstmShape { batch: 33, positions: 3, inputs: 40, hidden: 520 };
        let (input, weight) = (numbers(33 * 3 * 40, 1), numbers(560 * 2080, 2));
        let (bias, slopes) = (numbers(2080, 3), numbers(33 * 3 * 520, 4));
        let run = || {
            let (output, trace) = forward(&input, &weight, &bias, shape);
            let found = backward((&input, &weight), &output, (&trace.gates, &trace.cells), &slopes, shape, true);
            (output, found.input, found.weight, found.bias)
        };
        assert!(on_threads(3, run) == run());
    }
}
