//! Pool of jobs of one peer: each runs once, on one of its workers.
//!
//! Jobs are assigned before the start, the heaviest first, each to the worker with the smallest
//! load ([`assign_jobs`]). Every worker has its own queue, also the heaviest first. Nothing is
//! shared while the jobs run, and the assignment follows from the weights alone. If the weights are
//! close to the run times, the load is as balanced as with a common queue, without its lock and
//! with reproducible results.

use crate::error::Error;
use crate::plan::assignment::{JobAssignment, assign_jobs};
use hemiola_cluster::{Cluster, Result, panic_message};
use parking_lot::Mutex;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs every job once on the workers of this peer. `own` has a state for each worker, `weights` a
/// weight for each job.
///
/// ```
/// use hemiola_schedule::{JobAssignment, pool};
///
/// hemiola_cluster::standalone(1).workers(2).run(|cluster| {
///     let mut words = vec!["a", "longer", "than", "all"];
///     let weights: Vec<u64> = words.iter().map(|word| word.len() as u64).collect();
///     let mut letters = [0; 2];
///     let count = |word: &mut &str, letters: &mut usize| *letters += word.len();
///     pool::run(cluster, &mut words, &weights, JobAssignment::HeaviestFirst, &mut letters, count)?;
///     assert_eq!(letters, [7, 7]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
///
/// # Panics
/// If `weights` does not have one element per job, or `own` one per worker.
pub fn run<J: Send + fmt::Debug, O: Send>(
    cluster: &Cluster,
    jobs: &mut [J],
    weights: &[u64],
    how: JobAssignment,
    own: &mut [O],
    work: impl Fn(&mut J, &mut O) + Sync,
) -> Result<()> {
    assert_eq!(jobs.len(), weights.len(), "`weights` needs one weight per job");
    assert_eq!(own.len(), cluster.workers(), "`own` needs one state per worker");
    let mut jobs: Vec<Option<&mut J>> = jobs.iter_mut().map(Some).collect();
    let mut queue = |hand: Vec<usize>| hand.into_iter().filter_map(|job| jobs[job].take()).collect::<Vec<_>>();
    let queues =
        assign_jobs(how, weights, own.len()).into_iter().map(&mut queue).zip(own).map(|queue| Mutex::new(Some(queue)));
    let queues: Vec<_> = queues.collect();
    let failed = cluster.each_worker(|worker| {
        let (mut queue, own) = queues[worker.index()].lock().take()?;
        let mut at = 0;
        let done = catch_unwind(AssertUnwindSafe(|| {
            for job in &mut queue {
                work(job, own);
                at += 1;
            }
        }));
        done.err()
            .map(|panic| (queue.get(at).map(|job| format!("{job:?}")).unwrap_or_default(), panic_message(&*panic)))
    })?;
    match failed.into_iter().flatten().next() {
        None => Ok(()),
        Some((job, message)) => Err(Error::JobPanicked { job, round: 0, rank: cluster.rank(), message }.into()),
    }
}
