//! Manifest of a save: one JSON file, readable by people and programs.
//!
//! The manifest of a save names its files as `generation-N/FILE`, so that a program finds them
//! without knowing about [generations](super::generation). In memory, the names are without the
//! folder.
//!
//! **Invariant:** the digest is the SHA-256 of the `arrays` value as compact JSON with sorted
//! names, followed by the `metadata` value if there is any, and by the decimal digits of the
//! `generation` if there is one. It detects a manifest that was edited, for instance to accept a
//! modified file. The parts of a dense array cover it without gaps and overlaps, and no two parts
//! share a file.

use super::dtype::{self, TensorElement};
use super::generation;
use super::tensor_file::hex;
use crate::{Error, Result, Shape};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub(super) const FILE: &str = "manifest.json";
const FORMAT: &str = "hemiola-array";
const VERSION: u32 = 1;

/// Contents of a save.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// Saved arrays by name.
    pub arrays: BTreeMap<String, ArrayRecord>,
    /// Values that a program stored beside the arrays, such as the settings of a model.
    pub metadata: BTreeMap<String, serde_json::Value>,
}

/// Record of one saved array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayRecord {
    /// Storage of the array, dense or sparse.
    #[serde(flatten)]
    pub kind: StorageKind,
    /// Element type as safetensors names it: `F32`.
    pub dtype: String,
    /// Extents of the whole array.
    pub shape: Vec<usize>,
    /// Files of the array, one per part.
    pub parts: Vec<PartRecord>,
    /// File with the dictionary of each dimension that has one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<usize, PartRecord>,
}

/// Storage of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
#[non_exhaustive]
pub enum StorageKind {
    /// All cells; a part is a range of the first dimension.
    Dense,
    /// Entries with keys; a part is any set of them.
    Sparse {
        /// Dimensions in sort order, the slowest first.
        order: Vec<usize>,
    },
}

/// Record of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// File name in the directory.
    pub file: String,
    /// File size in bytes.
    pub bytes: u64,
    /// SHA-256 of the file as hexadecimal digits.
    pub sha256: String,
    /// First index of the part in the first dimension for dense arrays, otherwise 0.
    pub first: usize,
    /// Number of indices of the first dimension (dense), of entries (sparse) or of names.
    pub length: usize,
}

/// Manifest as written to the file.
#[derive(Serialize, Deserialize)]
struct ManifestDocument {
    format: String,
    version: u32,
    digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    arrays: BTreeMap<String, ArrayRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, serde_json::Value>,
}

/// Fields that every version of the document has.
#[derive(Deserialize)]
struct ManifestVersion {
    format: String,
    version: u32,
}

impl Manifest {
    /// Version of the file format.
    pub const FORMAT_VERSION: u32 = VERSION;

    /// Adds a dense array that was written in the given parts.
    pub fn add_dense<T: TensorElement, const N: usize>(&mut self, name: &str, shape: Shape<N>, parts: Vec<PartRecord>) {
        self.add::<T, N>(name, StorageKind::Dense, shape, parts);
    }

    /// Adds a sparse array that was written in the given parts.
    pub fn add_sparse<T: TensorElement, const N: usize>(
        &mut self,
        name: &str,
        shape: Shape<N>,
        order: [usize; N],
        parts: Vec<PartRecord>,
    ) {
        self.add::<T, N>(name, StorageKind::Sparse { order: order.to_vec() }, shape, parts);
    }

    fn add<T: TensorElement, const N: usize>(
        &mut self,
        name: &str,
        kind: StorageKind,
        shape: Shape<N>,
        parts: Vec<PartRecord>,
    ) {
        let record = ArrayRecord {
            kind,
            dtype: dtype::dtype_name(T::DTYPE),
            shape: shape.extents().to_vec(),
            parts,
            names: BTreeMap::new(),
        };
        self.arrays.insert(name.to_owned(), record);
    }

    /// Adds the dictionary of a dimension to an array that was added before.
    ///
    /// # Panics
    /// Panics if there is no such array.
    pub fn add_names(&mut self, array: &str, dimension: usize, part: PartRecord) {
        self.arrays.get_mut(array).expect("the array must be added before its names").names.insert(dimension, part);
    }

    /// Files of the save, with the names of their arrays.
    pub(super) fn part_records(&self) -> impl Iterator<Item = (&str, &PartRecord)> {
        let arrays = self.arrays.iter();
        arrays.flat_map(|(name, record)| {
            record.parts.iter().chain(record.names.values()).map(move |part| (name.as_str(), part))
        })
    }

    /// Bytes of all files.
    pub(super) fn part_bytes(&self) -> u64 {
        self.part_records().fold(0, |sum, (_, part)| sum.saturating_add(part.bytes))
    }

