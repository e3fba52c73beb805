//! Handle of Python to a peer of a job.
//!
//! A peer joins a job that a launcher has started ([`join`]), or lives with others in this process
//! ([`standalone_peers`]). Python ends it with [`Peer::end`] when the program is over.
//!
//! **Invariant:** a process that was forked from a peer cannot use it: calls are errors, and dropping
//! the handle there touches no socket.

use super::arrays::{ElementBuffer, Elements, each_type, reduction};
use super::driver::{Driver, DriverCommand, DriverHandle, drive, wait};
use super::table::{Table, TableSettings};
use crate::error::exception;
use hemiola_cluster::environment::{ProcessEnvironment, VariableSource};
use hemiola_cluster::rank_assignment::RankAssignment;
use hemiola_cluster::{Cluster, Result, standalone};
use hemiola_core::{Rank, TransportError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Largest value that a broadcast sends together with its length.
const INLINE_BYTES: usize = 1 << 16;

/// Returns whether a launcher has assigned a rank to this process.
#[pyfunction]
pub(crate) fn is_launched() -> PyResult<bool> {
    let assignment = RankAssignment::detect(&ProcessEnvironment);
    Ok(assignment.map_err(|error| exception(&error.into()))?.is_some())
}

/// Joins the job that the environment describes, or the given variables in its place.
#[pyfunction]
#[pyo3(signature = (variables=None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
pub(crate) fn join(py: Python<'_>, variables: Option<BTreeMap<String, String>>) -> PyResult<Peer> {
    let builder = match &variables {
        Some(variables) => Cluster::builder().from_variables(variables as &dyn VariableSource),
        None => Cluster::builder().from_environment(),
    };
    let builder = builder.map_err(|error| exception(&error))?;
    let (ready, joined) = sync_channel(1);
    let (ended, outcome) = sync_channel(1);
    let program = move || {
        let result = builder.run(|cluster| {
            drive(cluster, |handle| {
                let _ = ready.send(handle); // An interrupted caller has gone, and the driver ends.
            })
        });
        let _ = ended.send(result);
    };
    start_thread("hemiola-program", program)?;
    match wait(py, joined)? {
        Some(handle) => Ok(Peer::new(handle, Some(outcome))),
        None => Err(failure(wait(py, outcome)?)),
    }
}

/// Starts a cluster of `peers` in this process and returns its peers. The end of peer 0 waits for
/// all of them.
#[pyfunction]
pub(crate) fn standalone_peers(py: Python<'_>, peers: usize, workers: usize) -> PyResult<Vec<Peer>> {
    let (ready, joined) = sync_channel(peers);
    let (ended, outcome) = sync_channel(1);
    let program = move || {
        let result = standalone(peers).workers(workers).run(|cluster| {
            drive(cluster, |handle| {
                let _ = ready.send(handle); // An interrupted caller has gone, and the drivers end.
            })
        });
        drop(ready);
        let _ = ended.send(result.map(|_| ()));
    };
    start_thread("hemiola-standalone", program)?;
    let (collected, all) = sync_channel(1);
    start_thread("hemiola-standalone-start", move || {
        let _ = collected.send(joined.into_iter().take(peers).collect::<Vec<_>>());
    })?;
    let mut handles = wait(py, all)?.unwrap_or_default();
    if handles.len() < peers {
        return Err(failure(wait(py, outcome)?));
    }
    handles.sort_by_key(|handle| handle.cluster.rank());
    let outcomes = std::iter::once(Some(outcome)).chain(std::iter::repeat_with(|| None));
    Ok(handles.into_iter().zip(outcomes).map(|(handle, outcome)| Peer::new(handle, outcome)).collect())
}

fn start_thread(name: &str, body: impl FnOnce() + Send + 'static) -> PyResult<()> {
    let started = std::thread::Builder::new().name(name.into()).spawn(body);
    started.map(|_| ()).map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))
}

/// Exception for a peer that could not start.
fn failure(outcome: Option<Result<()>>) -> PyErr {
    match outcome {
        Some(Err(error)) => exception(&error),
        _ => PyRuntimeError::new_err(
            "the thread of a peer ended unexpectedly (this is a bug in hemiola: please report it)",
        ),
    }
}

/// Peer of a job.
#[pyclass(frozen, module = "hemiola._hemiola")]
pub(crate) struct Peer {
    #[pyo3(get)]
    rank: usize,
    #[pyo3(get)]
    size: usize,
    #[pyo3(get)]
    workers: usize,
    process: u32,
    /// `None` after the end.
    handle: Mutex<Option<DriverHandle>>,
    /// Outcome of the job; `None` after the end.
    outcome: Mutex<Option<Receiver<Result<()>>>>,
}

impl Peer {
    fn new(handle: DriverHandle, outcome: Option<Receiver<Result<()>>>) -> Self {
        let cluster = &handle.cluster;
        let (rank, size, workers) = (cluster.rank().index(), cluster.size(), cluster.workers());
        let (handle, outcome) = (Mutex::new(Some(handle)), Mutex::new(outcome));
        Self { rank, size, workers, process: std::process::id(), handle, outcome }
    }

