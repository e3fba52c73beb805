//! What a way to run a loop costs.
//!
//! The model is coarse on purpose: it must put candidates in order, not predict seconds. Time of computing is that of the
//! busiest part, or what is predicted from the counts of blocks, at a nominal price per entry and per cell it touches; bytes between peers have a nominal rate; bytes between
//! workers of a peer cost a tenth of that. The prices are of a commodity machine and appear in [`Cost`] only as `seconds`.

use super::makespan::Prices;
use super::{ArrayPlan, Placement};
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
/// Picoseconds for handing a block on.
const HANDOFF: u64 = 5_000_000;
/// Picoseconds per entry where numbers of blocks are compared. A body that does little: more blocks must pay even then.
const LIGHT_ENTRY: u64 = 100_000;
/// Picoseconds for a meeting of all workers.
const MEETING: u64 = 50_000_000;
const PICOSECONDS: f64 = 1e12;

/// What one pass of a plan costs, by the planner's model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Entries of the busiest part over the mean of all parts. 1 is perfect.
    pub imbalance: f64,
    /// The share of the time that workers compute rather than wait for a block or for the busiest part. 1 is perfect.
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
    /// Share of the time that workers compute, if it is not only the busiest part that makes others wait.
    pub(crate) utilization: Option<f64>,
    pub(crate) wire_bytes: u64,
    /// Bytes between parts, if every part were a peer of its own.
    pub(crate) bytes_apart: u64,
    /// Bytes that move between workers of a peer.
    pub(crate) memory_traffic: u64,
    pub(crate) memory_bytes: u64,
}

/// What blocks are compared by, as if every part were a peer of its own: so the number of blocks, and with it every bit of
/// the result, does not depend on which workers share a peer.
pub(crate) fn prices(arrays: &[ArrayPlan], cells_per_entry: u64, parts: usize, meets: bool) -> Prices {
    let picoseconds = |bytes: u64, rate: f64| bytes.saturating_mul((rate * PICOSECONDS) as u64);
    let cells = cells_per_entry.saturating_mul((CELL * PICOSECONDS) as u64);
    let (entry, nominal_entry) = (LIGHT_ENTRY.saturating_add(cells), picoseconds(1, ENTRY).saturating_add(cells));
    let (mut own_row, mut own_rows, mut wire) = (0_u64, 0_u64, 0_u64);
    for array in arrays {
        let row = array.bytes / array.shape.first().copied().unwrap_or(1).max(1);
        match array.placement {
            Placement::Local { .. } => {
                own_row += picoseconds(row, MEMORY);
                own_rows += picoseconds(array.bytes / parts as u64, MEMORY);
            }
            Placement::Rotating { .. } => wire += picoseconds(array.bytes, WIRE),
            Placement::Halo { .. } | Placement::Whole | Placement::Served => {}
        }
    }
    let meeting = meets.then_some(MEETING);
    Prices { entry, nominal_entry, own_row, own_rows, handoff: HANDOFF, wire, meeting, peers: parts }
}

impl Work {
    pub(crate) fn cost(&self) -> Cost {
        let busiest = self.weights.iter().max().copied().unwrap_or(0) as f64;
        let mean = self.weights.iter().sum::<u64>() as f64 / self.weights.len().max(1) as f64;
        let imbalance = if mean > 0.0 { busiest / mean } else { 1.0 };
        let utilization = self.utilization.unwrap_or_else(|| imbalance.recip());
        let compute = mean * (ENTRY + CELL * self.cells_per_entry as f64) / utilization;
        Cost {
            imbalance,
            utilization,
            wire_bytes: self.wire_bytes,
            memory_bytes: self.memory_bytes,
            seconds: compute + self.wire_bytes as f64 * WIRE + self.memory_traffic as f64 * MEMORY,
            seconds_apart: compute + self.bytes_apart as f64 * WIRE,
        }
    }
}
