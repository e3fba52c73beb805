//! Rotations of blocks around a ring, on a random cluster.

use super::{MAX_EVENTS, Scenario, bits, random_cluster, require_nonzero};
use crate::actors::rotation::{RotationActor, RotationSetup, initial_values};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use hemiola_schedule::plan::ring::RingDirection;
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
    /// Number of blocks of each ring position.
    pub blocks: Vec<usize>,
    /// Number of rotations to run.
    pub rotations: u64,
    /// Number of values of a block.
    pub length: usize,
    /// Blocks travel to lower positions, as in loops, instead of higher ones.
    #[serde(default)]
    pub to_lower: bool,
    /// Adds a barrier after each stage.
    #[serde(default)]
    pub barrier: bool,
    /// Injected fault: a position passes a block on only after the next one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pass_out_of_order: bool,
}

/// Computation of a visit; no two visits commute.
fn visit(position: usize, rotation: u64, values: &mut [f64]) {
    for (at, value) in values.iter_mut().enumerate() {
        *value = *value * (1.0 + 0.1 / (position as f64 + 2.0)) + 1.0 / (3.0 + rotation as f64 + at as f64);
    }
}

impl Scenario for RotationScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
        let positions = 1 + random.below(8);
        let blocks = (0..positions).map(|_| random.below(4)).collect();
        let cluster = random_cluster::draw(positions, random);
        let (rotations, length) = (1 + random.below(3) as u64, [0, 3, 2000][random.below(3)]);
        let (barrier, to_lower) = (random.below(4) == 0, random.below(2) == 0);
        Self { seed, cluster, blocks, rotations, length, to_lower, barrier, pass_out_of_order: false }
    }

    fn check(&self) -> Result<RunSummary, String> {
        require_nonzero(&[("blocks", self.blocks.len()), ("rotations", self.rotations as usize)])?;
        if self.blocks.len() != self.cluster.peers {
            return Err(format!("`blocks` has {} entries for {} peers", self.blocks.len(), self.cluster.peers));
        }
        let setup = RotationSetup {
            blocks: self.blocks.clone(),
            direction: if self.to_lower { RingDirection::ToLower } else { RingDirection::ToHigher },
            length: self.length,
            rotations: self.rotations,
            work: Arc::new(|_, home, _| SimDuration::from_micros(20 + 30 * (home as u64 % 3))),
            barrier: self.barrier,
            value_bytes: 8,
            visit,
            pass_out_of_order: self.pass_out_of_order,
        };
        let mut simulation = Simulation::new(&self.cluster, self.seed, |me| RotationActor::new(me, setup.clone()))
            .map_err(|error| error.to_string())?
            .event_limit(MAX_EVENTS);
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        let ring = setup.ring();
        // In every rotation a position runs its own blocks first, then those of the position before
        // it, and so on.
        for (position, actor) in simulation.actors().iter().enumerate() {
            let mut expected = Vec::new();
            for rotation in 0..self.rotations {
                for stage in 0..ring.size() {
                    expected.extend(ring.blocks_of(ring.home_at(position, stage)).map(|block| (rotation, block)));
                }
            }
            if actor.ran() != expected {
                return Err(format!("position {position} ran {:?} instead of {expected:?}", actor.ran()));
            }
        }
        let mut at_home: BTreeMap<usize, &[f64]> = BTreeMap::new();
        for (position, actor) in simulation.actors().iter().enumerate() {
            for (block, values) in actor.blocks() {
                if ring.home_of(block) != position || at_home.insert(block, values).is_some() {
                    return Err(format!("block {block} of position {} ended at {position}", ring.home_of(block)));
                }
            }
        }
        for home in 0..ring.size() {
            for (index, block) in ring.blocks_of(home).enumerate() {
                let mut expected = initial_values(home, index, self.length);
                for rotation in 0..self.rotations {
                    let mut position = home;
                    for _ in 0..ring.size() {
                        visit(position, rotation, &mut expected);
                        position = ring.next(position);
                    }
                }
                let Some(found) = at_home.get(&block) else {
                    return Err(format!("block {block} of position {home} is missing"));
                };
                if bits(found) != bits(&expected) {
                    return Err(format!("block {block} of position {home} differs in bits from its serial visits"));
                }
            }
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for positions in random_cluster::smaller_numbers(self.blocks.len(), 1) {
            let cluster = random_cluster::with_fewer_peers(&self.cluster, positions);
            all.push(Self { cluster, blocks: self.blocks[..positions].to_vec(), ..self.clone() });
        }
        for rotations in random_cluster::smaller_numbers(self.rotations as usize, 1) {
            all.push(Self { rotations: rotations as u64, ..self.clone() });
        }
        all.extend(random_cluster::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        for (position, count) in self.blocks.iter().enumerate() {
            for count in random_cluster::smaller_numbers(*count, 0) {
                let mut blocks = self.blocks.clone();
                blocks[position] = count;
                all.push(Self { blocks, ..self.clone() });
            }
        }
        for length in random_cluster::smaller_numbers(self.length, 0) {
            all.push(Self { length, ..self.clone() });
        }
        all
    }
}
