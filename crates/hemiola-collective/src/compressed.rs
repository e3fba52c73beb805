//! Compressed collectives: drives a [`CompressedCall`] of `hemiola-collective-proto`, one stage after
//! the other.
//!
//! **Invariant:** a compressor is lent or handed over and always comes back: updated on success,
//! unchanged on failure.

use crate::background::{BackgroundTask, PendingCollective, TaskPoll};
use crate::communicator::Communicator;
use crate::completion::{Completion, CompletionHandle, NotifyFn};
use crate::error::{Error, protocol_error};
use crate::in_flight::{CallOpener, InFlightCollective};
use hemiola_cluster::{Result, WaitReason};
use hemiola_collective_proto::compress::{CollectiveContext, CollectiveGoal, CompressedCall, StageEnd};
use hemiola_collective_proto::protocol::{CallProgress, CollectiveCall, ReduceOp, Tag, chunk_range, count_nan};
use hemiola_collective_proto::{Algorithm, Compression, Compressor};
use hemiola_core::Rank;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// Vectors whose outer products sum up to a matrix: `Σ uₖ vₖᵀ`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SufficientFactors<'a> {
    /// All `u`, one after the other, of `rows` elements each.
    pub u: &'a [f32],
    /// As many `v`, of `columns` elements each.
    pub v: &'a [f32],
    /// Number of rows of the matrix.
    pub rows: usize,
    /// Number of columns of the matrix.
    pub columns: usize,
}

impl Communicator {
    /// Creates a compressor for vectors of `length` elements. Each vector needs its own on every
    /// peer, for all its updates.
    pub fn compressor(&self, compression: Compression, length: usize) -> Result<Compressor> {
        Compressor::new(compression, length).map_err(protocol_error)
    }

    /// Creates a compressor for row-major matrices of this shape, as [`Compression::LowRank`]
    /// needs.
    pub fn matrix_compressor(&self, compression: Compression, rows: usize, columns: usize) -> Result<Compressor> {
        Compressor::for_matrix(compression, rows, columns).map_err(protocol_error)
    }

