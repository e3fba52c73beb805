//! Serial training: all peers' gradients in one loop, summed in the documented order of the
//! collective that the strategy names. A distributed training must give these bits.

use super::serial_sums;
use crate::actors::sync::{BatchTotals, SimulatedModel};
use crate::workload::synthetic_model::{MomentumKernel, SyntheticModel};
use hemiola_sync_proto::row_key::{KEY_LEN, row_of};
use hemiola_sync_proto::{
    GradientPayload, PieceId, SyncMethod, SyncPlan, SyncUnit, UpdateKernel as _, VariableId, VariablePiece,
};
use std::collections::BTreeMap;

/// Values and losses of a serial training.
pub(super) struct SerialTraining<'a> {
    plan: &'a SyncPlan,
    /// Maximum global norm of the gradient, if it is clipped.
    max_norm: Option<f64>,
    /// Values of each variable.
    pub(super) values: Vec<Vec<f32>>,
    /// Values and velocities of each piece.
    pieces: Vec<Vec<f32>>,
    velocities: Vec<Vec<f32>>,
    /// Mean loss over all peers, by step.
    pub(super) losses: Vec<f64>,
}

/// Gradient of a unit, summed over all peers.
enum UnitSum {
    Dense(Vec<f32>),
    Rows(BTreeMap<usize, Vec<f32>>),
}

fn squares<'a>(numbers: impl IntoIterator<Item = &'a f32>) -> f64 {
    numbers.into_iter().map(|number| f64::from(*number).powi(2)).sum()
}

fn add_rows(sums: &mut BTreeMap<usize, Vec<f32>>, rows: impl IntoIterator<Item = (usize, Vec<f32>)>) {
    for (row, numbers) in rows {
        match sums.get_mut(&row) {
            Some(sum) => sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number),
            None => drop(sums.insert(row, numbers)),
        }
    }
}

impl<'a> SerialTraining<'a> {
    pub(super) fn new(plan: &'a SyncPlan, max_norm: Option<f64>, values: Vec<Vec<f32>>) -> Self {
        let pieces = plan.gather_values(&values);
        let velocities = vec![Vec::new(); pieces.len()];
        Self { plan, max_norm, values, pieces, velocities, losses: Vec::new() }
    }

    /// Trains one step with the models of all peers.
    pub(super) fn step(&mut self, step: u64, models: &mut [SyntheticModel]) {
        let plan = self.plan;
        let totals: Vec<BatchTotals> = models.iter_mut().map(|model| model.forward(step, &self.values)).collect();
        let counts: Vec<f64> = totals.iter().map(|totals| totals.examples as f64).collect();
        let losses = totals.iter().map(|BatchTotals { examples, loss, .. }| match examples {
            0 => 0.0,
            _ => loss * *examples as f64,
        });
        let losses: Vec<f64> = losses.collect();
        let examples = serial_sums::halving(&counts);
        self.losses.push(serial_sums::halving(&losses) / examples);
        let of_peer = |model: &mut SyntheticModel| -> Vec<GradientPayload> {
            let gradient = |index: usize| {
                let variable = VariableId::new(index);
                model.gradient(step, variable, plan.structured[variable], &self.values)
            };
            (0..plan.model.variables.len()).map(gradient).collect()
        };
        let gradients: Vec<Vec<GradientPayload>> = models.iter_mut().map(of_peer).collect();
        let sums: Vec<UnitSum> = plan.units.iter().map(|unit| self.sum(unit, &gradients)).collect();
        let mut scale = 1.0 / examples;
        if let Some(most) = self.max_norm {
            let norm = self.norm(&sums, scale, models.len());
            scale *= if norm > most { most / norm } else { 1.0 };
        }
        for (unit, sum) in plan.units.iter().zip(sums) {
            self.apply(unit, sum, totals[0].rate, scale as f32);
        }
        for (piece, values) in plan.pieces.iter().zip(&self.pieces) {
            piece.layout.scatter(values, &mut self.values[piece.variable]);
        }
    }

