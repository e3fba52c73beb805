//! Events that a cluster reports while it runs, as types. Nothing parses log text.

use crate::{PeerLost, Rank, WorkerId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Thread of a peer that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Waiter {
    /// Thread that runs the user program.
    Driver,
    /// Compute thread of the peer.
    Worker(WorkerId),
}

impl fmt::Display for Waiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver => formatter.write_str("driver"),
            Self::Worker(id) => write!(formatter, "worker {id}"),
        }
    }
}

/// Wait of one thread, as it travels in heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitSummary {
    /// Driver or worker that waits.
    pub waiter: Waiter,
    /// Awaited operation, with its call site in the program.
    pub reason: String,
    /// Peer that the thread waits for, if it is a single one.
    pub peer: Option<Rank>,
    /// Duration of the wait when the summary was written.
    pub waited: Duration,
}

/// Report of a wait that has lasted too long, with the last known activity of every other peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StallReport {
    /// Peer that writes the report.
    pub rank: Rank,
    /// Waits of the reporting peer, longest first.
    pub local: Vec<WaitSummary>,
    /// Last heartbeat of each other peer, in rank order; `None` before its first one.
    pub remote: Vec<(Rank, Option<LastHeartbeat>)>,
}

/// Content of the latest heartbeat of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastHeartbeat {
    /// Waits of the peer, longest first.
    pub waits: Vec<WaitSummary>,
    /// The peer used CPU time or moved file data since the heartbeat before.
    pub computing: bool,
    /// Time since the heartbeat arrived.
    pub age: Duration,
}

impl fmt::Display for StallReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "stalled: waits of all peers")?;
        for wait in &self.local {
            writeln!(formatter, "  peer {} {}", self.rank, WaitDisplay(wait))?;
        }
        for (rank, state) in &self.remote {
            match state {
                None => writeln!(formatter, "  peer {rank} has not sent a heartbeat yet")?,
                Some(LastHeartbeat { waits, computing, age }) if waits.is_empty() => {
                    let activity = if *computing {
                        "is computing"
                    } else {
                        "neither computes nor waits for a peer: a thread of it is stuck"
                    };
                    writeln!(formatter, "  peer {rank} {activity} (last heartbeat {:.1} s ago)", age.as_secs_f64())?;
                }
                Some(LastHeartbeat { waits, .. }) => {
                    for wait in waits {
                        writeln!(formatter, "  peer {rank} {}", WaitDisplay(wait))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Formats a wait for the stall report.
struct WaitDisplay<'a>(&'a WaitSummary);

impl fmt::Display for WaitDisplay<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitSummary { waiter, reason, peer, waited } = self.0;
        write!(formatter, "{waiter} waits for {reason}")?;
        if let Some(peer) = peer {
            write!(formatter, " from peer {peer}")?;
        }
        write!(formatter, " for {:.1} s", waited.as_secs_f64())
    }
}

/// Event of interest to a person or a dashboard.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClusterEvent {
    /// All peers have joined the job.
    Joined {
        /// Rank of the reporting peer.
        rank: Rank,
        /// Number of peers in the job.
        size: usize,
        /// Duration of the join.
        took: Duration,
    },
    /// A join attempt was refused; the job continues without it.
    Refused {
        /// Network address of the refused connection.
        address: String,
        /// Reason for the refusal.
        reason: String,
    },
    /// The traffic of the job leaves this host without encryption.
    Unencrypted {
        /// Address on which the root listens.
        address: String,
    },
    /// A peer was lost.
    Lost(PeerLost),
    /// A wait has exceeded [`Deadlines::stall`](crate::Deadlines::stall).
    Stalled(StallReport),
    /// The job continues, but something needs attention: a damaged save whose predecessor is used, or
    /// a program that could run better.
    Warning {
        /// Problem and consequence.
        message: String,
    },
}

/// Callback for cluster events. Called on internal threads: it must return quickly and must not
/// call back into the cluster.
pub trait Observer: Send + Sync + fmt::Debug + 'static {
    /// Handles one event of the cluster.
    fn observe(&self, event: &ClusterEvent);
}
