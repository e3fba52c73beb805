//! Captured variables of a loop: their kinds, the data that workers share, and the view of each
//! worker.
//!
//! Generated code makes a chain `(first, (second, (.., ())))` of captures, so that a loop can have
//! any number of them. The chain is a capture itself.

use crate::Error;
use crate::arrays::LoopArrays;
use crate::buffer::{ApplyRule, MAX_TARGETS, WriteBuffer};
use crate::plan::{ArrayPlacement, LoopBlock};
use crate::recorder::{NoRecorder, PlainRecorder, RowRecorder};
use crate::run::endpoint::RowRequests;
use crate::served::{Owners, row_list};
use crate::view::buffer::rows_of;
use crate::view::served::ServedRows;
use crate::view::table::{Lookahead, TableViewError};
use crate::view::{AccumulatorView, ArrayView, BufferView, PlainView, TableView};
use hemiola_analysis::Access;
use hemiola_array::{Accumulator, DistArray, Element};
use hemiola_cluster::{Cluster, Result, panic_message};
use hemiola_core::{Purpose, WorkerId};
use hemiola_tables_proto::in_loop::{ClockInterval, LoopTable, TableInLoop};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kind of a captured variable, decided by its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureKind {
    /// An array, by its index in the loop.
    Array(usize),
    /// A write buffer of one or several arrays.
    Buffer {
        /// Indices of the arrays it updates, the buffered array first.
        targets: Vec<usize>,
        /// Entries of a worker after which writes are applied, if not only at the end of a block.
        flush_interval: Option<u64>,
    },
    /// A table of the parameter server.
    Table {
        /// Moment at which the clock advances: after each step or each pass.
        clocks: ClockInterval,
        /// Rows of later blocks are announced to the table.
        announces: bool,
    },
    /// An accumulator or a plain value.
    Other,
}

/// Loop context: read-only data of a running loop, shared by all workers of a peer.
#[derive(Clone, Copy)]
pub struct LoopContext<'l, 'a> {
    pub(crate) cluster: &'l Cluster,
    pub(crate) arrays: &'l LoopArrays<'a>,
    pub(crate) placements: &'l [ArrayPlacement],
    pub(crate) names: &'static [&'static str],
    /// All accesses of the captured names in the body.
    pub(crate) accesses: &'static [Access],
    /// Name of the loop in messages.
    pub(crate) title: &'l str,
    /// Number of peers that run blocks.
    pub(crate) peers_used: usize,
    /// Channel for row requests. Present if arrays are served.
    pub(crate) requests: Option<&'l Arc<RowRequests>>,
}

impl LoopContext<'_, '_> {
    /// Converts a panic of an update rule into an error.
    pub(crate) fn rule_error(&self, panic: &(dyn Any + Send)) -> hemiola_cluster::Error {
        Error::Rule { site: self.title.to_owned(), rank: self.cluster.rank(), message: panic_message(panic) }.into()
    }
}

impl fmt::Debug for LoopContext<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LoopContext").field("names", &self.names).finish_non_exhaustive()
    }
}

