//! Time, randomness and threads as an argument.
//!
//! Code that needs one of them takes an `Arc<dyn Env>`. The real implementation is
//! `hemiola_cluster::SystemEnv`; tests bring their own. `clippy.toml` forbids the direct calls.
//! Protocols do not take an `Env`: time and random numbers are arguments of their calls.

use crate::Moment;
use std::fmt;
use std::io;
use std::time::Duration;

/// Work of a process so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessWork {
    /// CPU time of all threads.
    pub cpu: Duration,
    /// Bytes read from and written to files.
    pub io_bytes: u64,
}

/// Environment of a driver: everything it asks of the system besides sending messages.
///
/// Implementations are shared between threads. `now` never goes backwards.
pub trait Env: Send + Sync + fmt::Debug + 'static {
    /// Returns the current time.
    fn now(&self) -> Moment;

    /// CPU time of the calling thread. Waiting, and time in which other threads had the core, does
    /// not count. An environment that does not model cores returns all elapsed time.
    fn cpu_time(&self) -> Duration {
        self.now() - Moment::ZERO
    }

    /// Work of the whole process so far; `None` where the system does not tell.
    fn process_work(&self) -> Option<ProcessWork> {
        None
    }

    /// Fills `bytes` with unpredictable numbers.
    fn fill_random(&self, bytes: &mut [u8]);

    /// Blocks the calling thread for `duration`. For retry loops at start-up and for a reader that
    /// throttles itself; all other code waits for an event with a deadline.
    fn sleep(&self, duration: Duration);

    /// Runs `body` on a new thread that carries `name` in debuggers and stall reports.
    ///
    /// Joining the returned [`ThreadHandle`] waits for the thread; dropping it detaches the thread.
    /// Callers that need the thread to end signal it through state that they share with `body`.
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<ThreadHandle>;
}

/// Handle of a running thread that can be joined.
#[must_use = "join it, or drop it on purpose to let the thread run on"]
pub struct ThreadHandle {
    join: Box<dyn FnOnce() + Send>,
}

impl ThreadHandle {
    /// Creates a handle that waits for its thread by calling `join`.
    pub fn new(join: impl FnOnce() + Send + 'static) -> Self {
        Self { join: Box::new(join) }
    }

    /// Waits until the thread has ended. A panic in it has already been reported by the panic hook.
    pub fn join(self) {
        (self.join)();
    }
}

impl fmt::Debug for ThreadHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ThreadHandle").finish_non_exhaustive()
    }
}
