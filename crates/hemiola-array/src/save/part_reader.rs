//! Reader of a save: the manifest first, then any part on any peer.
//!
//! If the manifest is damaged, the newest generation whose own manifest is whole is opened instead,
//! and [`warning`](PartReader::warning) says so. If a part is damaged,
//! [`previous`](PartReader::previous) is the generation before.
//!
//! **Invariant:** no data is returned before its checksum, its shape and, for sparse parts, the
//! order of its keys are verified. Sizes are checked against the manifest and the file before
//! memory is allocated. Reading changes nothing on disk.

use super::dtype::{self, TensorElement};
use super::generation::{self, Generations};
use super::manifest::{self, ArrayRecord, Manifest, PartRecord, StorageKind};
use super::tensor_file::{self, TensorReader};
use crate::files::{OsFileSystem, SharedFileSystem};
use crate::sparse::{KeyColumn, SparseBlock};
use crate::{DenseArray, Dictionary, Error, Result, Shape};
use hemiola_core::ErrorKind;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// Opened save, read part by part.
#[derive(Clone, Debug)]
pub struct PartReader {
    files: SharedFileSystem,
    folder: PathBuf,
    /// Folder of the parts: that of a generation, or `folder` in saves of older versions.
    parts: PathBuf,
    generation: Option<u64>,
    manifest: Manifest,
    warning: Option<String>,
}

/// Manifest that one peer has read for all.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ManifestMessage {
    generation: Option<u64>,
    json: Vec<u8>,
    warning: Option<String>,
}

impl PartReader {
    /// Returns true if there is a save at `folder`: a manifest, or a generation that can be opened
    /// without one.
    #[must_use]
    pub fn exists(folder: &Path) -> bool {
        Self::exists_on(&OsFileSystem::shared(), folder)
    }

    /// Returns true if there is a save at `folder` on a file system, or if the file system fails to
    /// tell: then [`open_on`](Self::open_on) returns the reason. A run must not start over because a
    /// disk failed for a moment.
    #[must_use]
    pub fn exists_on(files: &SharedFileSystem, folder: &Path) -> bool {
        let is_absent = |kind| matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
        match files.entry_kind(&folder.join(manifest::FILE)) {
            Err(error) if is_absent(error.kind()) => match Generations::scan(files, folder) {
                Ok(generations) => generations.whole_before(u64::MAX).next().is_some(),
                Err(error) => error.kind() == ErrorKind::External,
            },
            _ => true,
        }
    }

    /// Reads the manifest of a save.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::open_on(&OsFileSystem::shared(), folder)
    }

    /// Reads the manifest of a save on a file system.
    pub fn open_on(files: &SharedFileSystem, folder: &Path) -> Result<Self> {
        match generation::read_manifest(files, folder) {
            Ok((manifest, generation)) => Ok(Self::new(files, folder, generation, manifest)),
            Err(error) => {
                let Some((number, manifest)) = Self::newest_whole(files, folder) else { return Err(error) };
                let mut reader = Self::new(files, folder, Some(number), manifest);
                reader.warning = Some(format!("{error}; `{}` is used instead", reader.parts.display()));
                Ok(reader)
            }
        }
    }

    fn new(files: &SharedFileSystem, folder: &Path, generation: Option<u64>, manifest: Manifest) -> Self {
        let parts = generation.map_or_else(|| folder.to_owned(), |number| folder.join(generation::folder_name(number)));
        Self { files: files.clone(), folder: folder.to_owned(), parts, generation, manifest, warning: None }
    }

    fn newest_whole(files: &SharedFileSystem, folder: &Path) -> Option<(u64, Manifest)> {
        Generations::scan(files, folder).ok()?.whole_before(u64::MAX).next()
    }

    /// Opens the generation before this one, if there is one. `problem` is the damage of this one,
    /// for the [`warning`](Self::warning).
    #[must_use]
    pub fn previous(&self, problem: &Error) -> Option<Self> {
        let generations = Generations::scan(&self.files, &self.folder).ok()?;
        let (number, manifest) = generations.whole_before(self.generation?).next()?;
        let mut reader = Self::new(&self.files, &self.folder, Some(number), manifest);
        reader.warning = Some(format!("{problem}; `{}`, the save before it, is used", reader.parts.display()));
        Some(reader)
    }

    /// Returns the reason why another generation than the newest was opened.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Returns the number of the opened generation; `None` for a save of an older version, which has
    /// no generations.
    #[must_use]
    pub fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// Returns the generations in the folder that can be opened, in ascending order.
    #[must_use]
    pub fn generations(&self) -> Vec<u64> {
        let Ok(found) = Generations::scan(&self.files, &self.folder) else { return Vec::new() };
        let mut numbers: Vec<u64> = found.whole_before(u64::MAX).map(|(number, _)| number).collect();
        numbers.reverse();
        numbers
    }

    /// Reads all files; returns an error if one is missing or damaged.
    pub fn verify(&self) -> Result<()> {
        let mut parts = self.manifest.part_records();
        parts.try_for_each(|(_, part)| tensor_file::verify(&self.files, &self.parts, part))
    }

    /// Runs `read` on the save at `folder`. If that fails because the newest generation is damaged,
    /// runs it on the generation before. `warn` gets the reason.
    pub fn read_intact<T, E: From<Error>>(
        files: &SharedFileSystem,
        folder: &Path,
        warn: &mut dyn FnMut(&str),
        mut read: impl FnMut(&Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let newest = Self::open_on(files, folder)?;
        let mut outcome = read(&newest);
        let mut used = newest;
        if outcome.is_err()
            && let Some(previous) = used.verify().err().and_then(|damage| used.previous(&damage))
            && let Ok(value) = read(&previous)
        {
            (outcome, used) = (Ok(value), previous);
        }
        if let (Ok(_), Some(warning)) = (&outcome, used.warning()) {
            warn(warning);
        }
        outcome
    }

    /// Reads the bytes of the manifest.
    pub(crate) fn read_manifest(files: &SharedFileSystem, folder: &Path) -> Result<Vec<u8>> {
        let path = folder.join(manifest::FILE);
        files.read(&path).map_err(|error| Error::io("open", &path, &error))
    }

    /// Manifest for other peers.
    pub(crate) fn to_message(&self) -> ManifestMessage {
        ManifestMessage {
            generation: self.generation,
            json: self.manifest.to_json(None),
            warning: self.warning.clone(),
        }
    }

    /// Opens a save whose manifest was read by another peer.
    pub(crate) fn from_message(files: &SharedFileSystem, folder: &Path, message: ManifestMessage) -> Result<Self> {
        let (manifest, _) = Manifest::from_json(&folder.join(manifest::FILE), &message.json)?;
        let reader = Self::new(files, folder, message.generation, manifest);
        Ok(Self { warning: message.warning, ..reader })
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
        let mut reader = TensorReader::open(&self.files, &self.parts, part)?;
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
        let mut reader = TensorReader::open(&self.files, &self.parts, part)?;
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
        let path = self.parts.join(&part.file);
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
        let mut reader = TensorReader::open(&self.files, &self.parts, part)?;
        let ends: Vec<u64> = read_column(&mut reader, "ends", part.length)?;
        let bytes = reader.next::<u8>("bytes")?.iter().product::<usize>();
        let mut text = vec![0_u8; bytes];
        reader.take(&mut text)?;
        let path = self.parts.join(&part.file);
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
