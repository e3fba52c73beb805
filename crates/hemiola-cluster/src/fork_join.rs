//! Fork-join protocol of a [`WorkerTeam`](crate::WorkerTeam): hands tasks of microseconds to
//! threads that spin for a moment before they sleep.
//!
//! The protocol consists of three numbers. The leader sets `remaining` to the number of helpers,
//! writes the task and increments `generation`. A helper that sees a new `generation` reads the
//! task, runs it and decrements `remaining`; the leader continues at zero. A thread that goes to
//! sleep increments `sleepers` and checks its number once more. A thread that changes a number
//! checks `sleepers` afterwards. So one of the two sees the other.
//!
//! **Invariant:** [`ForkJoinState::run`] does not return, not even by a panic, before every worker
//! has finished the task. A task may therefore borrow from the leader.
//!
//! `hemiola-testkit/tests/loom` includes this file and checks all interleavings of a small team.

#![expect(unsafe_code, reason = "a task borrows from its caller and is run by threads that live longer")]

use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, SPINS, UnsafeCell, YIELDS, spin_loop, yield_now};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Generation at which helpers return.
const SHUTDOWN_GENERATION: usize = usize::MAX;

/// Task of a team, called with the index of the worker.
pub(crate) type TeamTask<'a> = dyn Fn(usize) + Sync + 'a;

/// Panic of a worker: its index and the payload.
pub(crate) type WorkerPanic = (usize, Box<dyn Any + Send>);

/// State shared by the leader and its helpers.
pub(crate) struct ForkJoinState {
    helpers: usize,
    generation: AtomicUsize,
    remaining: AtomicUsize,
    /// Threads that sleep, or are about to.
    sleepers: AtomicUsize,
    task: UnsafeCell<Option<*const TeamTask<'static>>>,
    panicked: Mutex<Option<WorkerPanic>>,
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

    /// Returns the number of workers, including the leader.
    pub(crate) fn workers(&self) -> usize {
        self.helpers + 1
    }

    /// Runs `lead` on the calling thread. Helpers return when it ends, even by a panic.
    pub(crate) fn lead<T>(&self, lead: impl FnOnce() -> T) -> T {
        struct ShutdownGuard<'a>(&'a ForkJoinState);
        impl Drop for ShutdownGuard<'_> {
            fn drop(&mut self) {
                self.0.generation.store(SHUTDOWN_GENERATION, Ordering::SeqCst);
                self.0.wake_sleepers();
            }
        }
        let _shutdown = ShutdownGuard(self);
        lead()
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
            let task = self.task.with(|task| unsafe { (*task).map(|task| &*task) });
            if let Some(task) = task {
                self.run_guarded(index, task);
            }
            if self.remaining.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.wake_sleepers();
            }
        }
    }

    /// Runs a task on all workers and waits. If workers panic, it still waits for all, and returns
    /// the panic of the lowest.
    ///
    /// # Safety
    /// Only the leader may call it, from inside [`lead`](Self::lead), and one call at a time: a
    /// second call would overwrite the task that helpers read.
    pub(crate) unsafe fn run(&self, task: &TeamTask<'_>) -> Option<WorkerPanic> {
        if self.helpers > 0 {
            // SAFETY: only the lifetime changes. Helpers use the reference until `remaining` is
            // zero, and this function returns after that.
            let erased: *const TeamTask<'static> =
                unsafe { std::mem::transmute::<&TeamTask<'_>, &'static TeamTask<'static>>(task) };
            // SAFETY: `remaining` is zero, so no helper reads it.
            self.task.with_mut(|task| unsafe { *task = Some(erased) });
            self.remaining.store(self.helpers, Ordering::SeqCst);
            self.generation.fetch_add(1, Ordering::SeqCst);
            self.wake_sleepers();
        }
        self.run_guarded(0, task);
        self.wait_until(&self.remaining, |remaining| remaining == 0);
        self.panicked.lock().take()
    }

    fn run_guarded(&self, worker: usize, task: &TeamTask<'_>) {
        // Unwind safety: the error goes to the leader, which decides how to treat the unfinished
        // work.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(worker))) {
            let mut first = self.panicked.lock();
            if first.as_ref().is_none_or(|(lowest, _)| worker < *lowest) {
                *first = Some((worker, panic));
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
            if attempt < SPINS { spin_loop() } else { yield_now() }
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

    /// Returns the number of threads that sleep.
    #[cfg(test)]
    pub(crate) fn sleepers(&self) -> usize {
        self.sleepers.load(Ordering::SeqCst)
    }

    fn wake_sleepers(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            // A sleeper that has registered but does not sleep yet holds the lock until it does.
            drop(self.sleep.lock());
            self.wake.notify_all();
        }
    }
}
