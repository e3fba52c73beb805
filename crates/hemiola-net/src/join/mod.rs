//! How peers meet and become a job.
//!
//! ```text
//!  peer r ──dial──▶ root            handshake (mutual proof of the secret), claim: rank, size, listening address
//!  root ──roster──▶ every peer      once all ranks are there
//!  peer i ──dial──▶ peer j < i      one link per lane, each with its own handshake
//!  peer ──ready──▶ root             once all its links stand
//!  root ──go──▶ every peer          once all are ready; no data frame travels before
//! ```
//! A stranger, a second peer with the same rank, a peer of another job or size is refused, hears why, and is named in
//! the root's events and, if the job does not come together, in the root's error; it never harms those who belong.
//!
//! | file | concept |
//! |---|---|
//! | `handshake.rs` | mutual challenge: pure |
//! | `roster.rs` | who has joined and who is refused: pure |
//! | `wire.rs` | frames on a connection that is not yet a link |
//! | `listener.rs` | connections that come in, authenticated side by side |
//! | `rendezvous.rs` | where peers meet: an address, or a file that names one |
//! | `meet.rs` | the conversation above |

pub(crate) mod handshake;
pub(crate) mod listener;
pub(crate) mod meet;
pub(crate) mod rendezvous;
pub(crate) mod roster;
pub(crate) mod wire;
