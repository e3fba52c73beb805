//! Progress of one step: gradients that wait for their units, and totals over all peers.

use crate::gradient::GradientPayload;
use crate::plan::{SyncPlan, SyncUnit};

/// Progress of one step.
#[derive(Debug, Default)]
pub(crate) struct StepProgress {
    pub(crate) rate: f64,
    /// Examples of this peer.
    pub(crate) examples: u64,
    /// By variable; cleared when the last piece of the variable was sent.
    pub(crate) gradients: Vec<Option<GradientPayload>>,
    /// Number of pieces not yet sent, by variable.
    unsent_pieces: Vec<usize>,
    /// Examples of all peers, once they are known.
    pub(crate) total: Option<f64>,
    /// Number of units whose gradient is complete on this peer.
    pub(crate) complete_units: usize,
    /// Squared norm of the gradients that this peer counts, by unit: units complete in any order,
    /// and their sum must not depend on it.
    pub(crate) squares: Vec<f64>,
    pub(crate) norm: NormState,
    /// Number of pieces with their new values, by variable.
    pub(crate) updated_pieces: Vec<usize>,
    pub(crate) finished_units: usize,
}

/// State of the global norm of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum NormState {
    /// This peer does not have all gradients that it counts.
    #[default]
    Incomplete,
    InFlight,
    /// Factor that norm clipping applies to all gradients.
    Scale(f64),
}

impl StepProgress {
    pub(crate) fn new(plan: &SyncPlan, examples: u64, rate: f64) -> Self {
        let variables = plan.model.variables.len();
        Self {
            rate,
            examples,
            gradients: vec![None; variables],
            unsent_pieces: plan.shard_counts.clone(),
            squares: vec![0.0; plan.units.len()],
            updated_pieces: vec![0; variables],
            ..Self::default()
        }
    }

    /// Tells whether all gradients of a unit are ready on this peer.
    pub(crate) fn has_gradients(&self, unit: &SyncUnit) -> bool {
        unit.variables.iter().all(|variable| self.gradients[*variable].is_some())
    }

    /// Concatenates the gradients of a unit's pieces.
    pub(crate) fn take_dense(&mut self, unit: &SyncUnit, plan: &SyncPlan) -> Vec<f32> {
        let mut numbers = Vec::new();
        for id in &unit.pieces {
            let piece = &plan.pieces[*id];
            self.unsent_pieces[piece.variable] -= 1;
            let last = self.unsent_pieces[piece.variable] == 0;
            let gradient = &mut self.gradients[piece.variable];
            match gradient {
                Some(GradientPayload::Dense(whole))
                    if last && unit.pieces.len() == 1 && whole.len() == piece.layout.len() =>
                {
                    numbers = std::mem::take(whole);
                }
                Some(GradientPayload::Dense(whole)) => {
                    if numbers.is_empty() {
                        numbers.reserve_exact(unit.length);
                    }
                    piece.layout.gather(whole, &mut numbers);
                }
                _ => numbers.resize(numbers.len() + piece.layout.len(), 0.0),
            }
            if last {
                *gradient = None;
            }
        }
        numbers
    }

    /// Takes the structured gradient of a unit, which has a single variable.
    pub(crate) fn take_structured(&mut self, unit: &SyncUnit) -> Vec<f32> {
        match self.gradients[unit.variables[0]].take() {
            Some(GradientPayload::Structured(parts)) => parts,
            _ => Vec::new(),
        }
    }
}
