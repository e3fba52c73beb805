//! Compute threads of a peer.
//!
//! A pool of named threads that live as long as the cluster, so that caches, stacks and core
//! assignments stay warm between passes. The pool is `rayon-core`'s, of which only `broadcast` is
//! used: one closure on every thread, which may borrow from the caller, with panics propagated.

use crate::error::{Error, Result};
use crate::work_source;
use hemiola_core::{Rank, WorkerId};
use parking_lot::Mutex;
use rayon_core::{BroadcastContext, ThreadPool, ThreadPoolBuilder};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Worker thread on which a closure of `each_worker` runs.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    id: WorkerId,
    count: usize,
}

impl Worker {
    /// Returns the id of the worker within its peer.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Returns the id as an index.
    #[must_use]
    pub fn index(&self) -> usize {
        self.id.index()
    }

    /// Returns the number of workers of the peer.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

#[derive(Debug)]
pub(crate) struct WorkerPool {
    rank: Rank,
    pool: ThreadPool,
    /// True while a team has reserved the workers. Any other user would wait for them for ever.
    reserved: AtomicBool,
}

impl WorkerPool {
    pub(crate) fn start(rank: Rank, count: usize) -> Result<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(move |index| format!("hemiola-{rank}-worker-{index}"))
            .build()
            .map_err(|error| Error::Thread(std::io::Error::other(error)))?;
        Ok(Self { rank, pool, reserved: AtomicBool::new(false) })
    }

    /// Returns the CPU statistics of each worker.
    pub(crate) fn statistics(&self) -> Vec<Option<PathBuf>> {
        self.pool.broadcast(|_| work_source::own_statistics())
    }

    pub(crate) fn count(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Returns true if the calling thread is one of these workers.
    pub(crate) fn include_this_thread(&self) -> bool {
        self.pool.current_thread_index().is_some()
    }

    /// Runs `body` once on every worker and waits for all. Results are in worker order. If workers
    /// panic, the error names the lowest of them, after all have ended.
    pub(crate) fn each<T: Send>(&self, body: impl Fn(Worker) -> T + Sync) -> Result<Vec<T>> {
        self.ensure_available()?;
        let results = WorkerResults::new(self.count());
        self.broadcast(&|worker| results.put(worker, body(worker)))?;
        Ok(results.into_values())
    }

    /// Runs `body` once on every worker and waits for all. Not generic, so that the code that
    /// distributes work exists once and not for every loop of a program.
    fn broadcast(&self, body: &(dyn Fn(Worker) + Sync)) -> Result<()> {
        let outcomes = self.pool.broadcast(|context| run_guarded(&context, body));
        self.first_panic(outcomes)
    }

    /// Reserves the workers for a team: `lead` runs on the calling thread and `run_worker` on the
    /// workers.
    pub(crate) fn reserve<R>(&self, run_worker: impl Fn(Worker) + Sync, lead: impl FnOnce() -> Result<R>) -> Result<R> {
        struct ReleaseGuard<'a>(&'a AtomicBool);
        impl Drop for ReleaseGuard<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        self.ensure_available()?;
        // Relaxed: only one thread, the driver, hands out work.
        self.reserved.store(true, Ordering::Relaxed);
        let _release = ReleaseGuard(&self.reserved);
        let (helpers, outcome) = self.run_alongside(run_worker, lead);
        helpers?;
        outcome
    }

    fn ensure_available(&self) -> Result<()> {
        if self.reserved.load(Ordering::Relaxed) { Err(Error::WorkersReserved { rank: self.rank }) } else { Ok(()) }
    }

    /// Runs `body` once on every worker and `meanwhile` on the calling thread, and waits for all.
    ///
    /// # Panics
    /// If a team has reserved the workers: `meanwhile` would wait for them for ever.
    pub(crate) fn each_while<T: Send, R>(
        &self,
        body: impl Fn(Worker) -> T + Sync,
        meanwhile: impl FnOnce() -> R,
    ) -> (Result<Vec<T>>, R) {
        if let Err(reserved) = self.ensure_available() {
            panic!("{reserved}");
        }
        self.run_alongside(body, meanwhile)
    }

    fn run_alongside<T: Send, R>(
        &self,
        body: impl Fn(Worker) -> T + Sync,
        meanwhile: impl FnOnce() -> R,
    ) -> (Result<Vec<T>>, R) {
        let results = WorkerResults::new(self.count());
        let mut meanwhile = Some(meanwhile);
        let mut here = None;
        let outcome = self.broadcast_alongside(&|worker| results.put(worker, body(worker)), &mut || {
            here = meanwhile.take().map(|meanwhile| meanwhile());
        });
        (outcome.map(|()| results.into_values()), here.expect("the calling thread has run its part"))
    }

    /// Runs `body` once on every worker and `meanwhile` on the calling thread, and waits for all.
    fn broadcast_alongside(&self, body: &(dyn Fn(Worker) + Sync), meanwhile: &mut dyn FnMut()) -> Result<()> {
        let outcomes: Vec<Mutex<GuardedOutcome>> = (0..self.count()).map(|_| Mutex::new(Ok(()))).collect();
        self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, context| *outcomes[context.index()].lock() = run_guarded(&context, body));
            meanwhile();
        });
        self.first_panic(outcomes.into_iter().map(Mutex::into_inner).collect())
    }

    fn first_panic(&self, outcomes: Vec<GuardedOutcome>) -> Result<()> {
        let rank = self.rank;
        let report = |(worker, message)| Error::WorkerPanicked { rank, worker, message };
        outcomes.into_iter().collect::<GuardedOutcome>().map_err(report)
    }
}

/// Results of the workers, one slot per worker.
struct WorkerResults<T>(Vec<Mutex<Option<T>>>);

impl<T> WorkerResults<T> {
    fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Mutex::new(None)).collect())
    }

    fn put(&self, worker: Worker, value: T) {
        *self.0[worker.index()].lock() = Some(value);
    }

    /// Returns the results in worker order. No worker may have panicked.
    fn into_values(self) -> Vec<T> {
        self.0.into_iter().map(|slot| slot.into_inner().expect("every worker has a result")).collect()
    }
}

/// Success of a worker, or its id and panic message.
type GuardedOutcome = std::result::Result<(), (WorkerId, String)>;

fn run_guarded(context: &BroadcastContext<'_>, body: &(dyn Fn(Worker) + Sync)) -> GuardedOutcome {
    let worker = Worker { id: WorkerId::new(context.index() as u32), count: context.num_threads() };
    // Unwind safety: after a panic the results are dropped and an error is returned. Half-done work
    // is visible only through data that the closure itself shares.
    catch_unwind(AssertUnwindSafe(|| body(worker))).map_err(|panic| (worker.id, panic_message(&*panic)))
}

/// Returns the message of a panic.
#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
