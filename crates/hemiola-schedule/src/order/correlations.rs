//! Couplings of coordinates, computed on demand and kept.
//!
//! A schedule asks for the correlation of the same columns again and again, as they are proposed together. There are too many pairs to compute them all, so each is computed
//! when it is first asked for. Where there is no more room, all are forgotten: what is asked for often is soon back.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt;

/// Pairs that are kept: 16 bytes each, so some 100 MB.
const ROOM: usize = 1 << 22;

/// A cache of a symmetric function of two coordinates.
pub struct Correlations<F> {
    of: F,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    pairs: FxHashMap<(u32, u32), f32>,
    computed: u64,
}

impl<F: Fn(usize, usize) -> f64> Correlations<F> {
    /// Keeps what `of` gives. It must be symmetric.
    pub fn new(of: F) -> Self {
        Self { of, known: Mutex::default() }
    }

    /// How much two coordinates are coupled.
    ///
    /// # Panics
    /// If a coordinate is above 2^32.
    pub fn between(&self, a: usize, b: usize) -> f64 {
        let pair = (narrow(a.min(b)), narrow(a.max(b)));
        if let Some(known) = self.known.lock().pairs.get(&pair) {
            return f64::from(*known);
        }
        // Nobody waits while it is computed; if two do it at a time, they find the same. Rounding up keeps promises about sums.
        let found = ((self.of)(pair.0 as usize, pair.1 as usize) as f32).next_up();
        let mut known = self.known.lock();
        if known.pairs.len() >= ROOM {
            known.pairs.clear();
        }
        known.pairs.insert(pair, found);
        known.computed += 1;
        f64::from(found)
    }

    /// How many were computed.
    pub fn computed(&self) -> u64 {
        self.known.lock().computed
    }
}

fn narrow(coordinate: usize) -> u32 {
    u32::try_from(coordinate).expect("a model has fewer than 2^32 coordinates")
}

impl<F> fmt::Debug for Correlations<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Correlations").field("known", &self.known.lock().pairs.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_computed_once_in_either_order() {
        let correlations = Correlations::new(|a, b| (a * 10 + b) as f64);
        let found = [correlations.between(3, 1), correlations.between(1, 3), correlations.between(1, 3)];
        assert!(found.iter().all(|found| (*found - 13.0).abs() < 1e-5), "{found:?}");
        assert_eq!(correlations.computed(), 1);
    }
}
