//! The array that all peers share.

use crate::dist::agree::agree;
use crate::dist::arrange::cut_again;
use crate::dist::element::Element;
use crate::dist::lazy::Lazy;
use crate::dist::partition::{Layout, Partition};
use crate::dist::place::{Pieces, cluster_workers, in_parallel, merged, place, reopened};
use crate::dist::source::{Entry, RecordSource};
use crate::random::{Permutation, Values};
use crate::read::{Mistake, Report};
use crate::sparse::{DuplicatePolicy, SparseBlock, SparseBuilder};
use crate::{BadLine, Cut, Dense, Dictionary, Error, Histogram, JointHistogram, Result, Shape};
use hemiola_cluster::Cluster;
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{AddAssign, MulAssign, SubAssign};
use std::sync::{Arc, OnceLock};

/// Bins of a histogram that people or planners look at.
const BINS: usize = 1 << 20;

/// An array that all peers of a cluster share: dense or sparse, 1 to 4 dimensions. Each peer holds some of its parts.
///
/// Methods marked *collective* must be called by every peer. See [`dist`](crate::dist) for an overview, and
/// [`Lazy`] for how arrays are read.
///
/// A parallel loop changes an array through a shared reference and may divide it in another way: while it does, it
/// [holds](Self::hold) the array, and methods that look at the contents panic with the name of the holder. So they do if a
/// loop has [abandoned](Self::abandon) it.
pub struct DistArray<T, const N: usize> {
    pub(crate) cluster: Cluster,
    pub(crate) shape: Shape<N>,
    entries: u64,
    pub(crate) state: RwLock<State<T, N>>,
    /// Who holds the state for writing, for messages.
    pub(crate) holder: Mutex<Option<String>>,
    /// The loop that failed and left it incomplete.
    pub(crate) abandoned: OnceLock<String>,
    /// By dimension: the histogram, once somebody has asked for it. Keys never change, so it stays true.
    histograms: Mutex<[Option<Arc<Histogram>>; N]>,
    /// Balanced cuts of its dimensions, by dimension and parts, and counts by ranges of two dimensions, in the same way.
    balanced: Mutex<BTreeMap<(usize, usize), Arc<Cut>>>,
    joints: Mutex<Vec<Arc<JointHistogram>>>,
    /// What loops over this array remember of it, by loop.
    memos: Mutex<BTreeMap<usize, Arc<dyn Any + Send + Sync>>>,
    /// By dimension: the names of its indices, where they were read as names.
    names: [Option<Arc<Dictionary>>; N],
    /// By dimension: how its indices were shuffled.
    shuffled: [Option<Permutation>; N],
    /// The lines that were left out when it was read.
    skipped: Arc<Vec<BadLine>>,
}

/// How an array is divided, and what this peer holds of it.
#[derive(Clone, Debug)]
pub(crate) struct State<T, const N: usize> {
    pub(crate) layout: Arc<Layout>,
    pub(crate) storage: Storage<T, N>,
}

/// What a peer holds of an array.
#[derive(Clone, Debug)]
pub enum Storage<T, const N: usize> {
    /// Entries with keys: one block per part and time step of this peer, part by part.
    Sparse(Vec<SparseBlock<T, N>>),
    /// Every cell: one block per part of this peer.
    Dense(Vec<DenseBlock<T, N>>),
}

/// Consecutive rows of a dense array.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseBlock<T, const N: usize> {
    /// The index of the first dimension where it begins.
    pub first: u64,
    /// Its cells.
    pub cells: Dense<T, N>,
}

impl<T, const N: usize> Storage<T, N> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Sparse(_) => "sparse",
            Self::Dense(_) => "dense",
        }
    }
}

