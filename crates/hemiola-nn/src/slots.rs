//! Values on their way from whoever updates them to the forward pass that needs them.
//!
//! **Invariant:** a wait ends: with values that are new enough, or, once training has failed, with whatever is there, and then the step that asked fails. What brings values has deadlines of its own.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// How long a sleeper goes without looking around; it is woken for everything it needs to know.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// The newest values of each variable.
pub(crate) struct Slots {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    slots: Vec<Slot>,
    failure: Option<Failure>,
    /// The newest step whose loss is known, and that.
    loss: Option<(u64, f64)>,
}

struct Slot {
    /// Empty once they were taken.
    values: Vec<f32>,
    length: usize,
    version: u64,
}

enum Failure {
    /// Nobody has been told yet.
    Untold(hemiola_cluster::Error),
    Told(String),
}

impl Slots {
    /// With values that have no update in them, or as many as `version` says.
    pub(crate) fn new(values: Vec<Vec<f32>>, version: u64) -> Self {
        let slots = values.into_iter().map(|values| Slot { length: values.len(), values, version }).collect();
        Self { state: Mutex::new(State { slots, failure: None, loss: None }), changed: Condvar::new() }
    }

    /// The newest values with at least `version` updates in them. They are copied if they will be needed again.
    pub(crate) fn wait(&self, place: usize, version: u64, again: bool) -> Vec<f32> {
        let mut state = self.state.lock();
        loop {
            let failed = state.failure.is_some();
            let slot = &mut state.slots[place];
            if !slot.values.is_empty() && slot.version >= version {
                return if again { slot.values.clone() } else { std::mem::take(&mut slot.values) };
            }
            if failed {
                return vec![0.0; slot.length];
            }
            self.changed.wait_for(&mut state, LOOK_AROUND);
        }
    }

    /// New values, with so many updates in them.
    pub(crate) fn publish(&self, place: usize, values: Vec<f32>, version: u64) {
        let mut state = self.state.lock();
        let slot = &mut state.slots[place];
        (slot.values, slot.version) = (values, version);
        self.changed.notify_all();
    }

    /// The mean loss of all examples of a step.
    pub(crate) fn report(&self, step: u64, loss: f64) {
        let mut state = self.state.lock();
        if state.loss.is_none_or(|(newest, _)| newest < step) {
            state.loss = Some((step, loss));
        }
    }

    /// The newest step whose loss is known, and that.
    pub(crate) fn loss(&self) -> Option<(u64, f64)> {
        self.state.lock().loss
    }

    /// Ends every wait. The first failure counts.
    pub(crate) fn fail(&self, error: hemiola_cluster::Error) {
        self.state.lock().failure.get_or_insert(Failure::Untold(error));
        self.changed.notify_all();
    }

    /// An error if training has failed.
    pub(crate) fn check(&self) -> hemiola_cluster::Result<()> {
        let mut state = self.state.lock();
        match state.failure.take() {
            None => Ok(()),
            Some(Failure::Untold(error)) => {
                state.failure = Some(Failure::Told(error.to_string()));
                Err(error)
            }
            Some(Failure::Told(text)) => {
                state.failure = Some(Failure::Told(text.clone()));
                Err(crate::Error::Failed(text).into())
            }
        }
    }
}
