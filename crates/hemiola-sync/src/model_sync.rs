//! Model whose variables all peers keep equal by a strategy.

use crate::builder::ModelSyncBuilder;
use crate::checkpoint::{self, Attachments, CheckpointContents, CheckpointFolder, StateArchive};
use crate::error::Error;
use crate::gradient_sender::GradientSender;
use crate::parameter_store::ParameterStore;
use crate::strategy_choice::StrategyRecord;
use crate::sync_thread::SyncEvent;
use crate::trace::{TraceLane, TraceRecorder, TraceSpan};
use hemiola_array::files::SharedFileSystem;
use hemiola_cluster::{Cluster, Result, WaitReason};
use hemiola_collective::{CollectiveExt, GossipStats};
use hemiola_core::{Rank, ThreadHandle, Waiter};
use hemiola_strategy::{ModelSpec, Strategy, StrategyExplanation};
use hemiola_sync_proto::{AccumulatedGradients, PieceSnapshot, SyncPlan, VariableId};
use parking_lot::Mutex;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};

/// Purpose of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassKind {
    /// Ends a step: its gradients are sent as soon as they are complete.
    Step,
    /// Adds its gradients to those of the next step, as if both batches were one.
    Accumulated,
}

/// Model whose variables all peers keep equal by a strategy. Every peer must make the same calls;
/// only the number of accumulated passes may differ.
///
/// One pass of a framework binding:
/// 1. [`begin_pass`](Self::begin_pass) returns the sender of gradients;
/// 2. the forward pass waits for each variable by [`next_values`](Self::next_values);
/// 3. [`forward_complete`](Self::forward_complete) passes batch size, loss and learning rate;
/// 4. the backward pass hands over gradients by [`GradientSender::send`];
/// 5. [`end_pass`](Self::end_pass) ends the step. Synchronization continues in the background.
pub struct ModelSync<K: StateArchive> {
    pub(crate) cluster: Cluster,
    pub(crate) plan: Arc<SyncPlan>,
    pub(crate) strategy: StrategyRecord,
    pub(crate) explanation: StrategyExplanation,
    pub(crate) kernel: K,
    pub(crate) store: Arc<ParameterStore>,
    pub(crate) events: Sender<SyncEvent<K::State>>,
    pub(crate) thread: Option<ThreadHandle>,
    /// Gradients of accumulated passes, until the next step.
    pub(crate) accumulated: Arc<Mutex<AccumulatedGradients>>,
    pub(crate) step: u64,
    /// Values that were stored with the resumed checkpoint.
    pub(crate) attachments: Option<Attachments>,
    /// File system of checkpoints.
    pub(crate) files: SharedFileSystem,
    pub(crate) trace: Option<Arc<TraceRecorder>>,
}

impl<K: StateArchive> ModelSync<K> {
    /// Returns the builder for a model with these initial values, one vector per variable.
    pub fn builder(cluster: &Cluster, model: ModelSpec, values: Vec<Vec<f32>>, kernel: K) -> ModelSyncBuilder<K> {
        ModelSyncBuilder::new(cluster, model, values, kernel)
    }

    /// Number of completed steps, including those before a resumed checkpoint.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Returns the strategy in use.
    #[must_use]
    pub fn strategy(&self) -> &Strategy {
        &self.strategy.strategy
    }

    /// Returns the strategy in use with its origin.
    #[must_use]
    pub fn strategy_record(&self) -> &StrategyRecord {
        &self.strategy
    }

    /// Returns the variables as strategies see them.
    #[must_use]
    pub fn model(&self) -> &ModelSpec {
        &self.plan.model
    }

    /// Returns the chosen method, bytes, predicted time and alternatives of every variable.
    #[must_use]
    pub fn explain(&self) -> &StrategyExplanation {
        &self.explanation
    }

    /// Tells whether this peer trains. The others serve, and their batches are empty.
    #[must_use]
    pub fn trains(&self) -> bool {
        self.plan.trains(self.cluster.rank())
    }

    /// Tells by variable which gradients are taken in structured form (factors or rows).
    #[must_use]
    pub fn structured(&self) -> &[bool] {
        &self.plan.structured
    }

    /// Returns the newest step with a known loss, and the mean loss over the examples of all peers
    /// in it. Peers may know different steps. In a plan of tables or gossip averaging alone, it is
    /// the loss of this peer.
    #[must_use]
    pub fn loss(&self) -> Option<(u64, f64)> {
        self.store.loss()
    }

    /// Returns the totals over all gossip averages of this peer: how many were consistent, and what
    /// the others lacked. `None` without gossip averaging, or before its first average.
    #[must_use]
    pub fn gossip_stats(&self) -> Option<GossipStats> {
        self.store.gossip()
    }

