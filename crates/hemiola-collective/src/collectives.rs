//! The handle through which a peer makes collective calls.
//!
//! **Invariant:** every call takes the next tag, so peers that make the same calls in the same order mean the same collective by the same
//! number; everything that decides how a collective travels (algorithm, size of messages, lane) follows from the arguments and from figures that all
//! peers were told alike.

use crate::background::{Background, Pending};
use crate::error::{Error, refused};
use crate::flight::Flight;
use crate::measure::{self, Speeds};
use crate::outcome::Wake;
use hemiola_cluster::{Cluster, Result};
use hemiola_collective_proto::Algorithm;
use hemiola_collective_proto::protocol::{self, Element, Operation, Operator, Tag};
use hemiola_core::{ChannelId, Rank};
use parking_lot::Mutex;
use std::fmt;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Top byte of the channels that belong to collectives.
pub(crate) const OWNER: u8 = 7;
/// A handle's channels: its number above, tags below.
const TAG_BITS: u32 = 40;
const HANDLES: u64 = 1 << (56 - TAG_BITS);
/// Channels before are for measurements.
const FIRST_TAG: u64 = measure::COLLECTIVES;
/// Small vectors are put together up to this many bytes.
const FUSED_BYTES: usize = 1 << 20;

/// Makes collective calls on slices of numbers.
pub trait MakeCollectives {
    /// *Collective.* A handle for collectives of all peers.
    fn collectives(&self) -> Result<Collectives>;
}

impl MakeCollectives for Cluster {
    fn collectives(&self) -> Result<Collectives> {
        let handle = handle(self)?;
        let inner = Inner {
            cluster: self.clone(),
            handle,
            next: AtomicU64::new(FIRST_TAG),
            speeds: Mutex::new(None),
            background: Arc::new(Mutex::new(None)),
            over: AtomicU64::new(0),
            nan: AtomicU64::new(0),
        };
        Ok(Collectives { inner: Arc::new(inner), algorithm: None, wake: None })
    }
}

/// The number of a new handle, the same on every peer.
pub(crate) fn handle(cluster: &Cluster) -> Result<u64> {
    let number = cluster.next_channel(OWNER).number() & ((1 << 56) - 1);
    if number >= HANDLES {
        return Err(Error::TooManyHandles.into());
    }
    Ok(number)
}

pub(crate) fn channel(handle: u64, number: u64) -> ChannelId {
    ChannelId::of(OWNER, handle << TAG_BITS | number)
}

/// What a handle has done so far on this peer.
///
/// An encoded collective counts as the one or two that it is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Collectives begun.
    pub begun: u64,
    /// Collectives that blocked and ended well.
    pub ended: u64,
    /// Elements of their results that were not numbers. Counted for results that a blocking call left in this peer's buffer.
    pub nan: u64,
}

/// This peer's handle to collectives. Clones and [`by`](Collectives::by) are handles to the same.
///
/// All methods are *collective*: every peer calls them in the same order, with the same types, lengths and arguments, from one thread at a time. Peers
/// that do not get an error that names two who differ. Sums are added in an [order](hemiola_collective_proto::protocol) that does not depend on timing, so
/// all peers and all runs get the same bits.
///
/// ```
/// use hemiola_collective::{MakeCollectives, Operator};
///
/// hemiola_cluster::standalone(3).run(|cluster| {
///     let collectives = cluster.collectives()?;
///     let mut gradient = vec![cluster.rank().index() as f32; 1000];
///     collectives.all_reduce(&mut gradient, Operator::Sum)?;
///     assert_eq!(gradient, [3.0; 1000]);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
#[derive(Clone)]
pub struct Collectives {
    inner: Arc<Inner>,
    algorithm: Option<Algorithm>,
    wake: Option<Wake>,
}

struct Inner {
    cluster: Cluster,
    handle: u64,
    /// Number of the next collective.
    next: AtomicU64,
    /// Measured when first needed.
    speeds: Mutex<Option<Speeds>>,
    /// Started when first needed; shared with handles made from this one.
    background: Arc<Mutex<Option<Background>>>,
    over: AtomicU64,
    nan: AtomicU64,
}

impl Collectives {
    /// The same handle, with every all-reduce done this way. Without it, the fastest by measured [`speeds`](Collectives::speeds) is taken.
    #[must_use]
    pub fn by(&self, algorithm: Algorithm) -> Self {
        Self { inner: self.inner.clone(), algorithm: Some(algorithm), wake: self.wake.clone() }
    }

