//! Transport over TCP, plain or with TLS.
//!
//! ```text
//!  any thread ── send ──▶ SendQueue ──▶ writes at once if nothing is queued, else the I/O loop writes later
//!  waiting thread ── assist ──▶ reads its peer's socket itself and delivers, until its own message is there
//!  I/O loops (one per lane) ──▶ read and write the remaining traffic
//! ```
//!
//! **Why no async runtime.** A round trip through tasks and channels wakes two threads per message
//! where a raw socket loop wakes one; on the machine of `docs/performance.md` that alone costs three
//! raw round trips. Here the sending thread writes and the waiting thread reads, so a round trip is
//! two system calls on each side, and the I/O loops only serve traffic that no thread waits for. The
//! price is this module: a few hundred lines around `poll`.
//!
//! **Lanes.** Each pair of peers has one connection per lane, and each lane its own I/O loop thread.
//!
//! | file | concept |
//! |---|---|
//! | `stream.rs` | socket, plain or TLS, with non-blocking writes and brief reads |
//! | `send_queue.rs` | queue of outgoing frames, gathered without copying |
//! | `connection.rs` | one connection: its readers, its writers, its flow control |
//! | `io_loop.rs` | thread that serves the connections of a lane |
//! | `transport.rs` | all connections of a peer as a [`Transport`](hemiola_core::Transport) |

pub(crate) mod connection;
pub(crate) mod io_loop;
pub(crate) mod send_queue;
pub(crate) mod stream;
pub(crate) mod transport;
