//! Saving arrays and loading them again: safetensors files and one manifest, in a directory that appears whole or not at all.
//!
//! ```text
//! model/
//!   manifest.json                     what is here: arrays, parts, sizes, checksums
//!   w.00000.safetensors               dense:  tensor `values` [rows of the part, ..., row length]
//!   ratings.00000.safetensors         sparse: tensors `key0` `key1` ... (u32 or u64) and `values`, sorted
//!   ratings.names0.safetensors        names of a dimension: tensors `bytes` (u8) and `ends` (u64)
//! ```
//!
//! Each part is a file of its own, so that many peers can write at once and any number of peers can load: a dense part is a
//! range of the first dimension, a sparse part any set of entries. Keys are counted from 0. Every file can be read with the
//! `safetensors` package of Python; none needs Hemiola.
//!
//! **Invariant:** files are written under a temporary name next to the target and synced; the manifest is written last; one
//! rename makes the save visible. What is visible is complete. A file whose size or SHA-256 is not that of the manifest is
//! refused with the reason, and so is a manifest that was changed.
//!
//! ```
//! use hemiola_array::save::{Loading, Manifest, Saving};
//! use hemiola_array::{Dense, Shape};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("model");
//! let w = Dense::from_fn(Shape::new([4, 3]), |index| index as f32)?;
//! let saving = Saving::begin(&path)?;
//! let mut manifest = Manifest::default();
//! manifest.add_dense::<f32, 2>("w", w.shape(), vec![saving.write_dense("w", 0, 0, &w)?]);
//! saving.commit(&manifest)?;
//!
//! let loading = Loading::open(&path)?;
//! let (first_row, part) = loading.read_dense::<f32, 2>("w", 0)?;
//! assert_eq!((first_row, part), (0, w));
//! # Ok::<(), hemiola_array::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`stored`] | element types that have a place in a safetensors file |
//! | `tensor_file` | one safetensors file, written and read as a stream with its checksum |
//! | [`manifest`] | what a save holds |
//! | [`saving`] | the temporary directory and the rename |
//! | `check` | whether there is a place and room for a save |
//! | [`lock`] | who may replace a save |
//! | [`loading`] | reading parts, with everything checked |

mod check;
pub mod loading;
pub mod lock;
pub mod manifest;
pub mod saving;
pub mod stored;
mod tensor_file;

pub use loading::Loading;
pub use lock::SaveLock;
pub use manifest::{ArrayRecord, Kind, Manifest, PartRecord};
pub use saving::Saving;
pub use stored::Stored;
