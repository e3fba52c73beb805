//! Helpers of the tests.

pub(crate) use hemiola_testkit::with_watchdog;

use hemiola_core::Deadlines;
use std::time::Duration;

/// Short deadlines for tests.
pub(crate) fn quick() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.wait = Duration::from_secs(100);
    deadlines
}

/// Update of a worker to a row in a clock. The sums depend on the order of addition.
pub(crate) fn delta(peer: usize, worker: usize, clock: usize, row: u64, column: usize) -> f32 {
    let mixed = (peer * 7919 + worker * 104_729 + clock * 1_299_709 + row as usize * 15_485_863 + column * 31) % 10_007;
    mixed as f32 / 97.0 - 51.0
}
