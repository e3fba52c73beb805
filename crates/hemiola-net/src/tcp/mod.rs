//! Transport over TCP, plain or with TLS.
//!
//! ```text
//!  any thread ── send ──▶ SendQueue ──▶ writes at once if nothing is queued
//!  waiting thread ── assist ──▶ reads its peer's socket until its own message is there
//!  I/O loops (one per lane) ──▶ read and write the remaining traffic
//! ```
//!
//! README.md in this folder is the design note; its section Roads not taken says why there is no
//! async runtime. Each pair of peers has one connection per lane, and each lane its own I/O loop
//! thread.
//!
//! | file | concept |
//! |---|---|
//! | `stream.rs` | socket, plain or TLS, with non-blocking writes and brief reads |
//! | `send_queue.rs` | queue of outgoing frames, gathered without copying |
//! | `connection.rs` | one connection: its readers, its writers, its flow control |
//! | `lease.rs` | lease of a connection to threads that receive from it all the time |
//! | `io_loop.rs` | thread that serves the connections of a lane |
//! | `transport.rs` | all connections of a peer as a [`Transport`](hemiola_core::Transport) |

pub(crate) mod connection;
pub(crate) mod io_loop;
pub(crate) mod lease;
pub(crate) mod send_queue;
pub(crate) mod stream;
pub(crate) mod transport;
