//! Clock of the launcher. The supervision rules take time as an argument.

use hemiola_core::Moment;
use std::time::Instant;

/// Clock that counts from its creation.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchClock {
    start: Instant,
}

impl LaunchClock {
    #[expect(clippy::disallowed_methods, reason = "the launcher runs before there is a cluster to ask for the time")]
    pub(super) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(super) fn now(self) -> Moment {
        Moment::ZERO + self.start.elapsed()
    }
}
