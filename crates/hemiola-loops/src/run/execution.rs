//! One pass of a loop over the blocks of this peer.
//!
//! Each worker runs its blocks in the order of the plan: it waits for the stage of a block, runs the
//! entries in chunks, and passes the block on. Where buffers need it, all workers of all peers meet
//! at barriers. A failure of one worker stops the pass on all peers: see README.md.

use super::chunks::{ALL_ENTRIES, ChunkIntervals};
use super::clock_schedule::parts_of_worker;
use super::endpoint::LoopEndpoint;
use super::entry_slices::EntrySlices;
use super::report::BlockTiming;
use super::stages::{self, BlockStages};
use super::worker_barrier::WorkerBarrier;
use crate::Error;
use crate::capture::{Capture, CaptureKind, LoopContext, PassCapture, PrefetchCapture, has_exclusive_rows};
use crate::plan::route::BlockRoute;
use crate::plan::{ArrayPlacement, LoopBlock, LoopPlan, LoopSchedule};
use crate::prefetch::{PrefetchMemo, PrefetchSet};
use crate::space::IterationSpace;
use crate::view::table::{ChunkEnd, Lookahead};
use hemiola_analysis::WriteMode;
use hemiola_cluster::{Result, Worker, panic_message};
use parking_lot::Mutex;
use std::cell::Cell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// True if the workers of all peers meet at barriers, because buffers update rows that no worker has
/// for itself.
pub(super) fn needs_barriers(plan: &LoopPlan, placements: &[ArrayPlacement], declared: &[CaptureKind]) -> bool {
    let needed = declared.iter().any(|captured| match captured {
        CaptureKind::Buffer { targets, .. } => !has_exclusive_rows(placements, targets),
        _ => false,
    });
    let written = |mode| mode == WriteMode::Buffered || mode == WriteMode::Written;
    needed && plan.arrays.iter().any(|array| written(array.write_mode))
}

/// Functions of a loop: the body, its slice, and the captures they use.
pub(super) struct LoopFns<'l, C, H, F, P> {
    pub(super) captures: &'l C,
    pub(super) shared: &'l H,
    pub(super) body: &'l F,
    pub(super) slice: &'l P,
}

/// One pass over all blocks, on this peer.
pub(super) struct LoopExecution<'l, 'a, const N: usize, S: IterationSpace<N>, C: Capture<'a>, F, P> {
    context: LoopContext<'l, 'a>,
    plan: &'l LoopPlan,
    space: &'l S,
    fns: LoopFns<'l, C, C::Shared, F, P>,
    route: BlockRoute,
    /// Parts of this peer.
    parts: Range<usize>,
    stages: BlockStages,
    endpoint: Option<&'l LoopEndpoint<'l>>,
    /// Prefetch sets of earlier passes, for repeated loops.
    prefetch_memo: Option<Arc<PrefetchMemo>>,
    /// The loop runs again after this pass.
    repeated: bool,
    /// Intervals at which blocks are cut into chunks.
    chunks: ChunkIntervals,
    barriers: Option<BarrierSchedule>,
    failed: AtomicBool,
    /// Error of the first worker that failed.
    first_error: Mutex<Option<hemiola_cluster::Error>>,
    /// Timings of all workers that have ended.
    pub(super) block_timings: Mutex<Vec<BlockTiming>>,
}

/// State of one worker during a pass.
struct WorkerState<V, R> {
    worker: Worker,
    view: V,
    recorder: R,
    /// Block or chunk of this worker whose rows are to be announced.
    next_chunk: Option<(BlockChunk, Lookahead)>,
    /// Prefetch set of the announced block or chunk.
    announced: Option<(BlockChunk, PrefetchSet)>,
    /// Barriers that the worker has passed in this step.
    barriers_passed: u64,
    /// A barrier has decided to stop the pass. No other barrier follows.
    stopped: bool,
    /// Timings of the blocks of this worker.
    block_timings: Vec<BlockTiming>,
}

/// Barriers at which buffers are applied.
struct BarrierSchedule {
    barrier: WorkerBarrier,
    /// Barriers in each step, the same on every peer.
    per_step: u64,
}

/// Entries of a block that run together.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BlockChunk {
    block: LoopBlock,
    entries: Range<u64>,
}

