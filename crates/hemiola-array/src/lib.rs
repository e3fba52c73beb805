//! Arrays: storage, partitioning, file readers, dictionaries, synthetic data, save and load.
//!
//! [`dist`] is the module that programs use: arrays shared by all peers. The other modules work on
//! one peer alone.
//!
//! **Invariant:** nothing here starts a thread, opens a socket, reads a clock or keeps a global.
//! Parallelism enters as functions over a byte range or a part that any thread may call. Every
//! result depends only on the data and the seed, never on how the work was divided.
//!
//! ```text
//!   files ── find ──> input files ── split ──> byte ranges ── parse, one range per call ──> builders
//!                                                                                             │
//!   synthetic data, random values ──────────────────> blocks <── appended in range order ─────┘
//!                                        histogram ── partitioner ── parts
//!                                        save / load
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`dist`] | [`DistArray`]: read, partitioned, transformed, combined and saved by all peers together |
//! | [`shape`] | [`Shape`]: extents, keys and linear indices |
//! | [`sparse`] | [`sparse::SparseBlock`]: sorted entries as a structure of arrays |
//! | [`dense`] | [`DenseArray`]: all cells, rows aligned to cache lines |
//! | [`histogram`], [`joint_histogram`] | [`Histogram`] and [`JointHistogram`]: numbers of entries |
//! | [`partitioner`] | [`Partitioner`]: assignment of indices to parts |
//! | [`read`] | text and NumPy files, plain or compressed, in byte ranges |
//! | [`dictionary`] | [`Dictionary`]: strings to dense indices and back |
//! | [`files`] | file operations of saves, files that appear whole, simulated faults |
//! | [`save`] | safetensors files and a manifest, committed atomically |
//! | [`synthetic`] | synthetic data sets with known ground truth |
//! | [`error`] | [`Error`] of the whole crate |

pub mod dense;
pub mod dictionary;
pub mod dist;
pub mod error;
pub mod files;
pub mod histogram;
pub mod joint_histogram;
pub mod partitioner;
mod path_bytes;
pub mod read;
pub mod save;
pub mod shape;
pub mod sparse;
pub mod synthetic;

pub use dense::DenseArray;
pub use dictionary::Dictionary;
pub use dist::{Accumulator, AccumulatorExt, ArrayExt, DistArray, Element, PartitionMethod, PartitionSpec, ReadExt};
pub use error::{BadLine, EntryOrigin, Error, Result};
pub use histogram::Histogram;
pub use joint_histogram::JointHistogram;
pub use partitioner::Partitioner;
pub use shape::Shape;