impl<T: Element, const N: usize> DistArray<T, N> {
    /// *Collective.* Puts an array together from what each peer holds.
    pub(crate) fn assemble(
        cluster: &Cluster,
        shape: Shape<N>,
        layout: Layout,
        storage: Storage<T, N>,
    ) -> hemiola_cluster::Result<Self> {
        let entries = match &storage {
            Storage::Sparse(blocks) => blocks.iter().map(|block| block.len() as u64).sum(),
            Storage::Dense(blocks) => {
                let cells = |block: &DenseBlock<T, N>| block.cells.rows().map(|row| row.len() as u64).sum::<u64>();
                blocks.iter().map(cells).sum()
            }
        };
        let entries = cluster.all_gather::<u64>(entries)?.into_iter().sum();
        let state = State { layout: Arc::new(layout), storage };
        Ok(Self::of_state(cluster, shape, entries, state))
    }

    fn of_state(cluster: &Cluster, shape: Shape<N>, entries: u64, state: State<T, N>) -> Self {
        let (names, shuffled) = (std::array::from_fn(|_| None), [None; N]);
        let histograms = Mutex::new(std::array::from_fn(|_| None));
        let (state, holder, memos) = (RwLock::new(state), Mutex::new(None), Mutex::default());
        let (cluster, abandoned, skipped) = (cluster.clone(), OnceLock::new(), Arc::default());
        let (balanced, joints) = (Mutex::default(), Mutex::default());
        Self {
            cluster,
            shape,
            entries,
            state,
            holder,
            abandoned,
            histograms,
            balanced,
            joints,
            memos,
            names,
            shuffled,
            skipped,
        }
    }

