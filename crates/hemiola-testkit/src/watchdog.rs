//! Deadline of a test: a deadlock fails instead of hanging.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Longest duration of a test, generous enough for a busy machine.
const TEST_DEADLINE: Duration = Duration::from_mins(2);

/// Runs `body` and aborts the test process, with the name of the test, if it takes two minutes.
///
/// ```
/// assert_eq!(hemiola_testkit::with_watchdog(|| 6 * 7), 42);
/// ```
#[expect(clippy::print_stderr, reason = "the process ends right after")]
pub fn with_watchdog<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let (running, watch) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watch.recv_timeout(TEST_DEADLINE) == Err(RecvTimeoutError::Timeout) {
                eprintln!("watchdog: `{test}` hangs");
                std::process::abort();
            }
        });
        let _running = running; // dropped when `body` returns or panics
        body()
    })
}
