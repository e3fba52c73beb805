//! Services: threads that serve other peers while the program computes, such as those of tables.
//!
//! A service is a named thread that can be asked to shut down. **Invariants:** no service outlives
//! its cluster. A service that fails or panics does not do so silently: this peer counts as lost
//! from then on, with the reason, so every wait on it ends, and its goodbye carries that reason.

use crate::error::{Error, Result};
use crate::peer_context::PeerContext;
use crate::worker_pool::panic_message;
use hemiola_core::{LossCause, MessageSink as _, PeerLost, ThreadHandle};
use parking_lot::Mutex;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Request to a service to shut down.
#[derive(Debug)]
pub struct ShutdownToken(AtomicBool);

impl ShutdownToken {
    /// Returns true once the service has to end.
    #[must_use]
    pub fn is_shutdown_requested(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

struct ServiceState {
    name: String,
    shutdown: ShutdownToken,
    /// True once the body has returned.
    finished: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
    task: Mutex<Option<ThreadHandle>>,
}

impl ServiceState {
    fn request_shutdown(&self) {
        self.shutdown.0.store(true, Ordering::Release);
        if !self.finished.load(Ordering::Acquire) {
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

/// Handle of a running service. Dropping it leaves the service running until the cluster ends.
pub struct ServiceHandle(Arc<ServiceState>);

impl ServiceHandle {
    /// Requests the shutdown of the service and waits until it has ended.
    pub fn shutdown(&self) {
        self.0.request_shutdown();
        self.0.join();
    }

    /// Returns true if the service has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.finished.load(Ordering::Acquire)
    }
}

impl fmt::Debug for ServiceHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").field("name", &self.0.name).finish_non_exhaustive()
    }
}

/// All services of a cluster.
#[derive(Default)]
pub(crate) struct ServiceRegistry(Mutex<Vec<Arc<ServiceState>>>);

/// Function that a service runs.
pub(crate) type ServiceBody = Box<dyn FnOnce(&ShutdownToken) -> Result<()> + Send>;

impl ServiceRegistry {
    pub(crate) fn start(
        &self,
        context: &Arc<PeerContext>,
        name: &str,
        wake: Box<dyn Fn() + Send + Sync>,
        body: ServiceBody,
    ) -> Result<ServiceHandle> {
        let (shutdown, finished, task) =
            (ShutdownToken(AtomicBool::new(false)), AtomicBool::new(false), Mutex::new(None));
        let state = Arc::new(ServiceState { name: name.to_owned(), shutdown, finished, wake, task });
        let (inside, peer_context) = (state.clone(), context.clone());
        let run = move || {
            // Unwind safety: after a panic this peer is lost, and state shared with the body is
            // only dropped.
            let outcome = catch_unwind(AssertUnwindSafe(|| body(&inside.shutdown)));
            inside.finished.store(true, Ordering::Release);
            let reason = match outcome {
                // The loss of another peer is already known to all peers.
                Ok(Ok(()) | Err(Error::Lost(_))) => return,
                Ok(Err(error)) => error.to_string(),
                Err(panic) => format!("it panicked: {}", panic_message(&*panic)),
            };
            if !inside.shutdown.is_shutdown_requested() {
                let (rank, cause) =
                    (peer_context.transport.rank(), LossCause::Failed { reason: format!("{}: {reason}", inside.name) });
                let (address, last_heard) = (peer_context.transport.address(rank), Duration::ZERO);
                peer_context.router.peer_lost(PeerLost { rank, address, cause, last_heard });
            }
        };
        let thread = format!("hemiola-{}-{name}", context.transport.rank());
        *state.task.lock() = Some(context.env.spawn(thread, Box::new(run)).map_err(Error::Thread)?);
        let mut services = self.0.lock();
        services.retain(|service| !service.finished.load(Ordering::Acquire));
        services.push(state.clone());
        Ok(ServiceHandle(state))
    }

    /// Requests the shutdown of all services.
    pub(crate) fn request_shutdown(&self) {
        let services = self.0.lock().clone();
        for service in services {
            service.request_shutdown();
        }
    }

    /// Waits until all services have ended.
    pub(crate) fn join(&self) {
        let services = std::mem::take(&mut *self.0.lock());
        for service in services {
            service.join();
        }
    }
}