    /// The state, to be looked at.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State<T, N>> {
        if let Some(by) = self.abandoned.get() {
            panic!("{by}, which failed, has left this array incomplete; make it anew or load it");
        }
        self.state.try_read().unwrap_or_else(|| {
            let holder = self.holder.lock().clone().unwrap_or_else(|| "a loop".to_owned());
            panic!("this array is held by {holder}; use it when that has ended")
        })
    }

    /// The extents of the whole array.
    #[must_use]
    pub fn shape(&self) -> Shape<N> {
        self.shape
    }

    /// Entries of the whole array; cells, if it is dense.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Whether it has no entry anywhere.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How it is divided.
    #[must_use]
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.state().layout)
    }

    /// Whether it has entries with keys rather than a value in every cell.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        matches!(self.state().storage, Storage::Sparse(_))
    }

    /// The cluster it belongs to.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// What this peer holds.
    ///
    /// # Panics
    /// If a loop holds the array, as all methods that look at its contents.
    pub fn storage(&self) -> MappedRwLockReadGuard<'_, Storage<T, N>> {
        RwLockReadGuard::map(self.state(), |state| &state.storage)
    }

    /// What this peer holds, to be changed in place.
    pub fn storage_mut(&mut self) -> &mut Storage<T, N> {
        &mut self.state.get_mut().storage
    }

    /// Bytes this peer holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &*self.storage() {
            Storage::Sparse(blocks) => blocks.iter().map(SparseBlock::memory_bytes).sum(),
            Storage::Dense(blocks) => blocks.iter().map(|block| block.cells.memory_bytes()).sum(),
        }
    }

    /// What a loop remembers of this array from one pass to the next, made anew where there is nothing or `good` refuses
    /// what there is.
    pub fn memo<V: Any + Send + Sync>(
        &self,
        owner: usize,
        good: impl FnOnce(&V) -> bool,
        make: impl FnOnce() -> V,
    ) -> Arc<V> {
        let mut memos = self.memos.lock();
        if let Some(known) = memos.get(&owner).and_then(|memo| Arc::clone(memo).downcast::<V>().ok())
            && good(&known)
        {
            return known;
        }
        let fresh = Arc::new(make());
        memos.insert(owner, Arc::clone(&fresh) as Arc<dyn Any + Send + Sync>);
        fresh
    }

    /// The names of a dimension's indices, if it was read as names.
    #[must_use]
    pub fn names(&self, dimension: usize) -> Option<&Dictionary> {
        self.names[dimension].as_deref()
    }

    /// The bad lines that were left out when the array was read, as `skip_bad_lines` allowed: those of all peers, in file
    /// order, the same on every peer. An array that was made from another one has none.
    #[must_use]
    pub fn skipped_lines(&self) -> &[BadLine] {
        &self.skipped
    }

    pub(crate) fn with_skipped(mut self, lines: Vec<BadLine>) -> Self {
        self.skipped = Arc::new(lines);
        self
    }

    /// The same array with other names of its indices: those of the data that a model was made from, say.
    #[must_use]
    pub fn named(self, names: [Option<Arc<Dictionary>>; N]) -> Self {
        self.with_names(names)
    }

    /// The names of a dimension's indices, to be shared.
    #[must_use]
    pub fn names_shared(&self, dimension: usize) -> Option<Arc<Dictionary>> {
        self.names[dimension].clone()
    }

    pub(crate) fn with_names(mut self, names: [Option<Arc<Dictionary>>; N]) -> Self {
        self.names = names;
        self
    }

    /// The key an entry had before [`shuffle_keys`](Self::shuffle_keys).
    #[must_use]
    pub fn original_key(&self, key: [u64; N]) -> [u64; N] {
        std::array::from_fn(|dimension| {
            self.shuffled[dimension].map_or(key[dimension], |permutation| permutation.invert(key[dimension]))
        })
    }

    /// The key an original key has after [`shuffle_keys`](Self::shuffle_keys).
    #[must_use]
    pub fn shuffled_key(&self, key: [u64; N]) -> [u64; N] {
        std::array::from_fn(|dimension| {
            self.shuffled[dimension].map_or(key[dimension], |permutation| permutation.apply(key[dimension]))
        })
    }

    fn sparse(&self, asked: &str) -> Result<MappedRwLockReadGuard<'_, [SparseBlock<T, N>]>> {
        RwLockReadGuard::try_map(self.state(), |state| match &state.storage {
            Storage::Sparse(blocks) => Some(&blocks[..]),
            Storage::Dense(_) => None,
        })
        .map_err(|_| wrong("dense", asked, "make it sparse with `entries().filter(..).materialize()`"))
    }

    fn dense_mut(&mut self, asked: &str) -> Result<&mut [DenseBlock<T, N>]> {
        match self.storage_mut() {
            Storage::Dense(blocks) => Ok(blocks),
            Storage::Sparse(_) => Err(wrong("sparse", asked, "make it dense with `to_dense`")),
        }
    }

    /// The entries as the start of a new chain. Of a dense array every cell is an entry.
    pub fn entries(&self) -> Lazy<Held<'_, T, N>, impl Fn(Entry<T, N>) -> Option<Entry<T, N>> + Sync> {
        Lazy::new(&self.cluster, Held(self), Some)
    }

    /// *Collective.* How many entries each index of a dimension has.
    pub fn histogram(&self, dimension: usize) -> hemiola_cluster::Result<Histogram> {
        self.histogram_shared(dimension).map(|histogram| (*histogram).clone())
    }

    /// *Collective.* The same without a copy.
    pub fn histogram_shared(&self, dimension: usize) -> hemiola_cluster::Result<Arc<Histogram>> {
        // Every peer asks in the same order, so either all know it or none does.
        if let Some(known) = &self.histograms.lock()[dimension] {
            return Ok(Arc::clone(known));
        }
        let mut histogram = Histogram::new(self.shape.extent(dimension), BINS);
        match &*self.storage() {
            Storage::Sparse(blocks) => blocks.iter().for_each(|block| histogram.add_all(block.keys(dimension))),
            Storage::Dense(_) => self.for_each(|key, _| histogram.add(key[dimension])),
        }
        let histogram = Arc::new(merged(&self.cluster, histogram)?);
        self.histograms.lock()[dimension] = Some(Arc::clone(&histogram));
        Ok(histogram)
    }

    /// *Collective.* A balanced cut of a dimension: what [`Cut::balanced`] makes of its histogram, made once.
    pub fn balanced_cut(&self, dimension: usize, parts: usize) -> hemiola_cluster::Result<Arc<Cut>> {
        let histogram = self.histogram_shared(dimension)?;
        let mut known = self.balanced.lock();
        let cut = known.entry((dimension, parts)).or_insert_with(|| Arc::new(Cut::balanced(&histogram, parts)));
        Ok(Arc::clone(cut))
    }

    /// *Collective.* How many entries of a sparse array lie in each pair of ranges of two dimensions, counted once.
    pub fn joint_histogram(
        &self,
        dimensions: [usize; 2],
        bounds: [Vec<u64>; 2],
    ) -> hemiola_cluster::Result<Arc<JointHistogram>> {
        // Every peer asks in the same order, so either all know it or none does.
        if let Some(known) = self.joints.lock().iter().find(|known| known.is_of(dimensions, &bounds)) {
            return Ok(Arc::clone(known));
        }
        let mut sum = JointHistogram::new(dimensions, bounds);
        let mut joint = sum.clone();
        {
            let blocks = self.sparse("be counted by ranges of two dimensions")?;
            let [first, second] = dimensions;
            blocks.iter().for_each(|block| joint.add_all(block.keys(first), block.keys(second)));
        }
        self.cluster.all_gather(joint)?.iter().for_each(|counted| sum.merge(counted));
        let sum = Arc::new(sum);
        self.joints.lock().push(Arc::clone(&sum));
        Ok(sum)
    }

    /// Hands every entry this peer holds to `visit`.
    pub fn for_each(&self, mut visit: impl FnMut([u64; N], &T)) {
        match &*self.storage() {
            Storage::Sparse(blocks) => {
                blocks.iter().flat_map(SparseBlock::iter).for_each(|(key, value)| visit(key, value));
            }
            Storage::Dense(blocks) => {
                for block in blocks {
                    let shape = block.cells.shape();
                    for (linear, value) in block.cells.rows().flatten().enumerate() {
                        let mut key = shape.key(linear as u64);
                        key[0] += block.first;
                        visit(key, value);
                    }
                }
            }
        }
    }

    /// *Collective.* The same entries, divided in another way. A dense array can be divided into ranges of its first
    /// dimension alone; balanced ranges are equal ones there, because all rows have as many cells.
    pub fn repartition(&self, partition: &Partition) -> hemiola_cluster::Result<Self> {
        let state = self.state();
        let blocks = match &state.storage {
            Storage::Sparse(blocks) => blocks,
            Storage::Dense(blocks) => {
                let rows = partition.rows(self.shape, self.cluster.size(), cluster_workers(&self.cluster)?);
                let sparse = "cut it along the first dimension, or make it sparse with `entries().materialize()`";
                let asked = "be cut in other ways than into ranges of its first dimension";
                let layout = agree(&self.cluster, rows.ok_or_else(|| wrong("dense", asked, sparse)))?;
                let blocks = cut_again(&self.cluster, self.shape, blocks, &layout)?;
                let array = Self::assemble(&self.cluster, self.shape, layout, Storage::Dense(blocks))?;
                return Ok(Self { names: self.names.clone(), shuffled: self.shuffled, ..array });
            }
        };
        let pieces = Pieces::held(blocks, self.shape);
        // The keys of an array are different; `Last` spares the numbering that an error about duplicates needs.
        let array = place(&self.cluster, pieces, partition, DuplicatePolicy::Last)?;
        Ok(Self { names: self.names.clone(), shuffled: self.shuffled, ..array })
    }

    /// *Collective.* Gives every index of every dimension another number at random, so that busy indices are spread over all
    /// parts. [`original_key`](Self::original_key) finds back. The same seed gives the same numbers on any cluster.
    pub fn shuffle_keys(&self, seed: u64) -> hemiola_cluster::Result<Self> {
        let blocks = agree(&self.cluster, self.sparse("have its keys shuffled"))?;
        agree(&self.cluster, self.must_not_be_shuffled())?;
        let permutations: [Permutation; N] = std::array::from_fn(|dimension| {
            // A seed of its own for each dimension, or a square array would stay symmetric.
            Permutation::new(self.shape.extent(dimension), seed.wrapping_add(dimension as u64 * 0x9e37_79b9_7f4a_7c15))
        });
        let builders = in_parallel(&self.cluster, reopened(&blocks), |builder| {
            let mut builder = builder;
            for (dimension, permutation) in permutations.iter().enumerate() {
                builder.renumber(dimension, |index| permutation.apply(index));
            }
            Ok(builder)
        })??;
        let pieces = Pieces::built(builders, Some(self.shape));
        let array =
            place(&self.cluster, pieces, &Partition::along(self.layout().space.dimension), DuplicatePolicy::Last)?;
        Ok(Self { names: self.names.clone(), shuffled: permutations.map(Some), ..array })
    }

    fn must_not_be_shuffled(&self) -> Result<()> {
        if self.shuffled.iter().all(Option::is_none) {
            return Ok(());
        }
        Err(wrong("shuffled", "be shuffled again", "shuffle the original array with another seed"))
    }

    /// *Collective.* Splits the entries in two by chance: about `fraction` of them in the second array. Whether an entry is
    /// in it depends on its key and the seed alone. Both have the shape and the division of this one.
    pub fn split(&self, fraction: f64, seed: u64) -> hemiola_cluster::Result<(Self, Self)> {
        let blocks = agree(&self.cluster, self.sparse("be split"))?;
        let values = Values::new(seed);
        let chosen = |key| values.chosen_key(self.original_key(key), fraction);
        let halves = in_parallel(&self.cluster, blocks.iter().collect(), |block: &SparseBlock<T, N>| {
            let mut halves = [SparseBuilder::new(), SparseBuilder::new()];
            for (key, value) in block.iter() {
                halves[usize::from(chosen(key))].push(key, value.clone());
            }
            let [rest, second] = halves.map(|half| half.finish(self.shape, block.order(), DuplicatePolicy::Error));
            Ok((rest?, second?))
        })?;
        let (rest, second): (Vec<_>, Vec<_>) = agree(&self.cluster, halves)?.into_iter().unzip();
        let half = |blocks| {
            let array = Self::assemble(&self.cluster, self.shape, (*self.layout()).clone(), Storage::Sparse(blocks))?;
            Ok::<_, hemiola_cluster::Error>(Self { names: self.names.clone(), shuffled: self.shuffled, ..array })
        };
        Ok((half(rest)?, half(second)?))
    }

    /// *Collective.* All entries on every peer, in the order of their keys.
    pub fn collect(&self) -> hemiola_cluster::Result<Vec<([u64; N], T)>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        self.for_each(|key, value| {
            keys.extend(key);
            values.push(value.clone());
        });
        let mut packed = Vec::new();
        T::pack(&values, &mut packed);
        let gathered = self.cluster.all_gather((keys, packed))?;
        let mut all = Vec::with_capacity(self.entries as usize);
        for (keys, packed) in gathered {
            let (keys, _) = keys.as_chunks::<N>();
            all.extend(keys.iter().copied().zip(T::unpack(&packed, keys.len())?));
        }
        all.sort_by_key(|(key, _)| *key);
        Ok(all)
    }

    /// *Collective.* A dense array with the same entries and `empty` everywhere else, cut along its first dimension in the
    /// same ranges if this one is cut so, in equal ones otherwise.
    #[expect(clippy::needless_pass_by_value, reason = "a number, in nearly every call")]
    pub fn to_dense(&self, empty: T) -> hemiola_cluster::Result<Self> {
        let layout = self.layout();
        let same = layout.space.dimension == 0 && layout.space.cut.is_ranges() && layout.time.is_none();
        let rows =
            if same { self.clone() } else { self.repartition(&Partition::along(0).by(crate::dist::Way::Range))? };
        let blocks = agree(&self.cluster, rows.sparse("be made dense again"))?;
        let layout = rows.layout();
        let work: Vec<_> = layout.parts_of(self.cluster.rank()).zip(blocks.iter()).collect();
        let dense = in_parallel(&self.cluster, work, |(part, block): (usize, &SparseBlock<T, N>)| {
            let range = layout.space.cut.range(part).unwrap_or(0..0);
            let mut extents = self.shape.extents();
            extents[0] = range.end - range.start;
            let mut cells = Dense::filled(Shape::new(extents), empty.clone())?;
            for (mut key, value) in block.iter() {
                key[0] -= range.start;
                cells[key] = value.clone();
            }
            Ok(DenseBlock { first: range.start, cells })
        })?;
        let storage = Storage::Dense(agree(&self.cluster, dense)?);
        let array = Self::assemble(&self.cluster, self.shape, (*layout).clone(), storage)?;
        Ok(Self { names: self.names.clone(), shuffled: self.shuffled, ..array })
    }

    /// Changes every cell together with the one at its place in `other`. Both must be dense and divided alike; no peer
    /// needs another for it.
    pub fn zip_in_place<U: Element>(
        &mut self,
        other: &DistArray<U, N>,
        mut change: impl FnMut(&mut T, &U),
    ) -> Result<()> {
        self.shape.must_equal(other.shape)?;
        let theirs = other.state();
        let Storage::Dense(others) = &theirs.storage else {
            return Err(wrong("sparse", "be combined cell by cell", "make it dense with `to_dense`"));
        };
        if !self.layout().holds_the_same_rows(&theirs.layout) {
            return Err(Error::LayoutMismatch);
        }
        let mine = self.dense_mut("be combined cell by cell")?.iter_mut().flat_map(|block| block.cells.rows_mut());
        for (mine, theirs) in mine.zip(others.iter().flat_map(|block| block.cells.rows())) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| change(mine, theirs));
        }
        Ok(())
    }

    /// Adds `other`, cell by cell.
    pub fn add(&mut self, other: &Self) -> Result<()>
    where
        T: Copy + AddAssign,
    {
        self.zip_in_place(other, |cell, other| *cell += *other)
    }

    /// Subtracts `other`, cell by cell.
    pub fn subtract(&mut self, other: &Self) -> Result<()>
    where
        T: Copy + SubAssign,
    {
        self.zip_in_place(other, |cell, other| *cell -= *other)
    }

    /// Multiplies by `other`, cell by cell.
    pub fn multiply(&mut self, other: &Self) -> Result<()>
    where
        T: Copy + MulAssign,
    {
        self.zip_in_place(other, |cell, other| *cell *= *other)
    }

    /// Multiplies every value by `factor`.
    pub fn scale(&mut self, factor: T)
    where
        T: Copy + MulAssign,
    {
        match self.storage_mut() {
            Storage::Sparse(blocks) => {
                blocks.iter_mut().flat_map(SparseBlock::values_mut).for_each(|value| *value *= factor);
            }
            Storage::Dense(blocks) => blocks.iter_mut().for_each(|block| block.cells.scale(factor)),
        }
    }
}

