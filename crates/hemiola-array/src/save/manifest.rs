//! What a save holds: one JSON file, readable by people and programs.
//!
//! **Invariant:** the digest is the SHA-256 of the `arrays` value as compact JSON with sorted names, followed by the `notes` value
//! if there are notes, so a manifest that was edited, say to accept a changed file, is told from an original.

use super::stored::{self, Stored};
use super::tensor_file::hex;
use crate::{Error, Result, Shape};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

pub(super) const FILE: &str = "manifest.json";
const FORMAT: &str = "hemiola-array";
const VERSION: u32 = 1;

/// The arrays of a save, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// What is saved.
    pub arrays: BTreeMap<String, ArrayRecord>,
    /// What a program wrote beside the arrays: the settings of a model, say.
    pub notes: BTreeMap<String, serde_json::Value>,
}

/// One saved array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayRecord {
    /// How it is stored.
    #[serde(flatten)]
    pub kind: Kind,
    /// The element type as safetensors names it: `F32`.
    pub dtype: String,
    /// The extents of the whole array.
    pub shape: Vec<u64>,
    /// Its files.
    pub parts: Vec<PartRecord>,
    /// For each dimension that has names, the file with them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<usize, PartRecord>,
}

/// How an array is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
#[non_exhaustive]
pub enum Kind {
    /// Every cell; a part is a range of the first dimension.
    Dense,
    /// Entries with keys; a part is any set of them.
    Sparse {
        /// The dimensions in the order entries are sorted by, the slowest first.
        order: Vec<usize>,
    },
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Its name in the directory.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Its checksum.
    pub sha256: String,
    /// Dense: the first index of the first dimension that the part holds. Otherwise 0.
    pub first: u64,
    /// Dense: how many indices of the first dimension. Sparse: how many entries. Names: how many.
    pub length: u64,
}

/// The manifest as it is written.
#[derive(Serialize, Deserialize)]
struct Document {
    format: String,
    version: u32,
    digest: String,
    arrays: BTreeMap<String, ArrayRecord>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    notes: BTreeMap<String, serde_json::Value>,
}

/// What every version of the document has.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

impl Manifest {
    /// Enters a dense array that was written in the given parts.
    pub fn add_dense<T: Stored, const N: usize>(&mut self, name: &str, shape: Shape<N>, parts: Vec<PartRecord>) {
        self.add::<T, N>(name, Kind::Dense, shape, parts);
    }

    /// Enters a sparse array that was written in the given parts.
    pub fn add_sparse<T: Stored, const N: usize>(
        &mut self,
        name: &str,
        shape: Shape<N>,
        order: [usize; N],
        parts: Vec<PartRecord>,
    ) {
        self.add::<T, N>(name, Kind::Sparse { order: order.to_vec() }, shape, parts);
    }

    fn add<T: Stored, const N: usize>(&mut self, name: &str, kind: Kind, shape: Shape<N>, parts: Vec<PartRecord>) {
        let record = ArrayRecord {
            kind,
            dtype: stored::name(T::DTYPE),
            shape: shape.extents().to_vec(),
            parts,
            names: BTreeMap::new(),
        };
        self.arrays.insert(name.to_owned(), record);
    }

    /// Enters the names of a dimension of an array that was entered before.
    ///
    /// # Panics
    /// If there is no such array.
    pub fn add_names(&mut self, array: &str, dimension: usize, part: PartRecord) {
        self.arrays.get_mut(array).expect("the array was entered before its names").names.insert(dimension, part);
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        let document = Document {
            format: FORMAT.to_owned(),
            version: VERSION,
            digest: self.digest(),
            arrays: self.arrays.clone(),
            notes: self.notes.clone(),
        };
        let mut json = serde_json::to_vec_pretty(&document).expect("a manifest is plain data");
        json.push(b'\n');
        json
    }

    pub(super) fn from_json(path: &Path, json: &[u8]) -> Result<Self> {
        let torn = |problem: String| Error::BadSave { path: path.to_owned(), problem };
        // The format is looked at alone first: a later version may have other fields.
        let head: Head = serde_json::from_slice(json).map_err(|error| torn(format!("it is damaged ({error})")))?;
        if head.format != FORMAT || head.version != VERSION {
            return Err(torn(format!(
                "expected `{FORMAT}` version {VERSION}, found `{}` version {}; a newer hemiola may read it",
                head.format, head.version
            )));
        }
        let document: Document =
            serde_json::from_slice(json).map_err(|error| torn(format!("it is damaged ({error})")))?;
        let manifest = Self { arrays: document.arrays, notes: document.notes };
        if manifest.digest() != document.digest {
            return Err(torn("its digest does not fit its contents; it was changed after saving".to_owned()));
        }
        Ok(manifest)
    }

    fn digest(&self) -> String {
        let mut bytes = serde_json::to_vec(&self.arrays).expect("a manifest is plain data");
        if !self.notes.is_empty() {
            bytes.extend(serde_json::to_vec(&self.notes).expect("a manifest is plain data"));
        }
        hex(&Sha256::digest(bytes))
    }
}
