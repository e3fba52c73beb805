//! Communicator: the handle through which a peer makes collective calls.
//!
//! **Invariant:** every call takes the next tag, so peers that make the same calls in the same
//! order use the same tag for the same collective. Everything that determines how a collective
//! travels (algorithm, size of messages, lane) follows from the arguments and from measurements
//! that all peers share.

use crate::background::{BackgroundDriver, PendingCollective};
use crate::completion::NotifyFn;
use crate::error::{Error, protocol_error};
use crate::in_flight::{CallOpener, InFlightCollective, MAX_HANDLES};
use crate::measure::{self, AlgorithmTimings};
use hemiola_cluster::{Cluster, Result};
use hemiola_collective_proto::Algorithm;
use hemiola_collective_proto::protocol::{
    self, CallSetup, CollectiveCall, CollectiveElement, Operation, ReduceOp, TagSequence,
};
use hemiola_core::{ChannelOwner, Rank};
use parking_lot::Mutex;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// First tag of a communicator; the channels below are for measurements.
const FIRST_TAG: u64 = measure::MEASUREMENT_COLLECTIVES;
/// Maximum bytes of a bucket of fused small vectors.
const FUSED_BYTES: usize = 1 << 20;

/// Extension of [`Cluster`] with collectives.
pub trait CollectiveExt {
    /// *Collective.* Creates a communicator of all peers.
    fn communicator(&self) -> Result<Communicator>;
}

impl CollectiveExt for Cluster {
    fn communicator(&self) -> Result<Communicator> {
        let handle = allocate_handle(self)?;
        let inner = CommunicatorInner {
            opener: CallOpener { cluster: self.clone(), handle },
            tags: TagSequence::starting_at(FIRST_TAG),
            timings: Mutex::new(None),
            background: Arc::new(Mutex::new(None)),
            completed: AtomicU64::new(0),
            nan: AtomicU64::new(0),
        };
        Ok(Communicator { inner: Arc::new(inner), algorithm: None, on_complete: None })
    }
}

/// Number of a new communicator, the same on every peer.
pub(crate) fn allocate_handle(cluster: &Cluster) -> Result<u64> {
    let number = cluster.next_channel(ChannelOwner::Collectives).number() & ((1 << 56) - 1);
    if number >= MAX_HANDLES {
        return Err(Error::TooManyHandles.into());
    }
    Ok(number)
}

/// Counters of a communicator on this peer.
///
/// A compressed collective counts as the one or two collectives that it consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectiveStats {
    /// Number of collectives started.
    pub started: u64,
    /// Number of blocking collectives that succeeded.
    pub completed: u64,
    /// NaN elements in the results of blocking collectives on this peer.
    pub nan: u64,
}

/// Communicator of this peer. Clones, and the handles returned by
/// [`with_algorithm`](Communicator::with_algorithm), share its sequence of calls.
///
/// All methods are *collective*: every peer calls them in the same order, with the same types,
/// lengths and arguments, from one thread at a time. If the calls differ, all peers get an error
/// that names two of them. Sums are added in an [order](hemiola_collective_proto::protocol) that
/// does not depend on timing, so all peers and all runs get the same bits.
///
/// ```
/// use hemiola_collective::{CollectiveExt, ReduceOp};
///
/// hemiola_cluster::standalone(3).run(|cluster| {
///     let communicator = cluster.communicator()?;
///     let mut gradient = vec![cluster.rank().index() as f32; 1000];
///     communicator.all_reduce(&mut gradient, ReduceOp::Sum)?;
///     assert_eq!(gradient, [3.0; 1000]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<CommunicatorInner>,
    algorithm: Option<Algorithm>,
    on_complete: Option<NotifyFn>,
}

struct CommunicatorInner {
    opener: CallOpener,
    tags: TagSequence,
    /// Timings, measured when first needed.
    timings: Mutex<Option<AlgorithmTimings>>,
    /// Background thread, started when first needed; shared with duplicates.
    background: Arc<Mutex<Option<BackgroundDriver>>>,
    completed: AtomicU64,
    nan: AtomicU64,
}

impl Communicator {
    /// Returns this communicator with a fixed algorithm for every all-reduce. Without one, the
    /// fastest by the measured [timings](Communicator::algorithm_timings) is used.
    #[must_use]
    pub fn with_algorithm(&self, algorithm: Algorithm) -> Self {
        Self { inner: self.inner.clone(), algorithm: Some(algorithm), on_complete: self.on_complete.clone() }
    }

