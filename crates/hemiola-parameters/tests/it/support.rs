//! What the tests stand on.

use hemiola_core::Deadlines;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs `body`; if it has not ended after two minutes, the whole test process is ended, loudly.
#[expect(clippy::print_stderr, reason = "nobody else is left to say it")]
pub(crate) fn with_watchdog<T: Send>(body: impl FnOnce() -> T + Send) -> T {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let (done, watch) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if watch.recv_timeout(Duration::from_mins(2)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("watchdog: `{test}` hangs");
                std::process::abort();
            }
        });
        let _done = done; // dropped when `body` returns or panics
        body()
    })
}

/// Deadlines for tests.
pub(crate) fn quick() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.wait = Duration::from_secs(100);
    deadlines
}

/// What a worker adds to a row in a clock: values whose sums depend on the order of addition.
pub(crate) fn delta(peer: usize, worker: usize, clock: usize, row: u64, column: usize) -> f32 {
    let mixed = (peer * 7919 + worker * 104_729 + clock * 1_299_709 + row as usize * 15_485_863 + column * 31) % 10_007;
    mixed as f32 / 97.0 - 51.0
}
