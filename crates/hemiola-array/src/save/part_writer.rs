//! Writer of a save: a folder of its own, synced files, one rename.
//!
//! One peer begins, the others join. Each writes its parts and sends their records to the first,
//! which commits. Parts go into the folder of the next generation, in the
//! folder of the save. A first save has no folder yet: it is written to `.NAME.partial` beside the
//! target and renamed when it is complete, so that a folder that exists is a save. Dropping an
//! uncommitted [`PartWriter`] that began a save removes what was written; after a crash, the next
//! save does.
//!
//! Anything else at the target is left alone. If the target is a symbolic link, the folder that it
//! points to gets the save, and the link stays. Files in the folder that are not part of a save are
//! never touched.

use super::dtype::TensorElement;
use super::generation::{self, Generations, is_leftover};
use super::manifest::{self, Manifest, PartRecord};
use super::tensor_file::{TensorSpec, TensorWriter};
use crate::files::{AtomicFile, EntryKind, OsFileSystem, SharedFileSystem, parent};
use crate::sparse::{KeyColumn, SparseBlock};
use crate::{DenseArray, Dictionary, Error, Result};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Save in progress, written part by part.
#[derive(Debug)]
#[must_use = "commit it, or drop it to remove what was written"]
pub struct PartWriter {
    files: SharedFileSystem,
    target: PathBuf,
    /// Folder of the save: the target, or a temporary folder beside it for the first save.
    root: PathBuf,
    generation: u64,
    /// True if dropping removes the generation: for the peer that began, until it commits.
    owns_generation: bool,
    is_root: bool,
}

impl PartWriter {
    /// Begins a save: creates the folder of the next generation, and removes what crashes left.
    pub fn begin(target: &Path) -> Result<Self> {
        Self::begin_on(&OsFileSystem::shared(), target)
    }

    /// Begins a save on a file system.
    pub fn begin_on(files: &SharedFileSystem, target: &Path) -> Result<Self> {
        let target = resolve_link(files, target)?;
        check_replaceable(files, &target)?;
        let root = match files.entry_kind(&target) {
            Ok(_) => target.clone(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => clear_staging(files, &target)?,
            Err(error) => return Err(Error::io("open", &target, &error)),
        };
        let generations = Generations::scan(files, &root)?;
        generations.remove_garbage();
        make_room(files, &generations);
        let number = generations.next()?;
        let folder = generations.folder(number);
        files.create_dir(&folder).map_err(|error| Error::io("create", &folder, &error))?;
        let files = files.clone();
        Ok(Self { files, target, root, generation: number, owns_generation: true, is_root: true })
    }

    /// Joins the save that another peer began on a shared file system, with the
    /// [`generation`](Self::generation) of its writer.
    pub fn join(target: &Path, generation: u64) -> Result<Self> {
        Self::join_on(&OsFileSystem::shared(), target, generation)
    }

    /// Joins a save on a file system.
    pub fn join_on(files: &SharedFileSystem, target: &Path, generation: u64) -> Result<Self> {
        let target = resolve_link(files, target)?;
        let name = generation::folder_name(generation);
        let roots = [target.clone(), staging_path(&target)?];
        let found = roots.into_iter().find(|root| files.entry_kind(&root.join(&name)).is_ok());
        let root = found.ok_or_else(|| Error::io("open", &target.join(&name), &io::ErrorKind::NotFound.into()))?;
        Ok(Self { files: files.clone(), target, root, generation, owns_generation: false, is_root: false })
    }

    /// Number of the generation that is being written.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn folder(&self) -> PathBuf {
        self.root.join(generation::folder_name(self.generation))
    }

    fn create(&self, name: &str, part: &str, tensors: Vec<TensorSpec>) -> Result<TensorWriter> {
        TensorWriter::create(&self.files, self.part_path(name, part)?, tensors)
    }

