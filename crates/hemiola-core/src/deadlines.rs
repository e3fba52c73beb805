//! How long each kind of wait may last. Every wait in Hemiola has one of these.

use std::time::Duration;

/// The time limits of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// How long peers wait for each other at the start. Default 60 s.
    pub join: Duration,
    /// A connection that has not proven who it is after this time is closed. Default 5 s.
    pub handshake: Duration,
    /// A peer that has been silent this long is lost. Default 10 s. Heartbeats are sent ten times as often.
    pub silence: Duration,
    /// The longest wait inside a running job: for a barrier, a message, or room to send. Default 30 min; a wait this
    /// long has been shown in stall reports many times before it fails.
    pub wait: Duration,
    /// A wait of this length is shown in a stall report, and again each time it has doubled. Default 15 s.
    pub stall: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            join: Duration::from_mins(1),
            handshake: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            wait: Duration::from_mins(30),
            stall: Duration::from_secs(15),
        }
    }
}

impl Deadlines {
    /// Time between two heartbeats: a tenth of the silence a peer is allowed.
    #[must_use]
    pub fn heartbeat(&self) -> Duration {
        self.silence / 10
    }
}
