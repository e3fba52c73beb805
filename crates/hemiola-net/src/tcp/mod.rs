//! The transport over TCP, plain or under TLS.
//!
//! ```text
//!  any thread ── send ──▶ Outbound ──▶ writes at once if nothing is queued, else the I/O loop writes later
//!  waiting thread ── assist ──▶ reads its peer's socket itself, delivers what it finds, until its own message is there
//!  I/O loops (one per lane) ──▶ read and write whatever nobody else is reading or writing
//! ```
//!
//! **Why no async runtime here.** A round trip through tasks and channels wakes two threads per message where a raw
//! socket loop wakes one; on the machine of `docs/performance.md` that alone is three raw round trips. Here the sending
//! thread writes and the waiting thread reads, so a round trip is two system calls on each side, and the I/O loops only
//! serve traffic nobody waits for. The price is this module: a few hundred lines around `poll`.
//!
//! **Lanes.** Each pair of peers has one connection per lane, and each lane its own I/O loop thread.
//!
//! | file | concept |
//! |---|---|
//! | `stream.rs` | a socket, plain or TLS, with non-blocking writes and brief reads |
//! | `outbound.rs` | frames on their way out, gathered without copying |
//! | `connection.rs` | one connection: who reads it, who writes it, what it waits for |
//! | `io_loop.rs` | the thread that serves a lane's connections |
//! | `transport.rs` | all connections of a peer as a [`Transport`](hemiola_core::Transport) |

pub(crate) mod connection;
pub(crate) mod io_loop;
pub(crate) mod outbound;
pub(crate) mod stream;
pub(crate) mod transport;