    /// Returns this communicator with a callback that is called whenever one of its non-blocking
    /// collectives completes. The background thread runs the callback, so it should do little. For
    /// programs that wait for many events at once.
    ///
    /// ```
    /// use hemiola_collective::{CollectiveExt, ReduceOp};
    /// use std::sync::mpsc;
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let (sender, receiver) = mpsc::channel();
    ///     let communicator = cluster.communicator()?.on_complete(move || sender.send(()).unwrap_or(()));
    ///     let pending = communicator.begin_all_reduce(vec![1.0_f32; 3], ReduceOp::Sum)?;
    ///     receiver.recv().unwrap();
    ///     assert!(pending.is_ready());
    ///     assert_eq!(pending.wait()?, [2.0; 3]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[must_use]
    pub fn on_complete(&self, callback: impl Fn() + Send + Sync + 'static) -> Self {
        Self { inner: self.inner.clone(), algorithm: self.algorithm, on_complete: Some(Arc::new(callback)) }
    }

    /// *Collective.* Creates a communicator with its own sequence of calls, as MPI's `Comm_dup`:
    /// peers need not agree on the interleaving of its calls with those of this one. Non-blocking
    /// collectives of both are driven by the same thread.
    pub fn duplicate(&self) -> Result<Self> {
        let inner = CommunicatorInner {
            opener: CallOpener { cluster: self.cluster().clone(), handle: allocate_handle(self.cluster())? },
            tags: TagSequence::starting_at(FIRST_TAG),
            timings: Mutex::new(*self.inner.timings.lock()),
            background: self.inner.background.clone(),
            completed: AtomicU64::new(0),
            nan: AtomicU64::new(0),
        };
        Ok(Self { inner: Arc::new(inner), algorithm: self.algorithm, on_complete: self.on_complete.clone() })
    }

    /// Counters of this communicator and its clones on this peer.
    #[must_use]
    pub fn stats(&self) -> CollectiveStats {
        CollectiveStats {
            started: self.inner.tags.taken(),
            completed: self.inner.completed.load(Ordering::Relaxed),
            nan: self.inner.nan.load(Ordering::Relaxed),
        }
    }

    /// Measured time of each all-reduce algorithm, taken by the first call that needs it. All peers
    /// have the same values.
    #[track_caller]
    pub fn algorithm_timings(&self) -> Result<AlgorithmTimings> {
        let mut timings = self.inner.timings.lock();
        if let Some(timings) = *timings {
            return Ok(timings);
        }
        let measured = measure::measure_timings(self.opener(), Location::caller())?;
        Ok(*timings.insert(measured))
    }

    /// Algorithm of an all-reduce of so many bytes.
    #[track_caller]
    pub fn algorithm(&self, bytes: usize) -> Result<Algorithm> {
        match self.algorithm {
            Some(algorithm) => Ok(algorithm),
            None if self.cluster().size() == 1 => Ok(Algorithm::Ring),
            None => Ok(self.algorithm_timings()?.choose(bytes)),
        }
    }

    /// All-reduce: every element becomes the combination of all peers' elements at its index.
    #[track_caller]
    pub fn all_reduce<T: CollectiveElement>(&self, elements: &mut [T], operator: ReduceOp) -> Result<()> {
        let operation = self.plan_all_reduce::<T>(elements.len(), operator)?;
        self.run(elements, &operation)
    }

