//! Networking between the peers of a job: frames, lanes, transports, joining.
//!
//! A starting peer calls [`join`], which connects it to the other peers and returns a [`JoinedPeer`].
//! [`JoinedPeer::start`] turns that into a [`TcpTransport`] that delivers to a sink, usually a
//! [`Router`] with one [`ChannelReceiver`] per channel. Peers that are threads of one process use
//! [`InProcessTransport`] instead; no code above this crate can tell the difference.
//!
//! **Invariants.** Only this crate touches sockets. It starts no thread by itself: I/O loops and
//! handshakes run on threads that it requests from its [`Env`](hemiola_core::Env) or hands to its
//! caller. Nothing that a peer sends makes it panic or allocate beyond its limits. Frames, handshake,
//! roster and token bucket are pure and tested as such.
//!
//! | file | concept |
//! |---|---|
//! | `frame.rs`, `decoder.rs` | wire format and its decoder |
//! | `frame_authentication.rs` | keys, tags and nonces that protect every frame |
//! | `buffer.rs` | pool of receive buffers |
//! | `router.rs` | delivery of arriving messages to channels |
//! | `host_network.rs` | loopback and addresses of this host, for diagnosis |
//! | `in_process.rs` | transport between threads of one process |
//! | `tcp/` | transport between processes, plain or with TLS (`tls.rs`) |
//! | `join/` | rendezvous and authentication of peers with the job secret (`secret.rs`) |
//! | `counters.rs` | traffic counters |
//! | [`testing`] | attacks on the wire format, for tests and benchmarks |

mod buffer;
mod counters;
mod decoder;
mod error;
mod frame;
mod frame_authentication;
mod host_network;
mod in_process;
mod join;
mod router;
mod secret;
mod sync;
mod tcp;
#[cfg(test)]
mod test_support;
pub mod testing;
mod tls;

pub use buffer::{BufferPool, MIN_POOLED_BYTES, PooledBuffer};
pub use decoder::FrameDecoder;
pub use error::JoinError;
pub use frame::{FrameError, FrameHeader, FrameKind, HEADER_BYTES, PROTOCOL_VERSION};
pub use frame_authentication::{FrameKey, SessionKeys};
pub use host_network::{loopback_round_trip, outgoing_address};
pub use in_process::{IN_FLIGHT_LIMIT, InProcessTransport};
pub use join::bootstrap::{JoinConfig, JoinedPeer, join};
pub use join::handshake::JoinRefusal;
pub use join::handshake_stream::HandshakeError;
pub use join::rendezvous::{ParseRendezvousError, Rendezvous};
pub use join::roster::Member;
pub use router::{ChannelReceiver, ReceiveError, Router};
pub use secret::{MIN_SECRET_BYTES, Secret};
pub use tcp::io_loop::IoLoop;
pub use tcp::transport::{TcpLimits, TcpTransport};
pub use tls::{DEFAULT_TLS_NAME, TlsConfig, TlsError};
