//! Fused layers beside Burn's composition of the same layers: outputs and all gradients.

use super::*;
use crate::models::LayerInitializer;
use burn::module::{Module, Param};
use burn::nn::conv::Conv2d;
use burn::nn::{GroupNormConfig, LayerNormConfig};
use burn::tensor::activation::{self, log_softmax, sigmoid, softmax};
use burn::tensor::{Bool, Device, Gradients, Int, Tensor, TensorData};
use hemiola_core::rng::PhiloxRng;

fn device() -> Device {
    Device::flex().autodiff()
}

/// Tensor of numbers from -1 to 1.
fn numbers<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<D> {
    let random = PhiloxRng::new(seed);
    let values: Vec<f32> =
        (0..shape.iter().product::<usize>() as u64).map(|index| random.uniform_f32(index, 0, -1.0..1.0)).collect();
    Tensor::from_data(TensorData::new(values, shape), &device())
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().unwrap()
}

/// Compares elements, relative to the largest expected one. Both sides round sums of up to a few
/// hundred products in different orders, and use different polynomials for `exp`: 2·10⁻⁵ is a
/// hundred units in the last place.
fn assert_close(found: &[f32], expected: &[f32], name: &str) {
    assert_eq!(found.len(), expected.len(), "{name}");
    let scale = expected.iter().fold(1e-3_f32, |most, value| most.max(value.abs()));
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 2e-5 * scale, "{name}, element {index}: {found} instead of {expected}");
    }
}

/// Gradients of a sum of outputs with different weights.
fn backward<const D: usize>(output: &Tensor<D>) -> Gradients {
    (output.clone() * numbers(output.dims(), 99)).sum().backward()
}

/// Compares two ways to compute an output from an input, and their gradients of the input and of
/// what `parameters` returns.
fn compare<const D: usize, const E: usize>(
    name: &str,
    input: &Tensor<D>,
    fused: impl Fn(Tensor<D>) -> Tensor<E>,
    composed: impl Fn(Tensor<D>) -> Tensor<E>,
    parameters: impl Fn(&Gradients) -> Vec<Vec<f32>>,
) {
    let run = |layer: &dyn Fn(Tensor<D>) -> Tensor<E>| {
        let input = Tensor::from_data(input.to_data(), &device()).require_grad();
        let output = layer(input.clone());
        let gradients = backward(&output);
        (values(output), values(input.grad(&gradients).unwrap()), parameters(&gradients))
    };
    let (found, expected) = (run(&fused), run(&composed));
    assert_close(&found.0, &expected.0, &format!("{name}: output"));
    assert_close(&found.1, &expected.1, &format!("{name}: gradient of the input"));
    for (index, (found, expected)) in found.2.iter().zip(&expected.2).enumerate() {
        assert_close(found, expected, &format!("{name}: gradient of parameter {index}"));
    }
}

fn gradient<const D: usize>(param: &Param<Tensor<D>>, gradients: &Gradients) -> Vec<f32> {
    values(param.val().grad(gradients).unwrap())
}

fn random<const D: usize>(shape: [usize; D], seed: u64) -> Param<Tensor<D>> {
    Param::from_data(numbers(shape, seed).into_data(), &device())
}

#[test]
fn linear_layers() {
    for (rows, inputs, outputs) in [(1, 1, 1), (7, 5, 3), (66, 33, 40)] {
        for bias in [true, false] {
            let mut layer = LinearConfig::new(inputs, outputs).with_bias(bias).init(&device());
            layer.weight = random([inputs, outputs], 2);
            layer.bias = bias.then(|| random([outputs], 3));
            let composed =
                |input| burn::tensor::module::linear(input, layer.weight.val(), layer.bias.as_ref().map(Param::val));
            let parameters = |gradients: &Gradients| {
                let mut found = vec![gradient(&layer.weight, gradients)];
                found.extend(layer.bias.as_ref().map(|bias| gradient(bias, gradients)));
                found
            };
            compare("linear", &numbers([rows, inputs], 1), |input| layer.forward(input), composed, parameters);
            let composed =
                |input| burn::tensor::module::linear(input, layer.weight.val(), layer.bias.as_ref().map(Param::val));
            compare("linear", &numbers([2, rows, inputs], 1), |input| layer.forward(input), composed, parameters);
        }
    }
}