    /// Writes the part of a dense array that starts at index `first` of the first dimension.
    pub fn write_dense<T: TensorElement, const N: usize>(
        &self,
        name: &str,
        part: usize,
        first: usize,
        dense: &DenseArray<T, N>,
    ) -> Result<PartRecord> {
        let shape = dense.shape().extents().to_vec();
        let announced = TensorSpec { name: "values".to_owned(), dtype: T::DTYPE, shape };
        let mut writer = self.create(name, &format!("{part:05}"), vec![announced])?;
        for row in dense.rows() {
            writer.put(row)?;
        }
        writer.finish(first, dense.shape().extent(0))
    }

    /// Writes a block of a sparse array.
    pub fn write_sparse<T: TensorElement, const N: usize>(
        &self,
        name: &str,
        part: usize,
        block: &SparseBlock<T, N>,
    ) -> Result<PartRecord> {
        let shape = vec![block.len()];
        let mut announced: Vec<_> = (0..N)
            .map(|dimension| TensorSpec {
                name: format!("key{dimension}"),
                dtype: match block.keys(dimension) {
                    KeyColumn::Narrow(_) => u32::DTYPE,
                    KeyColumn::Wide(_) => u64::DTYPE,
                },
                shape: shape.clone(),
            })
            .collect();
        announced.push(TensorSpec { name: "values".to_owned(), dtype: T::DTYPE, shape });
        let mut writer = self.create(name, &format!("{part:05}"), announced)?;
        for dimension in 0..N {
            match block.keys(dimension) {
                KeyColumn::Narrow(keys) => writer.put(keys)?,
                KeyColumn::Wide(keys) => writer.put(keys)?,
            }
        }
        writer.put(block.values())?;
        writer.finish(0, block.len())
    }

    /// Writes the dictionary of a dimension.
    pub fn write_names(&self, name: &str, dimension: usize, names: &Dictionary) -> Result<PartRecord> {
        let bytes = names.names().map(<[u8]>::len).sum();
        let announced = vec![
            TensorSpec { name: "ends".to_owned(), dtype: u64::DTYPE, shape: vec![names.len()] },
            TensorSpec { name: "bytes".to_owned(), dtype: u8::DTYPE, shape: vec![bytes] },
        ];
        let mut writer = self.create(name, &format!("names{dimension}"), announced)?;
        let mut end = 0;
        for name in names.names() {
            end += name.len() as u64;
            writer.put(&[end])?;
        }
        for name in names.names() {
            writer.put(name)?;
        }
        writer.finish(0, names.len())
    }

    /// Writes the manifest and publishes the save.
    ///
    /// # Panics
    /// Panics if another peer began the save.
    pub fn commit(mut self, manifest: &Manifest) -> Result<()> {
        assert!(self.is_root, "only the peer that began a save may commit it");
        let files = self.files.clone();
        self.write_own_manifest(manifest).map_err(|(path, error)| Error::io("write", &path, &error))?;
        check_replaceable(&files, &self.target)?;
        let flat = Generations::scan(&files, &self.root)?.flat_files();
        // From here on the manifest may name the generation, even if an error is reported.
        self.owns_generation = false;
        let path = self.root.join(manifest::FILE);
        let json = manifest.to_json(Some(self.generation));
        AtomicFile::write_on(&files, &path, &json).map_err(|error| Error::io("write", &path, &error))?;
        if self.root != self.target {
            let failed = |error: io::Error| Error::io("rename to", &self.target, &error);
            files.rename(&self.root, &self.target).map_err(failed)?;
            files.sync_dir(parent(&self.target)).map_err(failed)?;
        }
        // The save is complete: what cannot be removed now is left for the next one.
        for file in flat {
            let _ = files.remove_file(&file);
        }
        if let Ok(generations) = Generations::scan(&files, &self.target) {
            generations.remove_garbage();
        }
        Ok(())
    }

    /// Writes the manifest of the generation, and makes its folder durable.
    fn write_own_manifest(&self, manifest: &Manifest) -> Result<(), (PathBuf, io::Error)> {
        let folder = self.folder();
        let path = folder.join(manifest::FILE);
        let write = || {
            let mut file = self.files.create(&path)?;
            file.write_all(&manifest.to_json(None))?;
            file.sync()?;
            self.files.sync_dir(&folder)?;
            self.files.sync_dir(&self.root)
        };
        write().map_err(|error| (path.clone(), error))
    }

