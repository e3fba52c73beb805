//! The thread that serves the connections of one lane.
//!
//! It sleeps in the poller until a connection is readable or writable, lets it have its turn, and ends when told to.
//! The transport makes the loops; `hemiola-cluster` gives each a thread.

use crate::tcp::connection::{Connection, LEASE, Listener, broken};
use hemiola_core::{Env, Lane};
use polling::{Events, Poller};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The loop sleeps until something happens; this only bounds the harm should a wake-up ever be lost.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// Serves one lane. Run it on a thread of its own.
#[must_use = "nothing is received until the loop runs"]
pub struct IoLoop {
    pub(crate) lane: Lane,
    pub(crate) poller: Arc<Poller>,
    /// By key.
    pub(crate) connections: Vec<Arc<Connection>>,
    pub(crate) listener: Arc<dyn Listener>,
    /// How many of `connections` are lent to threads that assist.
    pub(crate) leases: Arc<AtomicUsize>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl IoLoop {
    /// The lane it serves.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Serves until the transport is closed.
    pub fn run(self) {
        let mut events = Events::new();
        // What came right behind the handshake may be out of the sockets already.
        self.connections.iter().for_each(|connection| connection.on_readable(&*self.listener));
        while !self.stop.load(Ordering::Acquire) {
            events.clear();
            // Whoever makes the first lease wakes the loop after counting it, so the count is seen here at the latest
            // after that wake-up.
            let lent = self.leases.load(Ordering::SeqCst) > 0;
            let nap = if lent { LEASE } else { LOOK_AROUND };
            if let Err(error) = self.poller.wait(&mut events, Some(nap)) {
                if error.kind() != std::io::ErrorKind::Interrupted {
                    tracing::error!(lane = %self.lane, %error, "the poller failed");
                    self.give_up(&error);
                    return;
                }
                continue;
            }
            if lent {
                let now = self.env.now();
                self.connections.iter().for_each(|connection| connection.end_lease(now));
            }
            for event in events.iter() {
                let connection = &self.connections[event.key];
                if event.writable
                    && let Err(error) = connection.on_writable()
                {
                    // What the peer said before it went explains more than the error.
                    connection.on_readable(&*self.listener);
                    self.listener.broken(connection.peer, connection.lane, broken(&error));
                }
                if event.readable {
                    connection.on_readable(&*self.listener);
                }
            }
        }
    }

    /// Without a poller nothing would ever arrive: better to lose every peer aloud than to hang.
    fn give_up(&self, error: &std::io::Error) {
        for connection in &self.connections {
            self.listener.broken(connection.peer, connection.lane, broken(error));
        }
    }
}

impl fmt::Debug for IoLoop {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("IoLoop").field("lane", &self.lane).finish_non_exhaustive()
    }
}
