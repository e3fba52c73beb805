//! Saving and loading arrays together. All calls are *collective*; the folder must be on storage that all peers see.
//!
//! Every peer writes the files of its own parts; the root writes the manifest and makes the save visible with one rename.
//! What one number of peers has saved, any number can load.

use crate::dist::agree::agree;
use crate::dist::array::{DenseBlock, DistArray, Storage};
use crate::dist::element::Element;
use crate::dist::make::rows_layout;
use crate::dist::partition::Partition;
use crate::dist::place::{Pieces, in_parallel, place};
use crate::save::{Kind, Loading, Manifest, PartRecord, SaveLock, Saving, Stored};
use crate::sparse::{DuplicatePolicy, SparseBlock, SparseBuilder};
use crate::{Dense, Shape};
use hemiola_cluster::{Cluster, Result};
use std::path::Path;
use std::sync::Arc;

/// A save in progress.
///
/// ```
/// use hemiola_array::dist::{Load, MakeArrays, Save};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("model");
/// hemiola_cluster::standalone(3).run(|cluster| {
///     let w = cluster.normal([10, 4], 0.0, 1.0, 1)?;
///     let mut save = Save::begin(cluster, &path)?;
///     save.put("w", &w)?;
///     save.commit()
/// })?;
/// hemiola_cluster::standalone(2).run(|cluster| {
///     let w = Load::open(cluster, &path)?.get::<f32, 2>("w")?;
///     assert_eq!(w.shape().extents(), [10, 4]);
///     assert_eq!(w.collect()?, cluster.normal([10, 4], 0.0, 1.0, 1)?.collect()?);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is visible before `commit`"]
pub struct Save {
    cluster: Cluster,
    saving: Saving,
    manifest: Manifest,
}

impl Save {
    /// Begins a save at `path`, where nothing but an older save may be.
    pub fn begin(cluster: &Cluster, path: &Path) -> Result<Self> {
        let begun = if cluster.is_root() { Saving::begin(path).map(Some) } else { Ok(None) };
        let saving = match agree(cluster, begun)? {
            Some(saving) => agree(cluster, Ok(saving))?,
            None => agree(cluster, Saving::join(path))?,
        };
        Ok(Self { cluster: cluster.clone(), saving, manifest: Manifest::default() })
    }

    /// An error if a save of about `bytes` could not be made at `path` now; see [`Saving::check`]. The root looks.
    pub fn check(cluster: &Cluster, path: &Path, bytes: u64) -> Result<()> {
        agree(cluster, if cluster.is_root() { Saving::check(path, bytes) } else { Ok(()) })
    }

    /// The right to replace what is at `path`, which nobody else has meanwhile; see [`SaveLock`]. The root has it for all.
    pub fn lock(cluster: &Cluster, path: &Path) -> Result<Option<SaveLock>> {
        agree(cluster, if cluster.is_root() { SaveLock::take(path).map(Some) } else { Ok(None) })
    }

