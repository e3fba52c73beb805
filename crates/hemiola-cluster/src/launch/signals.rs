//! Signals of the launcher's own process.
//!
//! SIGINT, SIGTERM and SIGHUP are forwarded to the peers, which do not get them from the terminal
//! because each is in a process group of its own. SIGCHLD announces that a peer may have ended.

use super::LaunchError;
use super::event::LaunchEvent;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use std::fs;
use std::sync::mpsc::SyncSender;
use std::thread::{self, JoinHandle};

/// Turns signals into events while it lives.
#[derive(Debug)]
pub(super) struct SignalWatch {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl SignalWatch {
    /// Starts the thread. Unless `forward`, only the ends of children are reported.
    pub(super) fn start(events: SyncSender<LaunchEvent>, forward: bool) -> Result<Self, LaunchError> {
        let failed = |source| LaunchError::Setup { problem: "cannot watch for signals", source };
        let mut watched = vec![SIGCHLD];
        if forward {
            watched.extend([SIGINT, SIGTERM]);
            if !is_ignored(SIGHUP) {
                watched.push(SIGHUP);
            }
        }
        let mut signals = Signals::new(watched).map_err(failed)?;
        let handle = signals.handle();
        let watch = move || {
            for signal in signals.forever() {
                let event = if signal == SIGCHLD { LaunchEvent::Child } else { LaunchEvent::Signal(signal) };
                if events.send(event).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("launcher signals".into()).spawn(watch).map_err(failed)?;
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for SignalWatch {
    /// Ends the thread. It waits for nothing but signals: the receiver of its events is gone or
    /// still receiving.
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic has already been reported
        }
    }
}

/// Returns true if this process ignores `signal`, as under `nohup`. Unknown (not on Linux) counts
/// as no.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}
