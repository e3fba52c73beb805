//! Captured variables of a loop: their kinds, the data that workers share, and the view of each
//! worker.
//!
//! Every capture has three roles, each with a trait of its own. [`Capture`] declares the variable
//! and makes its views. [`PrefetchCapture`] predicts and fetches the rows that a block reads.
//! [`PassCapture`] follows the blocks, barriers and clocks of a pass. There is one file for each
//! kind of variable.
//!
//! Generated code makes a chain `(first, (second, (.., ())))` of captures, so that a loop can have
//! any number of them. The chain is a capture itself (`tuple`).

mod accumulator;
mod array;
#[expect(unsafe_code, reason = "rows are found by address; each use has its argument")]
mod buffer;
mod context;
mod plain;
mod table;
mod tuple;

pub use accumulator::AccumulatorCapture;
pub use array::{ArrayCapture, ArrayShared};
pub(crate) use buffer::has_exclusive_rows;
pub use buffer::{BufferCapture, BufferShared};
pub use context::LoopContext;
pub use plain::PlainCapture;
pub use table::TableCapture;

use crate::arrays::LoopArrays;
use crate::plan::{LoopBlock, LoopPlan};
use crate::view::table::{ChunkEnd, Lookahead};
use hemiola_cluster::Result;
use hemiola_core::WorkerId;
use hemiola_tables_proto::{ClockInterval, Consistency};

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
        /// Moment at which the clock advances.
        clocks: ClockInterval,
        /// Consistency model of the table.
        consistency: Consistency,
        /// Rows of later blocks are announced to the table.
        announces: bool,
    },
    /// An accumulator or a plain value.
    Other,
}

/// A captured variable, or a chain of them: declares itself and makes the views of workers.
///
/// # Life cycle
///
/// `run` calls the methods of a capture in this order. The *driver* is the thread that called the
/// loop; it receives messages while the workers run.
///
/// ```text
/// thread   method            moment
/// driver   declare           before planning: registers its arrays and its kind
/// driver   advise            after planning and before `share`
/// driver   share             after all arrays are placed, before any worker starts
/// worker   view, recorder    once per pass
///          for each step
///            for each block of the worker in this step, when the block has arrived
/// worker       bind             points the view at the block
///              for each chunk of entries (one chunk, unless a buffer has a flush interval or the
///              clock of a table an interval of iterations)
/// worker         touch_by_key      for each entry, together with the slice of the body
/// worker         recorded_rows     the prefetch set of the chunk
/// worker         prefetch          fetches these rows
/// worker         announce          the rows of the worker's next block, recorded in the same way
/// worker         (body)            for each entry, through the view
/// worker         end_chunk         tables advance their clock, if configured so
/// worker         end_block         applies pending writes to exclusive rows
///                between two chunks, if the loop has barriers
/// worker         submit_updates      before the worker arrives at the barrier
/// last           apply_updates       inside the barrier, while all workers of all peers wait
/// worker       end_step         after the last block of the step
///            at the end of the step, if the loop has barriers
/// worker       submit_updates      before the worker arrives at the barrier
/// last         apply_updates       inside the barrier, while all workers of all peers wait
/// worker   end_pass          also after a failure
/// worker   merge_counters    last call of the worker
/// driver   prefetch_misses   after all workers have ended
/// ```
///
/// *Last* is the worker of a peer that arrives at the barrier last. Between two barriers a method
/// of one worker can run at the same time as any method of another worker, so
/// [`Shared`](Self::Shared) is `Sync`. A view and a recorder belong to one worker.
///
/// Recording, `prefetch` and `announce` are for served arrays and tables. Recording is skipped
/// where a repeated loop remembers the rows. `announce` is called in the first chunk of a block
/// only, or, if clocks end with chunks, in each chunk for the next one. Workers of a peer without blocks call only `view` and `end_pass`, to advance their clocks.
pub trait Capture<'a> {
    /// State shared by the workers of a peer.
    type Shared: Sync;
    /// Value that the body uses in place of the variable.
    type View;

    /// Registers the arrays of this variable and appends its kind.
    fn declare(&self, arrays: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>);

    /// Reports how the variable could be used better, if at all. Called before a pass.
    fn advise(&self, _context: LoopContext<'_, 'a>, _plan: &LoopPlan) {}

    /// Makes the state that workers share. Called when all arrays are placed.
    fn share(&self, context: LoopContext<'_, 'a>, declared: &[CaptureKind]) -> Self::Shared;

    /// Makes the view of one worker.
    fn view(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View;
}

