//! Manifest of a save: one JSON file, readable by people and programs.
//!
//! **Invariant:** the digest is the SHA-256 of the `arrays` value as compact JSON with sorted
//! names, followed by the `metadata` value if there is any. It detects a manifest that was edited,
//! for instance to accept a modified file.

use super::dtype::{self, TensorElement};
use super::tensor_file::hex;
use crate::{Error, Result, Shape};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
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

    pub(super) fn to_json(&self) -> Vec<u8> {
        let document = ManifestDocument {
            format: FORMAT.to_owned(),
            version: VERSION,
            digest: self.digest(),
            arrays: self.arrays.clone(),
            metadata: self.metadata.clone(),
        };
        let mut json = serde_json::to_vec_pretty(&document).expect("a manifest is plain data");
        json.push(b'\n');
        json
    }

    pub(super) fn from_json(path: &Path, json: &[u8]) -> Result<Self> {
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
        let manifest = Self { arrays: document.arrays, metadata: document.metadata };
        if manifest.digest() != document.digest {
            return Err(torn("its digest does not fit its contents; it was changed after saving".to_owned()));
        }
        Ok(manifest)
    }

    fn digest(&self) -> String {
        let mut bytes = serde_json::to_vec(&self.arrays).expect("a manifest is plain data");
        if !self.metadata.is_empty() {
            bytes.extend(serde_json::to_vec(&self.metadata).expect("a manifest is plain data"));
        }
        hex(&Sha256::digest(bytes))
    }
}
