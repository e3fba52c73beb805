//! What is decided, without threads, sockets, clocks or chance: those enter as arguments.

pub mod deal;
pub mod pipeline;
pub mod ring;
pub mod sums;
