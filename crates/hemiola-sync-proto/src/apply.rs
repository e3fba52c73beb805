//! Updates of the values of a unit by its summed gradient.
//!
//! **Invariant:** a gradient is applied when all earlier steps of its unit are applied, the number
//! of examples of all peers is known and, with norm clipping, the norm.

use crate::clip::{GradientClip, clip_values, squares};
use crate::error::{Error, Result};
use crate::gradient::SummedGradient;
use crate::ids::UnitId;
use crate::kernel::UpdateKernel;
use crate::plan::{SyncMethod, VariablePiece};
use crate::step_progress::NormState;
use crate::sync_node::SyncNode;
use crate::unit_protocol::{UnitAction, UnitProtocol, UnitValues};

/// A piece with its values, gradient and optimizer state.
pub(crate) struct PieceView<'a, S> {
    pub(crate) piece: &'a VariablePiece,
    pub(crate) values: &'a mut [f32],
    pub(crate) gradient: &'a mut [f32],
    pub(crate) state: &'a mut S,
}

/// Updates a piece with `scale` times a dense gradient. Rows without a gradient stay unchanged
/// where the variable is row-wise.
pub(crate) fn update_piece<K: UpdateKernel>(kernel: &K, view: PieceView<'_, K::State>, rate: f64, scale: f32) {
    let PieceView { piece, values, gradient, state } = view;
    if !piece.row_wise || !kernel.can_update_rows() {
        return kernel.update(rate, values, gradient, scale, state);
    }
    let width = piece.width;
    let touched: Vec<usize> = (0..piece.rows)
        .filter(|row| gradient[row * width..(row + 1) * width].iter().any(|number| *number != 0.0))
        .collect();
    let mut numbers: Vec<f32> =
        touched.iter().flat_map(|row| gradient[row * width..(row + 1) * width].iter().copied()).collect();
    kernel.update_rows(rate, values, (&touched[..], &mut numbers[..], width), scale, state);
}

impl<K: UpdateKernel> SyncNode<K> {
    /// Sums the outer products of a unit's factor pairs.
    pub(crate) fn multiply(&self, id: UnitId, pairs: Vec<f32>) -> SummedGradient {
        let piece = &self.plan.pieces[self.plan.units[id].pieces[0]];
        let shape = (piece.rows, piece.width);
        SummedGradient::Dense(if pairs.len() < piece.rows + piece.width {
            vec![0.0; piece.rows * piece.width]
        } else {
            self.kernel.multiply_factors(pairs, shape)
        })
    }

    /// Applies a gradient if it may be applied now; returns whether it was.
    pub(crate) fn try_apply(&mut self, index: usize, gradient: SummedGradient) -> Result<bool> {
        let run = &mut self.runs[index];
        let (id, step) = (run.unit, run.step);
        let unit = &self.plan.units[id];
        let progress = self.steps.get_mut(&step).expect("a step is kept until its units are done");
        let (Some(total), true) = (progress.total, self.applied[id] == step) else {
            run.action = Some(UnitAction::Apply(gradient));
            return Ok(false);
        };
        let is_gossip = matches!(unit.method, SyncMethod::Gossip { .. });
        let mut scale = if is_gossip { 1.0 / progress.examples.max(1) as f64 } else { 1.0 / total };
        if let Some(GradientClip::Norm(_)) = self.clip {
            let newly_counted = !run.counted;
            if newly_counted {
                run.counted = true;
                progress.complete_units += 1;
                progress.squares[id] = squares(unit, &gradient, self.rank) * scale * scale;
            }
            let NormState::Scale(clip_scale) = progress.norm else {
                run.action = Some(UnitAction::Apply(gradient));
                return Ok(newly_counted);
            };
            scale *= clip_scale;
        }
        let rate = progress.rate;
        let rows = match gradient {
            SummedGradient::Dense(mut numbers) => {
                self.check_finite(id, step, &numbers)?;
                clip_values(&mut numbers, self.clip, scale);
                self.update_dense(id, rate, &mut numbers, scale as f32);
                Vec::new()
            }
            SummedGradient::Rows(rows, mut numbers) => {
                self.check_finite(id, step, &numbers)?;
                clip_values(&mut numbers, self.clip, scale);
                let piece = unit.pieces[0];
                let touched = (&rows[..], &mut numbers[..], self.plan.pieces[piece].width);
                let (values, state) = (&mut self.values[piece], &mut self.states[piece]);
                self.kernel.update_rows(rate, values, touched, scale as f32, state);
                rows
            }
        };
        let Self { plan, values, runs, .. } = self;
        let unit = &plan.units[id];
        let updated = UnitValues { unit, piece: &plan.pieces[unit.pieces[0]], values, rows: &rows };
        let run = &mut runs[index];
        run.action = Some(run.sync.on_applied(updated));
        Ok(true)
    }

    pub(crate) fn check_finite(&self, id: UnitId, step: u64, gradient: &[f32]) -> Result<()> {
        if gradient.iter().all(|number| number.is_finite()) {
            return Ok(());
        }
        let mut start = 0;
        let bad = self.plan.units[id].pieces.iter().map(|piece| &self.plan.pieces[*piece]).find(|piece| {
            let range = start..(start + piece.layout.len()).min(gradient.len());
            start = range.end;
            gradient[range].iter().any(|number| !number.is_finite())
        });
        let name = bad.map_or("a variable", |piece| self.plan.name(piece.variable));
        let quantity = format!("the gradient of `{name}`");
        Err(Error::NotFinite { step: step + 1, quantity, last_checkpoint: self.last_checkpoint.clone() })
    }

    fn update_dense(&mut self, id: UnitId, rate: f64, gradient: &mut [f32], scale: f32) {
        let Self { plan, kernel, values, states, .. } = self;
        let mut rest = gradient;
        for id in &plan.units[id].pieces {
            let piece = &plan.pieces[*id];
            let (own, others) = rest.split_at_mut(piece.layout.len());
            rest = others;
            let view = PieceView { piece, values: &mut values[*id], gradient: own, state: &mut states[*id] };
            update_piece(kernel, view, rate, scale);
        }
    }
}
