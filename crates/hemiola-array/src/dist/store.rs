//! Saving and loading distributed arrays. All calls are *collective*; the folder must be on storage
//! that all peers share.
//!
//! Every peer writes the files of its own parts. The root writes the manifest and publishes the
//! save with one rename. A save can be loaded by any number of peers.

use crate::dist::agree::agree;
use crate::dist::array::{DenseBlock, DistArray, Storage};
use crate::dist::build::{LocalEntries, build_array, in_parallel};
use crate::dist::constructors::row_layout;
use crate::dist::element::Element;
use crate::dist::partition::PartitionSpec;
use crate::files::{OsFileSystem, SharedFileSystem};
use crate::save::{Manifest, PartReader, PartRecord, PartWriter, SaveLock, StorageKind, TensorElement};
use crate::sparse::{DuplicatePolicy, SparseBlock, SparseBuilder};
use crate::{DenseArray, Shape};
use hemiola_cluster::{Cluster, Result};
use std::path::Path;
use std::sync::Arc;

/// Save in progress.
///
/// ```
/// use hemiola_array::dist::{ArrayLoader, ArrayExt, ArraySaver};
/// use hemiola_core::Seed;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model");
/// hemiola_cluster::standalone(3).run(|cluster| {
///     let w = cluster.normal([10, 4], 0.0, 1.0, Seed(1))?;
///     let mut save = ArraySaver::begin(cluster, &path)?;
///     save.put("w", &w)?;
///     save.commit()
/// })?;
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let w = ArrayLoader::open(cluster, &path)?.get::<f32, 2>("w")?;
///     assert_eq!(w.shape().extents(), [10, 4]);
///     assert_eq!(w.collect()?, cluster.normal([10, 4], 0.0, 1.0, Seed(1))?.collect()?);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is visible before `commit`"]
pub struct ArraySaver {
    pub(super) cluster: Cluster,
    pub(super) writer: PartWriter,
    pub(super) manifest: Manifest,
}

impl ArraySaver {
    /// Begins a save at `path`, which must be free or contain an older save.
    pub fn begin(cluster: &Cluster, path: &Path) -> Result<Self> {
        Self::begin_on(cluster, &OsFileSystem::shared(), path)
    }

    /// Begins a save on a file system that all peers share.
    pub fn begin_on(cluster: &Cluster, files: &SharedFileSystem, path: &Path) -> Result<Self> {
        let writer = if cluster.is_root() { PartWriter::begin_on(files, path).map(Some) } else { Ok(None) };
        let writer = agree(cluster, writer)?;
        let generation = cluster.broadcast(writer.as_ref().map_or(0, PartWriter::generation))?;
        let writer = match writer {
            Some(writer) => agree(cluster, Ok(writer))?,
            None => agree(cluster, PartWriter::join_on(files, path, generation))?,
        };
        Ok(Self { cluster: cluster.clone(), writer, manifest: Manifest::default() })
    }

    /// Returns an error if a save of about `bytes` could not be written to `path` now; see
    /// [`PartWriter::check`]. Only the root checks.
    pub fn check(cluster: &Cluster, path: &Path, bytes: u64) -> Result<()> {
        agree(cluster, if cluster.is_root() { PartWriter::check(path, bytes) } else { Ok(()) })
    }

    /// Acquires the exclusive right to replace the save at `path`; see [`SaveLock`]. The root holds
    /// it for all peers.
    pub fn lock(cluster: &Cluster, path: &Path) -> Result<Option<SaveLock>> {
        agree(cluster, if cluster.is_root() { SaveLock::acquire(path).map(Some) } else { Ok(None) })
    }

    /// Writes an array under a name.
    pub fn put<T: Element + TensorElement, const N: usize>(
        &mut self,
        name: &str,
        array: &DistArray<T, N>,
    ) -> Result<()> {
        let Self { cluster, writer, manifest } = self;
        let layout = array.layout();
        let first = layout.parts_of(cluster.rank()).start * layout.blocks_per_part();
        let storage = array.storage();
        let written = match &*storage {
            Storage::Dense(blocks) => in_parallel(cluster, blocks.iter().enumerate().collect(), |(index, block)| {
                let block: &DenseBlock<T, N> = block;
                writer.write_dense(name, first + index, block.first, &block.cells)
            })?,
            Storage::Sparse(blocks) => in_parallel(cluster, blocks.iter().enumerate().collect(), |(index, block)| {
                writer.write_sparse(name, first + index, block)
            })?,
        };
        let parts: Vec<PartRecord> = cluster.all_gather(agree(cluster, written)?)?.into_iter().flatten().collect();
        match &*storage {
            Storage::Dense(_) => manifest.add_dense::<T, N>(name, array.shape(), parts),
            Storage::Sparse(blocks) => {
                let order =
                    blocks.first().map_or_else(|| std::array::from_fn(|dimension| dimension), SparseBlock::order);
                manifest.add_sparse::<T, N>(name, array.shape(), order, parts);
            }
        }
        for dimension in 0..N {
            let Some(names) = array.names(dimension) else { continue };
            let written =
                if cluster.is_root() { writer.write_names(name, dimension, names).map(Some) } else { Ok(None) };
            if let Some(part) = cluster.broadcast(agree(cluster, written)?)? {
                manifest.add_names(name, dimension, part);
            }
        }
        Ok(())
    }

