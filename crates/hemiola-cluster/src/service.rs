//! Threads that serve other peers while the program computes: those of tables, say.
//!
//! A service is a named thread with a way to be told to end. **Invariants:** no service outlives its cluster; one that fails or panics
//! does not do so in silence: this peer counts as lost from then on, with the reason, so every wait on it ends, and what it tells the others
//! when it leaves is that reason.

use crate::error::{Error, Result};
use crate::exchange::Exchange;
use crate::workers::panic_message;
use hemiola_core::{Inbox as _, LossCause, PeerLost, Task};
use parking_lot::Mutex;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether a service is to end.
#[derive(Debug)]
pub struct Ending(AtomicBool);

impl Ending {
    /// Whether it is time.
    #[must_use]
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct State {
    name: String,
    ending: Ending,
    /// The body has returned.
    ended: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
    task: Mutex<Option<Task>>,
}

impl State {
    fn call_off(&self) {
        self.ending.0.store(true, Ordering::Release);
        if !self.ended.load(Ordering::Acquire) {
            (self.wake)();
        }
    }

    fn join(&self) {
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.join();
        }
    }
}

/// A running service. Dropping this leaves it running until the cluster ends.
pub struct Service(Arc<State>);

impl Service {
    /// Tells the service to end, and waits until it has.
    pub fn end(&self) {
        self.0.call_off();
        self.0.join();
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// The services of a cluster.
#[derive(Default)]
pub(crate) struct Services(Mutex<Vec<Arc<State>>>);

/// What a service does.
pub(crate) type Body = Box<dyn FnOnce(&Ending) -> Result<()> + Send>;

impl Services {
    pub(crate) fn start(
        &self,
        exchange: &Arc<Exchange>,
        name: &str,
        wake: Box<dyn Fn() + Send + Sync>,
        body: Body,
    ) -> Result<Service> {
        let (ending, ended, task) = (Ending(AtomicBool::new(false)), AtomicBool::new(false), Mutex::new(None));
        let state = Arc::new(State { name: name.to_owned(), ending, ended, wake, task });
        let (inside, link) = (state.clone(), exchange.clone());
        let run = move || {
            // Unwind safety: after a panic this peer is lost, and what the body shared is used for nothing but its end.
            let outcome = catch_unwind(AssertUnwindSafe(|| body(&inside.ending)));
            inside.ended.store(true, Ordering::Release);
            let reason = match outcome {
                // Of the loss of another peer everybody knows already.
                Ok(Ok(()) | Err(Error::Lost(_))) => return,
                Ok(Err(error)) => error.to_string(),
                Err(panic) => format!("it panicked: {}", panic_message(&*panic)),
            };
            if !inside.ending.has_come() {
                let (rank, cause) =
                    (link.transport.rank(), LossCause::Failed { reason: format!("{}: {reason}", inside.name) });
                let (address, last_heard) = (link.transport.address(rank), Duration::ZERO);
                link.board.lost(PeerLost { rank, address, cause, last_heard });
            }
        };
        let thread = format!("hemiola-{}-{name}", exchange.transport.rank());
        *state.task.lock() = Some(exchange.env.spawn(thread, Box::new(run)).map_err(Error::Thread)?);
        let mut services = self.0.lock();
        services.retain(|service| !service.ended.load(Ordering::Acquire));
        services.push(state.clone());
        Ok(Service(state))
    }

    /// Tells all to end.
    pub(crate) fn call_off(&self) {
        let services = self.0.lock().clone();
        for service in services {
            service.call_off();
        }
    }

    /// Waits until all have ended.
    pub(crate) fn join(&self) {
        let services = std::mem::take(&mut *self.0.lock());
        for service in services {
            service.join();
        }
    }
}
