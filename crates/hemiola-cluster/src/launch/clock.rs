//! The launcher's time. The rules of supervision take it as an argument.

use hemiola_core::Moment;
use std::time::Instant;

/// Counts from its making.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the launcher runs before there is a cluster to ask for the time")]
    pub(super) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(super) fn now(self) -> Moment {
        Moment::ZERO + self.start.elapsed()
    }
}
