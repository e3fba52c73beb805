//! Save and load of arrays: safetensors files and one manifest, in a directory that is published
//! atomically.
//!
//! ```text
//! model/
//!   manifest.json                                  newest save: arrays, parts, sizes, checksums
//!   generation-1/manifest.json                     the same of this generation alone
//!   generation-1/w.00000.safetensors               dense:  tensor `values` [rows of the part, ..., row length]
//!   generation-1/ratings.00000.safetensors         sparse: tensors `key0` `key1` ... (u32 or u64) and `values`, sorted
//!   generation-1/ratings.names0.safetensors        names of a dimension: tensors `bytes` (u8) and `ends` (u64)
//! ```
//!
//! Each part is its own file, so that many peers can write at once and any number of peers can
//! load. A dense part is a range of the first dimension, a sparse part any set of entries. Keys are
//! counted from 0. Every file can be read with the `safetensors` package of Python; none needs
//! Hemiola. The manifest names the files relative to its folder.
//!
//! **Invariant:** files are written into the folder of a new [`generation`] and synced, and one
//! rename of the manifest publishes the save, so a visible save is complete, also after a kill or a
//! power failure on any file system. A file whose size or SHA-256 differs from the manifest is
//! rejected with the reason, and so is a modified manifest; the generation before is still there.
//!
//! ```
//! use hemiola_array::save::{PartReader, Manifest, PartWriter};
//! use hemiola_array::{DenseArray, Shape};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("model");
//! let w = DenseArray::from_fn(Shape::new([4, 3]), |index| index as f32)?;
//! let writer = PartWriter::begin(&path)?;
//! let mut manifest = Manifest::default();
//! manifest.add_dense::<f32, 2>("w", w.shape(), vec![writer.write_dense("w", 0, 0, &w)?]);
//! writer.commit(&manifest)?;
//!
//! let reader = PartReader::open(&path)?;
//! let (first_row, part) = reader.read_dense::<f32, 2>("w", 0)?;
//! assert_eq!((first_row, part), (0, w));
//! # Ok::<(), hemiola_array::Error>(())
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`dtype`] | element types of safetensors files |
//! | `tensor_file` | streaming reader and writer of one safetensors file with its checksum |
//! | [`manifest`] | contents of a save |
//! | [`generation`] | folders of saves, and the argument why no crash loses one |
//! | [`part_writer`] | writer of parts: new generation and rename |
//! | `check` | check in advance that a save can be written |
//! | [`lock`] | exclusive right to replace a save |
//! | [`part_reader`] | reader of parts, with all checks |

mod check;
pub mod dtype;
pub mod generation;
pub mod lock;
pub mod manifest;
pub mod part_reader;
pub mod part_writer;
mod tensor_file;

pub use dtype::TensorElement;
pub use lock::SaveLock;
pub use manifest::{ArrayRecord, Manifest, PartRecord, StorageKind};
pub use part_reader::PartReader;
pub use part_writer::PartWriter;
