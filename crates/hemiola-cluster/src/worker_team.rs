//! Fork-join team of workers for small tasks.
//!
//! [`Cluster::each_worker`](crate::Cluster::each_worker) wakes sleeping threads, which suits passes
//! of milliseconds. A schedule hands out tasks of some microseconds. A team is reserved for all of
//! them: the calling thread leads and works as worker 0, while the others spin for a moment after
//! each task, waiting for the next, and only then sleep.
//!
//! **Invariant:** [`WorkerTeam::each`] does not return, not even by a panic, before every worker
//! has finished the task. A task may therefore borrow from the leader.
//!
//! [`fork_join`](crate::fork_join) has the protocol between the threads.

#![expect(
    unsafe_code,
    reason = "each worker gets its own element of a borrowed slice, and the team is the only caller of its state"
)]

use crate::error::{Error, Result};
use crate::fork_join::ForkJoinState;
use crate::worker_pool::panic_message;
use hemiola_core::{Rank, WorkerId};
use std::fmt;

/// Workers of this peer as a fork-join team; see
/// [`Cluster::worker_team`](crate::Cluster::worker_team).
pub struct WorkerTeam<'a> {
    state: &'a ForkJoinState,
    rank: Rank,
}

impl<'a> WorkerTeam<'a> {
    /// Runs `lead` on the calling thread with the team of `state`. Helpers return when it ends,
    /// even by a panic.
    pub(crate) fn lead<T>(state: &'a ForkJoinState, rank: Rank, lead: impl FnOnce(&mut Self) -> T) -> T {
        state.lead(|| lead(&mut WorkerTeam { state, rank }))
    }

    /// Returns the number of workers, including the leader.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.state.workers()
    }

    /// Runs `task` once on every worker, with its index, and waits for all. The leader is worker 0.
    ///
    /// If workers panic, the call still waits for all, and the error names the lowest of them.
    pub fn each(&mut self, task: impl Fn(usize) + Sync) -> Result<()> {
        // SAFETY: the leader has the only `WorkerTeam` of this state, and lends it mutably.
        match unsafe { self.state.run(&task) } {
            None => Ok(()),
            Some((worker, panic)) => {
                let (worker, message) = (WorkerId::new(worker as u32), panic_message(&*panic));
                Err(Error::WorkerPanicked { rank: self.rank, worker, message })
            }
        }
    }

    /// Runs `task` once on every worker with an exclusive element of `elements`, in worker order.
    ///
    /// # Panics
    /// If the number of elements differs from the number of workers.
    pub fn each_with<T: Send>(&mut self, elements: &mut [T], task: impl Fn(usize, &mut T) + Sync) -> Result<()> {
        assert_eq!(elements.len(), self.workers(), "a worker team needs one element per worker");
        let base = ElementPointer(elements.as_mut_ptr());
        self.each(|worker| {
            // SAFETY: `worker` is below the number of elements, checked above. `each` runs the task
            // once for each index, so no other thread has this element. The borrow of the slice
            // lasts until `each` returns.
            task(worker, unsafe { &mut *base.at(worker) });
        })
    }
}

impl fmt::Debug for WorkerTeam<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerTeam").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

/// Base address of the elements of [`WorkerTeam::each_with`].
struct ElementPointer<T>(*mut T);

impl<T> ElementPointer<T> {
    /// Returns the address of an element. The caller guarantees that the index is in bounds.
    fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}

// SAFETY: threads get distinct elements through it, which may be sent to them.
unsafe impl<T: Send> Sync for ElementPointer<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `lead` with a team of threads of its own.
    fn with<T: Send>(workers: usize, lead: impl FnOnce(&mut WorkerTeam<'_>) -> T + Send) -> T {
        let state = &ForkJoinState::new(workers);
        std::thread::scope(|scope| {
            for index in 1..workers {
                scope.spawn(move || state.run_worker(index));
            }
            WorkerTeam::lead(state, Rank::ROOT, lead)
        })
    }

    #[test]
    fn every_worker_runs_every_task_once() {
        let tasks = if cfg!(miri) { 20 } else { 2000 };
        for workers in 1..=4 {
            let mut counts = vec![vec![0_u32; tasks]; workers];
            with(workers, |team| {
                assert_eq!(team.workers(), workers);
                for task in 0..tasks {
                    team.each_with(&mut counts, |_, counts| counts[task] += 1).unwrap();
                    // From time to time all helpers fall asleep.
                    while task % 500 == 7 && team.state.sleepers() < workers - 1 {
                        std::thread::yield_now();
                    }
                }
            });
            assert!(counts.iter().flatten().all(|count| *count == 1));
        }
    }

    #[test]
    fn tasks_borrow_and_see_earlier_results() {
        with(3, |team| {
            let mut values = [1_u64; 3];
            for _ in 0..30 {
                let before = values;
                team.each_with(&mut values, |worker, element| {
                    *element = (before[(worker + 1) % 3] + before[worker]) % 1009;
                })
                .unwrap();
            }
            let mut serial = [1_u64; 3];
            for _ in 0..30 {
                serial = std::array::from_fn(|worker| (serial[(worker + 1) % 3] + serial[worker]) % 1009);
            }
            assert_eq!(values, serial);
        });
    }

    #[test]
    fn a_panic_is_an_error_that_names_the_worker_and_the_team_continues() {
        with(3, |team| {
            for guilty in [0, 2] {
                let error =
                    team.each(|worker| assert_ne!(worker, guilty, "job 17 has no data")).unwrap_err().to_string();
                assert!(error.contains(&format!("worker {guilty} of peer 0")) && error.contains("job 17"), "{error}");
            }
            team.each(|_| ()).unwrap();
        });
    }

    #[test]
    fn a_panicking_leader_ends_its_helpers() {
        let caught = std::panic::catch_unwind(|| with(2, |_| panic!("the leader gives up")));
        assert!(caught.is_err());
    }

    #[test]
    #[should_panic(expected = "one element per worker")]
    fn too_few_elements_are_refused() {
        with(2, |team| team.each_with(&mut [1], |_, _| ()).unwrap());
    }
}
