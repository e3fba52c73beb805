//! Driver of a peer: the thread that joins the job and makes the calls that Python asks for.
//!
//! A collective call may wait for minutes, and the thread that calls from Python must attend to
//! signals meanwhile. So the driver makes the call, and the caller waits for the result in [`wait`].
//! After an interrupt the cluster is closed by the caller, which ends the call of the driver.
//!
//! **Invariant:** the driver never touches Python. It ends when the program ends, or when the handle
//! of Python is gone.

use hemiola_cluster::{Cluster, Error, Result};
use hemiola_collective::{CollectiveExt, Communicator};
use pyo3::prelude::*;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Interval between checks for signals.
const POLL: Duration = Duration::from_millis(50);

/// Cluster and communicator of the program, for the duration of a call.
#[derive(Debug)]
pub(super) struct Driver<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) communicator: &'a Communicator,
}

/// Request of Python to the driver.
pub(super) enum DriverCommand {
    /// Makes a call.
    Call(Box<dyn FnOnce(&Driver<'_>) + Send>),
    /// Ends the program: successfully, or with the reason of its failure.
    End(Option<String>),
}

/// Connection of Python to a driver that has joined its job.
pub(super) struct DriverHandle {
    pub(super) cluster: Cluster,
    pub(super) commands: Sender<DriverCommand>,
}

/// Makes calls until the program ends. `ready` receives the connection first.
pub(super) fn drive(cluster: &Cluster, ready: impl FnOnce(DriverHandle)) -> Result<()> {
    let communicator = cluster.communicator()?;
    let (commands, received) = channel();
    ready(DriverHandle { cluster: cluster.clone(), commands });
    let driver = Driver { cluster, communicator: &communicator };
    loop {
        match received.recv() {
            Ok(DriverCommand::Call(call)) => call(&driver),
            Ok(DriverCommand::End(None)) => return Ok(()),
            Ok(DriverCommand::End(Some(reason))) => return Err(Error::program(reason)),
            Err(_) => return Err(Error::program("its cluster was dropped before the program ended")),
        }
    }
}

/// Waits for a value of another thread without the interpreter lock. Returns `None` if the thread
/// ended without one, and the exception of a signal handler at once.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method is for one lifetime, the closure for any")]
pub(super) fn wait<T: Send>(py: Python<'_>, receiver: Receiver<T>) -> PyResult<Option<T>> {
    py.detach(move || {
        loop {
            match receiver.recv_timeout(POLL) {
                Ok(value) => return Ok(Some(value)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
            }
        }
    })
}
