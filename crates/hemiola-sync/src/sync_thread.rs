//! The synchronization thread: drives the node of a peer with events and executes its effects.
//!
//! **Invariants.** A failure is reported once, to the next caller, and nothing is started after it.
//! The thread blocks on its event channel only, never on a message, except in gossip averaging and
//! while the network has no room for a table message.
//!
//! **Bound.** No sender waits for the channel. The end of a step waits for the values of every variable
//! that its forward pass needed, so a peer is at most the staleness bound plus one step
//! ahead of the thread: the channel holds one gradient of each variable for each of these steps,
//! one event for each collective in flight, and for each chunk in a table one update of each peer
//! and one reply.

use crate::communicators::{PendingSync, SyncCommunicators};
use crate::error::Error;
use crate::parameter_store::ParameterStore;
use crate::table_endpoint::TableEndpoint;
use crate::trace::{TraceLane, TraceRecorder};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{Message, RECHECK_INTERVAL};
use hemiola_sync_proto::{
    CollectiveId, CollectiveOutput, GradientPayload, PieceSnapshot, SyncEffect, SyncNode, SyncPlan, UnitId,
    UpdateKernel, VariableId,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};

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
    /// A table message of another peer has arrived. `None` if messages are queued, or if a peer is
    /// lost.
    TableMessage(Option<Message>),
    /// Asks for the newest values of all tables.
    RefreshTables,
    /// Values of a variable that no step updates here.
    ValuesShared(VariableId, Vec<f32>),
    /// This peer trains no further step; its tables serve the others until they have finished.
    Finish,
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
    plan: Arc<SyncPlan>,
    tables: TableEndpoint,
    /// This peer trains no further step.
    finished: bool,
    failed: bool,
}

impl<K: UpdateKernel> SyncThread<K> {
    /// *Collective.* Creates the communicators and gossip averagers of all units.
    pub(crate) fn new(
        cluster: &Cluster,
        plan: &Arc<SyncPlan>,
        node: SyncNode<K>,
        (store, trace): (Arc<ParameterStore>, Option<Arc<TraceRecorder>>),
        events: &Sender<SyncEvent<K::State>>,
    ) -> Result<Self> {
        let (waking, receiving) = (events.clone(), events.clone());
        // The errors are handled as in `ModelSync::send`.
        let wake = move || waking.send(SyncEvent::CollectiveReady).unwrap_or(());
        let communicators = SyncCommunicators::new(cluster, plan, wake)?;
        let deliver = move |message| receiving.send(SyncEvent::TableMessage(message)).unwrap_or(());
        let tables = TableEndpoint::open(cluster, deliver);
        let trace = trace.map(|recorder| UnitTracer { recorder, plan: plan.clone(), started: BTreeMap::new() });
        let (in_flight, drains, plan) = (Vec::new(), Vec::new(), plan.clone());
        Ok(Self { node, communicators, in_flight, store, trace, drains, plan, tables, finished: false, failed: false })
    }

    /// Handles events until [`Shutdown`](SyncEvent::Shutdown), or until all peers have
    /// [finished](SyncEvent::Finish) with the tables here. A failure ends it, too.
    pub(crate) fn run(mut self, events: &Receiver<SyncEvent<K::State>>) {
        // A peer that does not train tells the tables so.
        if let Err(error) = self.execute_effects() {
            self.failed = true;
            self.store.fail(error);
        }
        while let Some(event) = self.next_event(events) {
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

    /// Returns the next event; `None` if the work of this peer is done, or if it serves tables to
    /// peers that are lost or make no progress.
    fn next_event(&self, events: &Receiver<SyncEvent<K::State>>) -> Option<SyncEvent<K::State>> {
        if !self.finished {
            return events.recv().ok();
        }
        let peer_handle = self.tables.peer_handle();
        let start = peer_handle.env().now();
        while !self.failed && !self.node.tables_are_served() && peer_handle.failure().is_none() {
            let left = peer_handle.time_left(start, None).min(RECHECK_INTERVAL);
            match events.recv_timeout(left) {
                Ok(event) => return Some(event),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return None,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    fn handle(&mut self, event: SyncEvent<K::State>) -> Result<()> {
        match event {
            SyncEvent::StepStarted { step, examples, loss, rate } => {
                self.node.start_step(step, examples, loss, rate).map_err(Error::from)?;
            }
            SyncEvent::GradientReady { step, variable, payload } => {
                self.node.add_gradient(step, variable, payload).map_err(Error::from)?;
            }
            SyncEvent::TableMessage(Some(message)) => self.receive_table(&message)?,
            SyncEvent::TableMessage(None) => {
                while let Some(message) = self.tables.next_queued() {
                    self.receive_table(&message)?;
                }
                if let (false, Some(loss)) = (self.plan.tables.is_empty(), self.tables.peer_handle().failure()) {
                    // No reply will come, or no clock will close any more.
                    return Err(loss.into());
                }
            }
            SyncEvent::RefreshTables => self.node.refresh_tables().map_err(Error::from)?,
            SyncEvent::ValuesShared(variable, values) => self.node.adopt_values(variable, &values),
            SyncEvent::Finish => {
                self.node.finish_tables().map_err(Error::from)?;
                self.finished = true;
            }
            SyncEvent::CollectiveReady
            | SyncEvent::Drain { .. }
            | SyncEvent::CheckpointSaved(_)
            | SyncEvent::Shutdown => {}
        }
        Ok(())
    }

    fn receive_table(&mut self, message: &Message) -> Result<()> {
        let message = self.plan.decode_table_message(&message.payload, message.from).map_err(Error::from)?;
        Ok(self.node.receive_table(message).map_err(Error::from)?)
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
                    self.store.record_gossip(self.communicators.gossip_stats());
                    self.node.complete(id, CollectiveOutput::Elements(values)).map_err(Error::from)?;
                }
                SyncEffect::SendTable { to, message } => self.tables.send(to, message)?,
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
