//! Tables of the parameter server, as Python uses them: one worker of the peer reads and adds rows.
//!
//! A thread of its own holds the table and the handle of its worker, which borrows from the table,
//! and executes the calls of Python one after the other. The other workers of the peer have finished
//! from the start, so they hold nobody back.

use super::arrays::bytes_of;
use super::driver::wait;
use super::peer::Peer;
use crate::buffers::slice;
use crate::error::exception;
use hemiola_cluster::{Error, Result, Worker};
use hemiola_tables::{
    AdaGrad, AdaRevision, Adam, Consistency, RowInitializer, Sgd, StorageType, Table as ClusterTable, TableBuilder,
    TableExt, TableWorker, UpdateRule,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

/// Settings of a table, as Python passes them: an object with these attributes.
#[derive(Clone, Debug, FromPyObject)]
pub(crate) struct TableSettings {
    name: String,
    /// Element type: `float32`, `float64` or `int32`.
    dtype: String,
    /// Number of rows; `None` for rows that are created when they are first named.
    rows: Option<u64>,
    width: usize,
    /// Staleness bound in clocks; `None` for reads without a bound.
    staleness: Option<u64>,
    update_rule: String,
    learning_rate: f64,
    /// Initial values: kind, two numbers, seed.
    initial: (String, f64, f64, u64),
}

/// Call of Python on the thread of a table.
type TableCall<C> = Box<dyn FnOnce(&ClusterTable<C>, &mut TableWorker<'_, C>) + Send>;

/// Connection to the thread of a table.
#[derive(Clone, Debug)]
enum TableThread {
    /// Elements are `float32`.
    F32(Sender<TableCall<f32>>),
    /// Elements are `float64`.
    F64(Sender<TableCall<f64>>),
    /// Elements are `int32`.
    I32(Sender<TableCall<i32>>),
}

/// Table of a peer.
#[pyclass(frozen, module = "hemiola._hemiola")]
pub(crate) struct Table {
    name: String,
    process: u32,
    /// `None` after the end.
    thread: Mutex<Option<(TableThread, Receiver<()>)>>,
}

impl Table {
    /// *Collective.* Builds a table.
    pub(super) fn build(py: Python<'_>, peer: &Peer, settings: TableSettings) -> PyResult<Self> {
        let name = settings.name.clone();
        let (thread, ended) = match &*settings.dtype {
            "float32" => started(py, peer, settings, with_float_rule::<f32>, TableThread::F32)?,
            "float64" => started(py, peer, settings, with_float_rule::<f64>, TableThread::F64)?,
            "int32" => started(py, peer, settings, with_integer_rule, TableThread::I32)?,
            other => {
                return Err(PyTypeError::new_err(format!("a table of `{other}`: use float32, float64 or int32")));
            }
        };
        Ok(Self { name, process: std::process::id(), thread: Mutex::new(Some((thread, ended))) })
    }

    fn thread(&self) -> PyResult<TableThread> {
        if self.process != std::process::id() {
            let message = format!("this process was forked from the peer that holds table `{}`", self.name);
            return Err(PyRuntimeError::new_err(message));
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let closed = || PyRuntimeError::new_err(format!("table `{}` is closed: its program has ended", self.name));
        thread.as_ref().map(|(thread, _)| thread.clone()).ok_or_else(closed)
    }
}

/// Runs an expression for the connection of a table, whatever its type.
macro_rules! on_thread {
    ($table:expr, $thread:ident => $body:expr) => {
        match $table.thread()? {
            TableThread::F32($thread) => $body,
            TableThread::F64($thread) => $body,
            TableThread::I32($thread) => $body,
        }
    };
}

#[pymethods]
impl Table {
    /// Returns the rows of `keys`, one after the other.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn get<'py>(&self, py: Python<'py>, keys: PyBuffer<i64>) -> PyResult<Bound<'py, PyByteArray>> {
        let keys = checked_keys(&keys)?;
        on_thread!(self, thread => get(py, &thread, keys))
    }

    /// Adds to the rows of `keys`; `values` holds the rows one after the other.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python are owned")]
    fn add(&self, py: Python<'_>, keys: PyBuffer<i64>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let keys = checked_keys(&keys)?;
        match self.thread()? {
            TableThread::F32(thread) => add(py, &thread, keys, slice(&PyBuffer::get(values)?)?),
            TableThread::F64(thread) => add(py, &thread, keys, slice(&PyBuffer::get(values)?)?),
            TableThread::I32(thread) => add(py, &thread, keys, slice(&PyBuffer::get(values)?)?),
        }
    }

    /// Ends the clock of this peer.
    fn clock(&self, py: Python<'_>) -> PyResult<()> {
        on_thread!(self, thread => call(py, &thread, |_, worker| worker.clock()))
    }

    /// Ends the use of the table by this peer, which holds no other one back from then on.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        on_thread!(self, thread => call(py, &thread, |_, worker| worker.finish()))
    }

    /// Returns the keys and values of all rows, in ascending order of the keys.
    fn collect<'py>(&self, py: Python<'py>) -> PyResult<(Vec<u64>, Bound<'py, PyByteArray>)> {
        match self.thread()? {
            TableThread::F32(thread) => Ok(flat(py, call(py, &thread, |table, _| table.collect())?)),
            TableThread::F64(thread) => Ok(flat(py, call(py, &thread, |table, _| table.collect())?)),
            TableThread::I32(thread) => Ok(flat(py, call(py, &thread, |table, _| table.collect())?)),
        }
    }

    /// Returns the memory of the rows on this peer in bytes.
    fn memory_bytes(&self, py: Python<'_>) -> PyResult<usize> {
        on_thread!(self, thread => call(py, &thread, |table, _| Ok(table.memory_bytes())))
    }

    /// Ends the thread of the table. A failed program does not wait for it.
    fn close(&self, py: Python<'_>, wait_for_it: bool) -> PyResult<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((thread, ended)) = thread else { return Ok(()) };
        drop(thread);
        if wait_for_it {
            wait(py, ended)?;
        }
        Ok(())
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

fn checked_keys(keys: &PyBuffer<i64>) -> PyResult<Vec<u64>> {
    let key = |key: &i64| u64::try_from(*key).map_err(|_| PyValueError::new_err(format!("key {key} is negative")));
    slice(keys)?.iter().map(key).collect()
}

/// Starts the thread of a table and waits until all peers have built it.
fn started<C: StorageType>(
    py: Python<'_>,
    peer: &Peer,
    settings: TableSettings,
    with_rule: fn(TableBuilder<C>, &TableSettings) -> Result<TableBuilder<C>>,
    connection: fn(Sender<TableCall<C>>) -> TableThread,
) -> PyResult<(TableThread, Receiver<()>)> {
    peer.call(py, move |driver| {
        let consistency = match settings.staleness {
            None => Consistency::Async,
            Some(0) => Consistency::Bsp,
            Some(clocks) => Consistency::Ssp(clocks),
        };
        let builder = driver.cluster.table::<C>(&settings.name).width(settings.width).consistency(consistency);
        let builder = builder.initializer(initializer(&settings.initial)?);
        let builder = match settings.rows {
            Some(rows) => builder.rows(rows),
            None => builder,
        };
        let table = with_rule(builder, &settings)?.build()?;
        let workers = driver.cluster.each_worker(|worker| worker)?;
        for worker in &workers[1..] {
            table.worker(*worker)?.finish()?;
        }
        let (calls, received) = channel();
        let (ended, end) = sync_channel(1);
        let name = format!("hemiola-{}-table", driver.cluster.rank());
        let thread = std::thread::Builder::new().name(name);
        thread.spawn(move || serve(table, workers[0], &received, &ended)).map_err(Error::Thread)?;
        Ok((connection(calls), end))
    })
}

/// Executes calls until Python has closed the table.
fn serve<C: StorageType>(
    table: ClusterTable<C>,
    worker: Worker,
    calls: &Receiver<TableCall<C>>,
    ended: &SyncSender<()>,
) {
    if let Ok(mut worker) = table.worker(worker) {
        for call in calls {
            call(&table, &mut worker);
        }
    }
    drop(table);
    let _ = ended.send(());
}

/// Makes a call on the thread of a table and waits for its result.
fn call<C: StorageType, T: Send + 'static>(
    py: Python<'_>,
    thread: &Sender<TableCall<C>>,
    call: impl FnOnce(&ClusterTable<C>, &mut TableWorker<'_, C>) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let (reply, result) = sync_channel(1);
    let sent = thread.send(Box::new(move |table, worker| {
        let _ = reply.send(call(table, worker)); // The caller may have been interrupted.
    }));
    let result = if sent.is_ok() { wait(py, result)? } else { None };
    result.ok_or_else(|| PyRuntimeError::new_err("the thread of a table has ended"))?.map_err(|error| exception(&error))
}

fn get<'py, C: StorageType>(
    py: Python<'py>,
    thread: &Sender<TableCall<C>>,
    keys: Vec<u64>,
) -> PyResult<Bound<'py, PyByteArray>>
where
    C::Compute: bytemuck::Pod,
{
    let rows = call(py, thread, move |table, worker| {
        let width = table.width();
        let mut rows = vec![C::Compute::default(); keys.len() * width];
        worker.get_many(&keys, |position, row| {
            rows[position * width..(position + 1) * width].copy_from_slice(&row);
        })?;
        Ok(rows)
    })?;
    Ok(bytes_of(py, &rows))
}

fn add<C: StorageType>(
    py: Python<'_>,
    thread: &Sender<TableCall<C>>,
    keys: Vec<u64>,
    values: &[C::Compute],
) -> PyResult<()> {
    let values = values.to_vec();
    call(py, thread, move |_, worker| worker.inc_many(&keys, &values))
}

fn flat<T: bytemuck::Pod>(py: Python<'_>, rows: BTreeMap<u64, Vec<T>>) -> (Vec<u64>, Bound<'_, PyByteArray>) {
    let values: Vec<T> = rows.values().flatten().copied().collect();
    (rows.into_keys().collect(), bytes_of(py, &values))
}

fn initializer((kind, first, second, seed): &(String, f64, f64, u64)) -> Result<RowInitializer> {
    Ok(match &**kind {
        "constant" => RowInitializer::Constant(*first),
        "uniform" => RowInitializer::Uniform { seed: *seed, low: *first, high: *second },
        "normal" => RowInitializer::Normal { seed: *seed, mean: *first, std_dev: *second },
        other => return Err(Error::program(format!("no initializer `{other}`"))),
    })
}

fn with_float_rule<C: StorageType>(builder: TableBuilder<C>, settings: &TableSettings) -> Result<TableBuilder<C>>
where
    Sgd: UpdateRule<C::Compute>,
    AdaGrad: UpdateRule<C::Compute>,
    Adam: UpdateRule<C::Compute>,
    AdaRevision: UpdateRule<C::Compute>,
{
    let rate = settings.learning_rate;
    Ok(match &*settings.update_rule {
        "addition" => builder,
        "sgd" => builder.update_rule(Sgd::new(rate)),
        "adagrad" => builder.update_rule(AdaGrad::new(rate)),
        "adam" => builder.update_rule(Adam::new(rate)),
        "adarevision" => builder.update_rule(AdaRevision::new(rate)),
        other => return Err(unknown_rule(other)),
    })
}

fn with_integer_rule(builder: TableBuilder<i32>, settings: &TableSettings) -> Result<TableBuilder<i32>> {
    if settings.update_rule == "addition" { Ok(builder) } else { Err(unknown_rule(&settings.update_rule)) }
}

fn unknown_rule(rule: &str) -> Error {
    let setting = "update_rule".to_owned();
    let reason =
        format!("`{rule}` is none of addition, sgd, adagrad, adam and adarevision, of which int32 has the first");
    Error::Setting { setting, reason }
}
