//! Trains a module on all peers.
//!
//! A step of a peer: values are looked for as the forward pass comes to them, the loss is computed and propagated back, and each gradient leaves as soon as it is complete. The call returns when the backward pass is over; what
//! travels goes on, and the next step's forward pass waits for what it needs.

mod builder;
mod kept;

pub use builder::TrainerBuilder;

use crate::checkpoint;
use crate::error::Error;
use crate::exchange::{Event, Holdings};
use crate::hook::Sink;
use crate::optimizer::{Optimizer, Schedule};
use crate::slots::Slots;
use crate::trace::{Line, Span, Trace};
use crate::variables::{Pass, singles};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor, TensorData};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{MakeCollectives, Operator};
use hemiola_core::Task;
use hemiola_strategy::{Explanation, Model, Strategy};
use kept::Kept;
use parking_lot::Mutex;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};

/// What keeps gradients small.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Clip {
    /// No number of the mean gradient is further from zero.
    Value(f64),
    /// The mean gradient of all variables together is no longer. Every update waits for all gradients.
    Norm(f64),
}

/// A module that all peers train. Every peer makes the same calls.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use hemiola_nn::layers::LinearConfig;
/// use hemiola_nn::{Optimizer, Trainer};
///
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let device = Device::flex().autodiff();
///     let model = LinearConfig::new(2, 1).init(&device);
///     let mut trainer = Trainer::new(cluster, model, Optimizer::sgd(0.1)).examples(3).build()?;
///     let mut losses = Vec::new();
///     for _ in 0..50 {
///         let inputs = Tensor::<2>::from_floats([[0.0, 1.0], [1.0, 1.0], [2.0, 0.5]], &device);
///         let wanted = Tensor::<2>::from_floats([[1.0], [3.0], [4.5]], &device); // 2 x + y
///         let loss = trainer.step(3, |model| (model.forward(inputs) - wanted).powi_scalar(2).mean())?;
///         losses.push(loss);
///     }
///     assert!(losses[49] < 0.05 * losses[0]);
///     let weights = trainer.settled()?.weight.val();
///     assert_eq!(weights.dims(), [2, 1]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub struct Trainer<M: Module> {
    cluster: Cluster,
    /// With what forward passes have left in it (running means); nothing only within a step.
    model: Option<M>,
    described: Model,
    strategy: Strategy,
    explanation: Explanation,
    optimizer: Optimizer,
    schedule: Schedule,
    names: Arc<Vec<String>>,
    precisions: Vec<DType>,
    in_parts: Vec<bool>,
    staleness: Vec<u64>,
    /// Places of variables, by unit.
    units: Vec<Vec<usize>>,
    slots: Arc<Slots>,
    events: Sender<Event>,
    thread: Option<Task>,
    /// Gradients of passes that wait for the next step.
    kept: Arc<Mutex<Kept>>,
    step: u64,
    /// The step that learns the order of gradients.
    first: u64,
    checkpoints: Option<PathBuf>,
    pieces: Vec<checkpoint::Place>,
    trace: Option<Arc<Trace>>,
}

impl<M: Module> Trainer<M> {
    /// Settings of a trainer of this model. The optimizer is one of [`Optimizer`]'s or any of Burn.
    #[expect(clippy::new_ret_no_self, reason = "a trainer needs to be built by all peers together")]
    pub fn new(cluster: &Cluster, model: M, optimizer: impl Into<Optimizer>) -> TrainerBuilder<M> {
        TrainerBuilder::new(cluster, model, optimizer.into())
    }

    /// How many steps there were.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// How the copies of each variable are kept equal.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// The variables, as strategies see them.
    #[must_use]
    pub fn variables(&self) -> &Model {
        &self.described
    }

    /// Every variable with its choice, bytes, predicted time and the runner-up.
    #[must_use]
    pub fn explain(&self) -> &Explanation {
        &self.explanation
    }

    /// The mean loss of all peers' examples in the newest step of which it is known, and that step's number. Peers may know different ones.
    #[must_use]
    pub fn loss(&self) -> Option<(u64, f64)> {
        self.slots.loss()
    }

