//! Writer of a save: a temporary directory, synced files, one rename.
//!
//! One peer begins, the others join. Each writes its parts and sends their records to the first,
//! which commits. The temporary directory lies next to the target, because a rename is atomic only
//! within a file system. It has a fixed name, so that all peers find it and a crash leaves at most
//! one, which the next save removes. Dropping an uncommitted [`PartWriter`] that began a save
//! removes it too.
//!
//! An existing save is replaced by exchanging the two directories in one system call where the
//! system supports it (Linux), and by two renames otherwise. Anything else at the target is left
//! alone. If the target is a symbolic link, the directory it points to is replaced, not the link.
//! Files that are not part of the old save are rejected by [`PartWriter::check`]; those that appear
//! later move into the new save, so that nothing is lost.

use super::dtype::TensorElement;
use super::manifest::{self, Manifest, PartRecord};
use super::tensor_file::{TensorSpec, TensorWriter};
use crate::sparse::{KeyColumn, SparseBlock};
use crate::{DenseArray, Dictionary, Error, Result};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Save in progress, written part by part.
#[derive(Debug)]
#[must_use = "commit it, or drop it to remove what was written"]
pub struct PartWriter {
    target: PathBuf,
    staging: PathBuf,
    /// True if dropping removes the temporary directory: for the peer that began, until it commits.
    owns_staging: bool,
}

impl PartWriter {
    /// Begins a save: creates the temporary directory, removing one that a crash may have left.
    pub fn begin(target: &Path) -> Result<Self> {
        let target = resolve_link(target)?;
        let staging = staging_path(&target)?;
        match fs::remove_dir_all(&staging) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", &staging, &error)),
            _ => {}
        }
        check_replaceable(&target)?;
        fs::create_dir_all(&staging).map_err(|error| Error::io("create", &staging, &error))?;
        Ok(Self { target, staging, owns_staging: true })
    }

    /// Joins a save that another peer began on a shared file system.
    pub fn join(target: &Path) -> Result<Self> {
        let target = resolve_link(target)?;
        let staging = staging_path(&target)?;
        fs::metadata(&staging).map_err(|error| Error::io("open", &staging, &error))?;
        Ok(Self { target, staging, owns_staging: false })
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
        let mut writer = TensorWriter::create(self.part_path(name, &format!("{part:05}"))?, vec![announced])?;
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
        let mut writer = TensorWriter::create(self.part_path(name, &format!("{part:05}"))?, announced)?;
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
        let mut writer = TensorWriter::create(self.part_path(name, &format!("names{dimension}"))?, announced)?;
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
        assert!(self.owns_staging, "only the peer that began a save may commit it");
        let path = self.staging.join(manifest::FILE);
        let failed = |error: io::Error| Error::io("write", &path, &error);
        let mut file = File::create_new(&path).map_err(failed)?;
        file.write_all(&manifest.to_json()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        sync_folder(&self.staging)?;
        check_replaceable(&self.target)?;
        let replaced = publish(&self.staging, &self.target)?;
        self.owns_staging = false;
        sync_folder(parent(&self.target))?;
        if let Some(old) = replaced {
            for name in foreign_files(&old) {
                let to = self.target.join(&name);
                fs::rename(old.join(&name), &to).map_err(|error| Error::io("move a file to", &to, &error))?;
            }
            fs::remove_dir_all(&old).map_err(|error| Error::io("remove", &old, &error))?;
        }
        Ok(())
    }

    fn part_path(&self, name: &str, part: &str) -> Result<PathBuf> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(plain) {
            let problem = format!("`{name}` is not a valid array name; use letters, digits, `_`, `-` and `.`");
            return Err(Error::BadSave { path: self.target.clone(), problem });
        }
        Ok(self.staging.join(format!("{name}.{part}.safetensors")))
    }
}

impl Drop for PartWriter {
    fn drop(&mut self) {
        if self.owns_staging {
            // An error cannot be reported from `drop`; the next save tries again.
            let _ = fs::remove_dir_all(&self.staging);
        }
    }
}

pub(super) fn parent(target: &Path) -> &Path {
    target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
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

/// Target of a symbolic link; other paths unchanged.
pub(super) fn resolve_link(target: &Path) -> Result<PathBuf> {
    match fs::symlink_metadata(target) {
        Ok(there) if there.is_symlink() => {
            fs::canonicalize(target).map_err(|error| Error::io("follow the link", target, &error))
        }
        _ => Ok(target.to_owned()),
    }
}

/// Files in the folder of a save that are not part of it, in order. If the manifest is damaged, all
/// tensor files count as parts.
pub(super) fn foreign_files(folder: &Path) -> Vec<std::ffi::OsString> {
    let path = folder.join(manifest::FILE);
    let manifest = fs::read(&path).ok().and_then(|json| Manifest::from_json(&path, &json).ok());
    let is_part = |name: &std::ffi::OsStr| match &manifest {
        Some(manifest) => manifest
            .arrays
            .values()
            .flat_map(|record| record.parts.iter().chain(record.names.values()))
            .any(|part| *part.file == *name),
        None => Path::new(name).extension().is_some_and(|ending| ending == "safetensors"),
    };
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.file_name()));
    let mut foreign: Vec<_> = entries.filter(|name| name != manifest::FILE && !is_part(name)).collect();
    foreign.sort();
    foreign
}

/// Returns an error if the target exists and is not a save.
pub(super) fn check_replaceable(target: &Path) -> Result<()> {
    if fs::symlink_metadata(target).is_err() || target.join(manifest::FILE).is_file() {
        return Ok(());
    }
    let problem = "it contains other data; remove it or choose another path".to_owned();
    Err(Error::BadSave { path: target.to_owned(), problem })
}

/// Moves the staging directory to the target. Returns the new path of the old save, if there was
/// one.
fn publish(staging: &Path, target: &Path) -> Result<Option<PathBuf>> {
    let failed = |error: io::Error| Error::io("rename to", target, &error);
    if fs::symlink_metadata(target).is_err() {
        fs::rename(staging, target).map_err(failed)?;
        return Ok(None);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if renameat_with(CWD, staging, CWD, target, RenameFlags::EXCHANGE).is_ok() {
            return Ok(Some(staging.to_owned()));
        }
    }
    let old = hidden_sibling(target, ".replaced")?;
    fs::rename(target, &old).map_err(failed)?;
    fs::rename(staging, target).map_err(failed)?;
    Ok(Some(old))
}

/// Syncs a directory. A rename survives a power failure only after its directory is synced.
fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| Error::io("sync", folder, &error))?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