/// A captured variable, or a chain of them.
///
/// # Life cycle
///
/// `run` calls the methods in this order:
///
/// ```text
/// driver, once per loop
///   declare                  before planning: registers its arrays and its kind
///   share                    after all arrays are placed
/// each worker
///   view, recorder
///   for each step
///     for each block of the worker in this step
///       bind                 points the view at the block
///       for each chunk of entries (one chunk, unless a buffer has a flush interval)
///         touch_by_key       for each entry, together with the slice of the body
///         recorded_rows      the prefetch set of the chunk
///         prefetch           fetches these rows
///         announce           the rows of the worker's next block, recorded in the same way
///         (body)             for each entry, through the view
///         end_block          applies pending writes to exclusive rows
///         submit_updates     between two chunks, before a barrier
///         apply_updates      inside this barrier, by one worker of the peer
///     end_step
///     submit_updates         before the barrier at the end of the step, if the loop has barriers
///     apply_updates          inside this barrier, by one worker of the peer
///   end_pass                 also after a failure
///   merge_counters
/// driver, once per loop
///   prefetch_misses
/// ```
///
/// Recording, `prefetch` and `announce` are for served arrays and tables. Recording is skipped
/// where a repeated loop remembers the rows. `announce` is called in the first chunk of a block
/// only. Workers of a peer without blocks call only `view` and `end_pass`, to advance their clocks.
pub trait Capture<'a> {
    /// State shared by the workers of a peer.
    type Shared: Sync;
    /// Value that the body uses in place of the variable.
    type View;
    /// Value that the slice of the body uses in place of the variable.
    type Recorder;

    /// Registers the arrays of this variable and appends its kind.
    fn declare(&self, arrays: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>);

    /// Makes the state that workers share. Called when all arrays are placed.
    fn share(&self, context: LoopContext<'_, 'a>, declared: &[CaptureKind]) -> Self::Shared;

    /// Makes the view of one worker.
    fn view(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View;

    /// Makes the recorder of one worker.
    fn recorder(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>) -> Self::Recorder;

    /// Appends the rows that the slice has recorded, and clears the recorder.
    fn recorded_rows(&self, _recorder: &mut Self::Recorder, _rows: &mut Vec<Vec<u64>>) {}

    /// Records the rows that an entry reads by its indices alone. The slice has no code for these.
    #[inline]
    fn touch_by_key(&self, _recorder: &Self::Recorder, _key: &[usize]) {}

    /// Fetches the rows that [`recorded_rows`](Self::recorded_rows) returned for the chunk that
    /// runs next.
    fn prefetch(
        &self,
        _rows: &mut std::slice::Iter<'_, Vec<u64>>,
        _view: &mut Self::View,
        _context: LoopContext<'_, 'a>,
    ) -> Result<()> {
        Ok(())
    }

    /// Announces the rows that [`recorded_rows`](Self::recorded_rows) returned for a later block.
    fn announce(
        &self,
        _rows: &mut std::slice::Iter<'_, Vec<u64>>,
        _view: &mut Self::View,
        _context: LoopContext<'_, 'a>,
        _ahead: Lookahead,
    ) -> Result<()> {
        Ok(())
    }

    /// Ends a step of a worker: tables advance their clock, if configured so.
    fn end_step(&self, _view: &mut Self::View, _context: LoopContext<'_, 'a>) -> Result<()> {
        Ok(())
    }

    /// Ends a pass of `steps` steps: advances the clocks that the worker has not advanced yet. Also
    /// called after a failure, because other workers wait for these clocks.
    fn end_pass(&self, _view: &mut Self::View, _context: LoopContext<'_, 'a>, _steps: u64) -> Result<()> {
        Ok(())
    }

    /// Appends the number of reads that were not prefetched, with the index of the captured name.
    fn prefetch_misses(&self, _shared: &Self::Shared, _counts: &mut Vec<(usize, u64)>) {}

    /// Adds the counters of a worker's view to the shared state.
    fn merge_counters(&self, _shared: &Self::Shared, _view: &mut Self::View) {}

    /// Points a worker's view at the block it is about to run.
    fn bind(&self, _shared: &Self::Shared, _view: &mut Self::View, _context: LoopContext<'_, 'a>, _block: LoopBlock) {}

    /// Applies a worker's pending writes to exclusive rows, at the end of a block or chunk.
    fn end_block(
        &self,
        _shared: &Self::Shared,
        _view: &mut Self::View,
        _context: LoopContext<'_, 'a>,
        _block: LoopBlock,
    ) {
    }

    /// Moves a worker's pending writes to the shared state, before a barrier.
    fn submit_updates(&self, _shared: &Self::Shared, _view: &mut Self::View, _worker: WorkerId) {}

    /// *Collective.* Applies the submitted updates of all workers, inside a barrier, while no
    /// worker runs.
    fn apply_updates(&self, _shared: &Self::Shared, _context: LoopContext<'_, 'a>) -> Result<()> {
        Ok(())
    }
}

impl<'a> Capture<'a> for () {
    type Shared = ();
    type View = ();
    type Recorder = ();

    fn recorder(&self, (): &(), _: LoopContext<'_, 'a>) {}

