//! The synchronization thread: drives the node of a peer with events and executes its effects.
//!
//! **Invariants.** A failure is reported once, to the next caller, and nothing is started after it.
//! The thread blocks on its event channel only, never on a message, except in gossip averaging.
//!
//! **Bound.** No sender waits for the channel. The end of a step waits for the values of every variable
//! that its forward pass needed, so a peer is at most the staleness bound plus one step ahead of the
//! thread: the channel holds one gradient of each variable for each of these steps, and one event for
//! each collective in flight.

use crate::communicators::{PendingSync, SyncCommunicators};
use crate::error::Error;
use crate::parameter_store::ParameterStore;
use crate::trace::{TraceLane, TraceRecorder};
use hemiola_cluster::{Cluster, Result};
use hemiola_sync_proto::{
    CollectiveId, CollectiveOutput, GradientPayload, PieceSnapshot, SyncEffect, SyncNode, SyncPlan, UnitId,
    UpdateKernel, VariableId,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

/// Event that the thread handles; `S` is the optimizer state of a piece.
pub(crate) enum SyncEvent<S> {
    /// A forward pass is complete: batch size and mean loss of this peer, and the learning rate.
    StepStarted {
        step: u64,
        examples: u64,
        loss: f64,
        rate: f64,
    },
    /// The gradient of a variable is complete.
    GradientReady {
        step: u64,
        variable: VariableId,
        payload: GradientPayload,
    },
    /// A collective in flight has completed.
    CollectiveReady,
    /// Asks for a reply once all steps are complete. With `copies`, the reply holds values and
    /// states.
    Drain {
        to: Sender<Vec<PieceSnapshot<S>>>,
        copies: bool,
    },
    /// Folder of the newest checkpoint, for error messages.
    CheckpointSaved(PathBuf),
    Shutdown,
}

/// Pending [`Drain`](SyncEvent::Drain) request: reply channel, and whether it wants copies.
type DrainRequest<S> = (Sender<Vec<PieceSnapshot<S>>>, bool);

/// State of the synchronization thread.
pub(crate) struct SyncThread<K: UpdateKernel> {
    node: SyncNode<K>,
    communicators: SyncCommunicators,
    /// Collectives in flight, oldest first.
    in_flight: Vec<(CollectiveId, PendingSync)>,
    store: Arc<ParameterStore>,
    trace: Option<UnitTracer>,
    drains: Vec<DrainRequest<K::State>>,
    failed: bool,
}

impl<K: UpdateKernel> SyncThread<K> {
    /// *Collective.* Creates the communicators and gossip averagers of all units.
    pub(crate) fn new(
        cluster: &Cluster,
        plan: &Arc<SyncPlan>,
        node: SyncNode<K>,
        (store, trace): (Arc<ParameterStore>, Option<Arc<TraceRecorder>>),
        wake: impl Fn() + Send + Sync + Clone + 'static,
    ) -> Result<Self> {
        let communicators = SyncCommunicators::new(cluster, plan, wake)?;
        let trace = trace.map(|recorder| UnitTracer { recorder, plan: plan.clone(), started: BTreeMap::new() });
        Ok(Self { node, communicators, in_flight: Vec::new(), store, trace, drains: Vec::new(), failed: false })
    }

    /// Handles events until [`Shutdown`](SyncEvent::Shutdown).
    pub(crate) fn run(mut self, events: &Receiver<SyncEvent<K::State>>) {
        while let Ok(event) = events.recv() {
            match event {
                SyncEvent::Shutdown => return,
                SyncEvent::Drain { to, copies } => self.drains.push((to, copies)),
                SyncEvent::CheckpointSaved(folder) => self.node.set_last_checkpoint(folder),
                event if self.failed => drop(event),
                event => {
                    if let Err(error) = self.handle(event).and_then(|()| self.make_progress()) {
                        self.failed = true;
                        self.store.fail(error);
                        self.in_flight.clear();
                    }
                }
            }
            self.answer_drains();
        }
    }

    fn handle(&mut self, event: SyncEvent<K::State>) -> Result<()> {
        match event {
            SyncEvent::StepStarted { step, examples, loss, rate } => {
                self.node.start_step(step, examples, loss, rate);
            }
            SyncEvent::GradientReady { step, variable, payload } => {
                self.node.add_gradient(step, variable, payload).map_err(Error::from)?;
            }
            SyncEvent::CollectiveReady
            | SyncEvent::Drain { .. }
            | SyncEvent::CheckpointSaved(_)
            | SyncEvent::Shutdown => {}
        }
        Ok(())
    }

    /// Executes effects and delivers results until neither is left.
    fn make_progress(&mut self) -> Result<()> {
        self.execute_effects()?;
        let mut delivered = true;
        while delivered {
            delivered = false;
            for (id, pending) in std::mem::take(&mut self.in_flight) {
                if pending.is_ready() {
                    self.node.complete(id, pending.output()?).map_err(Error::from)?;
                    self.execute_effects()?;
                    delivered = true;
                } else {
                    self.in_flight.push((id, pending));
                }
            }
        }
        Ok(())
    }

    fn execute_effects(&mut self) -> Result<()> {
        while let Some(effect) = self.node.poll_effect().map_err(Error::from)? {
            match effect {
                SyncEffect::Start { id, channel, op } => {
                    let pending = self.communicators.start(channel, op)?;
                    self.in_flight.push((id, pending));
                }
                SyncEffect::Average { id, unit, mut values } => {
                    self.communicators.average(unit, &mut values)?;
                    self.node.complete(id, CollectiveOutput::Elements(values)).map_err(Error::from)?;
                }
                SyncEffect::Publish { variable, values, version } => self.store.publish(variable, values, version),
                SyncEffect::RecordLoss { step, loss } => self.store.record_loss(step, loss),
                SyncEffect::UnitStarted { step, unit } => {
                    if let Some(trace) = &mut self.trace {
                        trace.start(step, unit);
                    }
                }
                SyncEffect::UnitFinished { step, unit } => {
                    if let Some(trace) = &mut self.trace {
                        trace.finish(step, unit);
                    }
                }
            }
        }
        Ok(())
    }

    fn answer_drains(&mut self) {
        if self.failed {
            // Dropping the senders closes the channels of the callers.
            self.drains.clear();
        } else if self.node.is_idle() {
            for (sender, copies) in self.drains.drain(..) {
                // The caller may have dropped its receiver.
                let _ = sender.send(if copies { self.node.snapshot() } else { Vec::new() });
            }
        }
    }
}

/// Records the synchronization of each unit as a span.
struct UnitTracer {
    recorder: Arc<TraceRecorder>,
    plan: Arc<SyncPlan>,
    /// Start times by step and unit.
    started: BTreeMap<(u64, UnitId), f64>,
}

impl UnitTracer {
    fn start(&mut self, step: u64, unit: UnitId) {
        self.started.insert((step, unit), self.recorder.now());
    }

    fn finish(&mut self, step: u64, id: UnitId) {
        let Some(start) = self.started.remove(&(step, id)) else { return };
        if let [others @ .., last] = &self.plan.units[id].variables[..] {
            let name = self.plan.name(*last);
            let more = others.len();
            let what = if more == 0 { name.to_owned() } else { format!("{name} and {more} more") };
            self.recorder.record(what, TraceLane::Sync(id.index()), start);
        }
    }
}
