//! Trains a module on all peers.
//!
//! One step of a peer: the forward pass fetches values as it reaches their layers, the loss is
//! computed and propagated back, and each gradient is sent as soon as it is complete.
//! [`Trainer::step`] returns after the backward pass. Synchronization continues in the background,
//! and the forward pass of the next step waits for the variables that it needs.

mod accumulated_gradients;
mod builder;

pub use builder::TrainerBuilder;

use crate::checkpoint;
use crate::error::Error;
use crate::hook::GradientSink;
use crate::ids::{UnitId, VariableId};
use crate::optimizer::{LrSchedule, Optimizer};
use crate::parameter_store::ParameterStore;
use crate::sync::{SyncEvent, SyncSnapshot};
use crate::trace::{TraceLane, TraceRecorder, TraceSpan};
use crate::variables::{PassContext, to_f32};
use accumulated_gradients::AccumulatedGradients;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor, TensorData};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{CollectiveExt, ReduceOp};
use hemiola_core::ThreadHandle;
use hemiola_strategy::{ModelSpec, Strategy, StrategyExplanation};
use parking_lot::Mutex;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

/// Gradient clipping. Applies to the mean gradient over the examples of all peers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum GradientClip {
    /// Clamps every element to `-x..=x`.
    Value(f64),
    /// Scales all gradients so that their global L2 norm is at most `x`. Every update of a step
    /// then waits for all gradients.
    Norm(f64),
}

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
    model_info: ModelSpec,
    strategy: Strategy,
    explanation: StrategyExplanation,
    optimizer: Optimizer,
    schedule: LrSchedule,
    names: Arc<Vec<String>>,
    precisions: Vec<DType>,
    structured: Vec<bool>,
    staleness: Vec<u64>,
    /// Variables of each unit.
    units: Vec<Vec<VariableId>>,
    store: Arc<ParameterStore>,
    events: Sender<SyncEvent>,
    thread: Option<ThreadHandle>,
    /// Gradients of accumulated passes, until the next step.
    accumulated: Arc<Mutex<AccumulatedGradients>>,
    step: u64,
    /// Step whose gradient order all peers adopt; see `agree_on_order`.
    ordering_step: u64,
    checkpoints: Option<PathBuf>,
    piece_locations: Vec<checkpoint::PieceLocation>,
    trace: Option<Arc<TraceRecorder>>,
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
        self.step
    }

    /// Returns the synchronization strategy in use.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// Returns the variables as strategies see them.
    #[must_use]
    pub fn variables(&self) -> &ModelSpec {
        &self.model_info
    }

    /// Returns the chosen method, bytes, predicted time and runner-up of every variable.
    #[must_use]
    pub fn explain(&self) -> &StrategyExplanation {
        &self.explanation
    }

    /// Returns the newest step with a known loss, and the mean loss over the examples of all peers
    /// in it. Peers may know different steps.
    #[must_use]
    pub fn loss(&self) -> Option<(u64, f64)> {
        self.store.loss()
    }

    /// Returns the learning rate of the next step.
    #[must_use]
    pub fn learning_rate(&self) -> f64 {
        self.optimizer.learning_rate() * self.schedule.factor(self.step)
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
        self.agree_on_order()?;
        let (number, rate) = (self.step, self.learning_rate());
        let delivery = GradientDelivery {
            step: number,
            events: self.events.clone(),
            accumulated: self.accumulated.clone(),
            store: self.store.clone(),
        };
        let sink = GradientSink::new(move |variable, data| delivery.deliver(variable, data));
        let own = self.run_pass(examples, sink, false, forward, |this, loss| {
            let (examples, loss) = this.accumulated.lock().take_totals(examples as u64, f64::from(loss));
            this.send_event(SyncEvent::StepStarted { step: number, examples, loss, rate });
        });
        self.step += 1;
        // Variables without a gradient in this pass, and gradients of accumulated passes only.
        for (variable, payload) in self.accumulated.lock().take_unsent() {
            self.send_event(SyncEvent::GradientReady { step: number, variable, payload });
        }
        self.store.check()?;
        Ok(own)
    }

    /// Runs a forward and a backward pass whose gradients are added to those of the next
    /// [`step`](Self::step), as if both batches were one. Peers may accumulate different numbers of
    /// passes.
    pub fn accumulate(&mut self, examples: usize, forward: impl FnOnce(&M) -> Tensor<1>) -> Result<f32> {
        self.agree_on_order()?;
        let (accumulated, store) = (self.accumulated.clone(), self.store.clone());
        let sink = GradientSink::new(move |variable, data| match data.and_then(to_f32) {
            Ok(numbers) => accumulated.lock().add(variable, numbers),
            Err(problem) => store.fail(unreadable_gradient(&problem)),
        });
        let own = self.run_pass(examples, sink, true, forward, |this, loss| {
            this.accumulated.lock().add_examples(examples as u64, f64::from(loss));
        });
        self.store.check()?;
        Ok(own)
    }

    /// Runs a forward and a backward pass; calls `between` with the loss before the latter.
    fn run_pass(
        &mut self,
        examples: usize,
        sink: GradientSink,
        keep_values: bool,
        forward: impl FnOnce(&M) -> Tensor<1>,
        between: impl FnOnce(&Self, f32),
    ) -> f32 {
        let mut own = 0.0;
        if examples == 0 {
            between(self, own);
            return own;
        }
        let start = self.trace.as_ref().map_or(0.0, |trace| trace.now());
        let model = self.bind_model(Some(sink), keep_values);
        let loss = forward(&model).mean();
        own = loss.clone().into_scalar::<f32>();
        between(self, own);
        let middle = self.trace.as_ref().map_or(0.0, |trace| {
            trace.record("forward", TraceLane::Compute, start);
            trace.now()
        });
        // Turns the mean loss of this peer into a sum. The sum is divided by the examples of all
        // peers before the update.
        drop(loss.mul_scalar(examples as f32).backward());
        if let Some(trace) = &self.trace {
            trace.record("backward", TraceLane::Compute, middle);
        }
        self.model = Some(model);
        own
    }

    /// Takes the model out of the trainer, with all its variables bound to values that are fetched
    /// on first use.
    fn bind_model(&mut self, sink: Option<GradientSink>, keep_values: bool) -> M {
        let model = self.model.take().expect("every pass returns the model");
        let versions: Vec<u64> = self.staleness.iter().map(|staleness| self.step.saturating_sub(*staleness)).collect();
        let pass = PassContext {
            names: &self.names,
            precisions: &self.precisions,
            structured: &self.structured,
            versions: &versions,
            keep_values: &self.staleness.iter().map(|staleness| keep_values || *staleness > 0).collect::<Vec<bool>>(),
            store: &self.store,
            sink,
            trace: self.trace.as_ref(),
        };
        pass.bind_model(model)
    }

    /// Makes all peers start units in the order in which gradients arrived on peer 0 in the first
    /// step.
    fn agree_on_order(&mut self) -> Result<()> {
        if self.step != self.ordering_step + 1 {
            return Ok(());
        }
        self.ordering_step = u64::MAX - 1;
        let arrived = std::mem::take(&mut self.accumulated.lock().arrival_order);
        let mut arrival = vec![usize::MAX; self.names.len()];
        arrived.iter().enumerate().for_each(|(position, variable)| arrival[*variable] = position);
        let mut order: Vec<usize> = (0..self.units.len()).collect();
        order.sort_by_key(|unit| self.units[*unit].iter().map(|variable| arrival[*variable]).max());
        let order = self.cluster.broadcast(order)?.into_iter().map(UnitId::new).collect();
        self.send_event(SyncEvent::UnitOrder { order, since: self.step });
        Ok(())
    }

    fn send_event(&self, event: SyncEvent) {
        // The channel closes only after this trainer is dropped or the thread has failed; the
        // failure is reported through the parameter store.
        let _ = self.events.send(event);
    }

    /// Waits until all steps are complete. With `copies`, the snapshot holds the values and states
    /// of this peer.
    fn drain(&self, copies: bool) -> Result<SyncSnapshot> {
        let (to, receiver) = mpsc::channel();
        self.send_event(SyncEvent::Drain { to, copies });
        let snapshot = receiver.recv();
        self.store.check()?;
        snapshot.map_err(|_| Error::Failed("the synchronization thread has ended".to_owned()).into())
    }

    /// Waits until all steps are complete and all values have arrived. Only measurements need this.
    pub fn wait(&mut self) -> Result<()> {
        self.agree_on_order()?;
        self.drain(false).map(drop)
    }

    /// *Collective.* Returns the model with all updates, for evaluation or for saving: on a device
    /// without autodiff, as [`Module::valid`] returns it. Buffers (running means) are averaged over
    /// peers.
    ///
    /// # Panics
    /// If an earlier step panicked.
    pub fn synced_model(&mut self) -> Result<M> {
        self.agree_on_order()?;
        drop(self.drain(false)?);
        let versions = vec![0; self.names.len()];
        let pass = PassContext {
            names: &self.names,
            precisions: &self.precisions,
            structured: &self.structured,
            versions: &versions,
            keep_values: &vec![true; self.names.len()],
            store: &self.store,
            sink: None,
            trace: None,
        };
        let model = self.model.clone().expect("every pass returns the model");
        let model = pass.bind_model(model).valid();
        let mut buffers = BufferAverager { names: &self.names, path: Vec::new(), values: Vec::new(), next: 0 };
        model.visit(&mut buffers);
        if buffers.values.is_empty() || self.cluster.size() == 1 {
            return Ok(model);
        }
        self.cluster.communicator()?.all_reduce(&mut buffers.values, ReduceOp::Sum)?;
        let peers = self.cluster.size() as f32;
        for value in &mut buffers.values {
            *value /= peers;
        }
        Ok(model.map(&mut buffers))
    }

    /// *Collective.* Saves values, optimizer state and the number of steps in the folder of
    /// [`TrainerBuilder::checkpoints`]. The folder is replaced atomically.
    pub fn checkpoint(&mut self) -> Result<()> {
        let Some(folder) = self.checkpoints.clone() else {
            let (what, reason) =
                ("a checkpoint".to_owned(), "no folder is set; call `TrainerBuilder::checkpoints`".to_owned());
            return Err(Error::Unsupported { feature: what, reason }.into());
        };
        self.checkpoint_to(&folder)
    }

    /// *Collective.* Saves a checkpoint in `folder`; see [`checkpoint`](Self::checkpoint).
    pub fn checkpoint_to(&mut self, folder: &Path) -> Result<()> {
        self.agree_on_order()?;
        let snapshot = self.drain(true)?;
        let saved = checkpoint::CheckpointContents {
            step: self.step,
            optimizer: &self.optimizer,
            variables: &self.model_info,
            locations: &self.piece_locations,
        };
        checkpoint::save(&self.cluster, folder, &saved, &snapshot)?;
        self.send_event(SyncEvent::CheckpointSaved(folder.to_owned()));
        Ok(())
    }

    /// Returns the spans since the last call, if the trainer was [built with
    /// tracing](TrainerBuilder::trace).
    #[must_use]
    pub fn trace(&self) -> Vec<TraceSpan> {
        self.trace.as_ref().map_or(Vec::new(), |trace| trace.take())
    }
}