    fn declare(&self, _: &mut LoopArrays<'a>, _: &mut Vec<CaptureKind>) {}

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), _: LoopContext<'_, 'a>, _: WorkerId) {}
}

impl<'a, A: Capture<'a>, B: Capture<'a>> Capture<'a> for (A, B) {
    type Shared = (A::Shared, B::Shared);
    type View = (A::View, B::View);
    type Recorder = (A::Recorder, B::Recorder);

    fn recorder(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>) -> Self::Recorder {
        (self.0.recorder(&shared.0, context), self.1.recorder(&shared.1, context))
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        self.0.touch_by_key(&recorder.0, key);
        self.1.touch_by_key(&recorder.1, key);
    }

    fn recorded_rows(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        self.0.recorded_rows(&mut recorder.0, rows);
        self.1.recorded_rows(&mut recorder.1, rows);
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
    ) -> Result<()> {
        self.0.prefetch(rows, &mut view.0, context)?;
        self.1.prefetch(rows, &mut view.1, context)
    }

    fn announce(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
        ahead: Lookahead,
    ) -> Result<()> {
        self.0.announce(rows, &mut view.0, context, ahead)?;
        self.1.announce(rows, &mut view.1, context, ahead)
    }

    fn end_step(&self, view: &mut Self::View, context: LoopContext<'_, 'a>) -> Result<()> {
        // Both are called even if the first fails: other workers wait for both clocks.
        let first = self.0.end_step(&mut view.0, context);
        first.and(self.1.end_step(&mut view.1, context))
    }

    fn end_pass(&self, view: &mut Self::View, context: LoopContext<'_, 'a>, steps: u64) -> Result<()> {
        let first = self.0.end_pass(&mut view.0, context, steps);
        first.and(self.1.end_pass(&mut view.1, context, steps))
    }

    fn prefetch_misses(&self, shared: &Self::Shared, counts: &mut Vec<(usize, u64)>) {
        self.0.prefetch_misses(&shared.0, counts);
        self.1.prefetch_misses(&shared.1, counts);
    }

    fn merge_counters(&self, shared: &Self::Shared, view: &mut Self::View) {
        self.0.merge_counters(&shared.0, &mut view.0);
        self.1.merge_counters(&shared.1, &mut view.1);
    }

    fn declare(&self, arrays: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        self.0.declare(arrays, declared);
        self.1.declare(arrays, declared);
    }

    fn share(&self, context: LoopContext<'_, 'a>, declared: &[CaptureKind]) -> Self::Shared {
        (self.0.share(context, declared), self.1.share(context, declared))
    }

    fn view(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        (self.0.view(&shared.0, context, worker), self.1.view(&shared.1, context, worker))
    }

    #[inline]
    fn bind(&self, shared: &Self::Shared, view: &mut Self::View, context: LoopContext<'_, 'a>, block: LoopBlock) {
        self.0.bind(&shared.0, &mut view.0, context, block);
        self.1.bind(&shared.1, &mut view.1, context, block);
    }

    fn end_block(&self, shared: &Self::Shared, view: &mut Self::View, context: LoopContext<'_, 'a>, block: LoopBlock) {
        self.0.end_block(&shared.0, &mut view.0, context, block);
        self.1.end_block(&shared.1, &mut view.1, context, block);
    }

    fn submit_updates(&self, shared: &Self::Shared, view: &mut Self::View, worker: WorkerId) {
        self.0.submit_updates(&shared.0, &mut view.0, worker);
        self.1.submit_updates(&shared.1, &mut view.1, worker);
    }

    fn apply_updates(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>) -> Result<()> {
        // Both are called even if the first fails: the other peers take part in both.
        let first = self.0.apply_updates(&shared.0, context);
        first.and(self.1.apply_updates(&shared.1, context))
    }
}

/// A captured array. `WRITTEN` tells whether the body writes it.
#[derive(Debug)]
pub struct ArrayCapture<'a, T, const N: usize, const WRITTEN: bool> {
    pub(crate) array: &'a DistArray<T, N>,
    pub(crate) name: usize,
}

/// State of an array shared by the workers of a peer.
#[derive(Debug)]
pub struct ArrayShared {
    /// Index of the array in the loop.
    number: usize,
    served: bool,
    /// Reads that were not prefetched, summed over finished workers.
    prefetch_misses: AtomicU64,
}

