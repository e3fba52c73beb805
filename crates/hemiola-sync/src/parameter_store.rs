//! Newest values of each variable, between the synchronization thread that publishes them and the
//! forward pass that waits for them.
//!
//! **Invariant:** every wait ends. It ends with values that are new enough or, after a failure,
//! with zeros or old values; the step that asked for them then fails. A wait that reaches the
//! deadline of the cluster is such a failure.

use hemiola_cluster::{PeerHandle, WaitContext, WaitReason};
use hemiola_collective::GossipStats;
use hemiola_core::Waiter;
use hemiola_sync_proto::VariableId;
use parking_lot::{Condvar, Mutex, MutexGuard};

/// Newest values of each variable.
pub(crate) struct ParameterStore {
    state: Mutex<StoreState>,
    changed: Condvar,
    peer_handle: PeerHandle,
}

struct StoreState {
    slots: Vec<VariableSlot>,
    failure: Option<TrainingFailure>,
    /// Newest step with a known loss, and that loss.
    loss: Option<(u64, f64)>,
    /// Totals over all gossip averages of this peer.
    gossip: Option<GossipStats>,
}

struct VariableSlot {
    /// Empty after the values were moved out.
    values: Vec<f32>,
    length: usize,
    version: u64,
}

impl VariableSlot {
    fn has(&self, version: u64) -> bool {
        !self.values.is_empty() && self.version >= version
    }
}

enum TrainingFailure {
    /// No call has returned the error yet.
    Unreported(hemiola_cluster::Error),
    Reported(String),
}

impl ParameterStore {
    /// Creates a store whose values contain `version` updates.
    pub(crate) fn new(values: Vec<Vec<f32>>, version: u64, peer_handle: PeerHandle) -> Self {
        let slots = values.into_iter().map(|values| VariableSlot { length: values.len(), values, version }).collect();
        let state = Mutex::new(StoreState { slots, failure: None, loss: None, gossip: None });
        Self { state, changed: Condvar::new(), peer_handle }
    }

    /// Waits for values with at least `version` updates. They are cloned if `keep` is set, and
    /// moved out otherwise.
    pub(crate) fn wait(&self, variable: VariableId, version: u64, keep: bool) -> Vec<f32> {
        let mut state = self.state.lock();
        self.wait_until(&mut state, version, |state| state.slots[variable].has(version));
        let slot = &mut state.slots[variable];
        match (slot.has(version), keep) {
            (true, true) => slot.values.clone(),
            (true, false) => std::mem::take(&mut slot.values),
            (false, _) => vec![0.0; slot.length],
        }
    }

    /// Waits until the values of a variable contain at least `version` updates, without reading them.
    pub(crate) fn wait_for_version(&self, variable: VariableId, version: u64) {
        self.wait_until(&mut self.state.lock(), version, |state| state.slots[variable].version >= version);
    }

    /// Waits for values with `version` updates: until `ready` or a failure.
    fn wait_until(&self, state: &mut MutexGuard<'_, StoreState>, version: u64, ready: impl Fn(&StoreState) -> bool) {
        let reason = WaitReason { operation: "the values of a step", number: Some(version), site: None };
        let wait = WaitContext::new(Waiter::Driver, reason, None);
        let ended = self
            .peer_handle
            .wait_while(&self.changed, state, wait, |state| Ok(state.failure.is_none() && !ready(state)));
        if let Err(error) = ended {
            state.failure.get_or_insert(TrainingFailure::Unreported(error));
        }
    }

    /// Replaces the values of a variable by those after `version` updates.
    pub(crate) fn publish(&self, variable: VariableId, values: Vec<f32>, version: u64) {
        let mut state = self.state.lock();
        let slot = &mut state.slots[variable];
        (slot.values, slot.version) = (values, version);
        self.changed.notify_all();
    }

    /// Records the mean loss over all examples of a step.
    pub(crate) fn record_loss(&self, step: u64, loss: f64) {
        let mut state = self.state.lock();
        if state.loss.is_none_or(|(newest, _)| newest < step) {
            state.loss = Some((step, loss));
        }
    }

    /// Returns the newest step with a known loss, and that loss.
    pub(crate) fn loss(&self) -> Option<(u64, f64)> {
        self.state.lock().loss
    }

    /// Records the totals over all gossip averages of this peer.
    pub(crate) fn record_gossip(&self, stats: Option<GossipStats>) {
        self.state.lock().gossip = stats;
    }

    /// Returns the totals over all gossip averages of this peer.
    pub(crate) fn gossip(&self) -> Option<GossipStats> {
        self.state.lock().gossip.clone()
    }

    /// Ends every wait. Only the first failure is kept.
    pub(crate) fn fail(&self, error: hemiola_cluster::Error) {
        self.state.lock().failure.get_or_insert(TrainingFailure::Unreported(error));
        self.changed.notify_all();
    }

    /// Returns the failure if training has failed: the error itself once, its text afterwards.
    pub(crate) fn check(&self) -> hemiola_cluster::Result<()> {
        let mut state = self.state.lock();
        match state.failure.take() {
            None => Ok(()),
            Some(TrainingFailure::Unreported(error)) => {
                state.failure = Some(TrainingFailure::Reported(error.to_string()));
                Err(error)
            }
            Some(TrainingFailure::Reported(text)) => {
                state.failure = Some(TrainingFailure::Reported(text.clone()));
                Err(crate::Error::Failed(text).into())
            }
        }
    }
}