    /// The same handle; `wake` is called whenever something that was begun through it is over, by the thread that carried it on: it should do little. For programs that wait for many things at once.
    ///
    /// ```
    /// use hemiola_collective::{MakeCollectives, Operator};
    /// use std::sync::mpsc;
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let (sender, receiver) = mpsc::channel();
    ///     let collectives = cluster.collectives()?.notifying(move || sender.send(()).unwrap_or(()));
    ///     let begun = collectives.begin_all_reduce(vec![1.0_f32; 3], Operator::Sum)?;
    ///     receiver.recv().unwrap();
    ///     assert!(begun.is_over());
    ///     assert_eq!(begun.finish()?, [2.0; 3]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[must_use]
    pub fn notifying(&self, wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { inner: self.inner.clone(), algorithm: self.algorithm, wake: Some(Arc::new(wake)) }
    }

    /// *Collective.* Another handle, whose calls have an order of their own: peers need not agree on how its calls and those of this one come between each other. What is begun through
    /// either is carried on by the same thread.
    pub fn sibling(&self) -> Result<Self> {
        let inner = Inner {
            cluster: self.inner.cluster.clone(),
            handle: handle(&self.inner.cluster)?,
            next: AtomicU64::new(FIRST_TAG),
            speeds: Mutex::new(*self.inner.speeds.lock()),
            background: self.inner.background.clone(),
            over: AtomicU64::new(0),
            nan: AtomicU64::new(0),
        };
        Ok(Self { inner: Arc::new(inner), algorithm: self.algorithm, wake: self.wake.clone() })
    }

    /// What this peer has done through this handle and its clones.
    #[must_use]
    pub fn tally(&self) -> Tally {
        Tally {
            begun: self.inner.next.load(Ordering::Relaxed) - FIRST_TAG,
            ended: self.inner.over.load(Ordering::Relaxed),
            nan: self.inner.nan.load(Ordering::Relaxed),
        }
    }

    /// What each way to do an all-reduce takes, measured by the first call that needs it. All peers have the same figures.
    #[track_caller]
    pub fn speeds(&self) -> Result<Speeds> {
        let mut speeds = self.inner.speeds.lock();
        if let Some(speeds) = *speeds {
            return Ok(speeds);
        }
        let channel = |number| channel(self.inner.handle, number);
        let measured = measure::speeds(&self.inner.cluster, channel, Location::caller())?;
        Ok(*speeds.insert(measured))
    }

    /// How an all-reduce of so many bytes will travel.
    #[track_caller]
    pub fn algorithm(&self, bytes: usize) -> Result<Algorithm> {
        match self.algorithm {
            Some(algorithm) => Ok(algorithm),
            None if self.inner.cluster.size() == 1 => Ok(Algorithm::Ring),
            None => Ok(self.speeds()?.choose(bytes)),
        }
    }

    /// Every element becomes the combination of all peers' elements at its place.
    #[track_caller]
    pub fn all_reduce<T: Element>(&self, elements: &mut [T], operator: Operator) -> Result<()> {
        let operation = self.plan_all_reduce::<T>(elements.len(), operator)?;
        self.run(elements, &operation)
    }

