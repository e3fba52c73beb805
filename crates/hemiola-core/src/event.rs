//! What a cluster reports while it runs, as types. Nothing parses log text.

use crate::{PeerLost, Rank, WorkerId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Which thread of a peer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Waiter {
    /// The thread that runs the program.
    Driver,
    /// A compute thread.
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

/// One thread's wait, as it travels in heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitSummary {
    /// Which thread waits.
    pub waiter: Waiter,
    /// What it waits for, in words, with the place in the program.
    pub reason: String,
    /// The peer it waits for, where there is one.
    pub peer: Option<Rank>,
    /// How long it had been waiting when this was written.
    pub waited: Duration,
}

/// A wait that has lasted too long, with what every other peer was last known to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The peer that reports.
    pub rank: Rank,
    /// Its own waits, longest first.
    pub here: Vec<WaitSummary>,
    /// What each other peer said of itself last, in rank order; `None` where it has said nothing yet.
    pub others: Vec<(Rank, Option<LastWords>)>,
}

/// What a peer's latest heartbeat said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWords {
    /// Its waits, longest first; none means that it computes.
    pub waits: Vec<WaitSummary>,
    /// How long ago it said so.
    pub age: Duration,
}

impl fmt::Display for Stall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "stalled: who waits for what")?;
        for wait in &self.here {
            writeln!(formatter, "  peer {} {}", self.rank, Described(wait))?;
        }
        for (rank, state) in &self.others {
            match state {
                None => writeln!(formatter, "  peer {rank} has not been heard of yet")?,
                Some(LastWords { waits, age }) if waits.is_empty() => writeln!(
                    formatter,
                    "  peer {rank} waits for nothing: it is computing (heard {:.1} s ago)",
                    age.as_secs_f64()
                )?,
                Some(LastWords { waits, .. }) => {
                    for wait in waits {
                        writeln!(formatter, "  peer {rank} {}", Described(wait))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// A wait as the stall report words it.
struct Described<'a>(&'a WaitSummary);

impl fmt::Display for Described<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitSummary { waiter, reason, peer, waited } = self.0;
        write!(formatter, "{waiter} waits for {reason}")?;
        if let Some(peer) = peer {
            write!(formatter, " from peer {peer}")?;
        }
        write!(formatter, " since {:.1} s", waited.as_secs_f64())
    }
}

/// Something worth telling a person or a dashboard.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// All peers have met.
    Joined {
        /// This peer.
        rank: Rank,
        /// How many there are.
        size: usize,
        /// How long it took.
        took: Duration,
    },
    /// Someone asked to join and was turned away; the job goes on without them.
    Refused {
        /// Where the attempt came from.
        address: String,
        /// Why it was turned away.
        reason: String,
    },
    /// A peer is gone.
    Lost(PeerLost),
    /// A wait has lasted too long.
    Stalled(Stall),
}

/// Hears of events. Called on internal threads: must return quickly and must not call back into the cluster.
pub trait Observer: Send + Sync + fmt::Debug + 'static {
    /// Something happened.
    fn observe(&self, event: &Event);
}
