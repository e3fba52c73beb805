//! Parallel loops: a serial loop over entries or indices, run by all workers of all peers without breaking what its
//! iterations need of each other.
//!
//! ```text
//!   parallel_for! ──> Site (accesses, as written)            captures (arrays, accumulators, buffers, values)
//!                        │                                        │ declare themselves
//!                        └──────────────> analysis <──────────────┘
//!                                            │ legal strategies, with proofs
//!          shapes, histograms, workers ──> plan: cuts, placements, schedule, cost
//!                                            │
//!            entries dealt out, arrays placed ──> workers run blocks ──> arrays given back
//! ```
//!
//! | module | concept |
//! |---|---|
//! | [`site`] | [`Site`]: what the macro knows |
//! | [`plan`] | [`Plan`]: what the loop will do and cost; its text and JSON |
//! | [`profile`] | [`Profile`]: what was measured of a loop on one machine, so that others can be planned and predicted |
//! | [`capture`], [`view`] | what names become: on a peer, and in the body |
//! | [`buffer`] | [`Buffer`]: writes that may be late |
//! | [`record`], `foreseen` | what the slice of a body writes down, so that rows can be fetched in bulk; and remembered |
//! | `arrays`, `halo` | arrays in a loop: held, placed, cut into windows; rows that two peers share |
//! | `space` | what is iterated over |
//! | [`mod@run`] | workers, blocks, stages, meetings, the post between peers |
//! | [`expand`] | what `parallel_for!` calls |

mod arrays;
#[expect(unsafe_code, reason = "cells of several arrays are changed together; argued at each place")]
pub mod buffer;
#[expect(unsafe_code, reason = "rows are found by address; argued at each place")]
pub mod capture;
pub mod error;
#[doc(hidden)]
#[expect(unsafe_code, reason = "values are reached by address; argued at each place")]
pub mod expand;
mod foreseen;
#[expect(unsafe_code, reason = "rows are shared by address; argued at each place")]
mod halo;
pub mod plan;
pub mod profile;
pub mod record;
pub mod run;
pub mod site;
mod space;
pub mod view;

pub use buffer::{Buffer, BufferArray};
pub use error::Error;
pub use plan::Plan;
pub use profile::Profile;
pub use run::Run;
pub use site::Site;