/// Tells a worker to stop: the pass has failed.
struct WorkerStop;

impl<'l, 'a, const N: usize, S, C, F, P> LoopExecution<'l, 'a, N, S, C, F, P>
where
    S: IterationSpace<N>,
    C: PrefetchCapture<'a> + PassCapture<'a> + Sync,
    F: Fn(&mut C::View, [usize; N], *mut S::Value) + Sync,
    P: Fn(&mut C::Recorder, [usize; N], *mut S::Value) + Sync,
{
    pub(super) fn new(
        context: LoopContext<'l, 'a>,
        plan: &'l LoopPlan,
        space: &'l S,
        fns: LoopFns<'l, C, C::Shared, F, P>,
        endpoint: Option<&'l LoopEndpoint<'l>>,
        (prefetch_memo, repeated): (Option<Arc<PrefetchMemo>>, bool),
        declared: &[CaptureKind],
    ) -> Result<Self> {
        let cuts = &plan.cuts;
        let route = BlockRoute::new(cuts, context.cluster.rank());
        let parts = route.parts();
        let stages = BlockStages::new((0..cuts.times()).map(|time| route.initial_stage(time)));
        let (failed, first_error) = (AtomicBool::new(false), Mutex::new(None));
        let (chunks, barriers) = (ChunkIntervals::new(declared, context.clocks), None);
        let mut execution = Self {
            context,
            plan,
            space,
            fns,
            route,
            parts,
            stages,
            endpoint,
            prefetch_memo,
            repeated,
            chunks,
            barriers,
            failed,
            first_error,
            block_timings: Mutex::default(),
        };
        execution.barriers = execution.barrier_schedule(declared)?;
        Ok(execution)
    }

    /// *Collective* if buffers need barriers. Counts the barriers of a step.
    fn barrier_schedule(&self, declared: &[CaptureKind]) -> Result<Option<BarrierSchedule>> {
        if !needs_barriers(self.plan, self.context.placements, declared) {
            return Ok(None);
        }
        let per_step = match self.chunks.flush() {
            None => 1,
            Some(flush_interval) => {
                let blocks = self
                    .parts
                    .clone()
                    .flat_map(|part| (0..self.plan.cuts.times()).map(move |time| LoopBlock { part, time }));
                let largest = blocks.map(|block| self.space.count(block)).max().unwrap_or(0);
                // A worker may have several parts in a step, each with as many barriers. Peers may
                // differ in their numbers of workers.
                let parts = self.parts.len().div_ceil(self.context.cluster.workers()) as u64;
                let all = self.context.cluster.all_gather((largest, parts))?;
                let most = |of: fn(&(u64, u64)) -> u64| all.iter().map(of).max().unwrap_or(0).max(1);
                most(|(largest, _)| *largest).div_ceil(flush_interval) * most(|(_, parts)| *parts)
            }
        };
        Ok(Some(BarrierSchedule { barrier: WorkerBarrier::new(self.context.cluster.workers()), per_step }))
    }

    /// Runs the blocks of this peer.
    pub(super) fn run(&self) -> Result<()> {
        if self.parts.is_empty() {
            return self.end_clocks_without_blocks();
        }
        let receive =
            || self.endpoint.map_or(Ok(()), |endpoint| endpoint.receive_all(self.context.arrays, &self.stages));
        let (workers, received) = self.context.cluster.each_worker_while(|worker| self.run_worker(worker), receive);
        let first_error = self.first_error.lock().take();
        first_error.map_or(Ok(()), Err).and(received).and(workers.map(|_| ()))
    }

    /// Advances the clocks of the workers of a peer without blocks. Other peers wait for these
    /// clocks.
    fn end_clocks_without_blocks(&self) -> Result<()> {
        if self.plan.tables.is_empty() {
            return Ok(());
        }
        let LoopFns { captures, shared, .. } = self.fns;
        let ended = self.context.cluster.each_worker(|worker| {
            captures.end_pass(&mut captures.view(shared, self.context, worker.id()), self.context)
        })?;
        ended.into_iter().collect()
    }

    /// Runs the pass of one worker.
    fn run_worker(&self, worker: Worker) {
        let LoopFns { captures, shared, .. } = self.fns;
        let mut state = WorkerState {
            worker,
            view: captures.view(shared, self.context, worker.id()),
            recorder: captures.recorder(shared, self.context),
            next_chunk: None,
            announced: None,
            barriers_passed: 0,
            stopped: false,
            block_timings: Vec::new(),
        };
        self.run_steps(&mut state);
        self.block_timings.lock().append(&mut state.block_timings);
        // Also called after a failure: other workers may wait for the clocks of this one.
        if let Err(error) = captures.end_pass(&mut state.view, self.context) {
            self.fail(error);
        }
        captures.merge_counters(shared, &mut state.view);
        if let Some(endpoint) = self.endpoint {
            endpoint.worker_finished();
        }
    }

    fn run_steps(&self, state: &mut WorkerState<C::View, C::Recorder>) {
        for step in 0..self.route.steps() {
            state.barriers_passed = 0;
            let done = self.parts_of_worker(state.worker).try_for_each(|part| self.run_block(state, part, step));
            let captures = self.fns.captures;
            let ended = if done.is_ok() { captures.end_step(&mut state.view, self.context, step) } else { Ok(()) };
            let done = done.and(ended.map_err(|error| self.fail(error)));
            let Some(schedule) = &self.barriers else {
                if done.is_err() {
                    return;
                }
                continue;
            };
            // Every worker passes every barrier, even after a failure, because the others wait
            // there.
            while state.barriers_passed < schedule.per_step && !state.stopped {
                self.wait_at_barrier(state, schedule);
            }
            if state.stopped {
                return;
            }
        }
    }

    /// Parts of this peer that a worker runs.
    fn parts_of_worker(&self, worker: Worker) -> Range<usize> {
        parts_of_worker(&self.parts, worker.index(), worker.count())
    }

    /// Waits for a block, runs it and passes it on.
    fn run_block(
        &self,
        state: &mut WorkerState<C::View, C::Recorder>,
        part: usize,
        step: usize,
    ) -> Result<(), WorkerStop> {
        if self.failed.load(Ordering::SeqCst) {
            return Err(WorkerStop);
        }
        let Some((block, stage)) = self.route.visit(part, step) else { return Ok(()) };
        match self.stages.wait(self.context.cluster, state.worker.id(), block.time, stage) {
            Ok(Ok(())) => {}
            Ok(Err(stages::LoopStopped)) => return Err(WorkerStop),
            Err(error) => return Err(self.fail(error)),
        }
        let LoopFns { captures, shared, .. } = self.fns;
        captures.bind(shared, &mut state.view, self.context, block);
        let cpu_time = || self.context.cluster.env().cpu_time();
        let before = cpu_time();
        let entries = self.run_entries(state, block, (part, step))?;
        self.end_block(state, block)?;
        state.block_timings.push(BlockTiming { block, entries, compute_time: cpu_time().saturating_sub(before) });
        match self.endpoint {
            Some(endpoint) if endpoint.sends_after(part) => {
                endpoint.send(self.context.arrays, block.time).map_err(|error| self.fail(error))
            }
            _ if self.plan.cuts.schedule == LoopSchedule::Independent => Ok(()),
            _ => {
                self.stages.advance(block.time, stage + 1);
                Ok(())
            }
        }
    }

    /// Next block of a worker after the given part and step, with its distance. At the end of a
    /// repeated loop this is the first block of the next pass.
    fn next_block_after(&self, worker: Worker, part: usize, step: usize) -> Option<(LoopBlock, Lookahead)> {
        let (parts, steps) = (self.parts_of_worker(worker), self.route.steps());
        let from = |first: usize| (first..steps).flat_map(|step| parts.clone().map(move |part| (part, step)));
        let block = |(part, at): (usize, usize)| self.route.visit(part, at).map(|(block, _)| (block, at));
        let later = (part + 1..parts.end).map(|part| (part, step)).chain(from(step + 1)).find_map(block);
        let next_pass = || from(0).find_map(block).filter(|_| self.repeated).map(|first| (first, 1));
        let ((block, at), passes) = later.map(|later| (later, 0)).or_else(next_pass)?;
        let same_step = passes == 0 && at == step;
        let end = ChunkEnd { position: 0, last: true };
        let ahead = if same_step { Lookahead::SameStep(end) } else { Lookahead::Step { passes, step: at } };
        Some((block, ahead))
    }

    /// Prefetch set of some entries of a block, from the memo or by running the slice. `on_entry`
    /// is called before each entry.
    fn record_rows(
        &self,
        recorder: &mut C::Recorder,
        block: LoopBlock,
        entries: Range<u64>,
        on_entry: impl Fn(),
    ) -> PrefetchSet {
        let LoopFns { captures, slice, .. } = self.fns;
        let memo = self.prefetch_memo.as_ref();
        if let Some(rows) = memo.and_then(|memo| memo.find(block, &entries)) {
            return rows;
        }
        self.space.visit(block, entries.clone(), |key, value| {
            on_entry();
            captures.touch_by_key(recorder, &key);
            slice(recorder, key, value);
        });
        let mut rows = Vec::new();
        captures.recorded_rows(recorder, &mut rows);
        let rows = Arc::new(rows);
        if let Some(memo) = memo {
            memo.insert(block, &entries, Arc::clone(&rows));
        }
        rows
    }

    /// Runs the entries of a block, in one chunk or in several. Returns their number. `visit` is
    /// the part and the step of the block.
    fn run_entries(
        &self,
        state: &mut WorkerState<C::View, C::Recorder>,
        block: LoopBlock,
        visit: (usize, usize),
    ) -> Result<u64, WorkerStop> {
        if self.chunks.is_whole() {
            state.next_chunk = self.next_chunk_after(state.worker, block, ALL_ENTRIES, visit);
            return self.run_chunk(state, block, ALL_ENTRIES);
        }
        let count = self.space.count(block);
        let mut start = 0;
        while start < count {
            if self.chunks.flushes_at(start) {
                self.end_block(state, block)?;
                if self.barriers.as_ref().is_some_and(|schedule| !self.wait_at_barrier(state, schedule)) {
                    return Err(WorkerStop);
                }
            }
            let chunk = self.chunks.chunk_at(start, count);
            if start == 0 || self.chunks.has_clocks() {
                state.next_chunk = self.next_chunk_after(state.worker, block, chunk.clone(), visit);
            }
            self.run_chunk(state, block, chunk.clone())?;
            let end = ChunkEnd { position: chunk.end, last: chunk.end == count };
            let ended = self.fns.captures.end_chunk(&mut state.view, self.context, end);
            ended.map_err(|error| self.fail(error))?;
            start = chunk.end;
        }
        Ok(count)
    }

    /// Entries that are announced while a worker runs a chunk: those of its next block, or of its
    /// next chunk if clocks end with chunks.
    fn next_chunk_after(
        &self,
        worker: Worker,
        block: LoopBlock,
        chunk: Range<u64>,
        (part, step): (usize, usize),
    ) -> Option<(BlockChunk, Lookahead)> {
        if !self.plan.tables.iter().any(|table| table.announced) {
            return None;
        }
        let by_chunk = self.chunks.has_clocks();
        if by_chunk {
            let count = self.space.count(block);
            if chunk.end < count {
                let entries = self.chunks.chunk_at(chunk.end, count);
                let end = ChunkEnd { position: chunk.end, last: false };
                return Some((BlockChunk { block, entries }, Lookahead::SameStep(end)));
            }
        }
        let (block, ahead) = self.next_block_after(worker, part, step)?;
        let entries = if by_chunk { self.chunks.chunk_at(0, self.space.count(block)) } else { ALL_ENTRIES };
        Some((BlockChunk { block, entries }, ahead))
    }

    /// Applies pending writes of a worker to exclusive rows.
    fn end_block(&self, state: &mut WorkerState<C::View, C::Recorder>, block: LoopBlock) -> Result<(), WorkerStop> {
        let LoopFns { captures, shared, .. } = self.fns;
        let ended = catch_unwind(AssertUnwindSafe(|| captures.end_block(shared, &mut state.view, self.context, block)));
        ended.unwrap_or_else(|panic| Err(self.context.rule_error(&*panic))).map_err(|error| self.fail(error))
    }

    /// Prefetches the rows of some entries of a block and runs the entries. Returns their number.
    fn run_chunk(
        &self,
        state: &mut WorkerState<C::View, C::Recorder>,
        block: LoopBlock,
        entries: Range<u64>,
    ) -> Result<u64, WorkerStop> {
        let LoopFns { captures, body, .. } = self.fns;
        // Number of entries started, and their block and first entry, to find the key of an entry that panics.
        // (Copying each key instead costs a tenth of the time of a short body: the key is loaded as
        // a whole just after it was stored in halves.)
        let (started, of) = (Cell::new(entries.start), Cell::new((block, entries.start)));
        let count = || started.set(started.get() + 1);
        let first = entries.start;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            if self.context.requests.is_some() || !self.plan.tables.is_empty() {
                let this = BlockChunk { block, entries: entries.clone() };
                let known = state.announced.take().filter(|(known, _)| *known == this);
                let rows = known.map(|(_, rows)| rows);
                let rows = rows.unwrap_or_else(|| self.record_rows(&mut state.recorder, block, entries.clone(), count));
                captures.prefetch(&mut rows.iter(), &mut state.view, self.context)?;
            }
            if let Some((next, ahead)) = state.next_chunk.take() {
                of.set((next.block, next.entries.start));
                started.set(next.entries.start);
                let rows = self.record_rows(&mut state.recorder, next.block, next.entries.clone(), count);
                of.set((block, first));
                captures.announce(&mut rows.iter(), &mut state.view, self.context, ahead)?;
                state.announced = Some((next, rows));
            }
            let view = &mut state.view;
            started.set(first);
            let mut slices = EntrySlices::new(entries);
            while let Some(slice) = slices.next(started.get(), || self.context.cluster.env().now()) {
                if self.context.cluster.stop_request().is_accepted() {
                    return Err(hemiola_cluster::Error::Stopped);
                }
                self.space.visit(block, slice, |key, value| {
                    count();
                    body(view, key, value);
                });
            }
            Ok(started.get() - first)
        }));
        let outcome = outcome.unwrap_or_else(|panic| {
            let last = started.get();
            let mut panicked = Vec::new();
            let (block, first) = of.get();
            self.space.visit(block, last.saturating_sub(1).max(first)..last, |key, _| {
                panicked = key.to_vec();
            });
            Err(Error::Body {
                site: self.plan.title.clone(),
                key: panicked,
                rank: self.context.cluster.rank(),
                message: panic_message(&*panic),
            }
            .into())
        });
        outcome.map_err(|error| self.fail(error))
    }

    /// Stores the error, unless there is one already, and stops the pass.
    fn fail(&self, error: hemiola_cluster::Error) -> WorkerStop {
        self.first_error.lock().get_or_insert(error);
        self.stop();
        WorkerStop
    }

    /// Stops the pass on this peer and notifies the others.
    fn stop(&self) {
        self.failed.store(true, Ordering::SeqCst);
        self.stages.stop();
        if let Some(endpoint) = self.endpoint {
            endpoint.send_stop();
        }
    }

    /// Waits at the barrier of all workers, and applies buffers in it. Returns false if the pass
    /// stops.
    fn wait_at_barrier(&self, state: &mut WorkerState<C::View, C::Recorder>, schedule: &BarrierSchedule) -> bool {
        let LoopFns { captures, shared, .. } = self.fns;
        state.barriers_passed += 1;
        captures.submit_updates(shared, &mut state.view, state.worker.id());
        let work = || {
            let failed = self.failed.load(Ordering::SeqCst) || self.stages.is_stopped();
            let any_failed = if self.plan.cuts.peers_used == 1 {
                Ok(failed)
            } else {
                self.context.cluster.all_gather(failed).map(|all| all.into_iter().any(|failed| failed))
            };
            match any_failed {
                Ok(false) => {
                    let applied = catch_unwind(AssertUnwindSafe(|| captures.apply_updates(shared, self.context)));
                    if let Err(error) = applied.unwrap_or_else(|panic| Err(self.context.rule_error(&*panic))) {
                        self.fail(error);
                    }
                    // Other peers may not know of a failure here. They learn of it at the next
                    // barrier, which the workers of this peer reach without running any block.
                    true
                }
                Ok(true) => {
                    self.stop();
                    false
                }
                Err(error) => {
                    self.fail(error);
                    false
                }
            }
        };
        let proceed = schedule.barrier.wait(self.context.cluster, state.worker.id(), work).unwrap_or_else(|error| {
            self.fail(error);
            false
        });
        state.stopped = !proceed;
        proceed
    }
}