impl<'a, T: Element, const N: usize, const WRITTEN: bool> Capture<'a> for ArrayCapture<'a, T, N, WRITTEN> {
    type Shared = ArrayShared;
    type View = ArrayView<T, N, WRITTEN>;
    type Recorder = RowRecorder<Self::View, N>;

    fn declare(&self, arrays: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Array(arrays.add(self.array)));
    }

    fn share(&self, context: LoopContext<'_, 'a>, declared: &[CaptureKind]) -> ArrayShared {
        let CaptureKind::Array(number) = declared[self.name] else {
            unreachable!("an array capture declares an array")
        };
        let served = context.peers_used > 1 && context.placements[number] == ArrayPlacement::Served;
        ArrayShared { number, served, prefetch_misses: AtomicU64::new(0) }
    }

    fn view(&self, shared: &ArrayShared, context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        let mut view = ArrayView::new(context.names[self.name], self.extents());
        if shared.served {
            let owners = context.arrays.get(shared.number).owners().expect("a served array has owners").clone();
            let requests = context.requests.expect("served arrays have a request channel");
            let (_, row_length) = rows_of(self.extents());
            let served = ServedRows::new(context.cluster, requests, worker, shared.number, owners, row_length);
            view.served = Some(Box::new(served));
        }
        view
    }

    fn recorder(&self, shared: &ArrayShared, context: LoopContext<'_, 'a>) -> Self::Recorder {
        let mine = context.accesses.iter().filter(|access| access.name == self.name);
        RowRecorder::new(self.extents(), shared.served, mine)
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        recorder.touch_by_key(key);
    }

    fn recorded_rows(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        if recorder.enabled {
            rows.push(recorder.take());
        }
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        _: LoopContext<'_, 'a>,
    ) -> Result<()> {
        match &view.served {
            Some(served) => served.prefetch(rows.next().map_or(&[], Vec::as_slice)),
            None => Ok(()),
        }
    }

    fn announce(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        _: LoopContext<'_, 'a>,
        _: Lookahead,
    ) -> Result<()> {
        // Owners of arrays are not notified. The rows of this array are skipped.
        if view.served.is_some() {
            rows.next();
        }
        Ok(())
    }

    fn prefetch_misses(&self, shared: &ArrayShared, counts: &mut Vec<(usize, u64)>) {
        if shared.served {
            counts.push((self.name, shared.prefetch_misses.load(Ordering::Relaxed)));
        }
    }

    fn merge_counters(&self, shared: &ArrayShared, view: &mut Self::View) {
        if let Some(served) = &view.served {
            // Relaxed: the sum is read after the workers have ended.
            shared.prefetch_misses.fetch_add(served.misses(), Ordering::Relaxed);
        }
    }

    #[inline]
    fn bind(&self, shared: &ArrayShared, view: &mut Self::View, context: LoopContext<'_, 'a>, block: LoopBlock) {
        view.bind(context.arrays.get(shared.number).window(block));
    }

    fn submit_updates(&self, _: &ArrayShared, view: &mut Self::View, _: WorkerId) {
        // Rows of other peers may change inside the barrier.
        if let Some(served) = &view.served {
            served.clear();
        }
    }
}

impl<T: Element, const N: usize, const WRITTEN: bool> ArrayCapture<'_, T, N, WRITTEN> {
    fn extents(&self) -> [usize; N] {
        self.array.shape().extents().map(|extent| extent as usize)
    }
}

/// A captured accumulator, by reference.
#[derive(Debug)]
pub struct AccumulatorCapture<'a, T, C> {
    pub(crate) accumulator: &'a Accumulator<T, C>,
}

impl<'a, T: Element, C: Fn(T, T) -> T + Sync> Capture<'a> for AccumulatorCapture<'a, T, C> {
    type Shared = ();
    type View = AccumulatorView<'a, T, C>;
    type Recorder = NoRecorder<Self::View>;

    fn recorder(&self, (): &(), _: LoopContext<'_, 'a>) -> Self::Recorder {
        NoRecorder(PhantomData)
    }

    fn declare(&self, _: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Other);
    }

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), _: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        AccumulatorView::new(self.accumulator, worker)
    }
}

