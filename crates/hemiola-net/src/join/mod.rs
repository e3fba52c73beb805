//! Join protocol: peers authenticate each other and form a job.
//!
//! ```text
//!  peer r ──connect──▶ root         handshake (mutual proof of the secret), claim: rank, size, listening address
//!  root ──roster──▶ every peer      once all ranks have joined
//!  peer i ──connect──▶ peer j < i   one connection per lane, each with its own handshake
//!  peer ──ready──▶ root             once all its connections are established
//!  root ──go──▶ every peer          once all are ready; no data frame travels before
//! ```
//! An unknown client, a second peer with the same rank, and a peer of another job or size are refused
//! and receive the reason. The root reports them in its events and, if the job does not form, in its
//! error. They never harm the legitimate peers. A connection learns the job, its size and its members
//! only after it has proven the secret.
//!
//! | file | concept |
//! |---|---|
//! | `handshake.rs` | mutual challenge: pure |
//! | `roster.rs` | joined, missing and refused peers: pure |
//! | `handshake_stream.rs` | handshake messages on a connection that has not joined yet |
//! | `pending.rs` | limited number of connections that have not authenticated: pure |
//! | `refusal_log.rs` | rate limit of reports about refused connections: pure |
//! | `acceptor.rs` | incoming connections, authenticated concurrently |
//! | `rendezvous.rs` | rendezvous of the peers: an address, or a file that contains one |
//! | `bootstrap.rs` | the protocol above |

pub(crate) mod acceptor;
pub(crate) mod bootstrap;
pub(crate) mod handshake;
pub(crate) mod handshake_stream;
pub(crate) mod pending;
pub(crate) mod refusal_log;
pub(crate) mod rendezvous;
pub(crate) mod roster;