    fn part_path(&self, name: &str, part: &str) -> Result<PathBuf> {
        if !manifest::is_plain_name(name) {
            let problem = format!("`{name}` is not a valid array name; use letters, digits, `_`, `-` and `.`");
            return Err(Error::BadSave { path: self.target.clone(), problem });
        }
        Ok(self.folder().join(format!("{name}.{part}.safetensors")))
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        if self.owns_generation {
            // An error cannot be reported from `drop`; the next save tries again.
            generation::remove(&self.files, &self.folder());
            if self.root != self.target {
                let _ = self.files.remove_dir(&self.root);
            }
        }
    }
}

pub(super) fn hidden_sibling(target: &Path, suffix: &str) -> Result<PathBuf> {
    let Some(name) = target.file_name() else {
        let problem = "expected a path that ends with the name of the save".to_owned();
        return Err(Error::BadSave { path: target.to_owned(), problem });
    };
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(suffix);
    Ok(parent(target).join(hidden))
}

fn staging_path(target: &Path) -> Result<PathBuf> {
    hidden_sibling(target, ".partial")
}

/// Creates the temporary folder of a first save, or removes from it what a crash has left.
fn clear_staging(files: &SharedFileSystem, target: &Path) -> Result<PathBuf> {
    let root = staging_path(target)?;
    let failed = |error: io::Error| Error::io("create", &root, &error);
    match files.entry_kind(&root) {
        Ok(EntryKind::Folder) => {
            let names = files.list(&root).map_err(failed)?;
            for name in names.iter().filter(|name| *name == manifest::FILE) {
                files.remove_file(&root.join(name)).map_err(failed)?;
            }
            for name in names.iter().filter(|name| is_leftover(name)) {
                let path = root.join(name);
                if matches!(files.entry_kind(&path), Ok(EntryKind::Folder)) {
                    generation::remove(files, &path);
                }
            }
        }
        // A file or a link there is not ours.
        Ok(_) => return Err(failed(io::ErrorKind::AlreadyExists.into())),
        Err(_) => files.create_dir_all(&root).map_err(failed)?,
    }
    Ok(root)
}

/// Removes the previous generation if the disk has no room for a third one. On a small disk, one
/// generation beside the one that is being written is better than no new save.
fn make_room(files: &SharedFileSystem, generations: &Generations) {
    if let Some((previous, _)) = generations.previous() {
        let folder = generations.folder(previous);
        if files.free_bytes(&folder).is_some_and(|free| free < generations.newest_bytes()) {
            generation::remove(files, &folder);
        }
    }
}

/// Target of a symbolic link; other paths unchanged.
pub(super) fn resolve_link(files: &SharedFileSystem, target: &Path) -> Result<PathBuf> {
    match files.entry_kind(target) {
        Ok(EntryKind::Link) => files.canonicalize(target).map_err(|error| Error::io("follow the link", target, &error)),
        _ => Ok(target.to_owned()),
    }
}

/// Returns an error if the target exists and is neither a save nor an empty folder. What a save
/// that was not finished has left does not count.
pub(super) fn check_replaceable(files: &SharedFileSystem, target: &Path) -> Result<()> {
    match files.entry_kind(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(EntryKind::Folder) => {
            if matches!(files.entry_kind(&target.join(manifest::FILE)), Ok(EntryKind::File)) {
                return Ok(());
            }
            let names = files.list(target).map_err(|error| Error::io("list", target, &error))?;
            if names.iter().all(|name| is_leftover(name)) {
                return Ok(());
            }
        }
        Err(error) => return Err(Error::io("open", target, &error)),
        Ok(_) => {}
    }
    let problem = "it contains other data; remove it or choose another path".to_owned();
    Err(Error::BadSave { path: target.to_owned(), problem })
}
