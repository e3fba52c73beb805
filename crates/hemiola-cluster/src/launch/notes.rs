//! What the launcher itself has to say, on stderr.
//!
//! Notes go through a thread of their own, because stderr may belong to a pager that is not being read, and the thread
//! that watches the peers must go on watching.

use super::LaunchError;
use super::event::Event;
use super::output::{Printer, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

/// A job has a handful of notes. If even these cannot be printed, further ones are dropped.
const CAPACITY: usize = 16;

/// The way to the printing thread. The thread ends when all clones are gone.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    queue: Option<SyncSender<String>>,
    /// Whether a fault of the logs has been told. Relaxed: it orders nothing else.
    logs_told: Arc<AtomicBool>,
}

impl Notes {
    /// Starts the thread; it sends [`Event::Drained`] when all notes are printed. If `quiet`, there is no thread, and
    /// notes are dropped.
    pub(super) fn start(printer: Arc<Printer>, events: SyncSender<Event>, quiet: bool) -> Result<Self, LaunchError> {
        let logs_told = Arc::default();
        if quiet {
            return Ok(Self { queue: None, logs_told });
        }
        let (queue, notes) = mpsc::sync_channel::<String>(CAPACITY);
        let silent = Self { queue: None, logs_told: Arc::clone(&logs_told) };
        let print = move || {
            for note in notes {
                printer.print(Stream::Stderr, format!("hemiola: {note}\n").as_bytes(), &silent);
            }
            let _ = events.send(Event::Drained); // nobody listens once the launcher has given up waiting
        };
        thread::Builder::new()
            .name("launcher notes".into())
            .spawn(print)
            .map_err(|source| LaunchError::Setup { what: "no thread for notes", source })?;
        Ok(Self { queue: Some(queue), logs_told })
    }

    /// Prints `note` behind `hemiola: `. Never waits.
    pub(super) fn tell(&self, note: String) {
        if let Some(queue) = &self.queue {
            let _ = queue.try_send(note);
        }
    }

    /// The same, for a fault of the logs: only the first in a job is told.
    pub(super) fn tell_of_logs(&self, note: String) {
        if !self.logs_told.swap(true, Ordering::Relaxed) {
            self.tell(note);
        }
    }

    /// Whether a thread prints, which will say so when it is done.
    pub(super) fn are_printed(&self) -> bool {
        self.queue.is_some()
    }
}
