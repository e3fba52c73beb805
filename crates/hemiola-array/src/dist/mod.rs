//! Distributed arrays: arrays shared by all peers of a cluster.
//!
//! ```text
//!   read_csv(..) ──> LazyArray ── map, filter, map_keys ──> materialize ──> DistArray ── entries() ──> LazyArray ...
//!                    nothing is read yet                     │ every worker of every peer parses its byte ranges
//!                                                            │ peers agree on errors, shape and layout
//!                                                            └ shuffle: entries go to their owners and are sorted
//! ```
//!
//! Everything here is *collective*: every peer makes the same calls in the same order.
//!
//! **Invariants:** an error is identical on every peer. Contents depend on the data, never on the
//! number of peers and workers that read it. An array is partitioned along its *space* dimension
//! into as many parts as the job has workers (or a multiple), and peer `p` owns the `p`-th share of
//! consecutive parts.
//!
//! | file | concept |
//! |---|---|
//! | [`element`] | [`Element`]: value types that arrays store and peers send |
//! | [`partition`] | [`PartitionSpec`] requested, [`ArrayLayout`] computed |
//! | [`mod@array`] | [`DistArray`] |
//! | [`guard`], `redistribute` | [`ArrayGuard`]: exclusive access of a loop, and redistribution of rows |
//! | [`lazy`], [`source`] | [`LazyArray`] chains over [`RecordSource`]s |
//! | `build`, `owner_shuffle`, `block_lookup` | from local entries to an array: layout, shuffle, sort |
//! | [`mod@shuffle`] | all-to-all exchange of entries |
//! | [`readers`], [`string_keys`], [`row_per_line`] | reading files into arrays |
//! | `columnar` | Parquet and Arrow IPC files, with the feature `arrow` |
//! | [`constructors`] | [`ArrayExt`]: zeros, uniform, normal, from a function |
//! | [`accumulator`] | reductions over all workers |
//! | [`store`], `load_retry` | save and load, with retry while a save is replaced |
//! | [`store_values`] | numbers in a save that are no distributed array |
//! | `agree`, `duplicate_lines` | agreement on one error; the two lines of a duplicate key |

pub mod accumulator;
mod agree;
pub mod array;
mod block_lookup;
mod build;
#[cfg(feature = "arrow")]
pub mod columnar;
pub mod constructors;
mod duplicate_lines;
pub mod element;
pub mod guard;
pub mod lazy;
mod load_retry;
mod owner_shuffle;
pub mod partition;
pub mod readers;
mod redistribute;
pub mod row_per_line;
pub mod shuffle;
pub mod source;
pub mod store;
pub mod store_values;
pub mod string_keys;

pub use accumulator::{Accumulator, AccumulatorExt};
pub use array::{DenseBlock, DistArray, Storage};
#[cfg(feature = "arrow")]
pub use columnar::ReadColumnsExt;
pub use constructors::ArrayExt;
pub use element::Element;
pub use guard::ArrayGuard;
pub use lazy::LazyArray;
pub use partition::{ArrayLayout, PartitionMethod, PartitionSpec, PartitionedDimension};
pub use readers::{ReadExt, find_files};
pub use row_per_line::LabelledData;
pub use shuffle::shuffle;
pub use source::{Entry, RecordSource};
pub use store::{ArrayLoader, ArraySaver};
pub use store_values::SavedValues;
