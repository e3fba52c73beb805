//! The distributed array, shared by all peers of a cluster.

use crate::dist::agree::agree;
use crate::dist::build::{LocalEntries, build_array, cluster_workers, in_parallel, sum_histograms, to_builders};
use crate::dist::element::Element;
use crate::dist::lazy::LazyArray;
use crate::dist::partition::{ArrayLayout, PartitionSpec};
use crate::dist::redistribute::repartition_rows;
use crate::dist::source::{Entry, RecordSource};
use crate::read::{ParseError, ReadReport};
use crate::sparse::{DuplicatePolicy, SparseBlock, SparseBuilder};
use crate::{BadLine, DenseArray, Dictionary, Error, Histogram, JointHistogram, Partitioner, Result, Shape};
use hemiola_cluster::Cluster;
use hemiola_core::Seed;
use hemiola_core::rng::{GOLDEN_GAMMA, Permutation, PhiloxRng};
use parking_lot::{MappedRwLockReadGuard, Mutex, RwLock, RwLockReadGuard};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{AddAssign, MulAssign, SubAssign};
use std::sync::{Arc, OnceLock};

/// Maximum number of bins of a histogram for planners and reports.
const BINS: usize = 1 << 20;

/// Array shared by all peers of a cluster: dense or sparse, 1 to 4 dimensions. Each peer owns some
/// of its parts.
///
/// Methods marked *collective* must be called by every peer. See [`dist`](crate::dist) for an
/// overview, and [`LazyArray`] for reading.
///
/// A parallel loop writes an array through a shared reference and may change its layout. Meanwhile
/// it [locks](Self::lock) the array, and methods that access the contents panic with the name of
/// the loop. They also panic if a failed loop has [poisoned](Self::poison) the array.
pub struct DistArray<T, const N: usize> {
    pub(crate) cluster: Cluster,
    pub(crate) shape: Shape<N>,
    entries: usize,
    pub(crate) contents: RwLock<ArrayContents<T, N>>,
    /// Name of the loop that holds the write lock, for messages.
    pub(crate) holder: Mutex<Option<String>>,
    /// The loop that failed and left the array incomplete.
    pub(crate) poisoned_by: OnceLock<String>,
    /// Cached histogram by dimension. Keys never change, so it stays valid.
    histograms: Mutex<[Option<Arc<Histogram>>; N]>,
    /// Cached balanced partitioners, by dimension and number of parts.
    balanced_partitioners: Mutex<BTreeMap<(usize, usize), Arc<Partitioner>>>,
    /// Cached joint histograms, found by dimensions and bounds.
    joint_histograms: Mutex<Vec<Arc<JointHistogram>>>,
    /// Values that loops cache between runs, by loop.
    caches: Mutex<BTreeMap<usize, Arc<dyn Any + Send + Sync>>>,
    /// Dictionary of each dimension whose keys were read as strings.
    names: [Option<Arc<Dictionary>>; N],
    /// Permutation of each shuffled dimension.
    key_permutations: [Option<Permutation>; N],
    /// Bad lines that were skipped while reading.
    skipped_lines: Arc<Vec<BadLine>>,
    /// Loops may write NaN and infinity.
    allows_non_finite: bool,
}

/// Layout of an array and the blocks this peer owns.
#[derive(Clone, Debug)]
pub(crate) struct ArrayContents<T, const N: usize> {
    pub(crate) layout: Arc<ArrayLayout>,
    pub(crate) storage: Storage<T, N>,
}

/// Blocks of an array that one peer owns.
#[derive(Clone, Debug)]
pub enum Storage<T, const N: usize> {
    /// Entries with keys: one block per part and time step of this peer, part by part.
    Sparse(Vec<SparseBlock<T, N>>),
    /// All cells: one block per part of this peer.
    Dense(Vec<DenseBlock<T, N>>),
}