#[test]
fn activations() {
    let input = numbers([5, 7, 11], 1).mul_scalar(5.0);
    let none = |_: &Gradients| Vec::new();
    compare("gelu", &input, |input| gelu(input, GeluForm::Exact), activation::gelu, none);
    compare("gelu by tanh", &input, |input| gelu(input, GeluForm::Tanh), activation::gelu_approximate, none);
    compare("relu", &input, relu, activation::relu, none);
    // A transposed input is not contiguous.
    let turn = |input: Tensor<3>| input.swap_dims(0, 2);
    compare("turned", &input, |input| relu(turn(input)), |input| activation::relu(turn(input)), none);
}

#[test]
fn normalizations() {
    for (rows, width) in [(1, 3), (5, 37), (130, 64)] {
        let mut layer = LayerNorm::new(width, 1e-5, &device());
        (layer.gamma, layer.beta) = (random([width], 2), random([width], 3));
        let mut other = LayerNormConfig::new(width).init(&device());
        (other.gamma, other.beta) = (layer.gamma.clone(), Some(layer.beta.clone()));
        let parameters =
            |gradients: &Gradients| vec![gradient(&layer.gamma, gradients), gradient(&layer.beta, gradients)];
        let input = numbers([2, rows, width], 1);
        compare("layer norm", &input, |input| layer.forward(input), |input| other.forward(input), parameters);
    }
    for (groups, channels, size) in [(1, 3, [2, 5]), (2, 6, [7, 3]), (4, 16, [16, 16])] {
        let mut layer = GroupNormConfig::new(groups, channels).init(&device());
        (layer.gamma, layer.beta) = (Some(random([channels], 2)), Some(random([channels], 3)));
        let parameters = |gradients: &Gradients| {
            [&layer.gamma, &layer.beta].map(|part| gradient(part.as_ref().unwrap(), gradients)).to_vec()
        };
        let input = numbers([3, channels, size[0], size[1]], 1);
        compare("group norm", &input, |input| group_norm(&layer, input), |input| layer.forward(input), parameters);
    }
}

#[test]
fn convolutions() {
    for (channels, window, step, size) in [
        ([1, 1], 1, 1, [1, 1]),
        ([3, 10], 3, 1, [9, 7]),
        ([4, 8], 5, 1, [8, 8]),
        ([3, 6], 3, 2, [9, 8]),
        ([6, 4], 1, 2, [7, 7]),
    ] {
        let mut layer: Conv2d = LayerInitializer::new(5, &device()).convolution(channels, window, step);
        if step == 1 {
            layer.bias = Some(random([channels[1]], 6));
        }
        let parameters = |gradients: &Gradients| {
            let mut found = vec![gradient(&layer.weight, gradients)];
            found.extend(layer.bias.as_ref().map(|bias| gradient(bias, gradients)));
            found
        };
        let input = numbers([3, channels[0], size[0], size[1]], 1);
        compare("convolution", &input, |input| convolution(&layer, input), |input| layer.forward(input), parameters);
    }
}

#[test]
fn max_pooling() {
    let pool = burn::nn::pool::MaxPool2dConfig::new([2, 2]).init();
    for size in [[2, 2], [5, 7], [8, 6]] {
        let input = numbers([2, 3, size[0], size[1]], 1);
        compare("max pooling", &input, max_pool_relu, |input| activation::relu(pool.forward(input)), |_| Vec::new());
    }
}

