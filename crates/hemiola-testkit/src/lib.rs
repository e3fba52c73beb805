//! What tests of several crates stand on. Not published, and no crate depends on it but to be tested.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How long a test may take: long enough for a busy machine.
const LIMIT: Duration = Duration::from_mins(2);

/// Runs `body`; if it has not ended after two minutes, the whole test process is ended, loudly: a deadlock fails instead of hanging.
///
/// ```
/// assert_eq!(hemiola_testkit::with_watchdog(|| 6 * 7), 42);
/// ```
#[expect(clippy::print_stderr, reason = "nobody else is left to say it")]
pub fn with_watchdog<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let (done, watch) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watch.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                eprintln!("watchdog: `{test}` hangs");
                std::process::abort();
            }
        });
        let _done = done; // dropped when `body` returns or panics
        body()
    })
}
