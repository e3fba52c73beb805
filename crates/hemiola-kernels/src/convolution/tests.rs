//! Convolutions beside their definition in double precision.

use super::*;
use crate::parallel::on_threads;
use crate::testing::{assert_close, numbers};

/// Output, and gradients of input and weight for the gradient `slopes` of the output.
fn reference(input: &[f32], weight: &[f32], slopes: &[f32], shape: ConvolutionShape) -> [Vec<f32>; 3] {
    let ConvolutionShape { inputs, outputs, rows, columns, window, stride, padding, .. } = shape;
    let (down, across) = (shape.output_rows(), shape.output_columns());
    let (mut output, mut of_input, mut of_weight) =
        (vec![0.0; slopes.len()], vec![0.0; input.len()], vec![0.0; weight.len()]);
    for (at, to) in output.iter_mut().enumerate() {
        let (image, channel) = (at / (outputs * down * across), at / (down * across) % outputs);
        let (row, column) = (at / across % down, at % across);
        for term in 0..inputs * window * window {
            let from_row = (row * stride + term / window % window).wrapping_sub(padding);
            let from_column = (column * stride + term % window).wrapping_sub(padding);
            if from_row < rows && from_column < columns {
                let from = ((image * inputs + term / (window * window)) * rows + from_row) * columns + from_column;
                let weighted = channel * inputs * window * window + term;
                *to += f64::from(input[from]) * f64::from(weight[weighted]);
                of_input[from] += f64::from(slopes[at]) * f64::from(weight[weighted]);
                of_weight[weighted] += f64::from(slopes[at]) * f64::from(input[from]);
            }
        }
    }
    [output, of_input, of_weight].map(|values: Vec<f64>| values.iter().map(|value| *value as f32).collect())
}

fn shape(batch: usize, channels: [usize; 2], size: [usize; 2], window: [usize; 3]) -> ConvolutionShape {
    let ([inputs, outputs], [rows, columns], [window, stride, padding]) = (channels, size, window);
    ConvolutionShape { batch, inputs, outputs, rows, columns, window, stride, padding }
}

#[test]
fn outputs_and_gradients_equal_those_in_double_precision() {
    let shapes = [
        shape(1, [1, 1], [1, 1], [1, 1, 0]),
        shape(2, [3, 16], [9, 7], [3, 1, 1]),
        shape(5, [2, 9], [6, 11], [3, 1, 0]),
        shape(3, [4, 5], [8, 8], [5, 1, 2]),
        shape(2, [7, 3], [5, 5], [1, 1, 0]),
        shape(2, [3, 10], [9, 8], [3, 2, 1]),
        shape(3, [6, 4], [7, 7], [1, 2, 0]),
        shape(1, [3, 8], [23, 17], [7, 2, 3]),
        shape(2, [2, 3], [3, 2], [3, 1, 2]),
    ];
    for shape in shapes {
        let (input, weight) = (numbers(shape.batch * shape.image(), 1), numbers(shape.outputs * shape.terms(), 2));
        let slopes = numbers(shape.batch * shape.output_image(), 3);
        let [output, of_input, of_weight] = reference(&input, &weight, &slopes, shape);
        // Sums of up to a few hundred products, relative to the largest.
        assert_close(&forward(&input, &weight, shape), &output, 3e-6);
        assert_close(&backward_input(&weight, &slopes, shape), &of_input, 3e-6);
        assert_close(&backward_weight(&input, &slopes, shape), &of_weight, 3e-6);
    }
}

#[test]
fn bits_do_not_depend_on_threads_nor_on_other_images() {
    let shape = shape(11, [8, 12], [20, 20], [3, 1, 1]);
    let (input, weight) = (numbers(shape.batch * shape.image(), 1), numbers(shape.outputs * shape.terms(), 2));
    let slopes = numbers(shape.batch * shape.output_image(), 3);
    let run = || {
        let of_input = backward_input(&weight, &slopes, shape);
        (forward(&input, &weight, shape), of_input, backward_weight(&input, &slopes, shape))
    };
    let one = run();
    assert!(on_threads(3, run) == one);
    let (last, single) = (&input[10 * shape.image()..], ConvolutionShape { batch: 1, ..shape });
    assert!(forward(last, &weight, single)[..] == one.0[10 * shape.output_image()..]);
}

#[test]
#[should_panic(expected = "not supported")]
fn windows_that_do_not_fit_are_refused() {
    let _ = forward(&[0.0; 4], &[0.0; 25], shape(1, [1, 1], [2, 2], [5, 1, 0]));
}