    /// All-reduce of many vectors: small ones are fused into buckets, so that they cost the latency
    /// of one message.
    ///
    /// ```
    /// use hemiola_collective::{CollectiveExt, ReduceOp};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let communicator = cluster.communicator()?;
    ///     let (mut weights, mut bias) = (vec![1.0_f64; 100], vec![2.0]);
    ///     communicator.all_reduce_many(&mut [&mut weights, &mut bias], ReduceOp::Sum)?;
    ///     assert_eq!((weights[99], bias[0]), (2.0, 4.0));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce_many<T: CollectiveElement>(&self, vectors: &mut [&mut [T]], operator: ReduceOp) -> Result<()> {
        let lengths: Vec<usize> = vectors.iter().map(|vector| vector.len()).collect();
        for bucket in protocol::buckets(&lengths, FUSED_BYTES / size_of::<T>().max(1)) {
            let vectors = &mut vectors[bucket.vectors];
            if let [vector] = vectors {
                self.all_reduce(vector, operator)?;
                continue;
            }
            let mut packed: Vec<T> = vectors.iter().flat_map(|vector| vector.iter().copied()).collect();
            self.all_reduce(&mut packed, operator)?;
            protocol::unpack(&packed, vectors).map_err(protocol_error)?;
        }
        Ok(())
    }

    /// Reduce-scatter: the returned range of the elements becomes the combination of all peers'
    /// elements; each peer gets a different range. The rest of the buffer is undefined.
    #[track_caller]
    pub fn reduce_scatter<T: CollectiveElement>(&self, elements: &mut [T], operator: ReduceOp) -> Result<Range<usize>> {
        let operation = Operation::ReduceScatter { operator, length: elements.len() };
        self.run(elements, &operation)?;
        Ok(operation.result(self.cluster().rank(), self.cluster().size()))
    }

    /// All-gather: returns the blocks of all peers, of equal length, by rank.
    #[track_caller]
    pub fn all_gather<T: CollectiveElement>(&self, block: &[T]) -> Result<Vec<T>> {
        let mut all = self.with_own_block(block);
        self.run(&mut all, &Operation::AllGather { block: block.len() })?;
        Ok(all)
    }

    /// All-gather of blocks of any lengths: returns the blocks by rank and the range of each. Fails
    /// if they have more than `limit` elements in all.
    ///
    /// ```
    /// use hemiola_collective::CollectiveExt;
    ///
    /// hemiola_cluster::standalone(3).run(|cluster| {
    ///     let own = vec![cluster.rank().index() as i32; cluster.rank().index()];
    ///     let (all, ranges) = cluster.communicator()?.all_gather_ragged(&own, 100)?;
    ///     assert_eq!((all, ranges), (vec![1, 2, 2], vec![0..0, 0..1, 1..3]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_gather_ragged<T: CollectiveElement>(
        &self,
        block: &[T],
        limit: usize,
    ) -> Result<(Vec<T>, Vec<Range<usize>>)> {
        let lengths = self.all_gather(&[i64::try_from(block.len()).unwrap_or(i64::MAX)])?;
        let total: u128 = lengths.iter().map(|&length| u128::try_from(length).unwrap_or(0)).sum();
        if total > limit as u128 {
            return Err(protocol_error(hemiola_collective_proto::Error::GatherLimit { total, limit }));
        }
        let blocks: Vec<usize> = lengths.iter().map(|&length| usize::try_from(length).unwrap_or(0)).collect();
        let mut end = 0;
        let ranges: Vec<Range<usize>> = blocks
            .iter()
            .map(|block| {
                end += block;
                end - block..end
            })
            .collect();
        let mut all = vec![T::zeroed(); end];
        all[ranges[self.cluster().rank().index()].clone()].copy_from_slice(block);
        self.run(&mut all, &Operation::AllGatherRagged { blocks })?;
        Ok((all, ranges))
    }

    /// Broadcast: all peers get the elements of the root.
    #[track_caller]
    pub fn broadcast<T: CollectiveElement>(&self, root: Rank, elements: &mut [T]) -> Result<()> {
        self.run(elements, &Operation::Broadcast { root, length: elements.len() })
    }

    /// Reduce: the root gets the combination of all peers' elements; the other buffers are
    /// undefined.
    #[track_caller]
    pub fn reduce<T: CollectiveElement>(&self, root: Rank, elements: &mut [T], operator: ReduceOp) -> Result<()> {
        self.run(elements, &Operation::Reduce { root, operator, length: elements.len() })
    }

    /// All-to-all: block `j` of peer `i` becomes block `i` of peer `j`. The buffer holds one block
    /// per peer, of equal lengths.
    #[track_caller]
    pub fn all_to_all<T: CollectiveElement>(&self, elements: &mut [T]) -> Result<()> {
        let operation = self.plan_all_to_all(elements.len())?;
        self.run(elements, &operation)
    }

    /// Barrier: returns when every peer has called it.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.run::<u8>(&mut [], &Operation::Barrier)
    }

    /// Starts an all-reduce and returns at once; it proceeds while the program computes.
    ///
    /// ```
    /// use hemiola_collective::{CollectiveExt, ReduceOp};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let communicator = cluster.communicator()?;
    ///     let first = communicator.begin_all_reduce(vec![1.0_f32; 4096], ReduceOp::Sum)?;
    ///     let second = communicator.begin_all_reduce(vec![cluster.rank().index() as i64], ReduceOp::Max)?;
    ///     // Compute something else here.
    ///     assert_eq!(second.wait()?, [1]);
    ///     assert_eq!(first.wait()?, [2.0; 4096]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn begin_all_reduce<T: CollectiveElement>(
        &self,
        elements: Vec<T>,
        operator: ReduceOp,
    ) -> Result<PendingCollective<T>> {
        let operation = self.plan_all_reduce::<T>(elements.len(), operator)?;
        self.begin_operation(elements, &operation)
    }

    /// Starts a [`reduce_scatter`](Communicator::reduce_scatter). The range of this peer's result
    /// is `chunk_range(length, peers, rank)`.
    #[track_caller]
    pub fn begin_reduce_scatter<T: CollectiveElement>(
        &self,
        elements: Vec<T>,
        operator: ReduceOp,
    ) -> Result<PendingCollective<T>> {
        let length = elements.len();
        self.begin_operation(elements, &Operation::ReduceScatter { operator, length })
    }

    /// Starts an [`all_gather`](Communicator::all_gather) and returns at once.
    #[track_caller]
    pub fn begin_all_gather<T: CollectiveElement>(&self, block: &[T]) -> Result<PendingCollective<T>> {
        self.begin_operation(self.with_own_block(block), &Operation::AllGather { block: block.len() })
    }

    /// Starts a [`broadcast`](Communicator::broadcast) and returns at once.
    #[track_caller]
    pub fn begin_broadcast<T: CollectiveElement>(&self, root: Rank, elements: Vec<T>) -> Result<PendingCollective<T>> {
        let length = elements.len();
        self.begin_operation(elements, &Operation::Broadcast { root, length })
    }

    /// Starts a [`reduce`](Communicator::reduce) and returns at once.
    #[track_caller]
    pub fn begin_reduce<T: CollectiveElement>(
        &self,
        root: Rank,
        elements: Vec<T>,
        operator: ReduceOp,
    ) -> Result<PendingCollective<T>> {
        let length = elements.len();
        self.begin_operation(elements, &Operation::Reduce { root, operator, length })
    }

    /// Starts an [`all_to_all`](Communicator::all_to_all) and returns at once.
    #[track_caller]
    pub fn begin_all_to_all<T: CollectiveElement>(&self, elements: Vec<T>) -> Result<PendingCollective<T>> {
        let operation = self.plan_all_to_all(elements.len())?;
        self.begin_operation(elements, &operation)
    }

    /// Starts any operation on the buffer of this peer and returns at once.
    #[track_caller]
    pub fn begin_operation<T: CollectiveElement>(
        &self,
        elements: Vec<T>,
        operation: &Operation,
    ) -> Result<PendingCollective<T>> {
        let in_flight = self.in_flight::<T>(operation)?;
        self.with_background(|background| {
            background.begin(in_flight, elements, (self.cluster().peer_handle(), self.completion_callback()))
        })
    }

    #[track_caller]
    fn plan_all_reduce<T: CollectiveElement>(&self, length: usize, operator: ReduceOp) -> Result<Operation> {
        let algorithm = self.algorithm(length.saturating_mul(size_of::<T>()))?;
        Ok(Operation::AllReduce { algorithm, operator, length })
    }

    fn plan_all_to_all(&self, length: usize) -> Result<Operation> {
        let peers = self.cluster().size();
        if !length.is_multiple_of(peers) {
            return Err(Error::NotDivisible { length, peers }.into());
        }
        Ok(Operation::AllToAll { block: length / peers })
    }

    /// Buffer for the blocks of all peers, with the own block at its position.
    fn with_own_block<T: CollectiveElement>(&self, block: &[T]) -> Vec<T> {
        Operation::gather_buffer(block, self.cluster().rank(), self.cluster().size())
    }

    #[track_caller]
    fn in_flight<T: CollectiveElement>(&self, operation: &Operation) -> Result<InFlightCollective> {
        let tag = self.inner.tags.take_one();
        let call = CollectiveCall::begin(self.setup(), tag, operation, T::KIND).map_err(protocol_error)?;
        Ok(self.opener().open(call, Location::caller()))
    }

    #[track_caller]
    fn run<T: CollectiveElement>(&self, elements: &mut [T], operation: &Operation) -> Result<()> {
        let mut in_flight = self.in_flight::<T>(operation)?;
        in_flight.run(elements)?;
        self.record(1, in_flight.call().nan());
        Ok(())
    }

    pub(crate) fn with_background<R>(&self, act: impl FnOnce(&BackgroundDriver) -> R) -> Result<R> {
        let mut background = self.inner.background.lock();
        let background = match &mut *background {
            Some(background) => background,
            none => none.insert(BackgroundDriver::start(&self.inner.opener.cluster)?),
        };
        Ok(act(background))
    }

    /// Callback for completed non-blocking collectives.
    pub(crate) fn completion_callback(&self) -> Option<NotifyFn> {
        self.on_complete.clone()
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.inner.opener.cluster
    }

    /// Setup of the calls of this peer.
    pub(crate) fn setup(&self) -> CallSetup {
        CallSetup::new(self.cluster().rank(), self.cluster().size())
    }

    /// Sequence of the tags of all calls.
    pub(crate) fn tags(&self) -> &TagSequence {
        &self.inner.tags
    }

    pub(crate) fn opener(&self) -> &CallOpener {
        &self.inner.opener
    }

    /// Counts successful blocking collectives and the NaN in their results.
    pub(crate) fn record(&self, completed: u64, nan: usize) {
        self.inner.completed.fetch_add(completed, Ordering::Relaxed);
        self.inner.nan.fetch_add(nan as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Collectives")
            .field("cluster", &self.inner.opener.cluster)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}
