//! Arrays: how entries and rows are stored, cut, read, numbered, made up and saved.
//!
//! [`dist`] is what programs use: arrays that all peers share. Everything else is the part that needs no other peer.
//! **Invariant:** nothing here starts a thread, opens a socket, reads a clock or keeps a global; parallelism enters as
//! functions over a byte range or a part that any thread may call, and every result depends on the data and the seed
//! alone, never on how the work was divided.
//!
//! ```text
//!   files ── find ──> sources ── split ──> byte ranges ── parse, one range per call ──> builders, dictionaries, reports
//!                                                                                             │ appended in range order
//!   synthetic sets, random values ─────────────────────────────────────────────> blocks <─────┘
//!                                                                    histogram ── cut ── parts
//!                                                                    save / load
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`dist`] | [`DistArray`]: read, cut, transformed, combined and saved by all peers together |
//! | [`shape`] | [`Shape`]: extents, keys and linear indices |
//! | [`sparse`] | [`sparse::SparseBlock`]: sorted entries as a structure of arrays |
//! | [`dense`] | [`Dense`]: every cell, rows on cache lines |
//! | [`histogram`], [`joint`], [`cut`] | [`Histogram`], [`JointHistogram`] and [`Cut`]: who gets which part of a dimension |
//! | [`random`] | values and permutations that depend on seed and index alone |
//! | [`read`] | text and numpy files, compressed or plain, in byte ranges |
//! | [`dictionary`] | [`Dictionary`]: names to dense indices and back |
//! | [`save`] | safetensors and a manifest, atomically |
//! | [`synthetic`] | seeded data with known truth |
//! | [`error`] | [`Error`], all of it |

pub mod cut;
pub mod dense;
pub mod dictionary;
pub mod dist;
pub mod error;
pub mod histogram;
pub mod joint;
mod path_bytes;
pub mod random;
pub mod read;
pub mod save;
pub mod shape;
pub mod sparse;
pub mod synthetic;

pub use cut::Cut;
pub use dense::Dense;
pub use dictionary::Dictionary;
pub use dist::{Accumulate, Accumulator, DistArray, Element, MakeArrays, Partition, ReadArrays, Way};
pub use error::{BadLine, Error, Place, Result};
pub use histogram::Histogram;
pub use joint::JointHistogram;
pub use shape::Shape;