    /// An all-reduce of many vectors: small ones travel together, so that they cost the latency of one.
    ///
    /// ```
    /// use hemiola_collective::{MakeCollectives, Operator};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let collectives = cluster.collectives()?;
    ///     let (mut weights, mut bias) = (vec![1.0_f64; 100], vec![2.0]);
    ///     collectives.all_reduce_many(&mut [&mut weights, &mut bias], Operator::Sum)?;
    ///     assert_eq!((weights[99], bias[0]), (2.0, 4.0));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_reduce_many<T: Element>(&self, vectors: &mut [&mut [T]], operator: Operator) -> Result<()> {
        let lengths: Vec<usize> = vectors.iter().map(|vector| vector.len()).collect();
        for bucket in protocol::buckets(&lengths, FUSED_BYTES / size_of::<T>().max(1)) {
            let vectors = &mut vectors[bucket.vectors];
            if let [vector] = vectors {
                self.all_reduce(vector, operator)?;
                continue;
            }
            let mut packed: Vec<T> = vectors.iter().flat_map(|vector| vector.iter().copied()).collect();
            self.all_reduce(&mut packed, operator)?;
            protocol::unpack(&packed, vectors).map_err(refused)?;
        }
        Ok(())
    }

    /// Part of the elements becomes the combination of all peers' elements there: the part that is returned, another on each peer. The rest of the buffer is
    /// left undefined.
    #[track_caller]
    pub fn reduce_scatter<T: Element>(&self, elements: &mut [T], operator: Operator) -> Result<Range<usize>> {
        let operation = Operation::ReduceScatter { operator, length: elements.len() };
        self.run(elements, &operation)?;
        Ok(operation.result(self.inner.cluster.rank(), self.inner.cluster.size()))
    }

    /// The blocks of all peers, equally long, one after the other by rank.
    #[track_caller]
    pub fn all_gather<T: Element>(&self, block: &[T]) -> Result<Vec<T>> {
        let mut all = self.spread(block);
        self.run(&mut all, &Operation::AllGather { block: block.len() })?;
        Ok(all)
    }

    /// The blocks of all peers, of any lengths, one after the other by rank, and where each is. More than `limit` elements in all are refused.
    ///
    /// ```
    /// use hemiola_collective::MakeCollectives;
    ///
    /// hemiola_cluster::standalone(3).run(|cluster| {
    ///     let own = vec![cluster.rank().index() as i32; cluster.rank().index()];
    ///     let (all, places) = cluster.collectives()?.all_gather_ragged(&own, 100)?;
    ///     assert_eq!((all, places), (vec![1, 2, 2], vec![0..0, 0..1, 1..3]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn all_gather_ragged<T: Element>(&self, block: &[T], limit: usize) -> Result<(Vec<T>, Vec<Range<usize>>)> {
        let lengths = self.all_gather(&[i64::try_from(block.len()).unwrap_or(i64::MAX)])?;
        let total: u128 = lengths.iter().map(|&length| u128::try_from(length).unwrap_or(0)).sum();
        if total > limit as u128 {
            return Err(refused(hemiola_collective_proto::Error::TooMuch { total, limit }));
        }
        let blocks: Vec<usize> = lengths.iter().map(|&length| usize::try_from(length).unwrap_or(0)).collect();
        let mut end = 0;
        let places: Vec<Range<usize>> = blocks
            .iter()
            .map(|block| {
                end += block;
                end - block..end
            })
            .collect();
        let mut all = vec![T::zeroed(); end];
        all[places[self.inner.cluster.rank().index()].clone()].copy_from_slice(block);
        self.run(&mut all, &Operation::AllGatherRagged { blocks })?;
        Ok((all, places))
    }

    /// All get what the root has.
    #[track_caller]
    pub fn broadcast<T: Element>(&self, root: Rank, elements: &mut [T]) -> Result<()> {
        self.run(elements, &Operation::Broadcast { root, length: elements.len() })
    }

    /// The root gets the combination of all peers' elements; buffers of the others are left undefined.
    #[track_caller]
    pub fn reduce<T: Element>(&self, root: Rank, elements: &mut [T], operator: Operator) -> Result<()> {
        self.run(elements, &Operation::Reduce { root, operator, length: elements.len() })
    }

    /// Block `j` of peer `i` becomes block `i` of peer `j`. The buffer holds a block for each peer, all equally long.
    #[track_caller]
    pub fn all_to_all<T: Element>(&self, elements: &mut [T]) -> Result<()> {
        let operation = self.plan_all_to_all(elements.len())?;
        self.run(elements, &operation)
    }

    /// Returns when every peer has called it.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.run::<u8>(&mut [], &Operation::Barrier)
    }

    /// Begins an all-reduce and returns at once: it goes on while the program computes.
    ///
    /// ```
    /// use hemiola_collective::{MakeCollectives, Operator};
    ///
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let collectives = cluster.collectives()?;
    ///     let first = collectives.begin_all_reduce(vec![1.0_f32; 4096], Operator::Sum)?;
    ///     let second = collectives.begin_all_reduce(vec![cluster.rank().index() as i64], Operator::Max)?;
    ///     // Compute something else here.
    ///     assert_eq!(second.finish()?, [1]);
    ///     assert_eq!(first.finish()?, [2.0; 4096]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn begin_all_reduce<T: Element>(&self, elements: Vec<T>, operator: Operator) -> Result<Pending<T>> {
        let operation = self.plan_all_reduce::<T>(elements.len(), operator)?;
        self.begin(elements, &operation)
    }

    /// Begins a [`reduce_scatter`](Collectives::reduce_scatter). This peer's part of the result is `cut(length, peers, rank)`.
    #[track_caller]
    pub fn begin_reduce_scatter<T: Element>(&self, elements: Vec<T>, operator: Operator) -> Result<Pending<T>> {
        let length = elements.len();
        self.begin(elements, &Operation::ReduceScatter { operator, length })
    }

    /// Begins an [`all_gather`](Collectives::all_gather).
    #[track_caller]
    pub fn begin_all_gather<T: Element>(&self, block: &[T]) -> Result<Pending<T>> {
        self.begin(self.spread(block), &Operation::AllGather { block: block.len() })
    }

    /// Begins a [`broadcast`](Collectives::broadcast).
    #[track_caller]
    pub fn begin_broadcast<T: Element>(&self, root: Rank, elements: Vec<T>) -> Result<Pending<T>> {
        let length = elements.len();
        self.begin(elements, &Operation::Broadcast { root, length })
    }

    /// Begins a [`reduce`](Collectives::reduce).
    #[track_caller]
    pub fn begin_reduce<T: Element>(&self, root: Rank, elements: Vec<T>, operator: Operator) -> Result<Pending<T>> {
        let length = elements.len();
        self.begin(elements, &Operation::Reduce { root, operator, length })
    }

    /// Begins an [`all_to_all`](Collectives::all_to_all).
    #[track_caller]
    pub fn begin_all_to_all<T: Element>(&self, elements: Vec<T>) -> Result<Pending<T>> {
        let operation = self.plan_all_to_all(elements.len())?;
        self.begin(elements, &operation)
    }

    #[track_caller]
    fn plan_all_reduce<T: Element>(&self, length: usize, operator: Operator) -> Result<Operation> {
        let algorithm = self.algorithm(length.saturating_mul(size_of::<T>()))?;
        Ok(Operation::AllReduce { algorithm, operator, length })
    }

    fn plan_all_to_all(&self, length: usize) -> Result<Operation> {
        let peers = self.inner.cluster.size();
        if !length.is_multiple_of(peers) {
            return Err(Error::NotDivisible { length, peers }.into());
        }
        Ok(Operation::AllToAll { block: length / peers })
    }

    /// A buffer for the blocks of all, one's own in its place.
    fn spread<T: Element>(&self, block: &[T]) -> Vec<T> {
        let (me, peers) = (self.inner.cluster.rank().index(), self.inner.cluster.size());
        let mut all = vec![T::zeroed(); block.len() * peers];
        all[me * block.len()..(me + 1) * block.len()].copy_from_slice(block);
        all
    }

    #[track_caller]
    fn flight<T: Element>(&self, operation: &Operation) -> Result<(Flight, Tag)> {
        let number = self.take_tags(1).start;
        let (channel, tag) = (channel(self.inner.handle, number), Tag::new(number));
        Ok((Flight::begin::<T>(&self.inner.cluster, channel, tag, operation, Location::caller())?, tag))
    }

    #[track_caller]
    fn run<T: Element>(&self, elements: &mut [T], operation: &Operation) -> Result<()> {
        let (mut flight, _) = self.flight::<T>(operation)?;
        flight.run(elements)?;
        self.count(1, flight.nan());
        Ok(())
    }

    #[track_caller]
    fn begin<T: Element>(&self, elements: Vec<T>, operation: &Operation) -> Result<Pending<T>> {
        let (flight, tag) = self.flight::<T>(operation)?;
        self.with_background(|background| {
            background.begin(flight, elements, tag, (self.inner.cluster.link(), self.wake()))
        })
    }

    pub(crate) fn with_background<R>(&self, act: impl FnOnce(&Background) -> R) -> Result<R> {
        let mut background = self.inner.background.lock();
        let background = match &mut *background {
            Some(background) => background,
            none => none.insert(Background::start(&self.inner.cluster)?),
        };
        Ok(act(background))
    }

    /// Whom to tell that something is over.
    pub(crate) fn wake(&self) -> Option<Wake> {
        self.wake.clone()
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.inner.cluster
    }

    /// Takes the next tags: so many, one after the other. Their channels are those of [`Collectives::channel`].
    pub(crate) fn take_tags(&self, count: u64) -> Range<u64> {
        // Relaxed: collective calls of one peer come one after the other, whichever threads make them.
        let first = self.inner.next.fetch_add(count, Ordering::Relaxed);
        first..first + count
    }

    /// A function that names the channel of a tag.
    pub(crate) fn channels(&self) -> impl Fn(u64) -> ChannelId + Send + use<> {
        let handle = self.inner.handle;
        move |number| channel(handle, number)
    }

    /// Counts collectives that blocked and ended well, and what was not a number in their result.
    pub(crate) fn count(&self, ended: u64, nan: usize) {
        self.inner.over.fetch_add(ended, Ordering::Relaxed);
        self.inner.nan.fetch_add(nan as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for Collectives {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Collectives")
            .field("cluster", &self.inner.cluster)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}
