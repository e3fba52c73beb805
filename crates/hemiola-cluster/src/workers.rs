//! The compute threads of a peer.
//!
//! A pool of named threads that stay for the life of the cluster, so that caches, stacks and core assignments stay
//! warm between passes. The pool is `rayon-core`'s, of which only `broadcast` is used: one closure on every thread,
//! allowed to borrow from the caller, with panics carried back.

use crate::error::{Error, Result};
use hemiola_core::{Rank, WorkerId};
use parking_lot::Mutex;
use rayon_core::{BroadcastContext, ThreadPool, ThreadPoolBuilder};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// The thread a closure of `each_worker` runs on.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    id: WorkerId,
    count: usize,
}

impl Worker {
    /// Which worker of its peer.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The same as a plain number.
    #[must_use]
    pub fn index(&self) -> usize {
        self.id.index()
    }

    /// How many workers the peer has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }
}

#[derive(Debug)]
pub(crate) struct Workers {
    rank: Rank,
    pool: ThreadPool,
    /// They stand by for a crew. Whoever else waited for them then would wait for ever.
    held: AtomicBool,
}

impl Workers {
    pub(crate) fn start(rank: Rank, count: usize) -> Result<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .thread_name(move |index| format!("hemiola-{rank}-worker-{index}"))
            .build()
            .map_err(|error| Error::Thread(std::io::Error::other(error)))?;
        Ok(Self { rank, pool, held: AtomicBool::new(false) })
    }

    pub(crate) fn count(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Whether the calling thread is one of these workers.
    pub(crate) fn include_this_thread(&self) -> bool {
        self.pool.current_thread_index().is_some()
    }

    /// Runs `body` once on every worker and waits for all; results in worker order. If workers panic, the lowest one
    /// is reported, after all have ended.
    pub(crate) fn each<T: Send>(&self, body: impl Fn(Worker) -> T + Sync) -> Result<Vec<T>> {
        self.must_be_free()?;
        let results = self.pool.broadcast(|context| guarded(&context, &body));
        self.judged(results.into_iter())
    }

    /// Holds them for a crew while `lead` runs on the calling thread and `stand_by` on them.
    pub(crate) fn hold<R>(&self, stand_by: impl Fn(Worker) + Sync, lead: impl FnOnce() -> Result<R>) -> Result<R> {
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Relaxed);
            }
        }
        self.must_be_free()?;
        // Relaxed: one thread, the driver, hands out work.
        self.held.store(true, Ordering::Relaxed);
        let _release = Release(&self.held);
        let (helpers, outcome) = self.side_by_side(stand_by, lead);
        helpers?;
        outcome
    }

    fn must_be_free(&self) -> Result<()> {
        if self.held.load(Ordering::Relaxed) { Err(Error::Held { rank: self.rank }) } else { Ok(()) }
    }

    /// The same while `meanwhile` runs on the calling thread.
    ///
    /// # Panics
    /// If workers stand by for a crew: `meanwhile` would wait for them for ever.
    pub(crate) fn each_while<T: Send, R>(
        &self,
        body: impl Fn(Worker) -> T + Sync,
        meanwhile: impl FnOnce() -> R,
    ) -> (Result<Vec<T>>, R) {
        if let Err(held) = self.must_be_free() {
            panic!("{held}");
        }
        self.side_by_side(body, meanwhile)
    }

    fn side_by_side<T: Send, R>(
        &self,
        body: impl Fn(Worker) -> T + Sync,
        meanwhile: impl FnOnce() -> R,
    ) -> (Result<Vec<T>>, R) {
        let results: Vec<Mutex<Option<Outcome<T>>>> = (0..self.count()).map(|_| Mutex::new(None)).collect();
        let here = self.pool.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, context| *results[context.index()].lock() = Some(guarded(&context, &body)));
            meanwhile()
        });
        let results = results.into_iter().map(|result| result.into_inner().expect("a scope ends after its threads"));
        (self.judged(results), here)
    }

    fn judged<T>(&self, results: impl Iterator<Item = Outcome<T>>) -> Result<Vec<T>> {
        let rank = self.rank;
        results
            .map(|result| result.map_err(|(worker, message)| Error::WorkerPanicked { rank, worker, message }))
            .collect()
    }
}

/// What a worker has to say, or how it panicked.
type Outcome<T> = std::result::Result<T, (WorkerId, String)>;

fn guarded<T>(context: &BroadcastContext<'_>, body: &impl Fn(Worker) -> T) -> Outcome<T> {
    let worker = Worker { id: WorkerId::new(context.index() as u32), count: context.num_threads() };
    // Unwind safety: after a panic the results are dropped and an error is returned, so nobody sees half of it
    // except through what the closure itself shares.
    catch_unwind(AssertUnwindSafe(|| body(worker))).map_err(|panic| (worker.id, panic_message(&*panic)))
}

/// What a panic said.
#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without a message").to_owned()
}
