//! Rotations of blocks around a ring, on a random cluster.

use super::{MAX_EVENTS, Scenario, bits, random_cluster, require_nonzero};
use crate::actors::rotation::{RingBlock, RotationActor, RotationSetup};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rotations on a random cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RotationScenario {
    /// Random seed of the cluster.
    pub seed: u64,
    /// Cluster on which it runs.
    pub cluster: ClusterSpec,
    /// Number of blocks of each seat.
    pub blocks: Vec<usize>,
    /// Number of rotations to run.
    pub rotations: usize,
    /// Number of values of a block.
    pub length: usize,
    /// Adds a barrier after the blocks of each home.
    #[serde(default)]
    pub barrier: bool,
    /// Injected fault: a seat runs the last block that arrived instead of the next in order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub run_out_of_order: bool,
}

/// Computation of a visit; no two visits commute.
fn visit(seat: usize, rotation: usize, block: &mut RingBlock) {
    for (at, value) in block.values.iter_mut().enumerate() {
        *value = *value * (1.0 + 0.1 / (seat as f64 + 2.0)) + 1.0 / (3.0 + rotation as f64 + at as f64);
    }
}

impl Scenario for RotationScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
        let seats = 1 + random.below(8);
        let blocks = (0..seats).map(|_| random.below(4)).collect();
        let cluster = random_cluster::draw(seats, random);
        let (rotations, length) = (1 + random.below(3), [0, 3, 2000][random.below(3)]);
        Self { seed, cluster, blocks, rotations, length, barrier: random.below(4) == 0, run_out_of_order: false }
    }

    fn check(&self) -> Result<RunSummary, String> {
        require_nonzero(&[("blocks", self.blocks.len()), ("rotations", self.rotations)])?;
        if self.blocks.len() != self.cluster.peers {
            return Err(format!("`blocks` has {} entries for {} peers", self.blocks.len(), self.cluster.peers));
        }
        let seats = self.blocks.len();
        let setup = RotationSetup {
            blocks: self.blocks.clone(),
            length: self.length,
            rotations: self.rotations,
            work: Arc::new(|_, home, _| SimDuration::from_micros(20 + 30 * (home as u64 % 3))),
            barrier: self.barrier,
            value_bytes: 8,
            visit,
            run_out_of_order: self.run_out_of_order,
        };
        let mut simulation = Simulation::new(&self.cluster, self.seed, |me| RotationActor::new(me, setup.clone()))
            .map_err(|error| error.to_string())?
            .event_limit(MAX_EVENTS);
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        // In every rotation a seat runs its own blocks first, then those of the seat before it, and
        // so on.
        for (seat, actor) in simulation.actors().iter().enumerate() {
            let mut expected = Vec::new();
            for rotation in 0..self.rotations {
                for step in 0..seats {
                    let home = (seat + seats - step) % seats;
                    expected.extend((0..self.blocks[home]).map(|number| (rotation, home, number)));
                }
            }
            if actor.ran() != expected {
                return Err(format!("seat {seat} ran {:?} instead of {expected:?}", actor.ran()));
            }
        }
        let mut at_home: BTreeMap<(usize, usize), &RingBlock> = BTreeMap::new();
        for (seat, actor) in simulation.actors().iter().enumerate() {
            for block in actor.blocks() {
                if block.home != seat || at_home.insert((block.home, block.number), block).is_some() {
                    return Err(format!("block {} of seat {} ended at seat {seat}", block.number, block.home));
                }
            }
        }
        for (home, count) in self.blocks.iter().enumerate() {
            for number in 0..*count {
                let initial = |at: usize| 1.0 + (home * 31 + number * 7 + at) as f64;
                let mut expected = RingBlock { home, number, values: (0..self.length).map(initial).collect() };
                for rotation in 0..self.rotations {
                    (0..seats).for_each(|step| visit((home + step) % seats, rotation, &mut expected));
                }
                let Some(found) = at_home.get(&(home, number)) else {
                    return Err(format!("block {number} of seat {home} is missing"));
                };
                if bits(&found.values) != bits(&expected.values) {
                    return Err(format!("block {number} of seat {home} differs in bits from its serial visits"));
                }
            }
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for seats in random_cluster::smaller_numbers(self.blocks.len(), 1) {
            let cluster = random_cluster::with_fewer_peers(&self.cluster, seats);
            all.push(Self { cluster, blocks: self.blocks[..seats].to_vec(), ..self.clone() });
        }
        for rotations in random_cluster::smaller_numbers(self.rotations, 1) {
            all.push(Self { rotations, ..self.clone() });
        }
        all.extend(random_cluster::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        for (seat, count) in self.blocks.iter().enumerate() {
            for count in random_cluster::smaller_numbers(*count, 0) {
                let mut blocks = self.blocks.clone();
                blocks[seat] = count;
                all.push(Self { blocks, ..self.clone() });
            }
        }
        for length in random_cluster::smaller_numbers(self.length, 0) {
            all.push(Self { length, ..self.clone() });
        }
        all
    }
}
