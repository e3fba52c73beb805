//! I/O loop: the thread that serves the connections of one lane.
//!
//! It sleeps in the poller until a connection is readable or writable, serves it for one turn, and
//! ends when the transport is closed. The transport creates the loops; `hemiola-cluster` gives each
//! a thread.

use crate::tcp::connection::{Connection, ConnectionObserver, loss_cause};
use crate::tcp::lease::{LEASE_DURATION, LeaseCount};
use hemiola_core::{Env, Lane, RECHECK_INTERVAL};
use polling::{Events, Poller};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// I/O loop of one lane. Run it on a thread of its own.
#[must_use = "nothing is received until the loop runs"]
pub struct IoLoop {
    pub(crate) lane: Lane,
    pub(crate) poller: Arc<Poller>,
    /// Connections by poller key.
    pub(crate) connections: Vec<Arc<Connection>>,
    pub(crate) observer: Arc<dyn ConnectionObserver>,
    /// Number of `connections` that are leased to assisting threads.
    pub(crate) leases: Arc<LeaseCount>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl IoLoop {
    /// Returns the lane that the loop serves.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Serves the connections until the transport is closed.
    pub fn run(self) {
        let mut events = Events::new();
        // Frames that follow the handshake may already be out of the sockets.
        self.connections.iter().for_each(|connection| connection.on_readable(&*self.observer));
        while !self.stop.load(Ordering::Acquire) {
            events.clear();
            // A thread that creates the first lease wakes the loop after counting it, so the count
            // is seen here at the latest after that wake-up.
            let leased = self.leases.any();
            let timeout = if leased { LEASE_DURATION } else { RECHECK_INTERVAL };
            if let Err(error) = self.poller.wait(&mut events, Some(timeout)) {
                if error.kind() != std::io::ErrorKind::Interrupted {
                    tracing::error!(lane = %self.lane, %error, "the poller failed");
                    self.give_up(&error);
                    return;
                }
                continue;
            }
            if leased {
                let now = self.env.now();
                self.connections.iter().for_each(|connection| connection.end_lease(now));
            }
            for event in events.iter() {
                let connection = &self.connections[event.key];
                if event.writable
                    && let Err(error) = connection.on_writable()
                {
                    // The last message of the peer explains more than the error.
                    connection.on_readable(&*self.observer);
                    self.observer.connection_lost(connection.peer, connection.lane, loss_cause(&error));
                }
                if event.readable {
                    connection.on_readable(&*self.observer);
                }
            }
        }
    }

    /// Reports the loss of every peer: without a poller nothing would ever arrive.
    fn give_up(&self, error: &std::io::Error) {
        for connection in &self.connections {
            self.observer.connection_lost(connection.peer, connection.lane, loss_cause(error));
        }
    }
}

impl fmt::Debug for IoLoop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("IoLoop").field("lane", &self.lane).finish_non_exhaustive()
    }
}
