//! [`AdaRevision`] as a server-side rule, in two forms.
//!
//! A gradient `g` computed from a copy of the row in which the gradient sum was `G_old` has missed
//! the gradients applied since. The two forms differ in the source of `G_old`:
//!
//! - [`AdaRevision`]: copies carry `G` as their attachment, and an update returns the `G` it was
//!   computed with. The server keeps no history. Rows and updates are twice as long.
//! - [`SnapshotAdaRevision`]: the server keeps `G` of every version that some client still holds,
//!   until all copies are released. While more than a bound of them are kept, no row is sent
//!   eagerly. Copies sent at clocks are bounded by the staleness.
//!
//! A worker that updates a row which it has never read (version 0) has seen no gradient: `G_old` is
//! zero. State of a row, in both forms: `G`, `z` and `z'` of all columns ([`RevisionState`]).

use super::{BuiltInRule, LocalApply, RowUpdate, UnknownVersion, UpdateRule};
use crate::cells::RowCells;
use crate::dtype::ComputeType;
use hashbrown::HashMap;
use hemiola_optim::{AdaRevision, Float, RevisionState};
use rustc_hash::FxBuildHasher;
use std::fmt;

/// Gradient sums at the front of a row's state.
fn gradient_sums<W>(state: &[W]) -> &[W] {
    &state[..state.len() / 3]
}

/// Applies an update that was computed when the gradient sums were `old`.
fn revise<W: Float>(rule: AdaRevision, cells: RowCells<'_, W>, old: &[W], row: &mut [W], state: &mut [W]) {
    let mut state = RevisionState::split(state);
    match cells {
        RowCells::Dense(gradient) => rule.update(row, gradient, old, &mut state),
        RowCells::Sparse { .. } => {
            for (column, gradient) in cells.iter() {
                let old_sum = old.get(column).copied().unwrap_or_else(|| Float::from_f64(0.0));
                rule.update_at(row, column, (gradient, old_sum), &mut state);
            }
        }
    }
}

impl<W: ComputeType + Float> UpdateRule<W> for AdaRevision {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::Never
    }

    fn state_width(&self, width: usize) -> usize {
        3 * width
    }

    fn attachment<'a>(&self, state: &'a [W]) -> &'a [W] {
        gradient_sums(state)
    }

    fn init_row(&self, _key: u64, _row: &mut [W], state: &mut [W]) {
        RevisionState::split(state).reset();
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::AdaRevision(*self))
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        revise(*self, update.cells, update.attachment, row, state);
        Ok(())
    }
}

/// `AdaRevision` with gradient sums that the server keeps for each version in use.
#[derive(Clone)]
pub struct SnapshotAdaRevision<W> {
    rule: AdaRevision,
    bound: usize,
    /// Snapshots by row and version.
    kept: HashMap<(u64, u64), GradientSnapshot<W>, FxBuildHasher>,
}

/// Number of copies held by clients, and `G`.
type GradientSnapshot<W> = (u32, Box<[W]>);

impl<W> SnapshotAdaRevision<W> {
    /// Creates the rule with this initial learning rate. The server stops eager pushes while it
    /// keeps `bound` versions or more.
    #[must_use]
    pub const fn new(learning_rate: f64, bound: usize) -> Self {
        Self { rule: AdaRevision::new(learning_rate), bound, kept: HashMap::with_hasher(FxBuildHasher) }
    }

    /// Number of versions that the server keeps now.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.kept.len()
    }
}

impl<W> fmt::Debug for SnapshotAdaRevision<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SnapshotAdaRevision")
            .field("learning_rate", &self.rule.learning_rate)
            .field("bound", &self.bound)
            .field("kept", &self.kept())
            .finish_non_exhaustive()
    }
}

