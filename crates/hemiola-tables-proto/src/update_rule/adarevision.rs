//! `AdaRevision` (`McMahan` and Streeter 2014): delay-tolerant `AdaGrad` that revises the steps
//! taken meanwhile.
//!
//! State of each column: `G`, the sum of all applied gradients; `z` and its running maximum `z'`,
//! both 1 at first. The step is `a / sqrt(z')`. A gradient `g` computed from a copy of the row in
//! which `G` was `G_old` has missed `b = G - G_old`:
//!
//! ```text
//! z += g² + 2 g b      z' = max(z', z)      value += -new_step g + (old_step - new_step) b      G += g
//! ```
//!
//! With no delay `b` is zero and the rule is `AdaGrad`. The two forms differ in the source of
//! `G_old`:
//!
//! - [`AdaRevision::new`]: copies carry `G` as their attachment, and an update returns the `G` it
//!   was computed with. The server keeps no history. Rows and updates are twice as long.
//! - [`AdaRevision::with_snapshots`]: the server keeps `G` of every version that some client still
//!   holds, until all copies are released. While more than a bound of them are kept, no row is sent
//!   eagerly. Copies sent at clocks are bounded by the staleness.
//!
//! A worker that updates a row which it has never read (version 0) has seen no gradient: `G_old` is
//! zero.

use super::{BuiltInRule, LocalApply, RowUpdate, UnknownVersion, UpdateRule};
use crate::dtype::FloatType;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::fmt;

/// `AdaRevision` update rule with a learning rate per column that accounts for delay.
#[derive(Clone)]
pub struct AdaRevision<W> {
    learning_rate: f64,
    snapshots: Option<GradientSnapshots<W>>,
}

/// Number of copies held by clients, and `G`.
type GradientSnapshot<W> = (u32, Box<[W]>);

#[derive(Clone)]
struct GradientSnapshots<W> {
    bound: usize,
    /// Snapshots by row and version.
    kept: HashMap<(u64, u64), GradientSnapshot<W>, FxBuildHasher>,
}

impl<W> AdaRevision<W> {
    /// Creates the rule with this initial learning rate; updates carry the old gradient sum as
    /// attachment.
    #[must_use]
    pub const fn new(learning_rate: f64) -> Self {
        Self { learning_rate, snapshots: None }
    }

    /// Creates the rule with this initial learning rate; the server keeps gradient sums and stops
    /// eager pushes while it has more than `bound`.
    #[must_use]
    pub const fn with_snapshots(learning_rate: f64, bound: usize) -> Self {
        Self { learning_rate, snapshots: Some(GradientSnapshots { bound, kept: HashMap::with_hasher(FxBuildHasher) }) }
    }

    /// Number of versions that the server keeps now.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.snapshots.as_ref().map_or(0, |snapshots| snapshots.kept.len())
    }
}

impl<W> fmt::Debug for AdaRevision<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AdaRevision")
            .field("learning_rate", &self.learning_rate)
            .field("kept", &self.kept())
            .finish_non_exhaustive()
    }
}

impl<W: FloatType> UpdateRule<W> for AdaRevision<W> {
    fn local_apply(&self) -> LocalApply<W> {
        LocalApply::Never
    }

    fn state_width(&self, width: usize) -> usize {
        3 * width
    }

    fn attachment<'a>(&self, state: &'a [W]) -> &'a [W] {
        if self.snapshots.is_some() { &[] } else { &state[..state.len() / 3] }
    }

    fn init_row(&self, _key: u64, row: &mut [W], state: &mut [W]) {
        state[row.len()..].fill(W::from_f64(1.0));
    }

    fn built_in(&self) -> Option<BuiltInRule> {
        Some(BuiltInRule::AdaRevision {
            learning_rate: self.learning_rate,
            snapshots: self.snapshots.as_ref().map(|snapshots| snapshots.bound as u64),
        })
    }

    fn apply(&self, update: &RowUpdate<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        let old: &[W] = match &self.snapshots {
            None => update.attachment,
            Some(_) if update.version == 0 => &[],
            Some(snapshots) => &snapshots.kept.get(&(update.key, update.version)).ok_or(UnknownVersion)?.1,
        };
        let (sums, squares) = state.split_at_mut(row.len());
        let (z, maximum) = squares.split_at_mut(row.len());
        let learning_rate = W::from_f64(self.learning_rate);
        for (column, gradient) in update.cells.iter() {
            let missed = sums[column].minus(old.get(column).copied().unwrap_or(W::ZERO));
            let old_step = learning_rate.divided_by(maximum[column].sqrt());
            let twice = gradient.plus(gradient);
            z[column] = z[column].plus(gradient.times(gradient)).plus(twice.times(missed));
            if z[column] > maximum[column] {
                maximum[column] = z[column];
            }
            let new_step = learning_rate.divided_by(maximum[column].sqrt());
            let moved = row[column].minus(new_step.times(gradient));
            row[column] = moved.plus(old_step.minus(new_step).times(missed));
            sums[column] = sums[column].plus(gradient);
        }
        Ok(())
    }

    fn on_send(&mut self, key: u64, version: u64, state: &[W]) {
        if let Some(snapshots) = self.snapshots.as_mut().filter(|_| version > 0) {
            let sums = || state[..state.len() / 3].into();
            snapshots.kept.entry((key, version)).or_insert_with(|| (0, sums())).0 += 1;
        }
    }

    fn on_release(&mut self, key: u64, version: u64, copies: u32) {
        let Some(snapshots) = &mut self.snapshots else { return };
        if let Some((out, _)) = snapshots.kept.get_mut(&(key, version)) {
            *out = out.saturating_sub(copies);
            if *out == 0 {
                snapshots.kept.remove(&(key, version));
            }
        }
    }

    fn tracks_copies(&self) -> bool {
        self.snapshots.is_some()
    }

    fn allows_eager_send(&self) -> bool {
        self.snapshots.as_ref().is_none_or(|snapshots| snapshots.kept.len() < snapshots.bound)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::super::AdaGrad;
    use super::*;
    use crate::cells::RowCells;

    fn gradient(at: u32) -> [f64; 2] {
        [f64::from(at).sin(), f64::from(at * 7).cos() * 2.0]
    }

    #[test]
    fn without_delay_it_is_adagrad_bit_for_bit() {
        let (mut revision, adagrad) = (AdaRevision::new(0.3), AdaGrad::new(0.3));
        let (mut row, mut state) = ([1.0_f64; 2], [0.0; 6]);
        let (mut plain, mut squares) = ([1.0_f64; 2], [0.0; 2]);
        revision.init_row(0, &mut row, &mut state);
        adagrad.init_row(0, &mut plain, &mut squares);
        for at in 0..100 {
            let cells = RowCells::Dense(&gradient(at)).values().to_vec();
            let attachment = revision.attachment(&state).to_vec();
            let update = RowUpdate { key: 0, version: 0, cells: RowCells::Dense(&cells), attachment: &attachment };
            revision.on_send(0, 0, &state);
            revision.apply(&update, &mut row, &mut state).unwrap();
            adagrad.apply(&update, &mut plain, &mut squares).unwrap();
            assert_eq!(row.map(f64::to_bits), plain.map(f64::to_bits), "after {at}");
        }
    }

    /// Both forms and the plain formula over the same delayed gradients.
    #[test]
    fn with_delay_both_forms_equal_the_plain_formula() {
        const DELAY: usize = 3;
        let (carrying, mut keeping) = (AdaRevision::new(0.3), AdaRevision::with_snapshots(0.3, 10));
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
