//! A network with an embedding, linear layers (ours and Burn's), a normalization, a variable that
//! is used twice and one that is never used.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor, TensorData};
use hemiola_cluster::{Cluster, Result};
use hemiola_nn::layers::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use hemiola_nn::{Optimizer, Trainer, TrainerBuilder};
use parking_lot::Mutex;

pub(crate) const ROWS: usize = 40;
pub(crate) const BATCH: usize = 12;

#[derive(Module, Debug)]
pub(crate) struct Net {
    pub(crate) words: Embedding,
    pub(crate) wide: Linear,
    pub(crate) twice: Linear,
    pub(crate) norm: nn::LayerNorm,
    pub(crate) last: nn::Linear,
    pub(crate) idle: Param<Tensor<1>>,
}

impl Net {
    /// Creates the network with the same values on every call.
    pub(crate) fn new() -> Self {
        let device = Device::flex().autodiff();
        let net = Self {
            words: EmbeddingConfig::new(ROWS, 6).init(&device),
            wide: LinearConfig::new(12, 16).init(&device),
            twice: LinearConfig::new(16, 16).init(&device),
            norm: nn::LayerNormConfig::new(16).init(&device),
            last: nn::LinearConfig::new(16, 3).init(&device),
            idle: Param::from_tensor(Tensor::ones([5], &device)),
        };
        net.map(&mut Fixed(7))
    }

    pub(crate) fn loss(&self, examples: &[usize]) -> Tensor<1> {
        let device = Device::flex().autodiff();
        let ids: Vec<i64> = examples
            .iter()
            .flat_map(|example| [(example * 7) % ROWS, (example * 3 + 1) % 11])
            .map(|id| i64::try_from(id).unwrap_or(0))
            .collect();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [examples.len(), 2]), &device);
        let wanted: Vec<f32> =
            examples.iter().flat_map(|example| (0..3).map(move |at| ((example * 5 + at) as f32).sin())).collect();
        let wanted = Tensor::<2>::from_data(TensorData::new(wanted, [examples.len(), 3]), &device);
        let x = self.words.forward(ids).reshape([examples.len(), 12]);
        let x = relu(self.wide.forward(x));
        let x = relu(self.twice.forward(x));
        let x = self.norm.forward(self.twice.forward(x));
        (self.last.forward(x) - wanted).powi_scalar(2).mean()
    }

    pub(crate) fn values(&self) -> Vec<f32> {
        let mut values = Values(Vec::new());
        self.visit(&mut values);
        values.0
    }
}

struct Fixed(u32);

impl ModuleMapper for Fixed {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (shape, device) = (param.lazy_shape(), param.lazy_device());
        let values: Vec<f32> = (0..shape.num_elements())
            .map(|_| {
                self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (self.0 >> 8) as f32 / (1 << 24) as f32 - 0.5
            })
            .collect();
        Param::initialized(param.id, Tensor::from_data(TensorData::new(values, shape), &device).require_grad())
    }
}

/// Values of a network, in the order of [`Net::values`].
struct Given<'a>(&'a [f32]);

impl ModuleMapper for Given<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (shape, device) = (param.lazy_shape(), param.lazy_device());
        let (own, rest) = self.0.split_at(shape.num_elements());
        self.0 = rest;
        Param::initialized(param.id, Tensor::from_data(TensorData::new(own.to_vec(), shape), &device))
    }
}

/// Mean loss of a network with these values over the first examples.
pub(crate) fn loss_of(values: &[f32], examples: usize) -> f32 {
    let net = Net::new().map(&mut Given(values));
    net.loss(&(0..examples).collect::<Vec<_>>()).into_scalar::<f32>()
}

struct Values(Vec<f32>);

impl ModuleVisitor for Values {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.extend(param.val().into_data().iter::<f32>());
    }
}

/// Examples of this peer in a step.
pub(crate) fn share(step: usize, cluster: &Cluster) -> Vec<usize> {
    let (me, size) = (cluster.rank().index(), cluster.size());
    (0..BATCH).filter(|at| at % size == me).map(|at| step * BATCH + at).collect()
}

/// Trains `steps` steps on `peers` peers. Returns the values of each peer and the losses of peer 0.
pub(crate) fn train(
    peers: usize,
    steps: usize,
    optimizer: &Optimizer,
    set: impl Fn(TrainerBuilder<Net>) -> TrainerBuilder<Net> + Sync,
) -> Result<(Vec<Vec<f32>>, Vec<f64>)> {
    let all = Mutex::new(vec![Vec::new(); peers]);
    let losses = Mutex::new(Vec::new());
    hemiola_cluster::standalone(peers).run(|cluster| {
        let builder = Trainer::builder(cluster, Net::new(), optimizer.clone()).batch_size(BATCH / peers);
        let mut trainer = set(builder).build()?;
        for step in trainer.steps() as usize..steps {
            let examples = share(step, cluster);
            trainer.step(examples.len(), |net| net.loss(&examples))?;
            if cluster.is_root() && step > 0 {
                losses.lock().extend(trainer.loss().map(|(_, loss)| loss));
            }
        }
        let values = trainer.synced_model()?.values();
        all.lock()[cluster.rank().index()] = values;
        Ok(())
    })?;
    Ok((all.into_inner(), losses.into_inner()))
}

/// Largest difference between the values of two trainings.
pub(crate) fn distance(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}