impl<W: ComputeType + Float> UpdateRule<W> for SnapshotAdaRevision<W> {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::Never
    }

    fn state_width(&self, width: usize) -> usize {
        UpdateRule::<W>::state_width(&self.rule, width)
    }

    fn init_row(&self, key: u64, row: &mut [W], state: &mut [W]) {
        self.rule.init_row(key, row, state);
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::SnapshotAdaRevision { learning_rate: self.rule.learning_rate, bound: self.bound as u64 })
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        let old: &[W] = if update.version == 0 {
            &[]
        } else {
            &self.kept.get(&(update.key, update.version)).ok_or(UnknownVersion)?.1
        };
        revise(self.rule, update.cells, old, row, state);
        Ok(())
    }

    fn on_send(&mut self, key: u64, version: u64, state: &[W]) {
        if version > 0 {
            self.kept.entry((key, version)).or_insert_with(|| (0, gradient_sums(state).into())).0 += 1;
        }
    }

    fn on_release(&mut self, key: u64, version: u64, copies: u32) {
        if let Some((out, _)) = self.kept.get_mut(&(key, version)) {
            *out = out.saturating_sub(copies);
            if *out == 0 {
                self.kept.remove(&(key, version));
            }
        }
    }

    fn tracks_copies(&self) -> bool {
        true
    }

    fn allows_eager_send(&self) -> bool {
        self.kept.len() < self.bound
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;
    use hemiola_optim::AdaGrad;

    fn gradient(at: u32) -> [f64; 2] {
        [f64::from(at).sin(), f64::from(at * 7).cos() * 2.0]
    }

    #[test]
    fn without_delay_it_is_adagrad_bit_for_bit() {
        let (revision, adagrad) = (AdaRevision::new(0.3), AdaGrad::new(0.3));
        let (mut row, mut state) = ([1.0_f64; 2], [0.0; 6]);
        let (mut plain, mut squares) = ([1.0_f64; 2], [0.0; 2]);
        revision.init_row(0, &mut row, &mut state);
        adagrad.init_row(0, &mut plain, &mut squares);
        for at in 0..100 {
            let cells = RowCells::Dense(&gradient(at)).values().to_vec();
            let attachment = revision.attachment(&state).to_vec();
            let update = RowUpdate { key: 0, version: 0, cells: RowCells::Dense(&cells), attachment: &attachment };
            revision.apply(&update, &mut row, &mut state).unwrap();
            adagrad.apply(&update, &mut plain, &mut squares).unwrap();
            assert_eq!(row.map(f64::to_bits), plain.map(f64::to_bits), "after {at}");
        }
    }

    /// Both forms and the plain formula over the same delayed gradients.
    #[test]
    fn with_delay_both_forms_equal_the_plain_formula() {
        const DELAY: usize = 3;
        let (carrying, mut keeping) = (AdaRevision::new(0.3), SnapshotAdaRevision::new(0.3, 10));
        let (mut row, mut state) = ([1.0_f64; 2], [0.0; 6]);
        carrying.init_row(0, &mut row, &mut state);
        let (mut other_row, mut other_state) = (row, state);
        let (mut x, mut sum, mut z, mut top) = ([1.0_f64; 2], [0.0_f64; 2], [1.0_f64; 2], [1.0_f64; 2]);
        let mut history = vec![sum];
        for at in 0..60_usize {
            let seen = at.saturating_sub(DELAY);
            let g = gradient(at as u32);
            let update =
                RowUpdate { key: 5, version: seen as u64, cells: RowCells::Dense(&g), attachment: &history[seen] };
            carrying.apply(&update, &mut row, &mut state).unwrap();
            keeping.apply(&RowUpdate { attachment: &[], ..update }, &mut other_row, &mut other_state).unwrap();
            for k in 0..2 {
                let b = sum[k] - history[seen][k];
                let old = 0.3 / top[k].sqrt();
                z[k] += g[k] * g[k] + 2.0 * g[k] * b;
                top[k] = top[k].max(z[k]);
                let new = 0.3 / top[k].sqrt();
                x[k] += -new * g[k] + (old - new) * b;
                sum[k] += g[k];
            }
            history.push(sum);
            assert_eq!(row, other_row);
            assert!(row.iter().zip(x).all(|(a, b)| (a - b).abs() < 1e-12), "{row:?} {x:?}");
            keeping.on_send(5, at as u64 + 1, &other_state);
            if seen > 0 {
                keeping.on_release(5, seen as u64, 1);
            }
        }
        assert_eq!(keeping.kept(), DELAY + 1, "versions that may still be used");
        assert!(keeping.allows_eager_send());
        (100..110).for_each(|version| keeping.on_send(5, version, &other_state));
        assert!(!keeping.allows_eager_send());
        let lost = RowUpdate { key: 5, version: 2, cells: RowCells::Dense(&[1.0, 1.0]), attachment: &[] };
        assert_eq!(keeping.apply(&lost, &mut other_row, &mut other_state), Err(UnknownVersion));
    }
}
