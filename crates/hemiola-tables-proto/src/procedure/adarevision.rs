//! `AdaRevision` (`McMahan` and Streeter 2014): `AdaGrad` that knows how late an update is, and revises what came between.
//!
//! State of each column: `G`, the sum of all gradients applied; `z` and its running maximum `z'`, both 1 at first. The step is
//! `a / sqrt(z')`. A gradient `g` computed from a copy of the row in which `G` was `G_old` has missed `b = G - G_old`:
//!
//! ```text
//! z += g² + 2 g b      z' = max(z', z)      value += -new_step g + (old_step - new_step) b      G += g
//! ```
//!
//! With no delay `b` is zero and this is `AdaGrad`. Where `G_old` comes from is the form:
//!
//! - [`AdaRevision::new`]: copies carry `G`, and an update brings back the `G` it was computed with. The server keeps nothing. Rows
//!   and updates are twice as long.
//! - [`AdaRevision::with_snapshots`]: the server keeps `G` of every version of a row that some client still has, until all have
//!   released it. While more than a bound of them are kept, copies that nobody waits for are not sent; those that go with clocks are
//!   bounded by the staleness.
//!
//! A worker that updates a row it has never read (version 0) has seen no gradient: `G_old` is zero.

use super::{Procedure, Provided, UnknownVersion, Update, View};
use crate::number::Real;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use std::fmt;

/// Steps that adapt to each column and to delay.
#[derive(Clone)]
pub struct AdaRevision<W> {
    step: f64,
    snapshots: Option<Snapshots<W>>,
}

/// How many copies are out, and `G`.
type Kept<W> = (u32, Box<[W]>);

#[derive(Clone)]
struct Snapshots<W> {
    bound: usize,
    /// By row and version.
    kept: HashMap<(u64, u64), Kept<W>, FxBuildHasher>,
}

impl<W> AdaRevision<W> {
    /// With this first step; clients carry the old sum of gradients.
    #[must_use]
    pub const fn new(step: f64) -> Self {
        Self { step, snapshots: None }
    }

    /// With this first step; the server keeps sums of gradients, and stops pushing early while it has more than `bound`.
    #[must_use]
    pub const fn with_snapshots(step: f64, bound: usize) -> Self {
        Self { step, snapshots: Some(Snapshots { bound, kept: HashMap::with_hasher(FxBuildHasher) }) }
    }

    /// How many versions the server keeps now.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.snapshots.as_ref().map_or(0, |snapshots| snapshots.kept.len())
    }
}

impl<W> fmt::Debug for AdaRevision<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AdaRevision")
            .field("step", &self.step)
            .field("kept", &self.kept())
            .finish_non_exhaustive()
    }
}

impl<W: Real> Procedure<W> for AdaRevision<W> {
    fn view(&self) -> View<W> {
        View::ReadOnly
    }

    fn state_width(&self, width: usize) -> usize {
        3 * width
    }

