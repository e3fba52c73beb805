//! Run of a job on threads of this process, without the interpreter lock.
//!
//! The thread that called from Python waits. Every [`POLL`] it takes the lock for a moment: to run
//! signal handlers, so that Ctrl-C raises `KeyboardInterrupt`, and to report progress. Only it
//! touches Python; the threads of the job never do.
//!
//! **Invariant:** when [`run`] returns, the thread of the job has ended, and its workers have no work
//! and end by themselves: their pool does not wait for them. After an exception in a signal handler
//! or in the progress function, training stops at the end of the current epoch and the exception is
//! raised.

use crate::error::exception;
use hemiola_cluster::{Cluster, Result, panic_message, standalone};
use hemiola_training::{Callback, EpochProgress, TrainingControl};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Interval between checks for signals.
const POLL: Duration = Duration::from_millis(50);
/// Number of epochs whose progress can wait; further ones are not reported.
const QUEUE: usize = 64;

/// Execution of a job, as Python passes it: an object with these attributes.
#[derive(Debug, FromPyObject)]
pub(crate) struct JobOptions {
    /// Number of worker threads.
    workers: usize,
    /// Function that is called with the number and the objective of each epoch.
    progress: Option<Py<PyAny>>,
}

/// Callback of a training run: passes on its progress, and stops it if it was interrupted.
#[derive(Clone, Debug)]
pub(crate) struct EpochReporter {
    epochs: SyncSender<(u32, f64)>,
    interrupted: Arc<AtomicBool>,
}

impl Callback for EpochReporter {
    fn on_epoch_end(&mut self, progress: &EpochProgress) -> TrainingControl {
        // A full queue loses a line of progress, and nothing else.
        let _ = self.epochs.try_send((progress.epoch, progress.objective));
        if self.is_interrupted() { TrainingControl::Stop } else { TrainingControl::Continue }
    }
}

impl EpochReporter {
    /// Returns true if the job is to end early.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

/// Runs `program` on a cluster of this process, and returns its result.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    options: &JobOptions,
    program: impl Fn(&Cluster, &mut EpochReporter) -> Result<T> + Sync,
) -> PyResult<T> {
    let outcome = attended(py, options.progress.as_ref(), |reporter| {
        let job = standalone(1).workers(options.workers);
        let mut results = job.run(|cluster| program(cluster, &mut reporter.clone()))?;
        Ok(results.pop().expect("a cluster of one peer has one result"))
    })?;
    outcome.map_err(|error: hemiola_cluster::Error| exception(&error))
}

/// Does `work` on another thread, without the interpreter lock, and attends to Python meanwhile.
fn attended<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&EpochReporter) -> T + Send,
) -> PyResult<T> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let (sender, epochs) = sync_channel(QUEUE);
    let reporter = EpochReporter { epochs: sender, interrupted: interrupted.clone() };
    let work = move || work(&reporter);
    let (result, raised) = py.detach(move || {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("hemiola-job".into()).spawn_scoped(scope, work);
            let thread = thread.map_err(|error| PyRuntimeError::new_err(format!("cannot start a thread: {error}")))?;
            let raised = attend(&epochs, progress, &interrupted);
            Ok::<_, PyErr>((thread.join(), raised))
        })
    })?;
    match raised {
        Some(error) => Err(error),
        None => result.map_err(|panic| PyRuntimeError::new_err(panic_message(&*panic))),
    }
}

/// Attends to Python until the job ends. Returns the first exception, after which the job is asked
/// to end.
fn attend(epochs: &Receiver<(u32, f64)>, progress: Option<&Py<PyAny>>, interrupted: &AtomicBool) -> Option<PyErr> {
    let mut raised = None;
    loop {
        let epoch = match epochs.recv_timeout(POLL) {
            Ok(epoch) => Some(epoch),
            Err(RecvTimeoutError::Timeout) => None,
            // The job has ended, and with it the sender.
            Err(RecvTimeoutError::Disconnected) => return raised,
        };
        let outcome = Python::attach(|py| {
            py.check_signals()?;
            if let (Some(progress), Some((number, objective))) = (progress, epoch) {
                progress.call1(py, (number, objective))?;
            }
            Ok(())
        });
        if let Err(error) = outcome {
            interrupted.store(true, Ordering::Relaxed);
            raised = raised.or(Some(error));
        }
    }
}