    /// JSON text of the manifest; with a generation, its folder is part of the file names.
    pub(super) fn to_json(&self, generation: Option<u64>) -> Vec<u8> {
        let mut arrays = self.arrays.clone();
        if let Some(generation) = generation {
            let folder = generation::folder_name(generation);
            rename_files(&mut arrays, |file| Some(format!("{folder}/{file}")));
        }
        let digest = digest(&arrays, &self.metadata, generation);
        let (format, metadata) = (FORMAT.to_owned(), self.metadata.clone());
        let document = ManifestDocument { format, version: VERSION, digest, generation, arrays, metadata };
        let mut json = serde_json::to_vec_pretty(&document).expect("a manifest is plain data");
        json.push(b'\n');
        json
    }

    /// Parses and checks a manifest; returns it with the generation whose files it names.
    pub(super) fn from_json(path: &Path, json: &[u8]) -> Result<(Self, Option<u64>)> {
        let torn = |problem: String| Error::BadSave { path: path.to_owned(), problem };
        // The format is checked first: a later version may have other fields.
        let head: ManifestVersion =
            serde_json::from_slice(json).map_err(|error| torn(format!("it is damaged ({error})")))?;
        if head.format != FORMAT || head.version != VERSION {
            return Err(torn(format!(
                "expected `{FORMAT}` version {VERSION}, found `{}` version {}; a newer hemiola may read it",
                head.format, head.version
            )));
        }
        let document: ManifestDocument =
            serde_json::from_slice(json).map_err(|error| torn(format!("it is damaged ({error})")))?;
        let ManifestDocument { mut arrays, metadata, generation, .. } = document;
        if digest(&arrays, &metadata, generation) != document.digest {
            return Err(torn("its digest does not fit its contents; it was changed after saving".to_owned()));
        }
        if let Some(generation) = generation {
            let folder = format!("{}/", generation::folder_name(generation));
            let strip = |file: &str| file.strip_prefix(&folder).map(str::to_owned);
            if let Some(file) = rename_files(&mut arrays, strip) {
                return Err(torn(format!("it names the file `{file}`, which is not in the folder `{folder}`")));
            }
        }
        let manifest = Self { arrays, metadata };
        manifest.check().map_err(torn)?;
        Ok((manifest, generation))
    }

    /// Returns the first array whose parts are missing, misplaced or shared, as text.
    fn check(&self) -> Result<(), String> {
        let mut files = BTreeSet::new();
        for (array, part) in self.part_records() {
            let file = &part.file;
            let own = file.strip_prefix(array).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".safetensors"));
            if !is_plain_name(array) || own.is_none_or(|part| part.is_empty() || part.contains(['.', '/', '\\'])) {
                return Err(format!("array `{array}` names the file `{file}`, which is not one of its parts"));
            }
            if !files.insert(file) {
                return Err(format!("array `{array}` names the file `{file}` twice"));
            }
        }
        self.arrays.iter().try_for_each(|(name, record)| match record.kind {
            StorageKind::Dense => record.check_tiling(name),
            StorageKind::Sparse { .. } => Ok(()),
        })
    }
}

impl ArrayRecord {
    /// Returns an error unless the parts of a dense array follow each other from its first index to
    /// its last.
    fn check_tiling(&self, name: &str) -> Result<(), String> {
        let mut parts: Vec<_> = self.parts.iter().map(|part| (part.first, part.length)).collect();
        parts.sort_unstable();
        let mut end = 0_usize;
        for (first, length) in parts {
            if first != end {
                let problem = if first > end { "are in no part" } else { "are in two parts" };
                let (from, to) = (first.min(end), first.max(end));
                return Err(format!("rows {from} to {to} of array `{name}` {problem}"));
            }
            end = first.saturating_add(length);
        }
        let rows = self.shape.first().copied().unwrap_or(0);
        if end == rows { Ok(()) } else { Err(format!("array `{name}` has {rows} rows and parts of {end}")) }
    }
}

/// Returns true if an array can have this name.
pub(super) fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

/// Replaces the names of all files; returns the first that has no new name.
fn rename_files(arrays: &mut BTreeMap<String, ArrayRecord>, rename: impl Fn(&str) -> Option<String>) -> Option<String> {
    let records = arrays.values_mut().flat_map(|record| record.parts.iter_mut().chain(record.names.values_mut()));
    for part in records {
        match rename(&part.file) {
            Some(file) => part.file = file,
            None => return Some(part.file.clone()),
        }
    }
    None
}

fn digest(
    arrays: &BTreeMap<String, ArrayRecord>,
    metadata: &BTreeMap<String, serde_json::Value>,
    generation: Option<u64>,
) -> String {
    let mut bytes = serde_json::to_vec(arrays).expect("a manifest is plain data");
    if !metadata.is_empty() {
        bytes.extend(serde_json::to_vec(metadata).expect("a manifest is plain data"));
    }
    bytes.extend(generation.map(|generation| generation.to_string()).unwrap_or_default().bytes());
    hex(&Sha256::digest(bytes))
}
