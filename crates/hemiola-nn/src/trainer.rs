//! Trains a module on all peers.
//!
//! One step of a peer: the forward pass fetches values as it reaches their layers, the loss is
//! computed and propagated back, and each gradient is sent as soon as it is complete.
//! [`Trainer::step`] returns after the backward pass. Synchronization continues in the background,
//! and the forward pass of the next step waits for the variables that it needs.

mod builder;

pub use builder::TrainerBuilder;

use crate::error::Error;
use crate::hook::GradientSink;
use crate::kernel::BurnKernel;
use crate::optimizer::{LrSchedule, Optimizer};
use crate::variables::{PassContext, to_f32};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor, TensorData};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{Algorithm, CollectiveExt, GossipStats, ReduceOp};
use hemiola_strategy::{ModelSpec, Strategy, StrategyExplanation};
use hemiola_sync::trace::TraceSpan;
use hemiola_sync::{Attachments, ModelSync, PassKind, PendingValues, StrategyRecord, VariableId};
use std::fmt;
use std::path::{Path, PathBuf};

/// A module that all peers train together. Every peer must make the same calls.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hemiola_nn::layers::LinearConfig;
/// use hemiola_nn::{Optimizer, Trainer};
///
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let device = Device::flex().autodiff();
///     let model = LinearConfig::new(2, 1).init(&device);
///     let mut trainer = Trainer::builder(cluster, model, Optimizer::sgd(0.1)).batch_size(3).build()?;
///     let mut losses = Vec::new();
///     for _ in 0..50 {
///         let inputs = Tensor::<2>::from_floats([[0.0, 1.0], [1.0, 1.0], [2.0, 0.5]], &device);
///         let targets = Tensor::<2>::from_floats([[1.0], [3.0], [4.5]], &device); // 2 x + y
///         let loss = trainer.step(3, |model| (model.forward(inputs) - targets).powi_scalar(2).mean())?;
///         losses.push(loss);
///     }
///     assert!(losses[49] < 0.05 * losses[0]);
///     let weights = trainer.synced_model()?.weight.val();
///     assert_eq!(weights.dims(), [2, 1]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub struct Trainer<M: Module> {
    cluster: Cluster,
    /// The module with its buffers (running means) as of the last forward pass; `None` only during
    /// a pass.
    model: Option<M>,
    optimizer: Optimizer,
    schedule: LrSchedule,
    names: Vec<String>,
    precisions: Vec<DType>,
    sync: ModelSync<BurnKernel>,
    checkpoints: Option<PathBuf>,
}

impl<M: Module> Trainer<M> {
    /// Returns the builder of a trainer for this model. The optimizer is an [`Optimizer`] or any of
    /// Burn.
    pub fn builder(cluster: &Cluster, model: M, optimizer: impl Into<Optimizer>) -> TrainerBuilder<M> {
        TrainerBuilder::new(cluster, model, optimizer.into())
    }

