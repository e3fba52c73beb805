//! Compute threads of a peer.
//!
//! A pool of named threads that live as long as the cluster, so that caches, stacks and core
//! assignments stay warm between passes. The pool is `rayon-core`'s, of which only `broadcast` is
//! used: one closure on every thread, which may borrow from the caller, with panics propagated.

use crate::error::{Error, Result};
use hemiola_core::{Rank, WorkerId};
use parking_lot::Mutex;
use rayon_core::{BroadcastContext, ThreadPool, ThreadPoolBuilder};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
        let results = self.pool.broadcast(|context| run_guarded(&context, &body));
        self.collect_results(results.into_iter())
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
        let results: Vec<Mutex<Option<WorkerResult<T>>>> = (0..self.count()).map(|_| Mutex::new(None)).collect();
        let here = self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, context| *results[context.index()].lock() = Some(run_guarded(&context, &body)));
            meanwhile()
        });
        let results = results.into_iter().map(|result| result.into_inner().expect("a scope ends after its threads"));
        (self.collect_results(results), here)
    }

    fn collect_results<T>(&self, results: impl Iterator<Item = WorkerResult<T>>) -> Result<Vec<T>> {
        let rank = self.rank;
        results
            .map(|result| result.map_err(|(worker, message)| Error::WorkerPanicked { rank, worker, message }))
            .collect()
    }
}

/// Result of a worker, or its id and panic message.
type WorkerResult<T> = std::result::Result<T, (WorkerId, String)>;

fn run_guarded<T>(context: &BroadcastContext<'_>, body: &impl Fn(Worker) -> T) -> WorkerResult<T> {
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
