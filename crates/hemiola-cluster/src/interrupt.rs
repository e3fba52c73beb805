//! Graceful shutdown after a signal: the first signal is a request, the second ends the process.
//!
//! A program that can stop in good order polls for a signal whenever it suits it. SIGINT (Ctrl-C),
//! SIGTERM and SIGHUP count. **Invariant:** a second SIGINT or SIGTERM ends the process at once,
//! with exit code 128 plus its number; so a program that does not poll can still be stopped. A
//! program that has nothing to save yet ends with the first ([`InterruptResponse::End`]).

use crate::StopRequest;
use crate::launch::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// Response of a program to the first signal that asks it to end.
#[derive(Clone, Debug)]
pub enum InterruptResponse {
    /// End in good order: the program polls [`Interrupt::signal`].
    Finish,
    /// End in good order, as above, and set this request if the program still runs after
    /// [`GRACE`](Interrupt::GRACE), so that it leaves a long pass.
    Stop(StopRequest),
    /// End at once, as the signal does without a handler.
    End,
}

/// Flag that is set by the first signal that asks this process to end.
#[derive(Clone, Debug)]
pub struct Interrupt {
    /// Number of the first signal, stored after the callback ran; 0 before.
    signal: Arc<AtomicI32>,
}

impl Interrupt {
    /// Time that a program has to end in good order before [`InterruptResponse::Stop`] sets the
    /// request: an epoch that ends within it is not lost.
    pub const GRACE: Duration = Duration::from_secs(1);

    /// Turns signals into requests for the rest of the process's life. `on_signal` is called once,
    /// on a thread of its own, for the first signal: it can confirm the request to the user.
    pub fn watch(on_signal: impl FnOnce(i32) + Send + 'static) -> io::Result<Self> {
        Self::watch_with(|signal| {
            on_signal(signal);
            InterruptResponse::Finish
        })
    }

    /// Turns signals into requests as [`watch`](Self::watch) does, but the callback decides what the
    /// first one does.
    pub fn watch_with(on_signal: impl FnOnce(i32) -> InterruptResponse + Send + 'static) -> io::Result<Self> {
        let (requested, signal) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
        let mut watched = vec![SIGINT, SIGTERM];
        // A signal that `nohup` has disabled stays disabled.
        if !is_ignored(SIGHUP) {
            watched.push(SIGHUP);
        }
        for &number in &watched {
            // A closing terminal may send SIGHUP more than once.
            if number != SIGHUP {
                // Before the flag is registered, so that the first signal finds it unset.
                flag::register_conditional_shutdown(number, 128 + number, requested.clone())?;
            }
            flag::register(number, requested.clone())?;
        }
        let mut signals = Signals::new(watched)?;
        let received = signal.clone();
        let wait = move || {
            if let Some(first) = signals.forever().next() {
                // Before the program learns of it: it may end at once, and the callback would be
                // lost.
                let response = on_signal(first);
                received.store(first, Ordering::Relaxed);
                match response {
                    InterruptResponse::Finish => {}
                    InterruptResponse::Stop(request) => {
                        // It may return early, which shortens the time and does no harm.
                        std::thread::park_timeout(Self::GRACE);
                        request.request();
                    }
                    InterruptResponse::End => {
                        // It returns only for signals whose default is to go on, and none of these is.
                        let _ = emulate_default_handler(first);
                    }
                }
            }
        };
        // The thread ends with the process: no thread waits for it.
        std::thread::Builder::new().name("hemiola-interrupt".into()).spawn(wait)?;
        Ok(Self { signal })
    }

    /// Returns the first signal, if one was received.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        // Relaxed: no other data depends on it.
        Some(self.signal.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
    }
}
