//! Arithmetic of this crate's optimizers, as `hemiola-sync` needs it.

use crate::optimizer::{Optimizer, OptimizerState};
use hemiola_kernels::matrix::{self, MatrixView};
use hemiola_sync::{NamedArray, StateArchive, UpdateKernel};

/// Optimizer of a training, with the matrix product of the layers.
#[derive(Clone, Debug)]
pub(crate) struct BurnKernel(pub(crate) Optimizer);

impl UpdateKernel for BurnKernel {
    type State = OptimizerState;

    fn update(&self, rate: f64, values: &mut [f32], gradient: &mut [f32], scale: f32, state: &mut OptimizerState) {
        self.0.update(rate, values, gradient, scale, state);
    }

    fn update_rows(
        &self,
        rate: f64,
        values: &mut [f32],
        touched: (&[usize], &mut [f32], usize),
        scale: f32,
        state: &mut OptimizerState,
    ) {
        self.0.update_rows(rate, values, touched, scale, state);
    }

    fn can_update_rows(&self) -> bool {
        self.0.can_update_rows()
    }

    fn multiply_factors(&self, pairs: Vec<f32>, (rows, width): (usize, usize)) -> Vec<f32> {
        let both = rows + width;
        let count = pairs.len() / both.max(1);
        let mut product = vec![0.0; rows * width];
        if count > 0 {
            let inputs = MatrixView::new(&pairs, (count, rows), both).transposed();
            let outputs = MatrixView::new(&pairs[rows..], (count, width), both);
            matrix::multiply(&mut product, width, inputs, outputs, 1.0, false);
        }
        product
    }
}

impl StateArchive for BurnKernel {
    fn rule_name(&self) -> String {
        let text = format!("{:?}", self.0);
        text.split('(').next().unwrap_or_default().to_owned()
    }

    fn moment_count(&self) -> Option<usize> {
        self.0.moments()
    }

    fn moment<'a>(&self, state: &'a OptimizerState, index: usize) -> Option<&'a [f32]> {
        state.moments.get(index).map(|moment| &moment[..])
    }

    fn state_of(&self, updates: u64, moments: Vec<Vec<f32>>) -> OptimizerState {
        let mut state = OptimizerState::default();
        (state.updates, state.moments) = (updates, moments);
        state
    }

    fn update_count(&self, state: &OptimizerState) -> Option<u64> {
        Some(state.updates)
    }

    fn save_opaque(&self, state: &OptimizerState) -> Result<Vec<NamedArray>, String> {
        self.0.save_burn_state(state)
    }

    fn load_opaque(&self, saved: Vec<NamedArray>, state: &mut OptimizerState) -> Result<(), String> {
        self.0.load_burn_state(saved, state)
    }
}
