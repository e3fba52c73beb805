//! Diagnostics of the launcher itself, on stderr.
//!
//! They are printed by a thread of their own, because stderr may belong to a pager that does not
//! read, and the supervising thread must never block.

use super::LaunchError;
use super::event::LaunchEvent;
use super::output::{OutputStream, Printer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::thread;

/// Capacity of the queue. A job has a handful of diagnostics; if even these cannot be printed,
/// further ones are dropped.
const CAPACITY: usize = 16;

/// Sender to the printing thread. The thread ends when all clones are dropped.
#[derive(Clone, Debug)]
pub(super) struct LauncherDiagnostics {
    queue: Option<SyncSender<String>>,
    /// True once a log error was reported. Relaxed: it orders nothing else.
    log_error_reported: Arc<AtomicBool>,
}

impl LauncherDiagnostics {
    /// Starts the thread, which sends [`LaunchEvent::Drained`] when everything is printed. If
    /// `quiet`, there is no thread, and diagnostics are dropped.
    pub(super) fn start(
        printer: Arc<Printer>,
        events: SyncSender<LaunchEvent>,
        quiet: bool,
    ) -> Result<Self, LaunchError> {
        let log_error_reported = Arc::default();
        if quiet {
            return Ok(Self { queue: None, log_error_reported });
        }
        let (queue, diagnostics) = mpsc::sync_channel::<String>(CAPACITY);
        let quiet_diagnostics = Self { queue: None, log_error_reported: Arc::clone(&log_error_reported) };
        let print = move || {
            for message in diagnostics {
                printer.print(OutputStream::Stderr, format!("hemiola: {message}\n").as_bytes(), &quiet_diagnostics);
            }
            let _ = events.send(LaunchEvent::Drained); // fails if the launcher has stopped waiting
        };
        thread::Builder::new()
            .name("launcher diagnostics".into())
            .spawn(print)
            .map_err(|source| LaunchError::Setup { problem: "no thread for diagnostics", source })?;
        Ok(Self { queue: Some(queue), log_error_reported })
    }

    /// Prints `message` after `hemiola: `. Never blocks.
    pub(super) fn report(&self, message: String) {
        if let Some(queue) = &self.queue {
            let _ = queue.try_send(message);
        }
    }

    /// Reports a log error; only the first one of a job is printed.
    pub(super) fn report_log_error(&self, message: String) {
        if !self.log_error_reported.swap(true, Ordering::Relaxed) {
            self.report(message);
        }
    }

    /// Returns true if a printing thread exists, which reports when it has drained.
    pub(super) fn has_printer(&self) -> bool {
        self.queue.is_some()
    }
}
