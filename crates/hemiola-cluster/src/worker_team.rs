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
//! The protocol consists of three numbers. The leader sets `remaining` to the number of helpers,
//! writes the task and increments `generation`. A helper that sees a new `generation` reads the
//! task, runs it and decrements `remaining`; the leader continues at zero. A thread that goes to
//! sleep increments `sleepers` and checks its number once more. A thread that changes a number
//! checks `sleepers` afterwards. So one of the two sees the other.

#![expect(unsafe_code, reason = "a task borrows from its caller and is run by threads that live longer")]

use crate::error::{Error, Result};
use crate::worker_pool::panic_message;
use hemiola_core::{Rank, WorkerId};
use parking_lot::{Condvar, Mutex};
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Spins before yielding to other threads, and yields before sleeping: some ten microseconds each.
const SPINS: u32 = 200;
const YIELDS: u32 = 20;
/// Generation at which helpers return.
const SHUTDOWN_GENERATION: usize = usize::MAX;

type TeamTask<'a> = dyn Fn(usize) + Sync + 'a;

/// Workers of this peer as a fork-join team; see
/// [`Cluster::worker_team`](crate::Cluster::worker_team).
pub struct WorkerTeam<'a> {
    state: &'a ForkJoinState,
    rank: Rank,
}

impl WorkerTeam<'_> {
    /// Returns the number of workers, including the leader.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.state.helpers + 1
    }

    /// Runs `task` once on every worker, with its index, and waits for all. The leader is worker 0.
    ///
    /// If workers panic, the call still waits for all, and the error names the lowest of them.
    pub fn each(&mut self, task: impl Fn(usize) + Sync) -> Result<()> {
        self.state.run(&task);
        match self.state.panicked.lock().take() {
            None => Ok(()),
            Some((worker, message)) => {
                Err(Error::WorkerPanicked { rank: self.rank, worker: WorkerId::new(worker as u32), message })
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

/// State shared by the leader and its helpers.
pub(crate) struct ForkJoinState {
    helpers: usize,
    generation: AtomicUsize,
    remaining: AtomicUsize,
    /// Threads that sleep, or are about to.
    sleepers: AtomicUsize,
    task: UnsafeCell<Option<*const TeamTask<'static>>>,
    panicked: Mutex<Option<(usize, String)>>,
    sleep: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `task` is written by the leader only while `remaining` is zero, when no helper reads it,
// and read by helpers only after they have seen the `generation` that the leader incremented after
// writing. The task it points to is `Sync`.
unsafe impl Sync for ForkJoinState {}

impl ForkJoinState {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            helpers: workers - 1,
            generation: AtomicUsize::new(0),
            remaining: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            task: UnsafeCell::new(None),
            panicked: Mutex::new(None),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Runs `lead` on the calling thread. Helpers return when it ends, even by a panic.
    pub(crate) fn lead<T>(&self, rank: Rank, lead: impl FnOnce(&mut WorkerTeam<'_>) -> T) -> T {
        struct ShutdownGuard<'a>(&'a ForkJoinState);
        impl Drop for ShutdownGuard<'_> {
            fn drop(&mut self) {
                self.0.generation.store(SHUTDOWN_GENERATION, Ordering::SeqCst);
                self.0.wake_sleepers();
            }
        }
        let _shutdown = ShutdownGuard(self);
        lead(&mut WorkerTeam { state: self, rank })
    }

    /// Runs tasks as worker `index`, which is not 0, until the leader has ended.
    pub(crate) fn run_worker(&self, index: usize) {
        let mut seen = 0;
        loop {
            let generation = self.wait_until(&self.generation, |generation| generation != seen);
            if generation == SHUTDOWN_GENERATION {
                return;
            }
            seen = generation;
            // SAFETY: the leader wrote the task before it incremented `generation`, and changes it
            // only when `remaining` is zero, which requires the decrement below. It waits for that
            // before the borrow behind the pointer ends.
            let task = unsafe { (*self.task.get()).map(|task| &*task) };
            if let Some(task) = task {
                self.run_guarded(index, task);
            }
            if self.remaining.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.wake_sleepers();
            }
        }
    }

    /// Runs a task on all workers and waits. Only the leader calls it: it owns the only
    /// [`WorkerTeam`], mutably.
    fn run(&self, task: &TeamTask<'_>) {
        if self.helpers > 0 {
            // SAFETY: only the lifetime changes. Helpers use the reference until `remaining` is
            // zero, and this function returns after that.
            let erased: *const TeamTask<'static> =
                unsafe { std::mem::transmute::<&TeamTask<'_>, &'static TeamTask<'static>>(task) };
            // SAFETY: `remaining` is zero, so no helper reads it.
            unsafe { *self.task.get() = Some(erased) };
            self.remaining.store(self.helpers, Ordering::SeqCst);
            self.generation.fetch_add(1, Ordering::SeqCst);
            self.wake_sleepers();
        }
        self.run_guarded(0, task);
        self.wait_until(&self.remaining, |remaining| remaining == 0);
    }

    fn run_guarded(&self, worker: usize, task: &TeamTask<'_>) {
        // Unwind safety: the error goes to the leader, which decides how to treat the unfinished
        // work.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(worker))) {
            let mut first = self.panicked.lock();
            if first.as_ref().is_none_or(|(lowest, _)| worker < *lowest) {
                *first = Some((worker, panic_message(&*panic)));
            }
        }
    }

    /// Waits until `number` satisfies `condition`.
    fn wait_until(&self, number: &AtomicUsize, condition: impl Fn(usize) -> bool) -> usize {
        for attempt in 0..SPINS + YIELDS {
            let found = number.load(Ordering::Acquire);
            if condition(found) {
                return found;
            }
            if attempt < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let mut guard = self.sleep.lock();
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let found = loop {
            let found = number.load(Ordering::SeqCst);
            if condition(found) {
                break found;
            }
            self.wake.wait(&mut guard);
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        found
    }

    fn wake_sleepers(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A sleeper that has registered but does not sleep yet holds the lock until it does.
            drop(self.sleep.lock());
            self.wake.notify_all();
        }
    }
}

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
            state.lead(Rank::ROOT, lead)
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
                    while task % 500 == 7 && team.state.sleepers.load(Ordering::SeqCst) < workers - 1 {
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
        let caught = catch_unwind(|| with(2, |_| panic!("the leader gives up")));
        assert!(caught.is_err());
    }

    #[test]
    #[should_panic(expected = "one element per worker")]
    fn too_few_elements_are_refused() {
        with(2, |team| team.each_with(&mut [1], |_, _| ()).unwrap());
    }
}
