//! A pool of jobs of one peer: each is done once, by one of its workers.
//!
//! Jobs are dealt out before anybody begins, the heaviest first, each to whoever has the least ([`plan::deal`](crate::plan::deal)). A worker then has a queue to itself, in which the
//! heaviest come first, too: nothing is shared while they run, and which worker does what follows from the weights alone. Where weights are
//! close to what jobs take, that is as even as taking the next one from a common queue, without its lock, and it can be repeated.

use crate::error::Error;
use crate::plan::deal::{Deal, deal};
use hemiola_cluster::{Cluster, Result, panic_message};
use parking_lot::Mutex;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does every job once, on the workers of this peer, each of which has something of its own. `weights` has one for each job.
///
/// ```
/// use hemiola_schedule::{Deal, pool};
///
/// hemiola_cluster::standalone(1).workers(2).run(|cluster| {
///     let mut words = vec!["a", "longer", "than", "all"];
///     let weights: Vec<u64> = words.iter().map(|word| word.len() as u64).collect();
///     let mut letters = [0; 2];
///     pool::run(cluster, &mut words, &weights, Deal::HeavyFirst, &mut letters, |word, letters| *letters += word.len())?;
///     assert_eq!(letters, [7, 7]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
///
/// # Panics
/// If there is not a weight for each job and something for each worker.
pub fn run<J: Send + fmt::Debug, O: Send>(
    cluster: &Cluster,
    jobs: &mut [J],
    weights: &[u64],
    how: Deal,
    own: &mut [O],
    work: impl Fn(&mut J, &mut O) + Sync,
) -> Result<()> {
    assert_eq!(jobs.len(), weights.len(), "every job has a weight");
    assert_eq!(own.len(), cluster.workers(), "every worker has something of its own");
    let mut jobs: Vec<Option<&mut J>> = jobs.iter_mut().map(Some).collect();
    let mut queue = |hand: Vec<usize>| hand.into_iter().filter_map(|job| jobs[job].take()).collect::<Vec<_>>();
    let queues =
        deal(how, weights, own.len()).into_iter().map(&mut queue).zip(own).map(|queue| Mutex::new(Some(queue)));
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
        Some((job, message)) => Err(Error::Job { job, round: 0, rank: cluster.rank(), message }.into()),
    }
}