    /// Compressed [`all_reduce`](Communicator::all_reduce): fewer bytes at the cost of precision,
    /// see [`Compression`]. Each vector needs a [`Compressor`] of its own on every peer, used for
    /// all its updates, since the residual of one update is sent with the next.
    ///
    /// All peers get the same bits. Compressions with error feedback (one bit, top-k, low rank)
    /// support sums only, and only of finite values: if one peer has another value, the call fails
    /// on all, compressors and vectors stay unchanged, and all may continue with the next update.
    /// `bf16` and `f16` deliver NaN and infinity like any value. A single peer compresses and
    /// decompresses the vector all the same.
    ///
    /// ```
    /// use hemiola_collective::{Compression, CollectiveExt, ReduceOp};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let communicator = cluster.communicator()?;
    ///     let mut compressor = communicator.compressor(Compression::TopK { keep: 1 }, 4)?;
    ///     let mut gradient = vec![0.0, 0.5, 0.0, 3.0];
    ///     communicator.all_reduce_compressed(&mut gradient, ReduceOp::Sum, &mut compressor)?;
    ///     assert_eq!(gradient, [0.0, 0.0, 0.0, 6.0]);
    ///     let mut nothing_new = vec![0.0; 4];
    ///     communicator.all_reduce_compressed(&mut nothing_new, ReduceOp::Sum, &mut compressor)?;
    ///     assert_eq!(nothing_new, [0.0, 1.0, 0.0, 0.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce_compressed(
        &self,
        vector: &mut [f32],
        operator: ReduceOp,
        compressor: &mut Compressor,
    ) -> Result<()> {
        if compressor.compression() == Compression::Plain && vector.len() == compressor.length() {
            return self.all_reduce(vector, operator);
        }
        let sum = self.run_collective_compressed(compressor, vector, CollectiveGoal::AllReduce, operator)?;
        vector.copy_from_slice(&sum);
        Ok(())
    }

    /// Compressed [`reduce_scatter`](Communicator::reduce_scatter). The returned range becomes the
    /// decompressed sum of all peers; the rest stays unchanged. Followed by an
    /// [`all_gather_compressed`](Communicator::all_gather_compressed) of the ranges this is an
    /// all-reduce in two steps, and a peer may change its range in between.
    ///
    /// The residual covers the whole vector, whichever peer a part was for.
    ///
    /// ```
    /// use hemiola_collective::{Compression, CollectiveExt, ReduceOp};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let communicator = cluster.communicator()?;
    ///     let mut compressor = communicator.compressor(Compression::Bf16, 4)?;
    ///     let mut gradient = vec![1.0, 2.0, 3.0, 4.0];
    ///     let part = communicator.reduce_scatter_compressed(&mut gradient, ReduceOp::Sum, &mut compressor)?;
    ///     let expected = [[2.0, 4.0], [6.0, 8.0]][cluster.rank().index()];
    ///     assert_eq!(gradient[part], expected);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce_scatter_compressed(
        &self,
        vector: &mut [f32],
        operator: ReduceOp,
        compressor: &mut Compressor,
    ) -> Result<Range<usize>> {
        let sum = self.run_collective_compressed(compressor, vector, CollectiveGoal::ReduceScatter, operator)?;
        let part = chunk_range(vector.len(), self.cluster().size(), self.cluster().rank().index());
        vector[part.clone()].copy_from_slice(&sum);
        Ok(part)
    }

    /// Compressed [`reduce`](Communicator::reduce): the root gets the result that an
    /// [`all_reduce_compressed`](Communicator::all_reduce_compressed) would give to all; the other
    /// vectors stay unchanged.
    #[track_caller]
    pub fn reduce_compressed(
        &self,
        root: Rank,
        vector: &mut [f32],
        operator: ReduceOp,
        compressor: &mut Compressor,
    ) -> Result<()> {
        let sum = self.run_collective_compressed(compressor, vector, CollectiveGoal::Reduce { root }, operator)?;
        if root == self.cluster().rank() {
            vector.copy_from_slice(&sum);
        }
        Ok(())
    }

    /// Compressed [`all_gather`](Communicator::all_gather): returns the decompressed vectors of all
    /// peers, of equal length, by rank. The own vector is decompressed as well, so that all have
    /// the same bits.
    ///
    /// With error feedback the vectors must be updates that are summed up in the end, since the
    /// residual of one comes with the next. Low rank compresses a sum over all peers and does not
    /// support this call.
    #[track_caller]
    pub fn all_gather_compressed(&self, vector: &[f32], compressor: &mut Compressor) -> Result<Vec<f32>> {
        self.run_collective_compressed(compressor, vector, CollectiveGoal::AllGather, ReduceOp::Sum)
    }

    /// Compressed [`broadcast`](Communicator::broadcast): all peers, including the root, get the
    /// root's vector decompressed. Only the root's compressor changes.
    ///
    /// ```
    /// use hemiola_collective::{Compression, CollectiveExt};
    /// use hemiola_core::Rank;
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let communicator = cluster.communicator()?;
    ///     let mut compressor = communicator.compressor(Compression::TopK { keep: 1 }, 3)?;
    ///     let mut update = if cluster.is_root() { [1.0, 7.0, 2.0] } else { [0.0; 3] };
    ///     communicator.broadcast_compressed(Rank::ROOT, &mut update, &mut compressor)?;
    ///     assert_eq!(update, [0.0, 7.0, 0.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn broadcast_compressed(&self, root: Rank, vector: &mut [f32], compressor: &mut Compressor) -> Result<()> {
        let decompressed =
            self.run_collective_compressed(compressor, vector, CollectiveGoal::Broadcast { root }, ReduceOp::Sum)?;
        vector.copy_from_slice(&decompressed);
        Ok(())
    }

    /// Compressed [`all_to_all`](Communicator::all_to_all): block `j` of peer `i`, decompressed,
    /// becomes block `i` of peer `j`.
    #[track_caller]
    pub fn all_to_all_compressed(&self, vector: &mut [f32], compressor: &mut Compressor) -> Result<()> {
        let decompressed =
            self.run_collective_compressed(compressor, vector, CollectiveGoal::AllToAll, ReduceOp::Sum)?;
        vector.copy_from_slice(&decompressed);
        Ok(())
    }

    /// Starts any compressed collective and returns at once. [`PendingCompressed::wait`] returns
    /// the compressor and this peer's result: the sum (all-reduce, reduce at the root); its own
    /// chunk of it (reduce-scatter); nothing (reduce elsewhere); all vectors by rank (all-gather);
    /// or the vector (broadcast, all-to-all). The operator is for goals that combine.
    #[track_caller]
    pub fn begin_compressed(
        &self,
        goal: CollectiveGoal,
        vector: &[f32],
        operator: ReduceOp,
        mut compressor: Compressor,
    ) -> Result<PendingCompressed> {
        let collective = self.start_compressed(&mut compressor, vector, (goal, operator), Location::caller())?;
        let handle = self.submit_compressed(collective, compressor, |compressor, sum| (compressor, sum))?;
        Ok(PendingCompressed { handle })
    }

    /// Starts an [`all_reduce_compressed`](Communicator::all_reduce_compressed) and returns at
    /// once. [`PendingCompressed::wait`] returns the compressor.
    ///
    /// ```
    /// use hemiola_collective::{Compression, CollectiveExt, ReduceOp};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let communicator = cluster.communicator()?;
    ///     let compressor = communicator.compressor(Compression::Bf16, 1000)?;
    ///     let pending = communicator.begin_all_reduce_compressed(vec![1.5; 1000], ReduceOp::Sum, compressor)?;
    ///     // Compute something else here.
    ///     let (_compressor, sum) = pending.wait();
    ///     assert_eq!(sum?, [3.0; 1000]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn begin_all_reduce_compressed(
        &self,
        vector: Vec<f32>,
        operator: ReduceOp,
        compressor: Compressor,
    ) -> Result<PendingCompressed> {
        let pending = self.begin_compressed(CollectiveGoal::AllReduce, &vector, operator, compressor);
        drop(vector);
        pending
    }

    /// All-reduce of matrices that are sums of products `u vᵀ`: the pairs travel, and every peer
    /// multiplies. Exact up to rounding. Peers may bring different numbers of pairs, including
    /// none. The matrix is replaced. [`crate::cost::MatrixUpdate::best_scheme`] tells when this
    /// sends less than the matrix.
    ///
    /// ```
    /// use hemiola_collective::{CollectiveExt, SufficientFactors};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let communicator = cluster.communicator()?;
    ///     let mut matrix = vec![0.0; 6];
    ///     let factors = SufficientFactors { u: &[1.0, 10.0], v: &[1.0, 2.0, 3.0], rows: 2, columns: 3 };
    ///     communicator.all_reduce_factors(factors, &mut matrix)?;
    ///     assert_eq!(matrix, [2.0, 4.0, 6.0, 20.0, 40.0, 60.0]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce_factors(&self, factors: SufficientFactors<'_>, matrix: &mut [f32]) -> Result<()> {
        let SufficientFactors { rows, columns, .. } = factors;
        if rows.checked_mul(columns) != Some(matrix.len()) {
            return Err(Error::WrongShape { rows, columns, found: matrix.len() }.into());
        }
        let (collective, mut compressor) = self.start_factors(factors, Location::caller())?;
        let sum = self.run_compressed(collective, &mut compressor)?;
        matrix.copy_from_slice(&sum);
        Ok(())
    }

    /// Starts an [`all_reduce_factors`](Communicator::all_reduce_factors) and returns at once;
    /// waiting for it gives the matrix.
    #[track_caller]
    pub fn begin_all_reduce_factors(&self, factors: SufficientFactors<'_>) -> Result<PendingCollective<f32>> {
        let (collective, compressor) = self.start_factors(factors, Location::caller())?;
        Ok(PendingCollective::new(self.submit_compressed(collective, compressor, |_, sum| sum)?))
    }

    /// Runs a compressed collective on the calling thread.
    #[track_caller]
    fn run_collective_compressed(
        &self,
        compressor: &mut Compressor,
        vector: &[f32],
        goal: CollectiveGoal,
        operator: ReduceOp,
    ) -> Result<Vec<f32>> {
        let collective = self.start_compressed(compressor, vector, (goal, operator), Location::caller())?;
        self.run_compressed(collective, compressor)
    }

    /// Context of a compressed collective. Every compression of a combining goal determines the
    /// all-reduce algorithm, so that peers with different compressions take part in its measurement
    /// together and then detect the mismatch.
    #[track_caller]
    fn context(&self, goal: CollectiveGoal, operator: ReduceOp, summed_bytes: usize) -> Result<CollectiveContext> {
        let (me, peers) = (self.cluster().rank(), self.cluster().size());
        let algorithm = if goal.combines() { self.algorithm(summed_bytes)? } else { Algorithm::Ring };
        Ok(CollectiveContext { me, peers, operator, algorithm })
    }

    fn start_compressed(
        &self,
        compressor: &mut Compressor,
        vector: &[f32],
        (goal, operator): (CollectiveGoal, ReduceOp),
        site: &'static Location<'static>,
    ) -> Result<InFlightCompressed> {
        let context = self.context(goal, operator, compressor.summed_bytes())?;
        let begun = CompressedCall::begin(self.setup(), self.tags(), compressor, vector, goal, context);
        let (call, stage) = begun.map_err(protocol_error)?;
        Ok(InFlightCompressed::new(self, call, stage, site))
    }

    fn start_factors(
        &self,
        factors: SufficientFactors<'_>,
        site: &'static Location<'static>,
    ) -> Result<(InFlightCompressed, Compressor)> {
        let SufficientFactors { u, v, rows, columns } = factors;
        let context = self.context(CollectiveGoal::AllReduce, ReduceOp::Sum, 0)?;
        let begun = CompressedCall::begin_factors(self.setup(), self.tags(), (u, v), (rows, columns), context);
        let (call, stage, compressor) = begun.map_err(protocol_error)?;
        Ok((InFlightCompressed::new(self, call, stage, site), compressor))
    }

    /// Runs all stages on the calling thread.
    fn run_compressed(&self, mut collective: InFlightCompressed, compressor: &mut Compressor) -> Result<Vec<f32>> {
        let sum = loop {
            if let Some(sum) = collective.run_stage(compressor)? {
                break sum;
            }
        };
        self.record(collective.call.stages(), count_nan(&sum));
        Ok(sum)
    }

    /// Submits the collective to the background thread.
    fn submit_compressed<R: Send + 'static>(
        &self,
        collective: InFlightCompressed,
        compressor: Compressor,
        result: fn(Compressor, Result<Vec<f32>>) -> R,
    ) -> Result<CompletionHandle<R>> {
        let (completion, handle) = Completion::new(
            self.cluster().peer_handle(),
            collective.reason(),
            collective.tag,
            self.completion_callback(),
        );
        let task = CompressedTask { collective, compressor: Some(compressor), completion, result, waker: None };
        self.with_background(|background| background.submit(Box::new(task)))?;
        Ok(handle)
    }
}