/// Consecutive rows of a dense array.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseBlock<T, const N: usize> {
    /// First index of the block in the first dimension.
    pub first: usize,
    /// Cells of the block, row-major.
    pub cells: DenseArray<T, N>,
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
    /// *Collective.* Creates an array from the blocks that each peer owns.
    pub(crate) fn from_local_storage(
        cluster: &Cluster,
        shape: Shape<N>,
        layout: ArrayLayout,
        storage: Storage<T, N>,
    ) -> hemiola_cluster::Result<Self> {
        let entries = match &storage {
            Storage::Sparse(blocks) => blocks.iter().map(SparseBlock::len).sum(),
            Storage::Dense(blocks) => {
                let cells = |block: &DenseBlock<T, N>| block.cells.rows().map(<[T]>::len).sum::<usize>();
                blocks.iter().map(cells).sum()
            }
        };
        let entries = cluster.all_gather::<usize>(entries)?.into_iter().sum();
        let contents = ArrayContents { layout: Arc::new(layout), storage };
        Ok(Self::from_contents(cluster, shape, entries, contents))
    }

    fn from_contents(cluster: &Cluster, shape: Shape<N>, entries: usize, contents: ArrayContents<T, N>) -> Self {
        let (names, key_permutations) = (std::array::from_fn(|_| None), [None; N]);
        let histograms = Mutex::new(std::array::from_fn(|_| None));
        let (contents, holder, caches) = (RwLock::new(contents), Mutex::new(None), Mutex::default());
        let (cluster, poisoned_by, skipped_lines) = (cluster.clone(), OnceLock::new(), Arc::default());
        let (balanced_partitioners, joint_histograms) = (Mutex::default(), Mutex::default());
        Self {
            cluster,
            shape,
            entries,
            contents,
            holder,
            poisoned_by,
            histograms,
            balanced_partitioners,
            joint_histograms,
            caches,
            names,
            key_permutations,
            skipped_lines,
            allows_non_finite: false,
        }
    }

    /// Lets parallel loops write NaN and infinity to this array. Without it, a loop that has written
    /// such a value fails and names its index: the usual cause is a training that diverges. Call it
    /// where infinity has a meaning, as in distances of unreachable nodes.
    #[must_use]
    pub fn allow_non_finite(mut self) -> Self {
        self.allows_non_finite = true;
        self
    }

    /// Returns true if loops may write NaN and infinity.
    #[must_use]
    pub fn allows_non_finite(&self) -> bool {
        self.allows_non_finite
    }

    /// Read access to the contents; panics if a loop holds or has poisoned the array.
    pub(crate) fn contents(&self) -> RwLockReadGuard<'_, ArrayContents<T, N>> {
        if let Some(by) = self.poisoned_by.get() {
            panic!("{by} failed and left this array incomplete; create it again or load it");
        }
        self.contents.try_read().unwrap_or_else(|| {
            let holder = self.holder.lock().clone().unwrap_or_else(|| "a loop".to_owned());
            panic!("this array is locked by {holder}; use it after that loop has ended")
        })
    }

    /// Returns the extents of the whole array.
    #[must_use]
    pub fn shape(&self) -> Shape<N> {
        self.shape
    }

    /// Number of entries of the whole array; of cells if it is dense.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Returns true if no peer has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Returns the current layout.
    #[must_use]
    pub fn layout(&self) -> Arc<ArrayLayout> {
        Arc::clone(&self.contents().layout)
    }

    /// Returns true for entries with keys, false for a value in every cell.
    #[must_use]
    pub fn is_sparse(&self) -> bool {
        matches!(self.contents().storage, Storage::Sparse(_))
    }

    /// Returns the cluster that the array belongs to.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Returns the blocks this peer owns.
    ///
    /// # Panics
    /// Panics if a loop has locked or poisoned the array, like all methods that access its contents.
    pub fn storage(&self) -> MappedRwLockReadGuard<'_, Storage<T, N>> {
        RwLockReadGuard::map(self.contents(), |contents| &contents.storage)
    }

    /// Returns the blocks this peer owns, mutably.
    pub fn storage_mut(&mut self) -> &mut Storage<T, N> {
        &mut self.contents.get_mut().storage
    }

    /// Memory of this peer's blocks in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &*self.storage() {
            Storage::Sparse(blocks) => blocks.iter().map(SparseBlock::memory_bytes).sum(),
            Storage::Dense(blocks) => blocks.iter().map(|block| block.cells.memory_bytes()).sum(),
        }
    }

    /// Returns a value that the loop `owner` caches on this array between runs. `make` computes it
    /// if there is none or `good` rejects the cached one.
    pub fn cached<V: Any + Send + Sync>(
        &self,
        owner: usize,
        good: impl FnOnce(&V) -> bool,
        make: impl FnOnce() -> V,
    ) -> Arc<V> {
        let mut caches = self.caches.lock();
        if let Some(known) = caches.get(&owner).and_then(|value| Arc::clone(value).downcast::<V>().ok())
            && good(&known)
        {
            return known;
        }
        let fresh = Arc::new(make());
        caches.insert(owner, Arc::clone(&fresh) as Arc<dyn Any + Send + Sync>);
        fresh
    }

    /// Dictionary of a dimension whose keys were read as strings.
    #[must_use]
    pub fn names(&self, dimension: usize) -> Option<&Dictionary> {
        self.names[dimension].as_deref()
    }

    /// Bad lines that `skip_bad_lines` allowed to skip, of all peers, in file order, identical on
    /// every peer. An array derived from another one has none.
    #[must_use]
    pub fn skipped_lines(&self) -> &[BadLine] {
        &self.skipped_lines
    }

    pub(crate) fn with_skipped_lines(mut self, lines: Vec<BadLine>) -> Self {
        self.skipped_lines = Arc::new(lines);
        self
    }

    /// Replaces the dictionaries of the dimensions, for instance by those of a model's training
    /// data.
    #[must_use]
    pub fn with_names(mut self, names: [Option<Arc<Dictionary>>; N]) -> Self {
        self.names = names;
        self
    }

    /// Dictionary of a dimension, shared without a copy.
    #[must_use]
    pub fn shared_names(&self, dimension: usize) -> Option<Arc<Dictionary>> {
        self.names[dimension].clone()
    }

    /// Returns the key that an entry had before [`shuffle_keys`](Self::shuffle_keys).
    #[must_use]
    pub fn original_key(&self, key: [usize; N]) -> [usize; N] {
        std::array::from_fn(|dimension| {
            let index = key[dimension];
            self.key_permutations[dimension].map_or(index, |permutation| permutation.invert(index as u64) as usize)
        })
    }

    /// Maps an original key to its key after [`shuffle_keys`](Self::shuffle_keys).
    #[must_use]
    pub fn shuffled_key(&self, key: [usize; N]) -> [usize; N] {
        std::array::from_fn(|dimension| {
            let index = key[dimension];
            self.key_permutations[dimension].map_or(index, |permutation| permutation.apply(index as u64) as usize)
        })
    }

    fn sparse(&self, asked: &str) -> Result<MappedRwLockReadGuard<'_, [SparseBlock<T, N>]>> {
        RwLockReadGuard::try_map(self.contents(), |contents| match &contents.storage {
            Storage::Sparse(blocks) => Some(&blocks[..]),
            Storage::Dense(_) => None,
        })
        .map_err(|_| wrong_storage("dense", asked, "make it sparse with `entries().filter(..).materialize()`"))
    }

    fn dense_mut(&mut self, asked: &str) -> Result<&mut [DenseBlock<T, N>]> {
        match self.storage_mut() {
            Storage::Dense(blocks) => Ok(blocks),
            Storage::Sparse(_) => Err(wrong_storage("sparse", asked, "make it dense with `to_dense`")),
        }
    }

    /// Starts a lazy chain over the entries. Every cell of a dense array is an entry.
    pub fn entries(&self) -> LazyArray<ArrayEntries<'_, T, N>, impl Fn(Entry<T, N>) -> Option<Entry<T, N>> + Sync> {
        LazyArray::new(&self.cluster, ArrayEntries(self), Some)
    }

    /// *Collective.* Counts the entries at each index of a dimension.
    pub fn histogram(&self, dimension: usize) -> hemiola_cluster::Result<Histogram> {
        self.shared_histogram(dimension).map(|histogram| (*histogram).clone())
    }

    /// *Collective.* Returns the cached [`histogram`](Self::histogram) without a copy.
    pub fn shared_histogram(&self, dimension: usize) -> hemiola_cluster::Result<Arc<Histogram>> {
        // Calls are collective and in the same order, so either all peers have it or none does.
        if let Some(known) = &self.histograms.lock()[dimension] {
            return Ok(Arc::clone(known));
        }
        let mut histogram = Histogram::new(self.shape.extent(dimension), BINS);
        match &*self.storage() {
            Storage::Sparse(blocks) => blocks.iter().for_each(|block| histogram.add_column(block.keys(dimension))),
            Storage::Dense(_) => self.for_each(|key, _| histogram.add(key[dimension])),
        }
        let histogram = Arc::new(sum_histograms(&self.cluster, histogram)?);
        self.histograms.lock()[dimension] = Some(Arc::clone(&histogram));
        Ok(histogram)
    }

    /// *Collective.* Returns the balanced partitioner of a dimension: [`Partitioner::balanced`] of
    /// its histogram, computed once.
    pub fn balanced_partitioner(&self, dimension: usize, parts: usize) -> hemiola_cluster::Result<Arc<Partitioner>> {
        let histogram = self.shared_histogram(dimension)?;
        let mut known = self.balanced_partitioners.lock();
        let partitioner =
            known.entry((dimension, parts)).or_insert_with(|| Arc::new(Partitioner::balanced(&histogram, parts)));
        Ok(Arc::clone(partitioner))
    }

    /// *Collective.* Counts the entries of a sparse array by ranges of two dimensions; cached.
    pub fn joint_histogram(
        &self,
        dimensions: [usize; 2],
        bounds: [Vec<usize>; 2],
    ) -> hemiola_cluster::Result<Arc<JointHistogram>> {
        // Calls are collective and in the same order, so either all peers have it or none does.
        if let Some(known) = self.joint_histograms.lock().iter().find(|known| known.has_bounds(dimensions, &bounds)) {
            return Ok(Arc::clone(known));
        }
        let mut joint = JointHistogram::new(dimensions, bounds);
        {
            let blocks = self.sparse("be counted by ranges of two dimensions")?;
            let [first, second] = dimensions;
            blocks.iter().for_each(|block| joint.add_columns(block.keys(first), block.keys(second)));
        }
        // Its size grows with the square of the number of peers: gathering those of all peers would
        // take the cube.
        let sum = Arc::new(self.cluster.all_reduce(joint, |sum, counted| sum.merge(&counted))?);
        self.joint_histograms.lock().push(Arc::clone(&sum));
        Ok(sum)
    }

    /// Calls `visit` with every entry this peer owns.
    pub fn for_each(&self, mut visit: impl FnMut([usize; N], &T)) {
        match &*self.storage() {
            Storage::Sparse(blocks) => {
                blocks.iter().flat_map(SparseBlock::iter).for_each(|(key, value)| visit(key, value));
            }
            Storage::Dense(blocks) => {
                for block in blocks {
                    let shape = block.cells.shape();
                    for (linear, value) in block.cells.rows().flatten().enumerate() {
                        let mut key = shape.key(linear);
                        key[0] += block.first;
                        visit(key, value);
                    }
                }
            }
        }
    }

    /// *Collective.* Copies the array into another layout. A dense array can only be partitioned
    /// into ranges of its first dimension. Balanced ranges are equal ones there, because all rows
    /// have the same number of cells.
    pub fn repartition(&self, partition: &PartitionSpec) -> hemiola_cluster::Result<Self> {
        let contents = self.contents();
        let blocks = match &contents.storage {
            Storage::Sparse(blocks) => blocks,
            Storage::Dense(blocks) => {
                let rows = partition.row_layout(self.shape, self.cluster.size(), cluster_workers(&self.cluster)?);
                let sparse = "partition it along the first dimension, or make it sparse with `entries().materialize()`";
                let asked = "be partitioned other than into ranges of its first dimension";
                let layout = agree(&self.cluster, rows.ok_or_else(|| wrong_storage("dense", asked, sparse)))?;
                let blocks = repartition_rows(&self.cluster, self.shape, blocks, &layout)?;
                let array = Self::from_local_storage(&self.cluster, self.shape, layout, Storage::Dense(blocks))?;
                return Ok(Self { names: self.names.clone(), key_permutations: self.key_permutations, ..array });
            }
        };
        let entries = LocalEntries::from_blocks(blocks, self.shape);
        // Keys of an array are unique. `Last` avoids the ordinals that a duplicate error would
        // need.
        let array = build_array(&self.cluster, entries, partition, DuplicatePolicy::Last)?;
        Ok(Self { names: self.names.clone(), key_permutations: self.key_permutations, ..array })
    }

    /// *Collective.* Permutes the indices of every dimension at random, so that busy indices spread
    /// over all parts. [`original_key`](Self::original_key) is the inverse. A seed gives the same
    /// permutation on any cluster.
    pub fn shuffle_keys(&self, Seed(seed): Seed) -> hemiola_cluster::Result<Self> {
        let blocks = agree(&self.cluster, self.sparse("have its keys shuffled"))?;
        agree(&self.cluster, self.check_not_shuffled())?;
        let permutations: [Permutation; N] = std::array::from_fn(|dimension| {
            // Each dimension has its own seed, or a square array would stay symmetric.
            Permutation::new(
                self.shape.extent(dimension) as u64,
                Seed(seed.wrapping_add((dimension as u64).wrapping_mul(GOLDEN_GAMMA))),
            )
        });
        let builders = in_parallel(&self.cluster, to_builders(&blocks), |builder| {
            let mut builder = builder;
            for (dimension, permutation) in permutations.iter().enumerate() {
                builder.renumber(dimension, |index| permutation.apply(index as u64) as usize);
            }
            Ok(builder)
        })??;
        let entries = LocalEntries::from_builders(builders, Some(self.shape));
        let array = build_array(
            &self.cluster,
            entries,
            &PartitionSpec::along(self.layout().space.dimension),
            DuplicatePolicy::Last,
        )?;
        Ok(Self { names: self.names.clone(), key_permutations: permutations.map(Some), ..array })
    }

    fn check_not_shuffled(&self) -> Result<()> {
        if self.key_permutations.iter().all(Option::is_none) {
            return Ok(());
        }
        Err(wrong_storage("shuffled", "be shuffled again", "shuffle the original array with another seed"))
    }

    /// *Collective.* Splits the entries at random into two arrays, with about `fraction` of them in
    /// the second: a train/test split. The side of an entry depends only on its key and the seed.
    /// Both arrays have the shape and the layout of this one.
    pub fn split(&self, fraction: f64, Seed(seed): Seed) -> hemiola_cluster::Result<(Self, Self)> {
        let blocks = agree(&self.cluster, self.sparse("be split"))?;
        let rng = PhiloxRng::new(seed);
        let chosen = |key| rng.random_bool_for_key(self.original_key(key).map(|index| index as u64), fraction);
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
            let array =
                Self::from_local_storage(&self.cluster, self.shape, (*self.layout()).clone(), Storage::Sparse(blocks))?;
            Ok::<_, hemiola_cluster::Error>(Self {
                names: self.names.clone(),
                key_permutations: self.key_permutations,
                ..array
            })
        };
        Ok((half(rest)?, half(second)?))
    }

    /// *Collective.* Gathers all entries on every peer, sorted by key.
    pub fn collect(&self) -> hemiola_cluster::Result<Vec<([usize; N], T)>> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        self.for_each(|key, value| {
            keys.extend(key);
            values.push(value.clone());
        });
        let mut packed = Vec::new();
        T::pack(&values, &mut packed);
        let gathered = self.cluster.all_gather((keys, packed))?;
        let mut all = Vec::with_capacity(self.entries);
        for (keys, packed) in gathered {
            let (keys, _) = keys.as_chunks::<N>();
            all.extend(keys.iter().copied().zip(T::unpack(&packed, keys.len())?));
        }
        all.sort_by_key(|(key, _)| *key);
        Ok(all)
    }

    /// *Collective.* Converts to a dense array with `empty` in cells without an entry. It keeps the
    /// row ranges if this array is partitioned into ranges of its first dimension, and takes equal
    /// ones otherwise.
    #[expect(clippy::needless_pass_by_value, reason = "a number, in nearly every call")]
    pub fn to_dense(&self, empty: T) -> hemiola_cluster::Result<Self> {
        let layout = self.layout();
        let same = layout.space.dimension == 0 && layout.space.partitioner.is_range_based() && layout.time.is_none();
        let rows = if same {
            self.clone()
        } else {
            self.repartition(&PartitionSpec::along(0).method(crate::dist::PartitionMethod::Range))?
        };
        let blocks = agree(&self.cluster, rows.sparse("be made dense again"))?;
        let layout = rows.layout();
        let work: Vec<_> = layout.parts_of(self.cluster.rank()).zip(blocks.iter()).collect();
        let dense = in_parallel(&self.cluster, work, |(part, block): (usize, &SparseBlock<T, N>)| {
            let range = layout.space.partitioner.range(part).unwrap_or(0..0);
            let mut extents = self.shape.extents();
            extents[0] = range.end - range.start;
            let mut cells = DenseArray::filled(Shape::new(extents), empty.clone())?;
            for (mut key, value) in block.iter() {
                key[0] -= range.start;
                cells[key] = value.clone();
            }
            Ok(DenseBlock { first: range.start, cells })
        })?;
        let storage = Storage::Dense(agree(&self.cluster, dense)?);
        let array = Self::from_local_storage(&self.cluster, self.shape, (*layout).clone(), storage)?;
        Ok(Self { names: self.names.clone(), key_permutations: self.key_permutations, ..array })
    }

    /// Combines every cell with the cell of `other` at its key. Both arrays must be dense with
    /// equal row ranges per peer. There is no communication.
    pub fn zip_in_place<U: Element>(
        &mut self,
        other: &DistArray<U, N>,
        mut change: impl FnMut(&mut T, &U),
    ) -> Result<()> {
        self.shape.check_equal(other.shape)?;
        let theirs = other.contents();
        let Storage::Dense(others) = &theirs.storage else {
            return Err(wrong_storage("sparse", "be combined cell by cell", "make it dense with `to_dense`"));
        };
        if !self.layout().assigns_same_rows(&theirs.layout) {
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

fn wrong_storage(found: &str, asked: &str, hint: &str) -> Error {
    Error::WrongStorage { found: found.to_owned(), operation: asked.to_owned(), hint: hint.to_owned() }
}

/// Copies the contents into an unlocked array.
impl<T: Element, const N: usize> Clone for DistArray<T, N> {
    fn clone(&self) -> Self {
        let copy = Self::from_contents(&self.cluster, self.shape, self.entries, self.contents().clone());
        copy.histograms.lock().clone_from(&self.histograms.lock());
        Self {
            names: self.names.clone(),
            key_permutations: self.key_permutations,
            skipped_lines: self.skipped_lines.clone(),
            allows_non_finite: self.allows_non_finite,
            ..copy
        }
    }
}

impl<T, const N: usize> fmt::Debug for DistArray<T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.contents.try_read().map_or("locked by a loop", |contents| contents.storage.kind());
        formatter
            .debug_struct("DistArray")
            .field("shape", &self.shape)
            .field("entries", &self.entries)
            .field("storage", &kind)
            .finish_non_exhaustive()
    }
}

/// Record source over the entries of an array: one unit per peer, readable only by that peer.
#[derive(Debug)]
pub struct ArrayEntries<'a, T, const N: usize>(&'a DistArray<T, N>);

impl<T: Element, const N: usize> RecordSource for ArrayEntries<'_, T, N> {
    type Record = ([usize; N], T);

    fn units(&self) -> usize {
        self.0.cluster.size()
    }

    fn cost(&self, _unit: usize) -> u64 {
        1
    }

    fn pinned_peer(&self, unit: usize) -> Option<usize> {
        Some(unit)
    }

    fn visit(
        &self,
        _unit: usize,
        mut visit: impl FnMut(Self::Record) -> Result<(), Box<ParseError>>,
    ) -> Result<ReadReport> {
        let mut report = ReadReport::default();
        self.0.for_each(|key, value| {
            report.records += 1;
            // Visitors of chains reject nothing: they only see entries that are in an array
            // already.
            let _ = visit((key, value.clone()));
        });
        Ok(report)
    }
}