/// A captured value of any other type.
#[derive(Debug)]
pub struct PlainCapture<'a, X: ?Sized> {
    pub(crate) value: &'a X,
}

impl<'a, X: ?Sized> Capture<'a> for PlainCapture<'a, X> {
    type Shared = ();
    type View = PlainView<'a, X>;
    type Recorder = PlainRecorder<'a, X>;

    fn recorder(&self, (): &(), _: LoopContext<'_, 'a>) -> Self::Recorder {
        PlainRecorder(self.value)
    }

    fn declare(&self, _: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Other);
    }

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), _: LoopContext<'_, 'a>, _: WorkerId) -> Self::View {
        PlainView(self.value)
    }
}

/// A captured table of the parameter server.
#[derive(Debug)]
pub struct TableCapture<'a, 't, T> {
    pub(crate) table: &'a TableInLoop<'t, T>,
    pub(crate) name: usize,
}

impl<'a, T> Capture<'a> for TableCapture<'a, '_, T>
where
    T: LoopTable + 'a,
    T::Error: Into<hemiola_cluster::Error>,
{
    type Shared = ();
    type View = TableView<'a, T>;
    type Recorder = RowRecorder<Self::View, 2>;

    fn declare(&self, _: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Table { clocks: self.table.clocks(), announces: self.table.announces() });
    }

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        TableView::new(context.names[self.name], self.table, worker)
    }

    fn recorder(&self, (): &(), context: LoopContext<'_, 'a>) -> Self::Recorder {
        let mine = context.accesses.iter().filter(|access| access.name == self.name);
        let table = self.table.table();
        let rows = table.row_count().and_then(|rows| usize::try_from(rows).ok()).unwrap_or(usize::MAX);
        RowRecorder::new([rows, table.width()], true, mine)
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        recorder.touch_by_key(key);
    }

    fn recorded_rows(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        rows.push(recorder.take());
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
    ) -> Result<()> {
        self.convert_table_error(context, view.fetch(rows.next().map_or(&[], Vec::as_slice)))
    }

    fn announce(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
        ahead: Lookahead,
    ) -> Result<()> {
        self.convert_table_error(context, view.announce(rows.next().map_or(&[], Vec::as_slice), ahead))
    }

    fn end_step(&self, view: &mut Self::View, context: LoopContext<'_, 'a>) -> Result<()> {
        self.convert_table_error(context, view.end_step())
    }

    fn end_pass(&self, view: &mut Self::View, context: LoopContext<'_, 'a>, steps: u64) -> Result<()> {
        self.convert_table_error(context, view.end_pass(steps))
    }
}

impl<T: LoopTable> TableCapture<'_, '_, T>
where
    T::Error: Into<hemiola_cluster::Error>,
{
    /// Converts an error of a table view into a loop error.
    fn convert_table_error(
        &self,
        context: LoopContext<'_, '_>,
        outcome: Result<(), TableViewError<T::Error>>,
    ) -> Result<()> {
        outcome.map_err(|problem| match problem {
            TableViewError::Table(error) => error.into(),
            TableViewError::NoHandle(problem) => {
                let (site, name) = (context.title.to_owned(), context.names[self.name].to_owned());
                Error::TableUnavailable { site, name, problem }.into()
            }
        })
    }
}

/// A captured write buffer.
pub struct BufferCapture<'a, U, R, const N: usize> {
    pub(crate) buffer: &'a WriteBuffer<U, R, N>,
    pub(crate) name: usize,
}

impl<U, R, const N: usize> fmt::Debug for BufferCapture<'_, U, R, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(formatter)
    }
}

/// State of a buffer shared by the workers of a peer.
pub struct BufferShared<U> {
    /// Indices of the arrays that the buffer updates.
    targets: Vec<usize>,
    /// Each worker has exclusive access to the rows it writes, so no barrier is needed.
    exclusive: bool,
    /// Updates are sent to the owners of their rows instead of all peers.
    served: bool,
    /// Submitted updates, by worker.
    submitted: Vec<Mutex<RowUpdates<U>>>,
}

