//! What a way to run a loop costs.
//!
//! The model is coarse on purpose: it must put candidates in order, not predict seconds. Time of computing is that of the
//! busiest part at a nominal price per entry and per cell it touches; bytes between peers have a nominal rate; bytes between
//! workers of a peer cost a tenth of that. The prices are of a commodity machine and appear in [`Cost`] only as `seconds`.

use serde::{Deserialize, Serialize};

/// Seconds per entry, besides the cells it touches. What a body does is not known; a loop that is made parallel does not do next
/// to nothing.
const ENTRY: f64 = 1e-6;
/// Seconds per cell that an entry touches.
const CELL: f64 = 1e-9;
/// Seconds per byte between peers: a network of 1 GB/s.
const WIRE: f64 = 1e-9;
/// Seconds per byte that moves from worker to worker inside a peer.
const MEMORY: f64 = 0.1e-9;
/// Seconds for handing a block on.
const HANDOFF: f64 = 5e-6;

/// What one pass of a plan costs, by the planner's model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Entries of the busiest part over the mean of all parts. 1 is perfect.
    pub imbalance: f64,
    /// Shares of the time that workers compute rather than wait for a wave to reach them. 1 is perfect.
    pub utilization: f64,
    /// Bytes between peers in a pass.
    pub wire_bytes: u64,
    /// Bytes of arrays that the busiest peer holds, copies included.
    pub memory_bytes: u64,
    /// What candidates of different kinds are compared by.
    pub seconds: f64,
    /// The same if every part were a peer of its own. What candidates of one kind are compared by, so that the order of
    /// entries, and with it every bit of the result, does not depend on which workers share a peer.
    pub seconds_apart: f64,
}

/// What costs are computed from.
pub(crate) struct Work {
    /// Entries of each part.
    pub(crate) weights: Vec<u64>,
    pub(crate) cells_per_entry: u64,
    pub(crate) utilization: f64,
    pub(crate) wire_bytes: u64,
    /// Bytes between parts, if every part were a peer of its own.
    pub(crate) bytes_apart: u64,
    /// Bytes that move between workers of a peer.
    pub(crate) memory_traffic: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) handoffs: usize,
}

impl Work {
    pub(crate) fn cost(&self) -> Cost {
        let busiest = self.weights.iter().max().copied().unwrap_or(0) as f64;
        let mean = self.weights.iter().sum::<u64>() as f64 / self.weights.len().max(1) as f64;
        let imbalance = if mean > 0.0 { busiest / mean } else { 1.0 };
        let compute = busiest * (ENTRY + CELL * self.cells_per_entry as f64) / self.utilization;
        let handing_on = self.handoffs as f64 * HANDOFF;
        let seconds = compute + self.wire_bytes as f64 * WIRE + self.memory_traffic as f64 * MEMORY + handing_on;
        Cost {
            imbalance,
            utilization: self.utilization,
            wire_bytes: self.wire_bytes,
            memory_bytes: self.memory_bytes,
            seconds,
            seconds_apart: compute + self.bytes_apart as f64 * WIRE + handing_on,
        }
    }
}
