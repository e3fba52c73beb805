//! Gradients on their way from a backward pass to the synchronization thread.

use crate::error::Error;
use crate::model_sync::PassKind;
use crate::parameter_store::ParameterStore;
use crate::sync_thread::SyncEvent;
use hemiola_sync_proto::{AccumulatedGradients, VariableId};
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Sends the gradients of one pass to the synchronization thread, from any thread; `S` is the
/// optimizer state of a piece.
pub struct GradientSender<S> {
    kind: PassKind,
    step: u64,
    events: Sender<SyncEvent<S>>,
    accumulated: Arc<Mutex<AccumulatedGradients>>,
    store: Arc<ParameterStore>,
}

impl<S> GradientSender<S> {
    pub(crate) fn new(
        kind: PassKind,
        step: u64,
        events: Sender<SyncEvent<S>>,
        accumulated: Arc<Mutex<AccumulatedGradients>>,
        store: Arc<ParameterStore>,
    ) -> Self {
        Self { kind, step, events, accumulated, store }
    }

    /// Takes the complete gradient of a variable: all its elements, or the rows of a structured
    /// gradient (`[input, output gradient]` or `[key, gradient]`).
    ///
    /// The forward pass must be [complete](crate::ModelSync::forward_complete).
    pub fn send(&self, variable: VariableId, gradient: impl Into<Vec<f32>>) {
        match self.kind {
            PassKind::Accumulated => self.accumulated.lock().add(variable, gradient.into()),
            PassKind::Step => {
                let payload = self.accumulated.lock().take_with(variable, gradient.into());
                // The error is handled as in `ModelSync::send`.
                let _ = self.events.send(SyncEvent::GradientReady { step: self.step, variable, payload });
            }
        }
    }

    /// Fails the training: a gradient could not be read from its device.
    pub fn fail(&self, problem: &str) {
        let text = format!("a gradient could not be read from its device: {problem}");
        self.store.fail(Error::Failed(text).into());
    }
}

impl<S> fmt::Debug for GradientSender<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GradientSender")
            .field("kind", &self.kind)
            .field("step", &self.step)
            .finish_non_exhaustive()
    }
}