/// Rows in ascending order, and their updates.
type RowUpdates<U> = (Vec<u64>, Vec<U>);

impl<U> fmt::Debug for BufferShared<U> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BufferShared")
            .field("targets", &self.targets)
            .field("exclusive", &self.exclusive)
            .finish_non_exhaustive()
    }
}

/// True if each worker has exclusive access to the rows of these arrays. A plan gives all arrays of
/// a buffer the same placement.
pub(crate) fn has_exclusive_rows(placements: &[ArrayPlacement], targets: &[usize]) -> bool {
    matches!(placements[targets[0]], ArrayPlacement::Local { .. } | ArrayPlacement::Rotating { .. })
}

impl<'a, U, R, const N: usize> Capture<'a> for BufferCapture<'a, U, R, N>
where
    U: Element + Default + PartialEq,
    R: ApplyRule<'a, U>,
{
    type Shared = BufferShared<U>;
    type View = BufferView<U, N>;
    type Recorder = NoRecorder<Self::View>;

    fn recorder(&self, _: &Self::Shared, _: LoopContext<'_, 'a>) -> Self::Recorder {
        NoRecorder(PhantomData)
    }

    fn declare(&self, arrays: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Buffer {
            targets: self.buffer.rule.targets(arrays),
            flush_interval: self.buffer.flush_interval,
        });
    }

    fn share(&self, context: LoopContext<'_, 'a>, declared: &[CaptureKind]) -> BufferShared<U> {
        let CaptureKind::Buffer { targets, .. } = &declared[self.name] else {
            unreachable!("a buffer capture declares a buffer")
        };
        let handed_in = (0..context.cluster.workers()).map(|_| Mutex::new((Vec::new(), Vec::new()))).collect();
        let own = has_exclusive_rows(context.placements, targets);
        let served = context.peers_used > 1 && context.placements[targets[0]] == ArrayPlacement::Served;
        BufferShared { targets: targets.clone(), exclusive: own, served, submitted: handed_in }
    }

    fn view(&self, _: &Self::Shared, context: LoopContext<'_, 'a>, _: WorkerId) -> Self::View {
        BufferView::new(context.names[self.name], self.buffer.extents)
    }

    fn end_block(&self, shared: &Self::Shared, view: &mut Self::View, context: LoopContext<'_, 'a>, block: LoopBlock) {
        if shared.exclusive {
            let waiting = view.pending.drain();
            self.apply(shared, context, block, waiting);
        }
    }

    fn submit_updates(&self, shared: &Self::Shared, view: &mut Self::View, worker: WorkerId) {
        if !shared.exclusive {
            *shared.submitted[worker.index()].lock() = view.pending.drain();
        }
    }

    fn apply_updates(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>) -> Result<()> {
        if shared.exclusive {
            return Ok(());
        }
        let mine: Vec<RowUpdates<U>> =
            shared.submitted.iter().map(|updates| std::mem::take(&mut *updates.lock())).collect();
        let all = if context.peers_used == 1 {
            mine
        } else if shared.served {
            let owners = context.arrays.get(shared.targets[0]).owners().expect("a served array has owners");
            send_to_owners(context.cluster, &mine, owners, rows_of(self.buffer.extents).1)?
        } else {
            gather_updates(context.cluster, mine)?
        };
        // Arrays are replicated, or all rows belong to this peer: any block's window covers them.
        let any_block = LoopBlock { part: 0, time: 0 };
        let apply = || all.into_iter().for_each(|updates| self.apply(shared, context, any_block, updates));
        // A panic of the rule must not keep this peer from the barrier, where the others wait.
        let applied = catch_unwind(AssertUnwindSafe(apply));
        if shared.served {
            // No peer may request a row before its owner has applied all updates.
            context.cluster.barrier()?;
        }
        applied.map_err(|panic| context.rule_error(&*panic))
    }
}