/// Prediction of the rows that a captured variable reads, so that a block fetches them in bulk.
///
/// Workers make all calls but [`prefetch_misses`](Self::prefetch_misses), outside of barriers. The
/// life cycle in [`Capture`] has their order.
pub trait PrefetchCapture<'a>: Capture<'a> {
    /// Value that the slice of the body uses in place of the variable.
    type Recorder;

    /// Makes the recorder of one worker.
    fn recorder(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>) -> Self::Recorder;

    /// Records the rows that an entry reads by its indices alone. The slice has no code for these.
    #[inline]
    fn touch_by_key(&self, _recorder: &Self::Recorder, _key: &[usize]) {}

    /// Appends the rows that the slice has recorded, and clears the recorder.
    fn recorded_rows(&self, _recorder: &mut Self::Recorder, _rows: &mut Vec<Vec<u64>>) {}

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

    /// Adds the counters of a worker's view to the shared state, after the worker's pass.
    fn merge_counters(&self, _shared: &Self::Shared, _view: &mut Self::View) {}

    /// Appends the number of reads that were not prefetched, with the index of the captured name.
    fn prefetch_misses(&self, _shared: &Self::Shared, _counts: &mut Vec<(usize, u64)>) {}
}

/// Progress of a captured variable through the blocks, barriers and clocks of a pass.
///
/// The life cycle in [`Capture`] has the order of the calls and their threads.
pub trait PassCapture<'a>: Capture<'a> {
    /// Points a worker's view at the block it is about to run.
    fn bind(&self, _shared: &Self::Shared, _view: &mut Self::View, _context: LoopContext<'_, 'a>, _block: LoopBlock) {}

    /// Applies a worker's pending writes to exclusive rows, at the end of a block or chunk.
    fn end_block(
        &self,
        _shared: &Self::Shared,
        _view: &mut Self::View,
        _context: LoopContext<'_, 'a>,
        _block: LoopBlock,
    ) -> Result<()> {
        Ok(())
    }

    /// Moves a worker's pending writes to the shared state, before a barrier.
    fn submit_updates(&self, _shared: &Self::Shared, _view: &mut Self::View, _worker: WorkerId) {}

    /// *Collective.* Applies the submitted updates of all workers, inside a barrier, while no
    /// worker runs.
    fn apply_updates(&self, _shared: &Self::Shared, _context: LoopContext<'_, 'a>) -> Result<()> {
        Ok(())
    }

    /// Ends a chunk of a worker's block: tables advance their clock, if configured so.
    fn end_chunk(&self, _view: &mut Self::View, _context: LoopContext<'_, 'a>, _end: ChunkEnd) -> Result<()> {
        Ok(())
    }

    /// Ends a step of a worker: tables advance the clocks of the step that it has not advanced yet.
    fn end_step(&self, _view: &mut Self::View, _context: LoopContext<'_, 'a>, _step: usize) -> Result<()> {
        Ok(())
    }

    /// Ends a pass: advances the clocks that the worker has not advanced yet. Also called after a
    /// failure, because other workers wait for these clocks.
    fn end_pass(&self, _view: &mut Self::View, _context: LoopContext<'_, 'a>) -> Result<()> {
        Ok(())
    }
}
