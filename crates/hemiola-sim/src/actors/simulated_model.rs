//! Model of one peer in virtual time: it computes real values and gradients, and a profile says how
//! long each of its variables takes.

use crate::units::SimDuration;
use hemiola_sync_proto::{GradientPayload, VariableId};
use serde::{Deserialize, Serialize};

/// Time that the passes of a training step spend on each variable, on the reference machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputeProfile {
    /// Forward pass, by variable.
    pub forward: Vec<SimDuration>,
    /// Backward pass, by variable.
    pub backward: Vec<SimDuration>,
}

impl ComputeProfile {
    /// Creates a profile in which all variables take the same time.
    #[must_use]
    pub fn uniform(variables: usize, forward: SimDuration, backward: SimDuration) -> Self {
        Self { forward: vec![forward; variables], backward: vec![backward; variables] }
    }
}

/// Examples and loss of one peer in one step, and the learning rate of the step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchTotals {
    /// Number of examples; may be 0.
    pub examples: u64,
    /// Mean loss over the examples.
    pub loss: f64,
    /// Learning rate of the step.
    pub rate: f64,
}

/// Model of one peer, with its training data.
pub trait SimulatedModel {
    /// Computes the forward pass of a step with these values, by variable.
    fn forward(&mut self, step: u64, values: &[Vec<f32>]) -> BatchTotals;

    /// Computes the gradient of a variable, summed over the examples of the step. With
    /// `structured`, the gradient has the form in which the strategy sends it: factors or rows.
    fn gradient(&mut self, step: u64, variable: VariableId, structured: bool, values: &[Vec<f32>]) -> GradientPayload;
}
