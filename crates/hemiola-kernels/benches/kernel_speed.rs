//! CPU time of each kernel at the sizes of the networks that `benchmarks/nets.sh` measures.
//!
//! `cargo run --release -p hemiola-kernels --example kernel_speed` prints microseconds of CPU time of
//! the calling thread per call, and useful floating-point operations per second.

use hemiola_kernels::activation::{self, GeluForm};
use hemiola_kernels::attention::{self, AttentionShape};
use hemiola_kernels::convolution::{self, ConvolutionShape};
use hemiola_kernels::matrix::{MatrixView, multiply, multiply_transposed};
use hemiola_kernels::norm::{self, NormParameters, NormShape};
use hemiola_kernels::{cross_entropy, pooling};
use std::hint::black_box;
use std::io::Write as _;

/// Nanoseconds of CPU time of this thread, as Linux counts them.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(f64::NAN)
}

fn report(name: &str, operations: usize, mut call: impl FnMut()) {
    // Linux counts in ticks of some milliseconds.
    const ENOUGH: f64 = 1e8;
    let (mut calls, mut spent, start) = (0.0, 0.0, cpu_time());
    while spent < ENOUGH {
        for _ in 0..5 {
            call();
        }
        calls += 5.0;
        spent = cpu_time() - start;
    }
    let best = spent / calls;
    let line = format!("{name:<40} {:>10.1} µs {:>8.1} GFLOP/s\n", best / 1e3, operations as f64 / best);
    std::io::stdout().write_all(line.as_bytes()).expect("standard output can be written");
}

fn products(name: &str, (m, k, n): (usize, usize, usize)) {
    let (left, right, mut to) = (vec![0.5; m * k], vec![0.25; k * n], vec![0.0; m * n]);
    let factors = (MatrixView::dense(&left, m, k), MatrixView::dense(&right, k, n));
    report(&format!("{name} {m} x {k} x {n}"), 2 * m * k * n, || {
        multiply(&mut to, n, factors.0, factors.1, 1.0, false);
    });
    let (mut of_input, mut of_weight) = (vec![0.0; m * k], vec![0.0; k * n]);
    let gradient = vec![0.5; m * n];
    let from_output = MatrixView::dense(&gradient, m, n);
    report("  gradient of the input", 2 * m * k * n, || multiply_transposed(&mut of_input, &gradient, &right, n));
    report("  gradient of the weights", 2 * m * k * n, || {
        multiply(&mut of_weight, n, factors.0.transposed(), from_output, 1.0, false);
    });
}

fn convolutions(shape: ConvolutionShape) {
    let pixels = shape.rows * shape.columns;
    let input = vec![0.5; shape.batch * shape.inputs * pixels];
    let weight = vec![0.25; shape.outputs * shape.inputs * shape.window * shape.window];
    let gradient = vec![0.5; shape.batch * shape.outputs * shape.output_rows() * shape.output_columns()];
    let work = 2 * gradient.len() * shape.inputs * shape.window * shape.window;
    let name = format!("convolution {} to {}, {} x {}", shape.inputs, shape.outputs, shape.rows, shape.columns);
    report(&name, work, || drop(black_box(convolution::forward(&input, &weight, shape))));
    report("  gradient of the input", work, || drop(black_box(convolution::backward_input(&weight, &gradient, shape))));
    report("  gradient of the weights", work, || {
        drop(black_box(convolution::backward_weight(&input, &gradient, shape)));
    });
}

fn main() {
    products("product", (64, 784, 1024));
    products("product", (64, 1024, 1024));
    products("product", (576, 128, 384));
    products("product", (576, 128, 10_000));
    for (inputs, outputs, side) in [(3, 32, 32), (32, 64, 16), (64, 128, 8)] {
        let (rows, columns) = (side, side);
        convolutions(ConvolutionShape { batch: 16, inputs, outputs, rows, columns, window: 3, stride: 1, padding: 1 });
    }
    let shape = pooling::PlaneShape { planes: 16 * 32, rows: 32, columns: 32 };
    let planes = vec![0.5; 16 * 32 * 1024];
    report("max pooling", 0, || drop(black_box(pooling::forward(&planes, shape))));
    let logits: Vec<f32> = (0..576 * 10_000).map(|at| (at % 977) as f32 / 100.0).collect();
    let labels = vec![5; 576];
    let (_, sums) = cross_entropy::forward(&logits, &labels, 10_000, 0.0);
    report("cross-entropy 576 x 10000", 0, || drop(black_box(cross_entropy::forward(&logits, &labels, 10_000, 0.0))));
    let mut gradient = vec![0.0; logits.len()];
    report("  gradient", 0, || cross_entropy::backward(&mut gradient, &logits, &labels, &sums, (10_000, 0.0, 1.0)));
    let shape = AttentionShape { batch: 9, positions: 64, heads: 4, head: 32 };
    let qkv = vec![0.5; 3 * shape.outputs()];
    let (output, weights) = attention::forward(&qkv, shape);
    report("attention 9 x 64, 4 heads of 32", 0, || drop(black_box(attention::forward(&qkv, shape))));
    report("  gradient", 0, || drop(black_box(attention::backward(&qkv, &weights, &output, shape))));
    let (signal, ones) = (vec![0.5; 576 * 128], vec![1.0; 128]);
    let parameters = NormParameters { scale: &ones, shift: &ones, epsilon: 1e-5 };
    let shape = NormShape { row: 128, channel: 1, scales: 128 };
    let (_, moments) = norm::forward(&signal, parameters, shape);
    report("layer norm 576 x 128", 0, || drop(black_box(norm::forward(&signal, parameters, shape))));
    report("  gradient", 0, || drop(black_box(norm::backward(&signal, &ones, &moments, &signal, shape))));
    let (hidden, mut to) = (vec![0.5; 576 * 512], vec![0.0; 576 * 512]);
    report("gelu 576 x 512", 0, || activation::gelu(&mut to, &hidden, GeluForm::Exact));
    report("  gradient", 0, || activation::gelu_backward(&mut to, &hidden, &hidden, GeluForm::Exact));
}
