//! Data-parallel training of a Burn module.
//!
//! Four peers train copies of a network, each on its own batches. The trainer takes the module
//! unchanged, synchronizes every variable by the cheapest method, and overlaps communication with
//! computation. Afterwards all copies are bit-identical.
//!
//! `cargo run --release -p hemiola-nn --example trainer` prints, from random initial weights:
//! ```text
//! step 1: loss 0.2092
//! step 20: loss 0.0092
//! step 40: loss 0.0014
//! step 60: loss 0.0005
//! ```

use hemiola_cluster::{Cluster, Result};
use hemiola_nn::burn::module::Module;
use hemiola_nn::burn::tensor::activation::relu;
use hemiola_nn::burn::tensor::{Device, Tensor};
use hemiola_nn::layers::{Linear, LinearConfig};
use hemiola_nn::{Optimizer, Trainer};

#[derive(Module, Debug)]
struct Net {
    hidden: Linear,
    output: Linear,
}

impl Net {
    /// Mean squared error of a batch.
    fn loss(&self, inputs: Tensor<2>, targets: Tensor<2>) -> Tensor<1> {
        (self.output.forward(relu(self.hidden.forward(inputs))) - targets).powi_scalar(2).mean()
    }
}

fn main() -> Result<()> {
    // Four peers as threads. With `hemiola_cluster::run`, the program runs on any cluster.
    hemiola_cluster::standalone(4).run(train)?;
    Ok(())
}

/// Trains and returns the losses that it prints.
pub(crate) fn train(cluster: &Cluster) -> Result<Vec<f64>> {
    let (device, mut losses) = (Device::flex().autodiff(), Vec::new());
    let (hidden, output) = (LinearConfig::new(8, 32).init(&device), LinearConfig::new(32, 1).init(&device));
    let mut trainer =
        Trainer::builder(cluster, Net { hidden, output }, Optimizer::adam(0.01)).batch_size(16).build()?;
    for step in 1..=60 {
        let first = 128 * (4 * step + cluster.rank().index());
        let numbers: Vec<f32> = (first..first + 128).map(|at| (at * 37 % 101) as f32 / 101.0).collect();
        let inputs = Tensor::<1>::from_floats(&numbers[..], &device).reshape([16, 8]);
        let targets = inputs.clone().mean_dim(1);
        trainer.step(16, |net| net.loss(inputs, targets))?;
        if step == 1 || step % 20 == 0 {
            trainer.wait()?;
            losses.extend(trainer.loss().map(|(_, loss)| loss));
            cluster.println(format_args!("step {step}: loss {:.4}", losses[losses.len() - 1]));
        }
    }
    Ok(losses)
}