impl<'a, U: Element + Default + PartialEq, R: ApplyRule<'a, U>, const N: usize> BufferCapture<'a, U, R, N> {
    /// Applies updates to the arrays, through the windows of `block`.
    fn apply(
        &self,
        shared: &BufferShared<U>,
        context: LoopContext<'_, 'a>,
        block: LoopBlock,
        (rows, updates): RowUpdates<U>,
    ) {
        if rows.is_empty() {
            return;
        }
        let (_, row_length) = rows_of(self.buffer.extents);
        let per_index: usize = if N == 1 { 1 } else { self.buffer.extents[1..N - 1].iter().product() };
        let windows: Vec<_> = shared.targets.iter().map(|target| context.arrays.get(*target).window(block)).collect();
        let sizes: Vec<_> = shared.targets.iter().map(|target| context.arrays.get(*target).cell_bytes()).collect();
        let mut updates = updates.into_iter();
        for row in rows {
            let row = row as usize;
            let mut addresses = [std::ptr::null_mut(); MAX_TARGETS];
            for (address, (window, size)) in addresses.iter_mut().zip(windows.iter().zip(&sizes)) {
                let index = (row / per_index).wrapping_sub(window.first);
                assert!(index < window.count, "rows of a buffer lie in the window of its array");
                let cell = if N == 1 { index } else { (index * per_index + row % per_index) * window.stride };
                *address = window.base.wrapping_add(cell * size);
            }
            let of_row = updates.by_ref().take(row_length).collect();
            // SAFETY: every address is that of a row inside the window, which has `row_length`
            // cells. The worker has exclusive access to the rows, or no worker runs (see
            // `view::window`).
            unsafe { self.buffer.rule.apply(&addresses, of_row) };
        }
    }
}

/// *Collective.* Sends updates to the owners of their rows. Returns the updates of all workers for
/// the rows of this peer, in the order of peers and workers.
fn send_to_owners<U: Element>(
    cluster: &Cluster,
    mine: &[RowUpdates<U>],
    owners: &Owners,
    row_length: usize,
) -> Result<Vec<RowUpdates<U>>> {
    let mut outgoing: Vec<Vec<u8>> = (0..cluster.size()).map(|_| Vec::new()).collect();
    for (rows, updates) in mine {
        for (bytes, share) in outgoing.iter_mut().zip(owners.divide(rows)) {
            let (mut packed_rows, mut packed) = (Vec::new(), Vec::new());
            row_list::pack(&rows[share.clone()], &mut packed_rows);
            U::pack(&updates[share.start * row_length..share.end * row_length], &mut packed);
            for section in [packed_rows, packed] {
                bytes.extend_from_slice(&(section.len() as u64).to_le_bytes());
                bytes.extend(section);
            }
        }
    }
    let incoming = cluster.all_to_all(outgoing.into_iter().map(Into::into).collect(), Purpose::Served)?;
    let mut all = Vec::new();
    for bytes in incoming {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let rows = row_list::unpack(next_section(&mut rest)?, owners.rows())?;
            let updates = U::unpack(next_section(&mut rest)?, rows.len() * row_length)?;
            all.push((rows, updates));
        }
    }
    Ok(all)
}

/// Splits the next length-prefixed section off a message.
fn next_section<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], hemiola_array::Error> {
    let bad = || hemiola_array::Error::BadMessage { problem: "a message of updates is truncated".to_owned() };
    let (length, after) = rest.split_first_chunk::<8>().ok_or_else(bad)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| bad())?;
    let (section, after) = after.split_at_checked(length).ok_or_else(bad)?;
    *rest = after;
    Ok(section)
}

/// *Collective.* Returns the updates of the workers of all peers, in the order of peers and
/// workers.
fn gather_updates<U: Element>(cluster: &Cluster, mine: Vec<RowUpdates<U>>) -> Result<Vec<RowUpdates<U>>> {
    let packed: Vec<(Vec<u64>, u64, Vec<u8>)> = mine
        .into_iter()
        .map(|(rows, updates)| {
            let mut bytes = Vec::new();
            U::pack(&updates, &mut bytes);
            (rows, updates.len() as u64, bytes)
        })
        .collect();
    let mut all = Vec::new();
    for peer in cluster.all_gather(packed)? {
        for (rows, count, bytes) in peer {
            all.push((rows, U::unpack(&bytes, count as usize)?));
        }
    }
    Ok(all)
}