    /// Stores a value beside the arrays, such as the settings of a model. It must be identical on
    /// every peer.
    ///
    /// # Panics
    /// Panics if the value cannot be written as JSON.
    pub fn put_metadata(&mut self, name: &str, value: &impl serde::Serialize) {
        let value = serde_json::to_value(value).expect("metadata is plain data");
        self.manifest.metadata.insert(name.to_owned(), value);
    }

    /// Publishes the save atomically.
    pub fn commit(self) -> Result<()> {
        let Self { cluster, writer, manifest } = self;
        cluster.barrier()?;
        let committed = if cluster.is_root() { writer.commit(&manifest) } else { Ok(()) };
        agree(&cluster, committed)
    }
}

/// Opened save of distributed arrays.
#[derive(Debug)]
pub struct ArrayLoader {
    pub(super) cluster: Cluster,
    pub(super) reader: PartReader,
}

impl ArrayLoader {
    /// Opens the save at `path`. The root reads the manifest for all peers: while a save is being
    /// replaced, peers could otherwise read different ones.
    pub fn open(cluster: &Cluster, path: &Path) -> Result<Self> {
        Self::open_on(cluster, &OsFileSystem::shared(), path)
    }

    /// Opens the save at `path` on a file system that all peers share.
    pub fn open_on(cluster: &Cluster, files: &SharedFileSystem, path: &Path) -> Result<Self> {
        let read = if cluster.is_root() { PartReader::open_on(files, path).map(Some) } else { Ok(None) };
        let reader = agree(cluster, read)?;
        Self::with_reader_of_root(cluster, files, path, reader)
    }

    /// *Collective.* Sends the manifest that the root has read to all peers.
    fn with_reader_of_root(
        cluster: &Cluster,
        files: &SharedFileSystem,
        path: &Path,
        reader: Option<PartReader>,
    ) -> Result<Self> {
        let message = cluster.broadcast(reader.as_ref().map(PartReader::to_message))?;
        let opened = message.map(|message| PartReader::from_message(files, path, message)).transpose();
        // The root has a reader here, so every peer has got its manifest.
        let opened = opened.map(|opened| opened.or(reader));
        let missing = || crate::Error::BadSave { path: path.to_owned(), problem: "it has no manifest".to_owned() };
        let reader = agree(cluster, opened.and_then(|opened| opened.ok_or_else(missing)))?;
        Ok(Self { cluster: cluster.clone(), reader })
    }

    /// *Collective.* Opens the save before the newest one, if the newest is damaged.
    pub(super) fn open_previous(cluster: &Cluster, files: &SharedFileSystem, path: &Path) -> Result<Option<Self>> {
        let newest = if cluster.is_root() { PartReader::open_on(files, path).ok() } else { None };
        let previous = newest.and_then(|newest| newest.previous(&newest.verify().err()?));
        if !cluster.broadcast(previous.is_some())? {
            return Ok(None);
        }
        Self::with_reader_of_root(cluster, files, path, previous).map(Some)
    }