    /// The rate of the next step.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.optimizer.learning_rate() * self.schedule.factor(self.step)
    }

    /// *Collective.* A step with this peer's `examples`, whose **mean** loss `forward` computes. What is minimized is the mean over all peers' examples, however they are spread. A peer without examples makes the call, too; its
    /// `forward` is not called. The mean loss of this peer's examples; that of all is [known](Self::loss) a little later.
    ///
    /// Fails with what went wrong in this step or, since messages travel on after a step, in the one before.
    pub fn step(&mut self, examples: usize, forward: impl FnOnce(&M) -> Tensor<1>) -> Result<f32> {
        self.agree_on_order()?;
        let (number, rate) = (self.step, self.rate());
        let delivery =
            Delivery { step: number, events: self.events.clone(), kept: self.kept.clone(), slots: self.slots.clone() };
        let sink = Sink::new(move |place, data| delivery.take(place, data));
        let own = self.pass(examples, sink, false, forward, |this, loss| {
            let (examples, loss) = this.kept.lock().begin(examples as u64, f64::from(loss));
            this.tell(Event::Begin { step: number, examples, loss, rate });
        });
        self.step += 1;
        // Variables that nothing was computed from, and whatever is left of passes before.
        for (variable, taken) in self.kept.lock().take_rest() {
            self.tell(Event::Gradient { step: number, variable, taken });
        }
        self.slots.check()?;
        Ok(own)
    }

    /// A forward and a backward pass whose gradients join those of the next [`step`](Self::step), as if its examples had been among that one's. Peers may make different numbers of them.
    pub fn accumulate(&mut self, examples: usize, forward: impl FnOnce(&M) -> Tensor<1>) -> Result<f32> {
        self.agree_on_order()?;
        let (kept, slots) = (self.kept.clone(), self.slots.clone());
        let sink = Sink::new(move |place, data| match data.and_then(singles) {
            Ok(numbers) => kept.lock().add(place, numbers),
            Err(problem) => slots.fail(unreadable(&problem)),
        });
        let own = self.pass(examples, sink, true, forward, |this, loss| {
            this.kept.lock().count(examples as u64, f64::from(loss));
        });
        self.slots.check()?;
        Ok(own)
    }

    /// A forward and a backward pass.
    fn pass(
        &mut self,
        examples: usize,
        sink: Sink,
        again: bool,
        forward: impl FnOnce(&M) -> Tensor<1>,
        between: impl FnOnce(&Self, f32),
    ) -> f32 {
        let mut own = 0.0;
        if examples == 0 {
            between(self, own);
            return own;
        }
        let start = self.trace.as_ref().map_or(0.0, |trace| trace.now());
        let model = self.renewed(Some(sink), again);
        let loss = forward(&model).mean();
        own = loss.clone().into_scalar::<f32>();
        between(self, own);
        let middle = self.trace.as_ref().map_or(0.0, |trace| {
            trace.ended("forward", Line::Compute, start);
            trace.now()
        });
        // The mean of this peer's becomes a sum, which is divided by all peers' examples in the end.
        drop(loss.mul_scalar(examples as f32).backward());
        if let Some(trace) = &self.trace {
            trace.ended("backward", Line::Compute, middle);
        }
        self.model = Some(model);
        own
    }

    /// The model with all its variables to be looked for; the trainer has none while it is out.
    fn renewed(&mut self, sink: Option<Sink>, again: bool) -> M {
        let model = self.model.take().expect("a pass gives it back");
        let versions: Vec<u64> = self.staleness.iter().map(|staleness| self.step.saturating_sub(*staleness)).collect();
        let pass = Pass {
            names: &self.names,
            precisions: &self.precisions,
            in_parts: &self.in_parts,
            versions: &versions,
            keeps: &self.staleness.iter().map(|staleness| again || *staleness > 0).collect::<Vec<bool>>(),
            slots: &self.slots,
            sink,
            trace: self.trace.as_ref(),
        };
        pass.renew(model)
    }

    /// Gradients of the first step came in some order on the first peer: from now on all send in that order.
    fn agree_on_order(&mut self) -> Result<()> {
        if self.step != self.first + 1 {
            return Ok(());
        }
        self.first = u64::MAX - 1;
        let came = std::mem::take(&mut self.kept.lock().order);
        let mut place = vec![usize::MAX; self.names.len()];
        came.iter().enumerate().for_each(|(at, variable)| place[*variable] = at);
        let mut order: Vec<usize> = (0..self.units.len()).collect();
        order.sort_by_key(|unit| self.units[*unit].iter().map(|variable| place[*variable]).max());
        let order = self.cluster.broadcast(order)?;
        self.tell(Event::Order { order, since: self.step });
        Ok(())
    }

    fn tell(&self, event: Event) {
        // The thread ends after this trainer does, or when it has failed, which is told by other ways.
        let _ = self.events.send(event);
    }

    /// Waits until all steps are over; what this peer has then, if copies are wanted.
    fn holdings(&self, copies: bool) -> Result<Holdings> {
        let (to, receiver) = mpsc::channel();
        self.tell(Event::Settle { to, copies });
        let holdings = receiver.recv();
        self.slots.check()?;
        holdings.map_err(|_| Error::Failed("its thread has ended".to_owned()).into())
    }

    /// Waits until all steps are over and every value is here. Nobody needs to call this, except to measure.
    pub fn wait(&mut self) -> Result<()> {
        self.agree_on_order()?;
        self.holdings(false).map(drop)
    }

    /// *Collective.* The model with all updates in it, for evaluation or for keeping: on a plain device, as [`Module::valid`] gives it. What layers have gathered beside variables (running means) is averaged over peers.
    ///
    /// # Panics
    /// If a step before this panicked in the middle.
    pub fn settled(&mut self) -> Result<M> {
        self.agree_on_order()?;
        drop(self.holdings(false)?);
        let versions = vec![0; self.names.len()];
        let pass = Pass {
            names: &self.names,
            precisions: &self.precisions,
            in_parts: &self.in_parts,
            versions: &versions,
            keeps: &vec![true; self.names.len()],
            slots: &self.slots,
            sink: None,
            trace: None,
        };
        let model = self.model.clone().expect("a pass gives it back");
        let model = pass.renew(model).valid();
        let mut buffers = Buffers { names: &self.names, path: Vec::new(), values: Vec::new(), next: 0 };
        model.visit(&mut buffers);
        if buffers.values.is_empty() || self.cluster.size() == 1 {
            return Ok(model);
        }
        self.cluster.collectives()?.all_reduce(&mut buffers.values, Operator::Sum)?;
        let peers = self.cluster.size() as f32;
        for value in &mut buffers.values {
            *value /= peers;
        }
        Ok(model.map(&mut buffers))
    }

    /// *Collective.* Saves values, what the optimizer remembers and how many steps there were, in the folder that was set with [`TrainerBuilder::checkpoints`]. It appears whole or not at all.
    pub fn checkpoint(&mut self) -> Result<()> {
        let Some(folder) = self.checkpoints.clone() else {
            let (what, reason) =
                ("a checkpoint".to_owned(), "no folder is set; see TrainerBuilder::checkpoints".to_owned());
            return Err(Error::Unsupported { what, reason }.into());
        };
        self.checkpoint_to(&folder)
    }

    /// *Collective.* The same in another folder.
    pub fn checkpoint_to(&mut self, folder: &Path) -> Result<()> {
        self.agree_on_order()?;
        let holdings = self.holdings(true)?;
        let saved = checkpoint::Saved {
            step: self.step,
            optimizer: &self.optimizer,
            variables: &self.described,
            places: &self.pieces,
        };
        checkpoint::save(&self.cluster, folder, &saved, &holdings)?;
        self.tell(Event::Saved(folder.to_owned()));
        Ok(())
    }

    /// What happened when since the last call, if the trainer was [built](TrainerBuilder::trace) to tell.
    #[must_use]
    pub fn trace(&self) -> Vec<Span> {
        self.trace.as_ref().map_or(Vec::new(), |trace| trace.take())
    }
}

