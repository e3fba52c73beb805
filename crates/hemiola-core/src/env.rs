//! Time, randomness and threads as an argument.
//!
//! Whoever needs one of them takes an `Arc<dyn Env>`. The real one is `hemiola_cluster::SystemEnv`; the simulator
//! brings its own with virtual time and seeded randomness. `clippy.toml` forbids the direct calls.

use crate::Moment;
use std::fmt;
use std::io;
use std::time::Duration;

/// What a driver may ask of the world besides sending messages.
///
/// Implementations are shared between threads. `now` never goes backwards.
pub trait Env: Send + Sync + fmt::Debug + 'static {
    /// The present.
    fn now(&self) -> Moment;

    /// How long the calling thread has computed: time in which it waited, or others had its core, does not count. Where a world knows nothing of
    /// cores, all time is time of computing.
    fn computed(&self) -> Duration {
        self.now() - Moment::ZERO
    }

    /// Fills `bytes` with numbers nobody can predict (or, in a simulation, that its seed determines).
    fn fill_random(&self, bytes: &mut [u8]);

    /// Lets `duration` pass. For retry loops at start-up and for a reader that holds back; everything else waits for an
    /// event with a deadline.
    fn pause(&self, duration: Duration);

    /// Runs `body` on a new thread that carries `name` in debuggers and stall reports.
    ///
    /// The returned [`Task`] waits for the thread when joined; dropping it lets the thread go on. Callers that need
    /// the thread to end tell it so through state they share with `body`.
    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<Task>;
}

/// A running thread that can be waited for.
#[must_use = "join it, or drop it on purpose to let the thread run on"]
pub struct Task {
    join: Box<dyn FnOnce() + Send>,
}

impl Task {
    /// A task whose end is awaited by `join`.
    pub fn new(join: impl FnOnce() + Send + 'static) -> Self {
        Self { join: Box::new(join) }
    }

    /// Waits until the thread has ended. A panic in it has been reported by the panic hook already.
    pub fn join(self) {
        (self.join)();
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Task").finish_non_exhaustive()
    }
}
