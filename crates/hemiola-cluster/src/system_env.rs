//! The real world as an [`Env`]: the system's clock, its random device, its threads.

use hemiola_core::{Env, Moment, Task};
use std::fmt;
use std::io;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// The environment of programs that run for real. Time starts when it is made.
pub struct SystemEnv {
    start: Instant,
}

impl SystemEnv {
    /// An environment whose time starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the system for the time")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemEnv {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SystemEnv {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SystemEnv")
    }
}

impl Env for SystemEnv {
    fn now(&self) -> Moment {
        Moment::ZERO + self.start.elapsed()
    }

    fn computed(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("every supported system has a random device");
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that really sleeps")]
    fn pause(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<Task> {
        let thread = Builder::new().name(name).spawn(body)?;
        // A panic has been reported by the panic hook; whoever joins only wants to know that the thread has ended.
        Ok(Task::new(move || drop(thread.join())))
    }
}