impl<M: Module> Drop for Trainer<M> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // What is under way has to come to its end, since other peers wait for it.
            let (to, receiver) = mpsc::channel();
            self.tell(Event::Settle { to, copies: false });
            let _ = receiver.recv();
        }
        self.tell(Event::Stop);
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

/// Gives a step's gradients to the thread.
struct Delivery {
    step: u64,
    events: Sender<Event>,
    kept: Arc<Mutex<Kept>>,
    slots: Arc<Slots>,
}

impl Delivery {
    fn take(&self, place: usize, data: std::result::Result<TensorData, String>) {
        match data.and_then(singles) {
            Ok(numbers) => {
                let taken = self.kept.lock().deliver(place, numbers);
                // See `tell`.
                let _ = self.events.send(Event::Gradient { step: self.step, variable: place, taken });
            }
            Err(problem) => self.slots.fail(unreadable(&problem)),
        }
    }
}

fn unreadable(problem: &str) -> hemiola_cluster::Error {
    Error::Failed(format!("a gradient could not be read from its device: {problem}")).into()
}

/// Floats that are no variables: read by a visit, replaced by a map.
struct Buffers<'a> {
    names: &'a [String],
    path: Vec<String>,
    values: Vec<f32>,
    next: usize,
}

impl Buffers<'_> {
    fn is_variable(&self) -> bool {
        self.names.contains(&self.path.join("."))
    }
}

impl ModuleVisitor for Buffers<'_> {
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

impl ModuleMapper for Buffers<'_> {
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