    fn piece(&self, piece: PieceId) -> &'a VariablePiece {
        &self.plan.pieces[piece]
    }

    /// Sums the gradients of a unit over all peers.
    fn sum(&self, unit: &SyncUnit, gradients: &[Vec<GradientPayload>]) -> UnitSum {
        let first = self.piece(unit.pieces[0]);
        match &unit.method {
            SyncMethod::AllReduce { algorithm, route: None } => {
                UnitSum::Dense(serial_sums::all_reduce(*algorithm, &self.dense(unit, gradients)))
            }
            SyncMethod::AllReduce { algorithm, route: Some(route) } => {
                UnitSum::Dense(serial_sums::routed_all_reduce(*algorithm, route, &self.dense(unit, gradients)))
            }
            SyncMethod::ParameterServer { owner, route: Some(route), .. } => {
                UnitSum::Dense(serial_sums::routed_reduce(*owner, route, &self.dense(unit, gradients)))
            }
            SyncMethod::ParameterServer { owner, .. } | SyncMethod::Table { owner, .. } => {
                UnitSum::Dense(serial_sums::reduce(owner.index(), &self.dense(unit, gradients)))
            }
            SyncMethod::SufficientFactors => {
                let pairs: Vec<f32> = gradients.iter().flat_map(|peer| structured(unit, peer)).copied().collect();
                UnitSum::Dense(MomentumKernel.multiply_factors(pairs, (first.rows, first.width)))
            }
            SyncMethod::ServedRows { .. } => {
                let mut sums = BTreeMap::new();
                for peer in gradients {
                    let rows = structured(unit, peer).chunks(KEY_LEN + first.width);
                    let mut own = BTreeMap::new();
                    add_rows(&mut own, rows.map(|row| (row_of([row[0], row[1]]), row[KEY_LEN..].to_vec())));
                    add_rows(&mut sums, own);
                }
                sums.retain(|_, numbers| numbers.iter().any(|number| *number != 0.0));
                UnitSum::Rows(sums)
            }
            SyncMethod::Gossip { .. } => UnitSum::Dense(Vec::new()),
        }
    }

    /// Returns the gradients of a unit's pieces, concatenated, by peer.
    fn dense(&self, unit: &SyncUnit, gradients: &[Vec<GradientPayload>]) -> Vec<Vec<f32>> {
        let of_peer = |peer: &Vec<GradientPayload>| {
            let mut numbers = Vec::new();
            for piece in unit.pieces.iter().map(|piece| self.piece(*piece)) {
                match &peer[piece.variable] {
                    GradientPayload::Dense(whole) => piece.layout.gather(whole, &mut numbers),
                    _ => numbers.resize(numbers.len() + piece.layout.len(), 0.0),
                }
            }
            numbers
        };
        gradients.iter().map(of_peer).collect()
    }

    /// Returns the global norm: every peer sums the squares of the gradients that it counts.
    fn norm(&self, sums: &[UnitSum], scale: f64, peers: usize) -> f64 {
        let counted = |unit: &SyncUnit, sum: &UnitSum, peer: usize| match (sum, &unit.method) {
            (UnitSum::Rows(rows), SyncMethod::ServedRows { owners }) => {
                let owned = rows.iter().filter(|(row, _)| owners[**row % owners.len()].index() == peer);
                squares(owned.flat_map(|(_, numbers)| numbers))
            }
            (UnitSum::Dense(numbers), SyncMethod::ParameterServer { owner, .. }) if owner.index() == peer => {
                squares(numbers)
            }
            (UnitSum::Dense(numbers), SyncMethod::AllReduce { .. } | SyncMethod::SufficientFactors)
                if peer == unit.first_updater().index() =>
            {
                squares(numbers)
            }
            _ => 0.0,
        };
        let of_peer = |peer: usize| -> f64 {
            let units = self.plan.units.iter().zip(sums);
            units.map(|(unit, sum)| counted(unit, sum, peer) * scale * scale).sum()
        };
        let squares: Vec<f64> = (0..peers).map(of_peer).collect();
        serial_sums::halving(&squares).sqrt()
    }

    fn apply(&mut self, unit: &SyncUnit, sum: UnitSum, rate: f64, scale: f32) {
        match sum {
            UnitSum::Rows(rows) => {
                let (touched, numbers): (Vec<usize>, Vec<Vec<f32>>) = rows.into_iter().unzip();
                self.update_rows(unit.pieces[0], &touched, &mut numbers.concat(), (rate, scale));
            }
            UnitSum::Dense(mut numbers) => {
                let mut rest = &mut numbers[..];
                for &id in &unit.pieces {
                    let piece = self.piece(id);
                    let (own, others) = rest.split_at_mut(piece.layout.len());
                    rest = others;
                    if piece.row_wise {
                        let rows = own.chunks(piece.width).enumerate();
                        let touched = rows.filter(|(_, row)| row.iter().any(|number| *number != 0.0));
                        let (rows, numbers): (Vec<usize>, Vec<&[f32]>) = touched.unzip();
                        self.update_rows(id, &rows, &mut numbers.concat(), (rate, scale));
                    } else {
                        let (values, velocity) = (&mut self.pieces[id], &mut self.velocities[id]);
                        MomentumKernel.update(rate, values, own, scale, velocity);
                    }
                }
            }
        }
    }

    fn update_rows(&mut self, id: PieceId, rows: &[usize], numbers: &mut [f32], (rate, scale): (f64, f32)) {
        let width = self.piece(id).width;
        let (values, velocity) = (&mut self.pieces[id], &mut self.velocities[id]);
        MomentumKernel.update_rows(rate, values, (rows, numbers, width), scale, velocity);
    }
}

/// Structured gradient of a unit on one peer; empty if the peer has none.
fn structured<'a>(unit: &SyncUnit, peer: &'a [GradientPayload]) -> &'a [f32] {
    match &peer[unit.variables[0]] {
        GradientPayload::Structured(parts) => parts,
        _ => &[],
    }
}
