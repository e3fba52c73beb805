//! Events for the supervising thread.

use std::sync::mpsc::{self, Receiver, SyncSender};

/// Capacity for a burst of events. A sender waits for the supervising thread if the queue is full;
/// that thread never waits for senders.
const CAPACITY: usize = 64;

/// Event that the launcher has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchEvent {
    /// A child of this process may have ended.
    Child,
    /// This process received a signal to be forwarded to the peers.
    Signal(i32),
    /// The reader of stdout is gone.
    OutputClosed,
    /// A printing thread has printed everything.
    Drained,
}

/// Creates the event queue of the supervising thread.
pub(super) fn channel() -> (SyncSender<LaunchEvent>, Receiver<LaunchEvent>) {
    mpsc::sync_channel(CAPACITY)
}