/// Compressed call in flight, and its current stage.
struct InFlightCompressed {
    opener: CallOpener,
    /// Tag of the first stage.
    tag: Tag,
    site: &'static Location<'static>,
    call: CompressedCall,
    in_flight: InFlightCollective,
}

impl InFlightCompressed {
    fn new(
        communicator: &Communicator,
        call: CompressedCall,
        stage: CollectiveCall,
        site: &'static Location<'static>,
    ) -> Self {
        let (opener, tag) = (communicator.opener().clone(), stage.tag());
        let in_flight = opener.open(stage, site);
        Self { opener, tag, site, call, in_flight }
    }

    fn reason(&self) -> WaitReason {
        self.in_flight.reason()
    }

    /// Runs one stage on the calling thread. Returns the result after the last one.
    fn run_stage(&mut self, compressor: &mut Compressor) -> Result<Option<Vec<f32>>> {
        let result = self.in_flight.run(self.call.buffer());
        self.or_abort(compressor, result)?;
        self.finish_stage(compressor)
    }

    /// Continues after a stage. Returns the result after the last one.
    fn finish_stage(&mut self, compressor: &mut Compressor) -> Result<Option<Vec<f32>>> {
        match self.call.finish_stage(compressor).map_err(protocol_error)? {
            StageEnd::Done(sum) => Ok(Some(sum)),
            StageEnd::Next(stage) => {
                self.in_flight = self.opener.open(*stage, self.site);
                Ok(None)
            }
        }
    }

