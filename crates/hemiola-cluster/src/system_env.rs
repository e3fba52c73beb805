//! Real environment as an [`Env`]: the system's clock, its random device, its threads.

use hemiola_core::{Env, Moment, ProcessWork, ThreadHandle};
use std::fmt;
use std::io;
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Environment of programs outside of a simulation. Time starts when it is created.
pub struct SystemEnv {
    start: Instant,
}

impl SystemEnv {
    /// Creates an environment whose time starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the system clock")]
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

    fn cpu_time(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
    }

    fn process_work(&self) -> Option<ProcessWork> {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let cpu = Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32);
        Some(ProcessWork { cpu, io_bytes: file_traffic().unwrap_or(0) })
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("every supported system has a random device");
    }

    #[expect(clippy::disallowed_methods, reason = "the only place that blocks a thread for a fixed time")]
    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }

    fn spawn(&self, name: String, body: Box<dyn FnOnce() + Send>) -> io::Result<ThreadHandle> {
        let thread = Builder::new().name(name).spawn(body)?;
        // A panic has been reported by the panic hook; a caller of `join` only waits for the end of
        // the thread.
        Ok(ThreadHandle::new(move || drop(thread.join())))
    }
}

/// Bytes that this process has read and written by file calls; `None` where the system does not
/// tell. Sockets do not count.
fn file_traffic() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(number("rchar:")?.saturating_add(number("wchar:")?))
}
