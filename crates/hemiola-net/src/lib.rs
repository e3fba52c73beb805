//! How the peers of a job exchange bytes: frames, lanes, transports, joining.
//!
//! A peer that starts calls [`join`], which meets the others and returns a [`Joined`]; [`Joined::start`] turns that into
//! a [`TcpTransport`] delivering to an inbox, usually a [`Router`] of [`Mailbox`]es. Peers that are threads of one
//! process use [`InProcess`] instead; nothing above this crate can tell the difference.
//!
//! **Invariants.** Only this crate touches sockets. It starts no thread by itself: I/O loops and handshakes run on
//! threads it asks its [`Env`](hemiola_core::Env) for, or hands to its caller. Nothing a peer sends can panic it or make
//! it allocate beyond its limits. Frames, handshake, roster and budget are pure and tested as such.
//!
//! | file | concept |
//! |---|---|
//! | `frame.rs`, `checksum.rs`, `decoder.rs` | the wire format and its reader |
//! | `buffer.rs` | receive buffers that are used again |
//! | `switchboard.rs` | where arriving messages wait |
//! | `in_process.rs` | peers as threads |
//! | `tcp/` | peers as processes, plain or under TLS (`tls.rs`) |
//! | `join/` | how peers meet; `secret.rs` what they share |
//! | `budget.rs`, `counters.rs` | how much may be sent, how much was |

mod budget;
mod buffer;
mod checksum;
mod counters;
mod decoder;
mod error;
mod frame;
mod in_process;
mod join;
mod secret;
mod switchboard;
mod tcp;
#[cfg(test)]
mod test_support;
mod tls;

pub use budget::{Bandwidth, Budget};
pub use buffer::{Buffer, BufferPool, POOLED_FROM};
pub use decoder::Decoder;
pub use error::JoinError;
pub use frame::{FrameError, FrameHeader, FrameKind, HEADER_BYTES, OVERHEAD_BYTES, PROTOCOL_VERSION};
pub use in_process::{IN_FLIGHT_LIMIT, InProcess};
pub use join::handshake::Refusal;
pub use join::meet::{JoinConfig, Joined, join};
pub use join::rendezvous::{NotARendezvous, Rendezvous};
pub use join::roster::Member;
pub use join::wire::WireError;
pub use secret::Secret;
pub use switchboard::{Mailbox, ReceiveError, Router};
pub use tcp::io_loop::IoLoop;
pub use tcp::transport::{TcpLimits, TcpTransport};
pub use tls::{DEFAULT_NAME, Tls, TlsError};