fn wrong(found: &str, asked: &str, hint: &str) -> Error {
    Error::WrongStorage { found: found.to_owned(), asked: asked.to_owned(), hint: hint.to_owned() }
}

/// A copy of the contents, that nobody holds.
impl<T: Element, const N: usize> Clone for DistArray<T, N> {
    fn clone(&self) -> Self {
        let copy = Self::of_state(&self.cluster, self.shape, self.entries, self.state().clone());
        copy.histograms.lock().clone_from(&self.histograms.lock());
        Self { names: self.names.clone(), shuffled: self.shuffled, skipped: self.skipped.clone(), ..copy }
    }
}

impl<T, const N: usize> fmt::Debug for DistArray<T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.state.try_read().map_or("held by a loop", |state| state.storage.kind());
        formatter
            .debug_struct("DistArray")
            .field("shape", &self.shape)
            .field("entries", &self.entries)
            .field("storage", &kind)
            .finish_non_exhaustive()
    }
}

/// The entries of an array as records: one unit per peer, which only that peer can read.
#[derive(Debug)]
pub struct Held<'a, T, const N: usize>(&'a DistArray<T, N>);

impl<T: Element, const N: usize> RecordSource for Held<'_, T, N> {
    type Record = ([u64; N], T);

    fn units(&self) -> usize {
        self.0.cluster.size()
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn home(&self, unit: usize) -> Option<usize> {
        Some(unit)
    }

    fn visit(&self, _unit: usize, mut visit: impl FnMut(Self::Record) -> Result<(), Box<Mistake>>) -> Result<Report> {
        let mut report = Report::default();
        self.0.for_each(|key, value| {
            report.records += 1;
            // The visitors of chains refuse nothing: they only see entries that are in an array already.
            let _ = visit((key, value.clone()));
        });
        Ok(report)
    }
}
