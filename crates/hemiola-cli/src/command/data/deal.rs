//! Dealing numbered pieces of work to the workers of this machine.
//!
//! Workers take the next piece when they are free, so uneven pieces do not leave one worker behind. **Invariant:** results
//! come back in the order of the pieces, and if pieces fail, the error of the first one is returned: pieces are handed out
//! in order and none is left out before a failed one. What a worker adds up in its own state must not depend on the order.

use hemiola_cluster::{Cluster, ClusterBuilder};
use hemiola_core::{ClusterEvent, Observer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of text in a piece: fixed, so that sums of floats do not depend on the number of workers.
pub(super) const PIECE: u64 = 4 << 20;

/// A cluster of this process alone, with a worker per core unless told otherwise.
pub(super) fn here(workers: Option<u32>) -> ClusterBuilder {
    let builder = Cluster::builder().observer(Arc::new(SilentProgress));
    match workers {
        Some(workers) => builder.workers(workers as usize),
        None => builder,
    }
}

/// A long pass over a file is no stall that anyone needs to hear of.
#[derive(Debug)]
struct SilentProgress;

impl Observer for SilentProgress {
    fn observe(&self, _event: &ClusterEvent) {}
}

/// Runs `work` for every piece. Returns the states of the workers that did anything, and the results by piece.
pub(super) fn deal<S: Send, T: Send>(
    cluster: &Cluster,
    pieces: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> hemiola_array::Result<T> + Sync,
) -> anyhow::Result<(Vec<S>, Vec<T>)> {
    // Relaxed: the numbers alone matter; results are handed over by the end of `each_worker`.
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(usize::MAX);
    let workers = cluster.each_worker(|_worker| {
        let mut state = state();
        let mut done = Vec::new();
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= pieces || piece > failed.load(Ordering::Relaxed) {
                return (state, done);
            }
            let result = work(&mut state, piece);
            if result.is_err() {
                failed.fetch_min(piece, Ordering::Relaxed);
            }
            done.push((piece, result));
        }
    })?;
    let mut states = Vec::new();
    let mut results = Vec::new();
    for (state, done) in workers {
        states.push(state);
        results.extend(done);
    }
    results.sort_unstable_by_key(|(piece, _)| *piece);
    let results = results.into_iter().map(|(_, result)| result).collect::<hemiola_array::Result<Vec<T>>>()?;
    Ok((states, results))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_first_error_wins() {
        let run = |bad: &'static [usize]| {
            here(Some(3)).run(|cluster| {
                deal(
                    cluster,
                    100,
                    || 0,
                    |sum, piece| {
                        *sum += piece;
                        let pattern = format!("{piece}");
                        if bad.contains(&piece) { Err(hemiola_array::Error::NoFiles { pattern }) } else { Ok(piece) }
                    },
                )
            })
        };
        let (sums, results) = run(&[]).unwrap();
        assert_eq!((sums.iter().sum::<usize>(), results), (4950, (0..100).collect()));
        assert!(run(&[50, 7, 99]).unwrap_err().to_string().starts_with("`7` matches no file"));
    }
}
