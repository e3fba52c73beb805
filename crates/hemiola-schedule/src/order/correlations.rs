//! Cache of the couplings between coordinates.
//!
//! A schedule requests the correlation of the same columns again and again, because they are
//! proposed together. There are too many pairs to compute all of them, so each is computed on first
//! use. A full cache is cleared completely: frequent pairs are soon back.

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::fmt;

/// Largest number of cached pairs. At 12 bytes a pair, and with the free slots of the hash table,
/// the cache takes about 100 MB.
const MAX_PAIRS: usize = 1 << 22;

/// Cache of a symmetric function of two coordinates.
pub struct CorrelationCache<F> {
    function: F,
    cached: Mutex<CachedPairs>,
}

#[derive(Default)]
struct CachedPairs {
    pairs: FxHashMap<(u32, u32), f32>,
    computed: u64,
}

impl<F: Fn(usize, usize) -> f64> CorrelationCache<F> {
    /// Creates an empty cache of `function`, which must be symmetric.
    pub fn new(function: F) -> Self {
        Self { function, cached: Mutex::default() }
    }

    /// Returns the coupling of two coordinates.
    ///
    /// # Panics
    /// If a coordinate is above 2^32.
    pub fn between(&self, a: usize, b: usize) -> f64 {
        let pair = (narrow(a.min(b)), narrow(a.max(b)));
        if let Some(cached) = self.cached.lock().pairs.get(&pair) {
            return f64::from(*cached);
        }
        // The lock is not held during the computation; two threads that compute one pair find the
        // same value. Rounding up keeps upper bounds on sums valid.
        let found = ((self.function)(pair.0 as usize, pair.1 as usize) as f32).next_up();
        let mut cached = self.cached.lock();
        if cached.pairs.len() >= MAX_PAIRS {
            cached.pairs.clear();
        }
        cached.pairs.insert(pair, found);
        cached.computed += 1;
        f64::from(found)
    }

    /// Number of pairs computed so far.
    pub fn computed(&self) -> u64 {
        self.cached.lock().computed
    }
}

fn narrow(coordinate: usize) -> u32 {
    u32::try_from(coordinate).expect("a model has fewer than 2^32 coordinates")
}

impl<F> fmt::Debug for CorrelationCache<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Correlations").field("cached", &self.cached.lock().pairs.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_computed_once_in_either_order() {
        let correlations = CorrelationCache::new(|a, b| (a * 10 + b) as f64);
        let found = [correlations.between(3, 1), correlations.between(1, 3), correlations.between(1, 3)];
        assert!(found.iter().all(|found| (*found - 13.0).abs() < 1e-5), "{found:?}");
        assert_eq!(correlations.computed(), 1);
    }
}
