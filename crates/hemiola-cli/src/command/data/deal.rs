//! Dynamic distribution of numbered pieces of work to the workers of this machine.
//!
//! A worker takes the next piece when it is free, which balances uneven pieces. **Invariant:**
//! results come back in the order of the pieces, and if pieces fail, the error of the first one is
//! returned: pieces are taken in order, and none before a failed one is skipped. The state that a
//! worker accumulates must not depend on the order.

use hemiola_cluster::{Cluster, ClusterBuilder};
use hemiola_core::{ClusterEvent, Observer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of text per piece. Fixed, so that float sums do not depend on the number of workers.
pub(super) const PIECE: u64 = 4 << 20;

/// Returns a single-process cluster, by default with a worker per core.
pub(super) fn local_cluster(workers: Option<u32>) -> ClusterBuilder {
    let builder = Cluster::builder().observer(Arc::new(SilentProgress));
    match workers {
        Some(workers) => builder.workers(workers as usize),
        None => builder,
    }
}

/// Observer that reports nothing: a long pass over a file is not a stall.
#[derive(Debug)]
struct SilentProgress;

impl Observer for SilentProgress {
    fn observe(&self, _event: &ClusterEvent) {}
}

/// Runs `work` for every piece. Returns the states of the workers, and the results in the order of
/// the pieces.
pub(super) fn deal<S: Send, T: Send>(
    cluster: &Cluster,
    pieces: usize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, usize) -> hemiola_array::Result<T> + Sync,
) -> anyhow::Result<(Vec<S>, Vec<T>)> {
    // Relaxed: only the numbers matter; `each_worker` synchronizes the results.
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
    fn results_are_in_order_and_the_first_error_is_returned() {
        let run = |bad: &'static [usize]| {
            local_cluster(Some(3)).run(|cluster| {
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