    /// Begins a pass and returns the sender of its gradients.
    #[must_use]
    pub fn begin_pass(&self, kind: PassKind) -> GradientSender<K::State> {
        let (events, accumulated) = (self.events.clone(), self.accumulated.clone());
        GradientSender::new(kind, self.step, events, accumulated, self.store.clone())
    }

    /// Returns the values of a variable for a pass: those after all earlier steps, or older ones
    /// within the staleness bound of the strategy.
    #[must_use]
    pub fn next_values(&self, variable: VariableId, kind: PassKind) -> PendingValues {
        let staleness = self.plan.staleness[variable];
        PendingValues {
            store: self.store.clone(),
            variable,
            version: self.plan.needed_version(variable, self.step),
            keep: staleness > 0 || kind == PassKind::Accumulated,
            trace: self.trace.as_ref().map(|trace| (trace.clone(), self.plan.name(variable).to_owned())),
        }
    }

    /// Returns the newest values of a variable, for evaluation. All updates are in them after
    /// [`wait`](Self::wait).
    #[must_use]
    pub fn newest_values(&self, variable: VariableId) -> PendingValues {
        PendingValues { store: self.store.clone(), variable, version: 0, keep: true, trace: None }
    }

    /// Event: the forward pass is complete. `loss` is the mean over the examples of this peer, and
    /// `rate` the learning rate of the step. A peer without examples makes the call, too.
    pub fn forward_complete(&self, kind: PassKind, examples: u64, loss: f64, rate: f64) {
        let mut accumulated = self.accumulated.lock();
        match kind {
            PassKind::Accumulated => accumulated.add_examples(examples, loss),
            PassKind::Step => {
                let (examples, loss) = accumulated.take_totals(examples, loss);
                self.send(SyncEvent::StepStarted { step: self.step, examples, loss, rate });
            }
        }
    }

    /// Ends a pass. After the last pass of a step, variables without a gradient count as zero. Waits
    /// for values that the forward pass was due to read and did not, so that this peer is at
    /// most one step beyond the staleness bound ahead of the others.
    ///
    /// Fails with an error of this step or of an earlier one, since synchronization continues after
    /// a step.
    pub fn end_pass(&mut self, kind: PassKind) -> Result<()> {
        if kind == PassKind::Step {
            let step = self.step;
            self.step += 1;
            // Variables without a gradient in this pass, and gradients of accumulated passes only.
            for (variable, payload) in self.accumulated.lock().take_unsent() {
                self.send(SyncEvent::GradientReady { step, variable, payload });
            }
            for variable in (0..self.plan.staleness.len()).map(VariableId::new) {
                self.store.wait_for_version(variable, self.plan.needed_version(variable, step));
            }
        }
        self.store.check()
    }

    /// *Collective.* Waits until all steps of all peers are complete and all values have arrived.
    /// Copies of tables are equal on all peers then, whatever their consistency model.
    pub fn wait(&mut self) -> Result<()> {
        self.settle(false).map(drop)
    }

    /// *Collective.* Saves values, optimizer state and the number of steps. The folder is replaced
    /// atomically.
    pub fn save(&mut self, folder: &Path) -> Result<()> {
        self.save_with(folder, &Attachments::new())
    }

    /// *Collective.* Saves as [`save`](Self::save) does, together with values of the program. Peer 0
    /// stores its own.
    pub fn save_with(&mut self, folder: &Path, attachments: &Attachments) -> Result<()> {
        let snapshot = self.settle(true)?;
        let contents = CheckpointContents {
            step: self.step,
            attachments,
            kernel: &self.kernel,
            plan: &self.plan,
            strategy: &self.strategy,
        };
        let target = CheckpointFolder { files: &self.files, path: folder };
        checkpoint::save(&self.cluster, target, &contents, &snapshot)?;
        self.send(SyncEvent::CheckpointSaved(folder.to_owned()));
        Ok(())
    }

    /// Takes the values that the resumed checkpoint was saved [with](Self::save_with). Returns
    /// `None` if there was no checkpoint, or on the second call.
    pub fn take_attachments(&mut self) -> Option<Attachments> {
        self.attachments.take()
    }

    /// Returns the time of the timeline; zero without one.
    #[must_use]
    pub fn trace_now(&self) -> f64 {
        self.trace.as_ref().map_or(0.0, |trace| trace.now())
    }

    /// Records a computation that started at `start` and ends now, if there is a timeline.
    pub fn trace_compute(&self, name: &str, start: f64) {
        if let Some(trace) = &self.trace {
            trace.record(name, TraceLane::Compute, start);
        }
    }

