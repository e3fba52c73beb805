//! What the watching thread hears of.

use std::sync::mpsc::{self, Receiver, SyncSender};

/// Room for a burst of events. Whoever sends when it is full waits for the watching thread, which never waits for them.
const CAPACITY: usize = 64;

/// Something the launcher has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A child of this process may have ended.
    Child,
    /// This process was sent a signal that peers should get too.
    Signal(i32),
    /// Nobody reads our stdout any more.
    OutputClosed,
    /// A thread that prints has printed everything.
    Drained,
}

/// The queue of the watching thread.
pub(super) fn channel() -> (SyncSender<Event>, Receiver<Event>) {
    mpsc::sync_channel(CAPACITY)
}