    /// Returns an error in a process that was forked from this peer.
    fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(format!(
            "this process was forked from peer {} of {}, whose connections it cannot use: start processes before the \
             cluster, or with the method `spawn`",
            self.rank, self.size
        )))
    }

    /// Makes a call on the driver and waits for its result.
    pub(super) fn call<T: Send + 'static>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&Driver<'_>) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        self.check_process()?;
        let (reply, result): (SyncSender<Result<T>>, _) = sync_channel(1);
        let command = DriverCommand::Call(Box::new(move |driver| {
            let _ = reply.send(call(driver)); // The caller may have been interrupted.
        }));
        let sent = match &*self.handle.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(handle) => handle.commands.send(command).is_ok(),
            None => {
                return Err(PyRuntimeError::new_err("the program of this peer has ended, and its cluster is closed"));
            }
        };
        let result = if sent { wait(py, result)? } else { None };
        result.ok_or_else(|| failure(None))?.map_err(|error| exception(&error))
    }

    fn checked_root(&self, root: usize) -> PyResult<Rank> {
        let peer = Rank::new(u32::try_from(root).unwrap_or(u32::MAX));
        if root < self.size {
            return Ok(peer);
        }
        Err(exception(&TransportError::NoSuchPeer { peer, size: self.size }.into()))
    }
}

#[pymethods]
impl Peer {
    /// Waits until every peer has made this call.
    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |driver| driver.cluster.barrier())
    }

    /// Returns the bytes of the root on every peer.
    fn broadcast<'py>(&self, py: Python<'py>, value: Vec<u8>, root: usize) -> PyResult<Bound<'py, PyBytes>> {
        let root = self.checked_root(root)?;
        let bytes = self.call(py, move |driver| {
            let inline = if value.len() <= INLINE_BYTES { value.clone() } else { Vec::new() };
            let (length, inline) = driver.cluster.broadcast_from(root, (value.len() as u64, inline))?;
            if inline.len() as u64 == length {
                return Ok(inline);
            }
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let mut bytes = if driver.cluster.rank() == root { value } else { vec![0_u8; length] };
            driver.communicator.broadcast(root, &mut bytes)?;
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the bytes of all peers by rank.
    fn all_gather<'py>(&self, py: Python<'py>, value: Vec<u8>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let (all, ranges) =
            self.call(py, move |driver| driver.communicator.all_gather_ragged(&value, usize::MAX >> 1))?;
        Ok(ranges.into_iter().map(|range| PyBytes::new(py, &all[range])).collect())
    }

    /// Returns the combination of the elements of all peers, on every peer.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn all_reduce<'py>(&self, py: Python<'py>, elements: ElementBuffer, op: &str) -> PyResult<Bound<'py, PyByteArray>> {
        let (mut elements, operator) = (elements.elements()?, reduction(op)?);
        let reduced = self.call(py, move |driver| {
            each_type!(&mut elements, vector => driver.communicator.all_reduce(vector, operator))?;
            Ok(elements)
        })?;
        Ok(reduced.bytes(py))
    }

    /// Builds a table that the workers of all peers share.
    fn table(&self, py: Python<'_>, settings: TableSettings) -> PyResult<Table> {
        Table::build(py, self, settings)
    }

    /// Returns the traffic of this peer by peer, lane and purpose, as JSON.
    fn traffic(&self, py: Python<'_>) -> PyResult<String> {
        self.call(
            py,
            |driver| Ok(serde_json::to_string(&driver.cluster.traffic()).expect("traffic serializes to JSON")),
        )
    }

    /// Returns the loss of a peer that made this job fail, if there is one.
    fn failure(&self) -> Option<String> {
        if self.process != std::process::id() {
            return None;
        }
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        handle.as_ref().and_then(|handle| handle.cluster.peer_handle().failure()).map(|loss| loss.to_string())
    }

    /// Ends all waits of this peer, and its part in the job, with a failure. For an interrupt, while
    /// another thread waits.
    fn interrupt(&self, py: Python<'_>, reason: &str) {
        let cluster = {
            let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
            handle.as_ref().filter(|_| self.process == std::process::id()).map(|handle| handle.cluster.clone())
        };
        if let Some(cluster) = cluster {
            py.detach(|| cluster.fail(reason));
        }
    }

    /// Ends the program of this peer: successfully, after which it waits for the others, or with the
    /// reason of a failure, which the others learn.
    #[pyo3(signature = (failure=None))]
    fn end(&self, py: Python<'_>, failure: Option<String>) -> PyResult<()> {
        self.check_process()?;
        let Some(handle) = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take() else { return Ok(()) };
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reason) = &failure {
            // A call of the driver may be waiting, after an interrupt.
            py.detach(|| handle.cluster.fail(reason));
        }
        let failed = failure.is_some();
        let _ = handle.commands.send(DriverCommand::End(failure));
        let Some(outcome) = outcome else { return Ok(()) };
        let ended = wait(py, outcome);
        if ended.is_err() {
            py.detach(|| handle.cluster.fail("it was interrupted"));
        }
        match ended? {
            Some(Err(error)) if !failed => Err(exception(&error)),
            _ => Ok(()),
        }
    }
}

impl Drop for Peer {
    /// In a forked process, the connections belong to the parent.
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.handle.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}