impl<M: Module> Drop for Trainer<M> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Collectives in flight must complete, since other peers wait for them.
            let (to, receiver) = mpsc::channel();
            self.send_event(SyncEvent::Drain { to, copies: false });
            let _ = receiver.recv();
        }
        self.send_event(SyncEvent::Shutdown);
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

impl<M: Module> fmt::Debug for Trainer<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Trainer")
            .field("variables", &self.names.len())
            .field("optimizer", &self.optimizer)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// Sends the gradients of a step to the synchronization thread.
struct GradientDelivery {
    step: u64,
    events: Sender<SyncEvent>,
    accumulated: Arc<Mutex<AccumulatedGradients>>,
    store: Arc<ParameterStore>,
}

impl GradientDelivery {
    fn deliver(&self, variable: VariableId, data: std::result::Result<TensorData, String>) {
        match data.and_then(to_f32) {
            Ok(numbers) => {
                let payload = self.accumulated.lock().take_with(variable, numbers);
                // The error is handled as in `send_event`.
                let _ = self.events.send(SyncEvent::GradientReady { step: self.step, variable, payload });
            }
            Err(problem) => self.store.fail(unreadable_gradient(&problem)),
        }
    }
}

fn unreadable_gradient(problem: &str) -> hemiola_cluster::Error {
    Error::Failed(format!("a gradient could not be read from its device: {problem}")).into()
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