    /// Returns the reason why another save than the newest one was opened.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.reader.warning()
    }

    /// Cluster whose peers load the arrays.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Names of the arrays in the save.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.reader.manifest().arrays.keys().map(String::as_str)
    }

    /// Returns the value stored under a name, or `None` if there is none.
    pub fn metadata<V: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<V>> {
        let Some(value) = self.reader.manifest().metadata.get(name) else { return Ok(None) };
        let decoded = serde_json::from_value(value.clone()).map_err(|error| crate::Error::BadSave {
            path: self.reader.folder().to_owned(),
            problem: format!("its metadata `{name}` cannot be decoded ({error})"),
        });
        agree(&self.cluster, decoded).map(Some)
    }

    /// Loads an array as [`get`](Self::get) does; an error names the array if an element is NaN or
    /// infinite.
    pub fn get_finite<T: Element + TensorElement, const N: usize>(&self, name: &str) -> Result<DistArray<T, N>> {
        let array = self.get::<T, N>(name)?;
        let found = match &*array.storage() {
            Storage::Dense(blocks) => blocks.iter().find_map(|block| first_non_finite(block.cells.rows().flatten())),
            Storage::Sparse(blocks) => blocks.iter().find_map(|block| first_non_finite(block.values())),
        };
        let problem = |value| crate::Error::BadSave {
            path: self.reader.folder().to_owned(),
            problem: format!("array `{name}` has an element `{value}`, which no model can use"),
        };
        agree(&self.cluster, found.map_or(Ok(()), |value| Err(problem(value))))?;
        Ok(array)
    }

    /// Loads an array, partitioned over the current peers.
    pub fn get<T: Element + TensorElement, const N: usize>(&self, name: &str) -> Result<DistArray<T, N>> {
        let (record, shape) = agree(&self.cluster, self.reader.array::<T, N>(name))?;
        let parts = record.parts.len();
        let array = match record.kind {
            StorageKind::Dense => self.dense(name, shape, &record.parts)?,
            StorageKind::Sparse { .. } => self.sparse(name, shape, parts)?,
        };
        let mut names: [Option<Arc<crate::Dictionary>>; N] = std::array::from_fn(|_| None);
        for (dimension, dictionary) in names.iter_mut().enumerate() {
            *dictionary = agree(&self.cluster, self.reader.read_names(name, dimension))?.map(Arc::new);
        }
        Ok(array.with_names(names))
    }

    fn dense<T: Element + TensorElement, const N: usize>(
        &self,
        name: &str,
        shape: Shape<N>,
        parts: &[PartRecord],
    ) -> Result<DistArray<T, N>> {
        let layout = row_layout(&self.cluster, shape)?;
        let ranges = layout
            .parts_of(self.cluster.rank())
            .map(|part| layout.space.partitioner.range(part).unwrap_or(0..0))
            .collect();
        let blocks = in_parallel(&self.cluster, ranges, |range: std::ops::Range<usize>| {
            let mut extents = shape.extents();
            extents[0] = range.end - range.start;
            let mut cells = DenseArray::filled(Shape::new(extents), T::default())?;
            // Rows (of the last dimension) per index of the first dimension.
            let rows = if shape.extent(0) == 0 { 0 } else { shape.rows()? / if N == 1 { 1 } else { shape.extent(0) } };
            for (number, part) in parts.iter().enumerate() {
                let (start, end) = (range.start.max(part.first), range.end.min(part.first + part.length));
                if start >= end {
                    continue;
                }
                let (first, saved) = self.reader.read_dense::<T, N>(name, number)?;
                if N == 1 {
                    let length = end - start;
                    let from = start - first;
                    let to = start - range.start;
                    cells.row_mut(0)[to..to + length].copy_from_slice(&saved.row(0)[from..from + length]);
                } else {
                    for row in start * rows..end * rows {
                        let (to, from) = (row - range.start * rows, row - first * rows);
                        cells.row_mut(to).copy_from_slice(saved.row(from));
                    }
                }
            }
            Ok(DenseBlock { first: range.start, cells })
        })?;
        let blocks = agree(&self.cluster, blocks)?;
        DistArray::from_local_storage(&self.cluster, shape, layout, Storage::Dense(blocks))
    }

    fn sparse<T: Element + TensorElement, const N: usize>(
        &self,
        name: &str,
        shape: Shape<N>,
        parts: usize,
    ) -> Result<DistArray<T, N>> {
        let (size, rank) = (self.cluster.size(), self.cluster.rank().index());
        let mine = (parts * rank / size..parts * (rank + 1) / size).collect();
        let builders = in_parallel(&self.cluster, mine, |part| {
            let mut builder = SparseBuilder::new();
            for (key, value) in self.reader.read_sparse::<T, N>(name, part)?.into_entries() {
                builder.push(key, value);
            }
            Ok(builder)
        })?;
        let builders = agree(&self.cluster, builders)?;
        build_array(
            &self.cluster,
            LocalEntries::from_builders(builders, Some(shape)),
            &PartitionSpec::default(),
            DuplicatePolicy::Error,
        )
    }
}

fn first_non_finite<'a, T: TensorElement + 'a>(values: impl IntoIterator<Item = &'a T>) -> Option<f64> {
    values.into_iter().find_map(TensorElement::non_finite)
}
