//! Timeouts of a cluster. Every wait in Hemiola is bounded by one of them.

use std::time::Duration;

/// Timeouts of a cluster, one per kind of wait.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// Time that peers wait for each other at start-up. Default 60 s.
    pub join: Duration,
    /// Time in which a new connection must authenticate; it is closed afterwards. Default 5 s.
    pub handshake: Duration,
    /// A peer from which nothing arrives for this long is lost. Default 10 s. Heartbeats are sent
    /// ten times as often.
    pub silence: Duration,
    /// Longest wait inside a running job without progress of the peers that it depends on: for a
    /// barrier, a message, or room in a send queue. Default 5 min. Time in which these peers compute
    /// does not count. A wait of this length appears in several stall reports before it fails.
    pub wait: Duration,
    /// A wait of this length appears in a stall report, and again each time it doubles. Default 15
    /// s.
    pub stall: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            join: Duration::from_mins(1),
            handshake: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            wait: Duration::from_mins(5),
            stall: Duration::from_secs(15),
        }
    }
}

impl Deadlines {
    /// Interval between two heartbeats: a tenth of [`silence`](Self::silence).
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        self.silence / 10
    }
}
