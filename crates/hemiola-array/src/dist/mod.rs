//! Arrays that all peers of a cluster share.
//!
//! ```text
//!   read_csv(..) ──> Lazy ── map, filter, map_keys ──> materialize ──> DistArray ── entries() ──> Lazy ...
//!                    nothing is read yet                │ every worker of every peer parses its byte ranges
//!                                                       │ peers agree on errors, shape and cut
//!                                                       └ entries travel to the peer that holds their part, and are sorted
//! ```
//!
//! Everything here is *collective*: every peer makes the same calls in the same order. **Invariants:** an error is the
//! same on every peer; contents depend on the data, never on how many peers and workers read it; an array is cut along its
//! *space* dimension into as many parts as there are workers in the job (or a multiple), and peer `p` holds the `p`-th
//! share of consecutive parts.
//!
//! | file | concept |
//! |---|---|
//! | [`element`] | [`Element`]: what an array can hold and a peer can send |
//! | [`partition`] | [`Partition`] asked for, [`Layout`] decided |
//! | [`mod@array`] | [`DistArray`] |
//! | [`hold`], `arrange` | [`Holding`]: an array in the hands of a loop, and moving its rows |
//! | [`lazy`], [`source`] | [`Lazy`] chains over [`RecordSource`]s |
//! | `place`, `shuffle`, `homes` | how entries get to the peer that holds them |
//! | [`mod@exchange`] | entries from every peer to every other |
//! | [`readers`], [`named`], [`labelled`] | what to call to read files |
//! | `columns` | Parquet and Arrow IPC, with the feature `arrow` |
//! | [`make`] | arrays that are made up: zeros, uniform, normal, from a function |
//! | [`accumulator`] | sums and the like over all workers |
//! | [`store`], `steady` | saving and loading together, also while a save is replaced |
//! | `agree`, `trace` | one error for all; the two lines of a key given twice |

pub mod accumulator;
mod agree;
mod arrange;
pub mod array;
#[cfg(feature = "arrow")]
pub mod columns;
pub mod element;
pub mod exchange;
pub mod hold;
mod homes;
pub mod labelled;
pub mod lazy;
pub mod make;
pub mod named;
pub mod partition;
mod place;
pub mod readers;
mod shuffle;
pub mod source;
mod steady;
pub mod store;
mod trace;

pub use accumulator::{Accumulate, Accumulator};
pub use array::{DenseBlock, DistArray, Storage};
#[cfg(feature = "arrow")]
pub use columns::ReadColumns;
pub use element::Element;
pub use exchange::exchange;
pub use hold::Holding;
pub use labelled::Labelled;
pub use lazy::Lazy;
pub use make::MakeArrays;
pub use partition::{Axis, Layout, Partition, Way};
pub use readers::ReadArrays;
pub use source::{Entry, RecordSource};
pub use store::{Load, Save};
