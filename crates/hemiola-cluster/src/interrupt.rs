//! Being asked to end: the first signal is a request, the second an order.
//!
//! A program that can stop in good order watches for signals and looks, whenever that suits it, whether one has come. SIGINT
//! (Ctrl-C), SIGTERM and SIGHUP count. **Invariant:** a second SIGINT or SIGTERM ends the process at once, with 128 + its
//! number, whatever the program does; so nobody waits for a program that does not look.

use crate::launch::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Whether somebody has asked this process to end.
#[derive(Clone, Debug)]
pub struct Interrupt {
    /// The first signal that came, once that was told; 0 before.
    signal: Arc<AtomicI32>,
}

impl Interrupt {
    /// From now on, for as long as the process lives, signals are requests. `tell` is called once, on a thread of its own,
    /// when the first comes: to tell a person that it was heard.
    pub fn watch(tell: impl FnOnce(i32) + Send + 'static) -> io::Result<Self> {
        let (asked, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
        let mut watched = vec![SIGINT, SIGTERM];
        // What `nohup` has switched off stays off.
        if !is_ignored(SIGHUP) {
            watched.push(SIGHUP);
        }
        for &number in &watched {
            // A terminal that goes away may say so more than once.
            if number != SIGHUP {
                // Before the flag is set, so that the first signal finds it unset.
                flag::register_conditional_shutdown(number, 128 + number, asked.clone())?;
            }
            flag::register(number, asked.clone())?;
        }
        let mut signals = Signals::new(watched)?;
        let heard = signal.clone();
        let wait = move || {
            if let Some(first) = signals.forever().next() {
                // Before the program learns of it: it may end at once, and nothing would be told.
                tell(first);
                heard.store(first, Ordering::Relaxed);
            }
        };
        // It ends with the process: nothing waits for it.
        std::thread::Builder::new().name("hemiola-interrupt".into()).spawn(wait)?;
        Ok(Self { signal })
    }

    /// The signal that has come, if one has.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        // Relaxed: nothing else is read on the strength of it.
        Some(self.signal.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}
