//! Decisions of the schedulers, without threads, sockets or clocks. Random numbers are arguments.

pub mod assignment;
pub mod pipeline;
pub mod ring;
pub mod ring_segment;
pub mod rotation_inbox;
pub mod rotation_node;
pub mod sum_tree;
