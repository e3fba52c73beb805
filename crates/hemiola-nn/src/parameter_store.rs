//! Newest values of each variable, between the synchronization thread that publishes them and the
//! forward pass that waits for them.
//!
//! **Invariant:** every wait ends. It ends with values that are new enough or, after a failure,
//! with zeros or old values; the step that asked for them then fails. The collectives that bring
//! values have deadlines of their own.

use crate::ids::VariableId;
use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Upper bound on the time between two checks of the condition. Every change signals the condition
/// variable, so this is a safeguard only.
const WAIT_RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Newest values of each variable.
pub(crate) struct ParameterStore {
    state: Mutex<StoreState>,
    changed: Condvar,
}

struct StoreState {
    slots: Vec<VariableSlot>,
    failure: Option<TrainingFailure>,
    /// Newest step with a known loss, and that loss.
    loss: Option<(u64, f64)>,
}

struct VariableSlot {
    /// Empty after the values were moved out.
    values: Vec<f32>,
    length: usize,
    version: u64,
}

enum TrainingFailure {
    /// No call has returned the error yet.
    Unreported(hemiola_cluster::Error),
    Reported(String),
}

impl ParameterStore {
    /// Creates a store whose values contain `version` updates.
    pub(crate) fn new(values: Vec<Vec<f32>>, version: u64) -> Self {
        let slots = values.into_iter().map(|values| VariableSlot { length: values.len(), values, version }).collect();
        Self { state: Mutex::new(StoreState { slots, failure: None, loss: None }), changed: Condvar::new() }
    }

    /// Waits for values with at least `version` updates. They are cloned if `keep` is set, and
    /// moved out otherwise.
    pub(crate) fn wait(&self, variable: VariableId, version: u64, keep: bool) -> Vec<f32> {
        let mut state = self.state.lock();
        loop {
            let failed = state.failure.is_some();
            let slot = &mut state.slots[variable];
            if !slot.values.is_empty() && slot.version >= version {
                return if keep { slot.values.clone() } else { std::mem::take(&mut slot.values) };
            }
            if failed {
                return vec![0.0; slot.length];
            }
            self.changed.wait_for(&mut state, WAIT_RECHECK_INTERVAL);
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
