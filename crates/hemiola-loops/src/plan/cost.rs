//! Cost model of the planner.
//!
//! The model is coarse on purpose: it must rank candidates, not predict seconds. Compute time is
//! that of the busiest part, or the prediction from the block counts, at a nominal time per entry
//! and per cell it accesses. Bytes between peers have a nominal rate; bytes between workers of a
//! peer cost a tenth of it. The unit costs are those of a commodity machine and appear in
//! [`PlanCost`] only as `seconds`.

use super::makespan::UnitTimes;
use super::{ArrayPlacement, ArrayPlan};
use serde::{Deserialize, Serialize};

/// Seconds per entry, besides the cells it accesses. The work of a body is unknown; a loop that is
/// worth parallelizing does more than trivial work.
const SECONDS_PER_ENTRY: f64 = 1e-6;
/// Seconds per cell that an entry accesses.
const SECONDS_PER_CELL: f64 = 1e-9;
/// Seconds per byte between peers: a network of 1 GB/s.
const SECONDS_PER_WIRE_BYTE: f64 = 1e-9;
/// Seconds per byte that moves from worker to worker inside a peer.
const SECONDS_PER_MEMORY_BYTE: f64 = 0.1e-9;
/// Picoseconds for passing a block on.
const HANDOFF_PICOSECONDS: u64 = 5_000_000;
/// Picoseconds per entry when numbers of blocks are compared. It assumes a light body: more blocks
/// must pay off even then.
const LIGHT_ENTRY_PICOSECONDS: u64 = 100_000;
/// Picoseconds for a barrier of all workers.
const BARRIER_PICOSECONDS: u64 = 50_000_000;
const PICOSECONDS_PER_SECOND: f64 = 1e12;

/// Cost of one pass, by the planner's model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanCost {
    /// Load imbalance: entries of the busiest part over the mean of all parts. 1 is perfect.
    pub imbalance: f64,
    /// Share of the time that workers compute instead of waiting for a block or for the busiest
    /// part. 1 is perfect.
    pub utilization: f64,
    /// Bytes between peers in a pass.
    pub wire_bytes: u64,
    /// Bytes of arrays on the peer with the most, copies included.
    pub memory_bytes: u64,
    /// Estimated time of a pass, which compares candidates of different kinds.
    pub seconds: f64,
    /// Estimated time of a pass if every part were a peer of its own. It compares candidates of one
    /// kind. So the order of entries, and with it every bit of the result, does not depend on which
    /// workers share a peer.
    pub seconds_distributed: f64,
}

/// Quantities that the cost is computed from.
pub(crate) struct CostInputs {
    /// Number of entries, by part.
    pub(crate) weights: Vec<u64>,
    pub(crate) cells_per_entry: u64,
    /// Utilization, if it is not determined by the busiest part alone.
    pub(crate) utilization: Option<f64>,
    pub(crate) wire_bytes: u64,
    /// Bytes between parts if every part were a peer of its own.
    pub(crate) bytes_distributed: u64,
    /// Bytes that move between workers of a peer.
    pub(crate) memory_traffic: u64,
    pub(crate) memory_bytes: u64,
}

/// Unit times for comparing numbers of blocks, as if every part were a peer of its own. So the
/// number of blocks, and with it every bit of the result, does not depend on which workers share a
/// peer.
pub(crate) fn unit_times(arrays: &[ArrayPlan], cells_per_entry: u64, parts: usize, has_barriers: bool) -> UnitTimes {
    let picoseconds = |bytes: u64, rate: f64| bytes.saturating_mul((rate * PICOSECONDS_PER_SECOND) as u64);
    let cells = cells_per_entry.saturating_mul((SECONDS_PER_CELL * PICOSECONDS_PER_SECOND) as u64);
    let (entry, nominal_entry) =
        (LIGHT_ENTRY_PICOSECONDS.saturating_add(cells), picoseconds(1, SECONDS_PER_ENTRY).saturating_add(cells));
    let (mut local_row, mut local_rows, mut wire) = (0_u64, 0_u64, 0_u64);
    for array in arrays {
        let row = array.bytes / array.shape.first().copied().unwrap_or(1).max(1) as u64;
        match array.placement {
            ArrayPlacement::Local { .. } => {
                local_row += picoseconds(row, SECONDS_PER_MEMORY_BYTE);
                local_rows += picoseconds(array.bytes / parts as u64, SECONDS_PER_MEMORY_BYTE);
            }
            ArrayPlacement::Rotating { .. } => wire += picoseconds(array.bytes, SECONDS_PER_WIRE_BYTE),
            ArrayPlacement::Halo { .. } | ArrayPlacement::Replicated | ArrayPlacement::Served => {}
        }
    }
    let barrier = has_barriers.then_some(BARRIER_PICOSECONDS);
    UnitTimes { entry, nominal_entry, local_row, local_rows, handoff: HANDOFF_PICOSECONDS, wire, barrier, peers: parts }
}

impl CostInputs {
    pub(crate) fn cost(&self) -> PlanCost {
        let busiest = self.weights.iter().max().copied().unwrap_or(0) as f64;
        let mean = self.weights.iter().sum::<u64>() as f64 / self.weights.len().max(1) as f64;
        let imbalance = if mean > 0.0 { busiest / mean } else { 1.0 };
        let utilization = self.utilization.unwrap_or_else(|| imbalance.recip());
        let compute = mean * (SECONDS_PER_ENTRY + SECONDS_PER_CELL * self.cells_per_entry as f64) / utilization;
        PlanCost {
            imbalance,
            utilization,
            wire_bytes: self.wire_bytes,
            memory_bytes: self.memory_bytes,
            seconds: compute
                + self.wire_bytes as f64 * SECONDS_PER_WIRE_BYTE
                + self.memory_traffic as f64 * SECONDS_PER_MEMORY_BYTE,
            seconds_distributed: compute + self.bytes_distributed as f64 * SECONDS_PER_WIRE_BYTE,
        }
    }
}
