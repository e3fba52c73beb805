//! Sleeps of waiting threads: the time until a thread looks again, whatever it waits for.
//!
//! Deadlines are elsewhere: `PeerHandle::time_left` of `hemiola-cluster`.

use std::time::Duration;

/// Longest sleep of a waiting thread that is woken for every change it waits for. Looking again
/// after this time is a safeguard only.
pub const RECHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Longest sleep of a thread that waits for one of several sources, of which only some wake it.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