    fn or_abort<T>(&mut self, compressor: &mut Compressor, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.call.abort(compressor);
        }
        result
    }
}

/// Compressed collective as a task of the background thread.
struct CompressedTask<R> {
    collective: InFlightCompressed,
    /// Taken when the task completes.
    compressor: Option<Compressor>,
    completion: Arc<Completion<R>>,
    result: fn(Compressor, Result<Vec<f32>>) -> R,
    /// Waker for each of the stages to come.
    waker: Option<NotifyFn>,
}

impl<R> CompressedTask<R> {
    /// Advances as far as possible: returns the result when all is done, or the state of the wait.
    fn step(&mut self, compressor: &mut Compressor) -> Result<std::result::Result<Vec<f32>, TaskPoll>> {
        loop {
            let InFlightCompressed { call, in_flight, .. } = &mut self.collective;
            let polled = in_flight.advance(call.buffer()).and_then(|progress| {
                if let CallProgress::Waiting(peer) | CallProgress::Blocked(peer) = progress {
                    self.completion.waits_for(peer);
                }
                Ok((progress, in_flight.wait(progress, Duration::ZERO)?))
            });
            match self.collective.or_abort(compressor, polled)? {
                (CallProgress::Done, _) => {
                    if let Some(sum) = self.collective.finish_stage(compressor)? {
                        return Ok(Ok(sum));
                    }
                    if let Some(waker) = &self.waker {
                        self.collective.in_flight.set_waker(waker);
                    }
                }
                (CallProgress::Waiting(_), true) => {}
                (CallProgress::Waiting(_), false) => return Ok(Err(TaskPoll::Pending)),
                (CallProgress::Blocked(_), _) => return Ok(Err(TaskPoll::Blocked)),
            }
        }
    }