#[test]
fn causal_self_attention() {
    for (batch, positions, heads, head) in [(1, 1, 1, 2), (3, 9, 2, 5), (2, 70, 3, 8)] {
        let composed = |qkv: Tensor<3>| {
            let width = heads * head;
            let mask = Tensor::<2, Bool>::tril_mask([positions; 2], 0, &device());
            let part = |number: usize| {
                let part = qkv.clone().narrow(2, number * width, width);
                part.reshape([batch, positions, heads, head]).swap_dims(1, 2)
            };
            let logits = part(0).matmul(part(1).swap_dims(2, 3)) / (head as f32).sqrt();
            let weights = softmax(logits.mask_fill(mask.unsqueeze::<4>(), f32::NEG_INFINITY), 3);
            weights.matmul(part(2)).swap_dims(1, 2).reshape([batch, positions, width])
        };
        let input = numbers([batch, positions, 3 * heads * head], 1).mul_scalar(2.0);
        compare("attention", &input, |qkv| causal_attention(qkv, heads), composed, |_| Vec::new());
    }
}

#[test]
fn lstm_over_sequences() {
    for (batch, positions, inputs, hidden) in [(1, 1, 2, 3), (3, 7, 5, 9)] {
        let mut gates = LinearConfig::new(inputs + hidden, 4 * hidden).init(&device());
        (gates.weight, gates.bias) = (random([inputs + hidden, 4 * hidden], 2), Some(random([4 * hidden], 3)));
        let composed = |input: Tensor<3>| {
            let zeros = Tensor::<2>::zeros([batch, hidden], &device());
            let (mut output, mut cell, mut outputs) = (zeros.clone(), zeros, Vec::new());
            for position in 0..positions {
                let signal: Tensor<2> = input.clone().narrow(1, position, 1).squeeze_dim(1);
                let all = gates.forward(Tensor::cat(vec![signal, output], 1));
                let gate = |number: usize| all.clone().narrow(1, number * hidden, hidden);
                cell = sigmoid(gate(1) + 1.0) * cell + sigmoid(gate(0)) * gate(3).tanh();
                output = sigmoid(gate(2)) * cell.clone().tanh();
                outputs.push(output.clone());
            }
            Tensor::stack::<3>(outputs, 1)
        };
        let parameters = |gradients: &Gradients| {
            vec![gradient(&gates.weight, gradients), gradient(gates.bias.as_ref().unwrap(), gradients)]
        };
        let input = numbers([batch, positions, inputs], 1);
        compare("lstm", &input, |input| lstm_sequence(&gates, &input).unwrap(), composed, parameters);
    }
}

#[test]
fn cross_entropy_with_and_without_smoothing() {
    for (rows, classes) in [(1, 2), (9, 33), (40, 200)] {
        for smoothing in [0.0, 0.1] {
            let labels: Vec<i64> = (0..rows).map(|row| i64::try_from(row * 7 % classes).unwrap()).collect();
            let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [rows]), &device());
            let composed = |logits| {
                let logs = log_softmax(logits, 1);
                let own = logs.clone().gather(1, labels.clone().reshape([rows, 1])).mean().neg();
                own * (1.0 - smoothing) - logs.mean() * smoothing
            };
            let input = numbers([rows, classes], 1).mul_scalar(6.0);
            compare(
                "loss",
                &input,
                |logits| cross_entropy(logits, labels.clone(), smoothing),
                composed,
                |_| Vec::new(),
            );
        }
    }
}

#[test]
fn other_precisions_are_computed_by_burn() {
    let input = numbers([4, 6], 1);
    let layer = LayerNorm::new(6, 1e-5, &device());
    let double = input.clone().cast(burn::tensor::DType::F64);
    let mut wide = layer.clone();
    wide.gamma = wide.gamma.map(|tensor| tensor.cast(burn::tensor::DType::F64));
    wide.beta = wide.beta.map(|tensor| tensor.cast(burn::tensor::DType::F64));
    let found = wide.forward(double).cast(burn::tensor::DType::F32);
    assert_close(&values(found), &values(layer.valid().forward(input.inner())), "layer norm in double precision");
}

#[test]
fn only_the_identity_of_a_flag_requests() {
    let flag = request_structured(dense_flag(), true);
    assert!(wants_structured(&flag));
    assert!(wants_structured(&flag.clone().freeze()) && wants_structured(&flag.clone().unfreeze()));
    assert!(!wants_structured(&dense_flag().unfreeze()));
    assert!(!wants_structured(&request_structured(flag, false)));
}