    /// Number of completed steps, including those before a resumed checkpoint.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.sync.steps()
    }

    /// Returns the synchronization strategy in use.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        self.sync.strategy()
    }

    /// Returns the synchronization strategy with its origin, as checkpoints keep it.
    #[must_use]
    pub fn strategy_record(&self) -> &StrategyRecord {
        self.sync.strategy_record()
    }

    /// Tells whether this peer trains. The others serve, and their batches must be empty.
    #[must_use]
    pub fn trains(&self) -> bool {
        self.sync.trains()
    }

    /// Returns the variables as strategies see them.
    #[must_use]
    pub fn variables(&self) -> &ModelSpec {
        self.sync.model()
    }

    /// Returns the chosen method, bytes, predicted time and alternatives of every variable.
    #[must_use]
    pub fn explain(&self) -> &StrategyExplanation {
        self.sync.explain()
    }

    /// Returns the newest step with a known loss, and the mean loss over the examples of all peers
    /// in it. Peers may know different steps. In a strategy of tables or gossip averaging alone, it
    /// is the loss of this peer.
    #[must_use]
    pub fn loss(&self) -> Option<(u64, f64)> {
        self.sync.loss()
    }

    /// Returns the totals over all gossip averages of this peer: how many were consistent, and what
    /// the others lacked. `None` without gossip averaging, or before its first average.
    #[must_use]
    pub fn gossip_stats(&self) -> Option<GossipStats> {
        self.sync.gossip_stats()
    }

    /// Returns the learning rate of the next step.
    #[must_use]
    pub fn learning_rate(&self) -> f64 {
        self.optimizer.learning_rate() * self.schedule.factor(self.steps())
    }

    /// *Collective.* Runs one optimizer step. `examples` is the batch size of this peer, and
    /// `forward` computes the **mean** loss of that batch. The objective is the mean over the
    /// examples of all peers, however unevenly they are distributed. A peer without examples makes
    /// the call, too; its `forward` is not called.
    ///
    /// Returns the mean loss of this peer's batch. That of all peers is available [a little
    /// later](Self::loss).
    ///
    /// Fails with an error of this step or of an earlier one, since synchronization continues after
    /// a step.
    pub fn step(&mut self, examples: usize, forward: impl FnOnce(&M) -> Tensor<1>) -> Result<f32> {
        self.run_pass(PassKind::Step, examples, forward)
    }

    /// Runs a forward and a backward pass whose gradients are added to those of the next
    /// [`step`](Self::step), as if both batches were one. Peers may accumulate different numbers of
    /// passes.
    pub fn accumulate(&mut self, examples: usize, forward: impl FnOnce(&M) -> Tensor<1>) -> Result<f32> {
        self.run_pass(PassKind::Accumulated, examples, forward)
    }

    /// Runs a forward and a backward pass; returns the mean loss of this peer.
    fn run_pass(&mut self, kind: PassKind, examples: usize, forward: impl FnOnce(&M) -> Tensor<1>) -> Result<f32> {
        let gradients = self.sync.begin_pass(kind);
        let rate = self.learning_rate();
        let mut own = 0.0;
        if examples == 0 {
            self.sync.forward_complete(kind, 0, 0.0, rate);
        } else {
            let sink = GradientSink::new(move |variable, data| match data.and_then(to_f32) {
                Ok(numbers) => gradients.send(variable, numbers),
                Err(problem) => gradients.fail(&problem),
            });
            let start = self.sync.trace_now();
            let values = self.values(|sync, variable| sync.next_values(variable, kind));
            let model = self.model.take().expect("every pass returns the model");
            let model = self.pass(&values, Some(sink)).bind_model(model);
            let loss = forward(&model).mean();
            own = loss.clone().into_scalar::<f32>();
            self.sync.forward_complete(kind, examples as u64, f64::from(own), rate);
            self.sync.trace_compute("forward", start);
            let middle = self.sync.trace_now();
            // Turns the mean loss of this peer into a sum. The sum is divided by the examples of
            // all peers before the update.
            drop(loss.mul_scalar(examples as f32).backward());
            self.sync.trace_compute("backward", middle);
            self.model = Some(model);
        }
        self.sync.end_pass(kind)?;
        Ok(own)
    }

    /// Returns the values of each variable, which may still be on their way.
    fn values(&self, of: impl Fn(&ModelSync<BurnKernel>, VariableId) -> PendingValues) -> Vec<PendingValues> {
        (0..self.names.len()).map(|index| of(&self.sync, VariableId::new(index))).collect()
    }

    fn pass<'a>(&'a self, values: &'a [PendingValues], sink: Option<GradientSink>) -> PassContext<'a> {
        let structured = self.sync.structured();
        PassContext { names: &self.names, precisions: &self.precisions, structured, values, step: self.steps(), sink }
    }

    /// *Collective.* Waits until all steps are complete and all values have arrived. Only
    /// measurements need this.
    pub fn wait(&mut self) -> Result<()> {
        self.sync.wait()
    }

    /// *Collective.* Returns the model with all updates, for evaluation or for saving: on a device
    /// without autodiff, as [`Module::valid`] returns it. Buffers (running means) are averaged over
    /// the peers that train.
    ///
    /// # Panics
    /// If an earlier step panicked.
    pub fn synced_model(&mut self) -> Result<M> {
        self.sync.wait()?;
        let values = self.values(ModelSync::newest_values);
        let model = self.model.clone().expect("every pass returns the model");
        let model = self.pass(&values, None).bind_model(model).valid();
        let mut buffers = BufferAverager { names: &self.names, path: Vec::new(), values: Vec::new(), next: 0 };
        model.visit(&mut buffers);
        if buffers.values.is_empty() || self.cluster.size() == 1 {
            return Ok(model);
        }
        // A measured algorithm could differ between runs and change the bits.
        let collectives = self.cluster.communicator()?.with_algorithm(Algorithm::Ring);
        if !self.trains() {
            buffers.values.fill(0.0);
        }
        collectives.all_reduce(&mut buffers.values, ReduceOp::Sum)?;
        let peers = self.strategy().replicas.len() as f32;
        for value in &mut buffers.values {
            *value /= peers;
        }
        Ok(model.map(&mut buffers))
    }

    /// *Collective.* Saves values, optimizer state and the number of steps in the folder of
    /// [`TrainerBuilder::checkpoints`]. The folder is replaced atomically.
    pub fn checkpoint(&mut self) -> Result<()> {
        let folder = self.checkpoint_folder()?;
        self.checkpoint_to(&folder)
    }

    /// *Collective.* Saves as [`checkpoint`](Self::checkpoint) does, together with values of the
    /// program, such as its history. Peer 0 stores its own. After a resume,
    /// [`take_attachments`](Self::take_attachments) returns them.
    pub fn checkpoint_with(&mut self, attachments: &Attachments) -> Result<()> {
        let folder = self.checkpoint_folder()?;
        self.sync.save_with(&folder, attachments)
    }

    /// Takes the values that the resumed checkpoint was saved
    /// [with](Self::checkpoint_with). Returns `None` if there was no checkpoint, or on the second
    /// call.
    pub fn take_attachments(&mut self) -> Option<Attachments> {
        self.sync.take_attachments()
    }

    fn checkpoint_folder(&self) -> Result<PathBuf> {
        self.checkpoints.clone().ok_or_else(|| {
            let (feature, reason) =
                ("a checkpoint".to_owned(), "no folder is set; call `TrainerBuilder::checkpoints`".to_owned());
            Error::Unsupported { feature, reason }.into()
        })
    }

    /// *Collective.* Saves a checkpoint in `folder`; see [`checkpoint`](Self::checkpoint).
    pub fn checkpoint_to(&mut self, folder: &Path) -> Result<()> {
        self.sync.save(folder)
    }

    /// Returns the spans since the last call, if the trainer was [built with
    /// tracing](TrainerBuilder::trace).
    #[must_use]
    pub fn trace(&self) -> Vec<TraceSpan> {
        self.sync.take_trace()
    }
}

impl<M: Module> fmt::Debug for Trainer<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Trainer")
            .field("variables", &self.names.len())
            .field("optimizer", &self.optimizer)
            .field("step", &self.steps())
            .finish_non_exhaustive()
    }
}

/// Float parameters that are not variables, collected by a visit and replaced by a map.
struct BufferAverager<'a> {
    names: &'a [String],
    path: Vec<String>,
    values: Vec<f32>,
    next: usize,
}

impl BufferAverager<'_> {
    fn is_variable(&self) -> bool {
        self.names.contains(&self.path.join("."))
    }
}

impl ModuleVisitor for BufferAverager<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !self.is_variable() {
            self.values.extend(param.val().into_data().convert::<f32>().iter::<f32>());
        }
    }
}

impl ModuleMapper for BufferAverager<'_> {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if self.is_variable() {
            return param;
        }
        param.map(|tensor| {
            let (shape, device, precision) = (tensor.shape(), tensor.device(), tensor.dtype());
            let end = self.next + shape.num_elements();
            let values = self.values[self.next..end].to_vec();
            self.next = end;
            Tensor::from_data(TensorData::new(values, shape), (&device, precision))
        })
    }
}