    /// Returns the spans since the last call, if a timeline is recorded.
    #[must_use]
    pub fn take_trace(&self) -> Vec<TraceSpan> {
        self.trace.as_ref().map_or(Vec::new(), |trace| trace.take())
    }

    fn send(&self, event: SyncEvent<K::State>) {
        // The channel closes only after this handle is dropped or the thread has failed; the
        // failure is reported through the parameter store.
        let _ = self.events.send(event);
    }

    /// *Collective.* Waits until all steps are complete. If copies of tables may differ, it reads
    /// the newest values of all after the last update of every peer, and before the next one of
    /// any.
    fn settle(&self, copies: bool) -> Result<Vec<PieceSnapshot<K::State>>> {
        let (stale, subset) = (self.plan.has_stale_tables(), self.plan.is_subset());
        if !stale && !subset {
            return self.drain(copies);
        }
        self.drain(false)?;
        if stale {
            self.cluster.barrier()?;
            self.send(SyncEvent::RefreshTables);
            self.drain(false)?;
        }
        if subset {
            self.share_values()?;
        }
        let snapshot = self.drain(copies)?;
        if stale || !self.plan.tables.is_empty() {
            // A server that does not train would apply updates of the next step.
            self.cluster.barrier()?;
        }
        Ok(snapshot)
    }

    /// *Collective.* Sends the values of the first peer that trains to those that do not, which have
    /// old values of what only the others update.
    fn share_values(&self) -> Result<()> {
        let (me, first) = (self.cluster.rank(), self.plan.replicas.iter().copied().min().unwrap_or(Rank::ROOT));
        let communicator = self.cluster.communicator()?;
        for variable in (0..self.plan.model.variables.len()).map(VariableId::new) {
            let mut values = self.newest_values(variable).wait();
            communicator.broadcast(first, &mut values)?;
            if !self.plan.trains(me) {
                self.store.publish(variable, values.clone(), self.step);
                self.send(SyncEvent::ValuesShared(variable, values));
            }
        }
        Ok(())
    }

    /// Waits until all steps are complete. With `copies`, the snapshot holds the values and states
    /// of this peer. Every collective of the thread has a deadline; a step whose gradients never
    /// come ends at the deadline here.
    fn drain(&self, copies: bool) -> Result<Vec<PieceSnapshot<K::State>>> {
        let (to, receiver) = mpsc::channel();
        self.send(SyncEvent::Drain { to, copies });
        let reason = WaitReason { operation: "the synchronization of all steps", number: Some(self.step), site: None };
        let _waiting = self.cluster.waiting(Waiter::Driver, reason, None);
        let (peer_handle, start) = (self.cluster.peer_handle(), self.cluster.env().now());
        let ended = || Error::Failed("the synchronization thread has ended".to_owned()).into();
        loop {
            let left = peer_handle.time_left(start, None);
            if left.is_zero() {
                self.store.check()?;
                return Err(peer_handle.timed_out(&reason, ""));
            }
            match receiver.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => {}
                other => {
                    self.store.check()?;
                    return other.map_err(|_| ended());
                }
            }
        }
    }
}

impl<K: StateArchive> Drop for ModelSync<K> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // Collectives in flight must complete, since other peers wait for them.
            // An error was returned by an earlier call, or nobody asks for it any more.
            let drained = self.drain(false);
            if drained.is_ok() {
                // Other peers may still train with the tables here.
                self.send(SyncEvent::Finish);
                if let Some(thread) = self.thread.take() {
                    thread.join();
                }
                return;
            }
        }
        self.send(SyncEvent::Shutdown);
        if let Some(thread) = self.thread.take() {
            thread.join();
        }
    }
}

impl<K: StateArchive> fmt::Debug for ModelSync<K> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ModelSync")
            .field("variables", &self.plan.model.variables.len())
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}

/// Values of a variable that may still be on their way.
#[derive(Clone)]
pub struct PendingValues {
    store: Arc<ParameterStore>,
    variable: VariableId,
    version: u64,
    keep: bool,
    trace: Option<(Arc<TraceRecorder>, String)>,
}

impl PendingValues {
    /// Waits for the values. Each variable must be waited for at most once in a pass that ends a
    /// step.
    ///
    /// After a failure of the training, the values are old or zero, and
    /// [`end_pass`](ModelSync::end_pass) returns the error.
    #[must_use]
    pub fn wait(&self) -> Vec<f32> {
        let start = self.trace.as_ref().map_or(0.0, |(trace, _)| trace.now());
        let values = self.store.wait(self.variable, self.version, self.keep);
        if let Some((trace, name)) = &self.trace {
            trace.record(name.as_str(), TraceLane::Wait, start);
        }
        values
    }
}

impl fmt::Debug for PendingValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PendingValues")
            .field("variable", &self.variable)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