    fn complete(&mut self, compressor: Compressor, sum: Result<Vec<f32>>) {
        self.completion.complete((self.result)(compressor, sum));
    }
}

impl<R: Send> BackgroundTask for CompressedTask<R> {
    fn set_waker(&mut self, waker: &NotifyFn) {
        self.collective.in_flight.set_waker(waker);
        self.waker = Some(waker.clone());
    }

    fn poll(&mut self) -> TaskPoll {
        let Some(mut compressor) = self.compressor.take() else { return TaskPoll::Ready };
        match self.step(&mut compressor) {
            Ok(Ok(sum)) => self.complete(compressor, Ok(sum)),
            Ok(Err(received)) => {
                self.compressor = Some(compressor);
                return received;
            }
            Err(error) => self.complete(compressor, Err(error)),
        }
        TaskPoll::Ready
    }
}

impl<R> Drop for CompressedTask<R> {
    fn drop(&mut self) {
        if let Some(mut compressor) = self.compressor.take() {
            self.collective.call.abort(&mut compressor);
            let ended = Error::ClusterEnded {
                call: self.collective.in_flight.call().signature().to_string(),
                tag: self.collective.tag.number(),
            };
            self.complete(compressor, Err(ended.into()));
        }
    }
}

/// Non-blocking compressed collective. Dropping the handle does not stop it; its result and the
/// compressor are lost.
#[must_use = "the result and the compressor come from `wait`"]
pub struct PendingCompressed {
    handle: CompletionHandle<(Compressor, Result<Vec<f32>>)>,
}

impl PendingCompressed {
    /// Tag of the first stage within its communicator.
    #[must_use]
    pub fn tag(&self) -> Tag {
        self.handle.tag()
    }

    /// Returns true if [`PendingCompressed::wait`] would return at once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.handle.is_ready()
    }

    /// Waits for completion and returns the compressor and this peer's result. After an error, the
    /// compressor is as it was given.
    pub fn wait(self) -> (Compressor, Result<Vec<f32>>) {
        self.handle.wait()
    }
}

impl fmt::Debug for PendingCompressed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PendingCompressed").field("tag", &self.tag()).finish_non_exhaustive()
    }
}
