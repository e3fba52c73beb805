//! Reader of a save: the manifest first, then any part on any peer.
//!
//! **Invariant:** no data is returned before its checksum, its shape and, for sparse parts, the
//! order of its keys are verified. Sizes are checked against the manifest and the file before
//! memory is allocated.

use super::dtype::{self, TensorElement};
use super::manifest::{self, ArrayRecord, Manifest, PartRecord, StorageKind};
use super::tensor_file::TensorReader;
use crate::sparse::{KeyColumn, SparseBlock};
use crate::{DenseArray, Dictionary, Error, Result, Shape};
use std::path::{Path, PathBuf};

/// Opened save, read part by part.
#[derive(Clone, Debug)]
pub struct PartReader {
    folder: PathBuf,
    manifest: Manifest,
}

impl PartReader {
    /// Reads the manifest of a save.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::with_manifest(folder, &Self::read_manifest(folder)?)
    }

    /// Reads the bytes of the manifest.
    pub(crate) fn read_manifest(folder: &Path) -> Result<Vec<u8>> {
        let path = folder.join(manifest::FILE);
        std::fs::read(&path).map_err(|error| Error::io("open", &path, &error))
    }

    /// Opens a save whose manifest was read by another peer.
    pub(crate) fn with_manifest(folder: &Path, json: &[u8]) -> Result<Self> {
        let path = folder.join(manifest::FILE);
        Ok(Self { folder: folder.to_owned(), manifest: Manifest::from_json(&path, json)? })
    }

    /// Folder of the save.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Manifest of the save.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Record of one array, which must have this element type and number of dimensions.
    pub fn array<T: TensorElement, const N: usize>(&self, name: &str) -> Result<(&ArrayRecord, Shape<N>)> {
        let bad = |problem: String| Error::BadSave { path: self.folder.clone(), problem };
        let Some(record) = self.manifest.arrays.get(name) else {
            let names: Vec<_> = self.manifest.arrays.keys().map(String::as_str).collect();
            return Err(bad(format!("it has no array `{name}`; its arrays are: {}", names.join(", "))));
        };
        let asked = dtype::dtype_name(T::DTYPE);
        if record.dtype != asked {
            return Err(bad(format!("array `{name}` holds {}, not {asked} as requested", record.dtype)));
        }
        let shape: [usize; N] =
            record.shape.as_slice().try_into().map_err(|_| {
                bad(format!("array `{name}` has {} dimensions, not {N} as requested", record.shape.len()))
            })?;
        Ok((record, Shape::new(shape)))
    }

    /// Reads a part of a dense array; returns it with its first index in the first dimension.
    pub fn read_dense<T: TensorElement, const N: usize>(
        &self,
        name: &str,
        part: usize,
    ) -> Result<(usize, DenseArray<T, N>)> {
        let (record, whole) = self.array::<T, N>(name)?;
        let part = self.part(record, name, part)?;
        if record.kind != StorageKind::Dense {
            return Err(self.bad(format!("array `{name}` is sparse")));
        }
        let mut reader = TensorReader::open(&self.folder, part)?;
        let mut expected = whole.extents();
        expected[0] = part.length;
        let found = reader.next::<T>("values")?;
        if found != expected || part.first.checked_add(part.length).is_none_or(|end| end > whole.extent(0)) {
            return Err(reader.bad_save(format!("it holds a tensor of {found:?}, the manifest says {expected:?}")));
        }
        let mut dense = DenseArray::filled(Shape::new(expected), T::default())?;
        for row in dense.rows_mut() {
            reader.take(row)?;
        }
        reader.finish()?;
        Ok((part.first, dense))
    }

    /// Reads a part of a sparse array.
    pub fn read_sparse<T: TensorElement, const N: usize>(&self, name: &str, part: usize) -> Result<SparseBlock<T, N>> {
        let (record, shape) = self.array::<T, N>(name)?;
        let part = self.part(record, name, part)?;
        let StorageKind::Sparse { order } = &record.kind else {
            return Err(self.bad(format!("array `{name}` is dense")));
        };
        let order = <[usize; N]>::try_from(order.as_slice()).ok().filter(|order| {
            let mut sorted = *order;
            sorted.sort_unstable();
            sorted.into_iter().eq(0..N)
        });
        let order =
            order.ok_or_else(|| self.bad(format!("the order of array `{name}` does not name every dimension once")))?;
        let mut reader = TensorReader::open(&self.folder, part)?;
        let mut keys: [KeyColumn; N] = std::array::from_fn(|_| KeyColumn::with_capacity(true, 0));
        for (dimension, column) in keys.iter_mut().enumerate() {
            let name = format!("key{dimension}");
            let narrow = reader.dtype(&name) == Some(u32::DTYPE);
            if narrow != shape.fits_u32(dimension) {
                return Err(reader.bad_save(format!("tensor `{name}` has keys of the wrong width")));
            }
            *column = if narrow {
                KeyColumn::Narrow(read_column(&mut reader, &name, part.length)?)
            } else {
                KeyColumn::Wide(read_column(&mut reader, &name, part.length)?)
            };
        }
        let values = read_column(&mut reader, "values", part.length)?;
        let path = self.folder.join(&part.file);
        reader.finish()?;
        let block = SparseBlock::from_sorted(shape, order, keys, values);
        let ordered = |key: [usize; N]| order.map(|dimension| key[dimension]);
        let inside = (0..block.len()).all(|position| shape.contains(block.key(position)));
        let ascending =
            (1..block.len()).all(|position| ordered(block.key(position - 1)) < ordered(block.key(position)));
        if !inside || !ascending {
            let problem = "its keys are not sorted inside the shape; it was not written by hemiola".to_owned();
            return Err(Error::BadSave { path, problem });
        }
        Ok(block)
    }

    /// Reads the dictionary of a dimension of an array, if it has one.
    pub fn read_names(&self, name: &str, dimension: usize) -> Result<Option<Dictionary>> {
        let Some(part) = self.manifest.arrays.get(name).and_then(|record| record.names.get(&dimension)) else {
            return Ok(None);
        };
        let mut reader = TensorReader::open(&self.folder, part)?;
        let ends: Vec<u64> = read_column(&mut reader, "ends", part.length)?;
        let bytes = reader.next::<u8>("bytes")?.iter().product::<usize>();
        let mut text = vec![0_u8; bytes];
        reader.take(&mut text)?;
        let path = self.folder.join(&part.file);
        reader.finish()?;
        let mut dictionary = Dictionary::new();
        let mut start = 0;
        for &end in &ends {
            let name = text.get(start as usize..end as usize);
            if let Some(name) = name {
                dictionary.intern(name);
            }
            start = end;
        }
        if dictionary.len() != ends.len() || start != bytes as u64 {
            return Err(Error::BadSave { path, problem: "its names overlap or repeat".to_owned() });
        }
        Ok(Some(dictionary))
    }

    fn part<'a>(&self, record: &'a ArrayRecord, name: &str, part: usize) -> Result<&'a PartRecord> {
        record.parts.get(part).ok_or_else(|| {
            self.bad(format!("array `{name}` has {} parts, so there is no part {part}", record.parts.len()))
        })
    }

    fn bad(&self, problem: String) -> Error {
        Error::BadSave { path: self.folder.clone(), problem }
    }
}

fn read_column<T: TensorElement>(reader: &mut TensorReader, name: &str, length: usize) -> Result<Vec<T>> {
    let found = reader.next::<T>(name)?;
    if found != [length] {
        return Err(reader.bad_save(format!("tensor `{name}` has the shape {found:?}, the manifest says [{length}]")));
    }
    let mut values = vec![T::default(); length];
    reader.take(&mut values)?;
    Ok(values)
}
