//! Examples per second of four networks in training, by one peer: what `benchmarks/nets.sh` compares
//! with PyTorch.
//!
//! ```sh
//! HEMIOLA_WORKERS=2 cargo run --release -p hemiola-nn --example net_speed -- --rounds 3 mlp cnn
//! ```
//!
//! Prints one JSON object: examples per second of each network, and examples per second of CPU time
//! of all threads (0 without `/proc`), both of the best round. A round is 30 steps of SGD with momentum on one mini-batch. Without names, all four networks are measured.

use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_cluster::{Cluster, Result};
use hemiola_nn::models::{ImageBatch, LstmConfig, MlpConfig, NeuralNet, TextBatch, TransformerConfig, VggConfig};
use hemiola_nn::{Optimizer, Trainer};

/// Steps of a round.
const STEPS: u32 = 30;

fn numbers(count: usize, below: u64) -> Vec<i64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % below).unwrap_or(0)
    };
    std::iter::repeat_with(draw).take(count).collect()
}

fn images(shape: [usize; 4], device: &Device) -> ImageBatch {
    let pixels: Vec<f32> =
        numbers(shape.iter().product(), 1 << 16).iter().map(|number| *number as f32 / 65_536.0).collect();
    let labels = TensorData::new(numbers(shape[0], 10), [shape[0]]);
    let images = Tensor::from_data(TensorData::new(pixels, shape), device);
    ImageBatch { images, labels: Tensor::<1, Int>::from_data(labels, device) }
}

fn sentences(examples: usize, device: &Device) -> TextBatch {
    let tokens =
        || Tensor::<2, Int>::from_data(TensorData::new(numbers(examples * 64, 10_000), [examples, 64]), device);
    TextBatch { tokens: tokens(), targets: tokens() }
}

/// Seconds of CPU time of all threads that run, as Linux counts them.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let spent = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    let nanoseconds = spent.filter_map(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    nanoseconds.sum::<u64>() as f64 / 1e9
}

/// Returns examples per second, and per second of CPU time, of the best rounds.
fn speed<N: NeuralNet>(cluster: &Cluster, net: N, batch: &N::Batch, examples: usize, rounds: u32) -> Result<[f64; 2]> {
    let optimizer = Optimizer::sgd(0.001).momentum(0.9);
    let mut trainer = Trainer::builder(cluster, net, optimizer).batch_size(examples).build()?;
    let mut best = [f64::INFINITY; 2];
    for round in 0..=rounds {
        let (start, cpu, steps) = (cluster.env().now(), cpu_seconds(), if round == 0 { 2 } else { STEPS });
        for _ in 0..steps {
            trainer.step(examples, |net| net.loss(batch))?;
        }
        trainer.wait()?;
        let seconds = (cluster.env().now() - start).as_secs_f64();
        // The first round warms caches.
        if round > 0 {
            best = [best[0].min(seconds), best[1].min(cpu_seconds() - cpu)];
        }
    }
    Ok(best.map(|seconds| if seconds > 0.0 { examples as f64 * f64::from(STEPS) / seconds } else { 0.0 }))
}

fn measure(cluster: &Cluster, name: &str, rounds: u32) -> Result<[f64; 2]> {
    let device = Device::flex().autodiff();
    match name {
        "mlp" => {
            let net = MlpConfig { hidden: vec![1024, 1024], ..MlpConfig::default() }.init(&device);
            speed(cluster, net, &images([64, 1, 28, 28], &device), 64, rounds)
        }
        "cnn" => {
            let net = VggConfig { hidden: vec![256], ..VggConfig::default() }.init(&device);
            speed(cluster, net, &images([16, 3, 32, 32], &device), 16, rounds)
        }
        "lstm" => speed(cluster, LstmConfig::default().init(&device), &sentences(9, &device), 9, rounds),
        "transformer" => speed(cluster, TransformerConfig::default().init(&device), &sentences(9, &device), 9, rounds),
        _ => Err(hemiola_cluster::Error::program(format!("`{name}` is none of mlp, cnn, lstm and transformer"))),
    }
}

fn main() -> Result<()> {
    let (mut names, mut rounds) = (Vec::new(), 3);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--rounds" {
            rounds = arguments.next().and_then(|number| number.parse().ok()).unwrap_or(rounds);
        } else {
            names.push(argument);
        }
    }
    if names.is_empty() {
        names = ["mlp", "cnn", "lstm", "transformer"].map(str::to_owned).to_vec();
    }
    hemiola_cluster::run(|cluster| {
        let describe = |[wall, cpu]: [f64; 2]| format!("[{wall:.2}, {cpu:.2}]");
        let speeds: Result<Vec<String>> =
            names.iter().map(|name| Ok(format!("\"{name}\": {}", describe(measure(cluster, name, rounds)?)))).collect();
        cluster.println(format_args!("{{{}}}", speeds?.join(", ")));
        Ok(())
    })
}
