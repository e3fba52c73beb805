//! Progress line on standard error, if that is a terminal, after the first second.
//!
//! Any thread may report progress; one of them draws, the others do not wait for it.

use crate::readable;
use hemiola_core::{Env, Moment};
use std::io::{IsTerminal as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const FIRST_DRAW_DELAY: Duration = Duration::from_secs(1);
const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

/// Counter of finished work, with a progress line.
pub(super) struct ReadProgress {
    env: Arc<dyn Env>,
    what: &'static str,
    start: Moment,
    done: AtomicU64,
    shown: Mutex<ReadBar>,
}

struct ReadBar {
    on_terminal: bool,
    last: Option<Moment>,
}

impl ReadProgress {
    pub(super) fn new(env: &Arc<dyn Env>, what: &'static str) -> Self {
        let shown = Mutex::new(ReadBar { on_terminal: std::io::stderr().is_terminal(), last: None });
        Self { env: env.clone(), what, start: env.now(), done: AtomicU64::new(0), shown }
    }

    /// Adds finished work. Should be called a few hundred times per second at most.
    pub(super) fn add(&self, count: u64) {
        let done = self.done.fetch_add(count, Ordering::Relaxed) + count;
        let Ok(mut shown) = self.shown.try_lock() else { return };
        let now = self.env.now();
        let due = match shown.last {
            None => now.since(self.start) >= FIRST_DRAW_DELAY,
            Some(last) => now.since(last) >= REDRAW_INTERVAL,
        };
        if shown.on_terminal && due {
            shown.last = Some(now);
            let _ = write!(std::io::stderr(), "\r{} {}\x1b[K", readable::grouped(done), self.what);
        }
    }
}

impl Drop for ReadProgress {
    fn drop(&mut self) {
        if self.shown.get_mut().is_ok_and(|shown| shown.last.is_some()) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Counter of one piece of work, reported in large steps.
pub(super) struct ProgressSteps<'a> {
    progress: &'a ReadProgress,
    count: u64,
}

impl<'a> ProgressSteps<'a> {
    pub(super) fn new(progress: &'a ReadProgress) -> Self {
        Self { progress, count: 0 }
    }

    pub(super) fn add(&mut self, count: u64) {
        self.count += count;
        if self.count >= 1 << 16 {
            self.progress.add(self.count);
            self.count = 0;
        }
    }
}