    /// Adds an array under a name.
    pub fn put<T: Element + Stored, const N: usize>(&mut self, name: &str, array: &DistArray<T, N>) -> Result<()> {
        let Self { cluster, saving, manifest } = self;
        let layout = array.layout();
        let first = layout.parts_of(cluster.rank()).start * layout.blocks_per_part();
        let storage = array.storage();
        let written = match &*storage {
            Storage::Dense(blocks) => in_parallel(cluster, blocks.iter().enumerate().collect(), |(index, block)| {
                let block: &DenseBlock<T, N> = block;
                saving.write_dense(name, first + index, block.first, &block.cells)
            })?,
            Storage::Sparse(blocks) => in_parallel(cluster, blocks.iter().enumerate().collect(), |(index, block)| {
                saving.write_sparse(name, first + index, block)
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
                if cluster.is_root() { saving.write_names(name, dimension, names).map(Some) } else { Ok(None) };
            if let Some(part) = cluster.broadcast(agree(cluster, written)?)? {
                manifest.add_names(name, dimension, part);
            }
        }
        Ok(())
    }

    /// Writes something down beside the arrays, the same on every peer: the settings of a model, say.
    ///
    /// # Panics
    /// If the value cannot be written as JSON.
    pub fn note(&mut self, name: &str, value: &impl serde::Serialize) {
        let value = serde_json::to_value(value).expect("notes are plain data");
        self.manifest.notes.insert(name.to_owned(), value);
    }

    /// Makes the save visible, in one step.
    pub fn commit(self) -> Result<()> {
        let Self { cluster, saving, manifest } = self;
        cluster.barrier()?;
        let committed = if cluster.is_root() { saving.commit(&manifest) } else { Ok(()) };
        agree(&cluster, committed)
    }
}

/// A save that was opened.
#[derive(Debug)]
pub struct Load {
    cluster: Cluster,
    loading: Loading,
}

impl Load {
    /// Opens the save at `path`. The root reads the manifest for all: were the save replaced just now, peers would otherwise
    /// go by different ones.
    pub fn open(cluster: &Cluster, path: &Path) -> Result<Self> {
        let read = if cluster.is_root() { Loading::manifest_of(path) } else { Ok(Vec::new()) };
        let json: Vec<u8> = cluster.broadcast(agree(cluster, read)?)?;
        let loading = agree(cluster, Loading::with_manifest(path, &json))?;
        Ok(Self { cluster: cluster.clone(), loading })
    }

    /// Names of the arrays in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.loading.manifest().arrays.keys().map(String::as_str)
    }

    /// What was written down under a name; `None` if nothing was.
    pub fn note<V: serde::de::DeserializeOwned>(&self, name: &str) -> Result<Option<V>> {
        let Some(value) = self.loading.manifest().notes.get(name) else { return Ok(None) };
        let understood = serde_json::from_value(value.clone()).map_err(|error| crate::Error::BadSave {
            path: self.loading.folder().to_owned(),
            problem: format!("its note `{name}` cannot be understood ({error})"),
        });
        agree(&self.cluster, understood).map(Some)
    }

    /// Loads an array, divided over the peers there are now.
    pub fn get<T: Element + Stored, const N: usize>(&self, name: &str) -> Result<DistArray<T, N>> {
        let (record, shape) = agree(&self.cluster, self.loading.array::<T, N>(name))?;
        let parts = record.parts.len();
        let array = match record.kind {
            Kind::Dense => self.dense(name, shape, &record.parts)?,
            Kind::Sparse { .. } => self.sparse(name, shape, parts)?,
        };
        let mut names: [Option<Arc<crate::Dictionary>>; N] = std::array::from_fn(|_| None);
        for (dimension, place) in names.iter_mut().enumerate() {
            *place = agree(&self.cluster, self.loading.read_names(name, dimension))?.map(Arc::new);
        }
        Ok(array.with_names(names))
    }

    fn dense<T: Element + Stored, const N: usize>(
        &self,
        name: &str,
        shape: Shape<N>,
        parts: &[PartRecord],
    ) -> Result<DistArray<T, N>> {
        let layout = rows_layout(&self.cluster, shape)?;
        let ranges =
            layout.parts_of(self.cluster.rank()).map(|part| layout.space.cut.range(part).unwrap_or(0..0)).collect();
        let blocks = in_parallel(&self.cluster, ranges, |range: std::ops::Range<u64>| {
            let mut extents = shape.extents();
            extents[0] = range.end - range.start;
            let mut cells = Dense::filled(Shape::new(extents), T::default())?;
            // Rows of the last dimension per index of the first.
            let rows = if shape.extent(0) == 0 { 0 } else { shape.rows()? / if N == 1 { 1 } else { shape.extent(0) } };
            for (number, part) in parts.iter().enumerate() {
                let (start, end) = (range.start.max(part.first), range.end.min(part.first + part.length));
                if start >= end {
                    continue;
                }
                let (first, saved) = self.loading.read_dense::<T, N>(name, number)?;
                if N == 1 {
                    let length = (end - start) as usize;
                    let from = (start - first) as usize;
                    let to = (start - range.start) as usize;
                    cells.row_mut(0)[to..to + length].copy_from_slice(&saved.row(0)[from..from + length]);
                } else {
                    for row in start * rows..end * rows {
                        let (to, from) = (row - range.start * rows, row - first * rows);
                        cells.row_mut(to as usize).copy_from_slice(saved.row(from as usize));
                    }
                }
            }
            Ok(DenseBlock { first: range.start, cells })
        })?;
        let blocks = agree(&self.cluster, blocks)?;
        DistArray::assemble(&self.cluster, shape, layout, Storage::Dense(blocks))
    }

    fn sparse<T: Element + Stored, const N: usize>(
        &self,
        name: &str,
        shape: Shape<N>,
        parts: usize,
    ) -> Result<DistArray<T, N>> {
        let (size, rank) = (self.cluster.size(), self.cluster.rank().index());
        let mine = (parts * rank / size..parts * (rank + 1) / size).collect();
        let builders = in_parallel(&self.cluster, mine, |part| {
            let mut builder = SparseBuilder::new();
            for (key, value) in self.loading.read_sparse::<T, N>(name, part)?.into_entries() {
                builder.push(key, value);
            }
            Ok(builder)
        })?;
        let builders = agree(&self.cluster, builders)?;
        place(&self.cluster, Pieces::built(builders, Some(shape)), &Partition::default(), DuplicatePolicy::Error)
    }
}