    fn carried<'a>(&self, state: &'a [W]) -> &'a [W] {
        if self.snapshots.is_some() { &[] } else { &state[..state.len() / 3] }
    }

    fn created(&self, _key: u64, row: &mut [W], state: &mut [W]) {
        state[row.len()..].fill(W::from_f64(1.0));
    }

    fn provided(&self) -> Option<Provided> {
        Some(Provided::AdaRevision {
            step: self.step,
            snapshots: self.snapshots.as_ref().map(|snapshots| snapshots.bound as u64),
        })
    }

    fn apply(&self, update: &Update<'_, W>, row: &mut [W], state: &mut [W]) -> Result<(), UnknownVersion> {
        let old: &[W] = match &self.snapshots {
            None => update.carried,
            Some(_) if update.version == 0 => &[],
            Some(snapshots) => &snapshots.kept.get(&(update.key, update.version)).ok_or(UnknownVersion)?.1,
        };
        let (sums, squares) = state.split_at_mut(row.len());
        let (z, maximum) = squares.split_at_mut(row.len());
        let step = W::from_f64(self.step);
        for (column, gradient) in update.cells.iter() {
            let missed = sums[column].minus(old.get(column).copied().unwrap_or(W::ZERO));
            let old_step = step.over(maximum[column].sqrt());
            let twice = gradient.plus(gradient);
            z[column] = z[column].plus(gradient.times(gradient)).plus(twice.times(missed));
            if z[column] > maximum[column] {
                maximum[column] = z[column];
            }
            let new_step = step.over(maximum[column].sqrt());
            let moved = row[column].minus(new_step.times(gradient));
            row[column] = moved.plus(old_step.minus(new_step).times(missed));
            sums[column] = sums[column].plus(gradient);
        }
        Ok(())
    }

    fn sent(&mut self, key: u64, version: u64, state: &[W]) {
        if let Some(snapshots) = self.snapshots.as_mut().filter(|_| version > 0) {
            let sums = || state[..state.len() / 3].into();
            snapshots.kept.entry((key, version)).or_insert_with(|| (0, sums())).0 += 1;
        }
    }

    fn released(&mut self, key: u64, version: u64, copies: u32) {
        let Some(snapshots) = &mut self.snapshots else { return };
        if let Some((out, _)) = snapshots.kept.get_mut(&(key, version)) {
            *out = out.saturating_sub(copies);
            if *out == 0 {
                snapshots.kept.remove(&(key, version));
            }
        }
    }

    fn wants_releases(&self) -> bool {
        self.snapshots.is_some()
    }

    fn may_send(&self) -> bool {
        self.snapshots.as_ref().is_none_or(|snapshots| snapshots.kept.len() < snapshots.bound)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::super::AdaGrad;
    use super::*;
    use crate::cells::Cells;

    fn gradient(at: u32) -> [f64; 2] {
        [f64::from(at).sin(), f64::from(at * 7).cos() * 2.0]
    }

    #[test]
    fn without_delay_it_is_adagrad_bit_for_bit() {
        let (mut revision, adagrad) = (AdaRevision::new(0.3), AdaGrad::new(0.3));
        let (mut row, mut state) = ([1.0_f64; 2], [0.0; 6]);
        let (mut plain, mut squares) = ([1.0_f64; 2], [0.0; 2]);
        revision.created(0, &mut row, &mut state);
        adagrad.created(0, &mut plain, &mut squares);
        for at in 0..100 {
            let cells = Cells::Dense(&gradient(at)).values().to_vec();
            let carried = revision.carried(&state).to_vec();
            let update = Update { key: 0, version: 0, cells: Cells::Dense(&cells), carried: &carried };
            revision.sent(0, 0, &state);
            revision.apply(&update, &mut row, &mut state).unwrap();
            adagrad.apply(&update, &mut plain, &mut squares).unwrap();
            assert_eq!(row.map(f64::to_bits), plain.map(f64::to_bits), "after {at}");
        }
    }

    /// Both forms and the plain formula over the same late gradients.
    #[test]
    fn with_delay_both_forms_equal_the_plain_formula() {
        const DELAY: usize = 3;
        let (carrying, mut keeping) = (AdaRevision::new(0.3), AdaRevision::with_snapshots(0.3, 10));
        let (mut row, mut state) = ([1.0_f64; 2], [0.0; 6]);
        carrying.created(0, &mut row, &mut state);
        let (mut other_row, mut other_state) = (row, state);
        let (mut x, mut sum, mut z, mut top) = ([1.0_f64; 2], [0.0_f64; 2], [1.0_f64; 2], [1.0_f64; 2]);
        let mut history = vec![sum];
        for at in 0..60_usize {
            let seen = at.saturating_sub(DELAY);
            let g = gradient(at as u32);
            let update = Update { key: 5, version: seen as u64, cells: Cells::Dense(&g), carried: &history[seen] };
            carrying.apply(&update, &mut row, &mut state).unwrap();
            keeping.apply(&Update { carried: &[], ..update }, &mut other_row, &mut other_state).unwrap();
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
            keeping.sent(5, at as u64 + 1, &other_state);
            if seen > 0 {
                keeping.released(5, seen as u64, 1);
            }
        }
        assert_eq!(keeping.kept(), DELAY + 1, "those that may still be used");
        assert!(keeping.may_send());
        (100..110).for_each(|version| keeping.sent(5, version, &other_state));
        assert!(!keeping.may_send());
        let lost = Update { key: 5, version: 2, cells: Cells::Dense(&[1.0, 1.0]), carried: &[] };
        assert_eq!(keeping.apply(&lost, &mut other_row, &mut other_state), Err(UnknownVersion));
    }
}
