//! Parallel loops over blocks, as rotations and wavefronts, on a random cluster.

use super::{MAX_EVENTS, Scenario, bits, random_cluster, require_nonzero};
use crate::actors::loop_blocks::{LoopActor, LoopSetup, run_serially};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use hemiola_analysis::block_order::{rotation_order, wavefront_order};
use hemiola_loops::plan::{Cuts, LoopBlock, LoopSchedule};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A parallel loop on a random cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopScenario {
    /// Random seed of the cluster.
    pub seed: u64,
    /// Cluster on which it runs.
    pub cluster: ClusterSpec,
    /// Parts (workers) of each peer.
    pub workers: usize,
    /// Time blocks per part.
    pub ratio: usize,
    /// Uses the wavefront schedule instead of a rotation.
    pub wavefront: bool,
    /// Number of passes over the loop.
    pub passes: usize,
    /// Injected fault: time blocks are sent on before they have run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send_before_run: bool,
}

/// Loop body that mixes the values of part and time block, so that the order is visible in the
/// bits.
fn body(block: LoopBlock, pass: usize, part: &mut [f64], time: &mut [f64]) {
    let key = 1.0 / (7.0 + block.part as f64 + 3.0 * block.time as f64 + pass as f64);
    for (a, b) in part.iter_mut().zip(time) {
        (*a, *b) = (*a * 0.9 + *b * 0.1 + key, *b * 0.8 + *a * 0.2 - key);
    }
}

impl LoopScenario {
    fn setup(&self) -> LoopSetup {
        let parts = self.cluster.peers * self.workers;
        let bounds = |count: usize| (0..=count).collect();
        let ratio = self.ratio;
        let schedule = if self.wavefront { LoopSchedule::Wavefront } else { LoopSchedule::Rotation { ratio } };
        let (space, time, peers_used) = (bounds(parts), bounds(ratio * parts), self.cluster.peers);
        LoopSetup {
            cuts: Cuts { space, time, skew: None, peers_used, schedule },
            passes: self.passes,
            part_values: 3,
            time_values: 3,
            message_bytes: None,
            barriers: 0,
            work: Arc::new(|block: LoopBlock| {
                SimDuration::from_micros(10 + 20 * ((block.part + block.time) as u64 % 4))
            }),
            body: Arc::new(body),
            send_before_run: self.send_before_run,
        }
    }
}

impl Scenario for LoopScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
        let peers = 1 + random.below(5);
        Self {
            seed,
            cluster: random_cluster::draw(peers, random),
            workers: 1 + random.below(3),
            ratio: 1 + random.below(3),
            wavefront: random.below(2) == 0,
            passes: 1 + random.below(3),
            send_before_run: false,
        }
    }

    fn check(&self) -> Result<RunSummary, String> {
        require_nonzero(&[
            ("workers", self.workers),
            ("ratio", self.ratio),
            ("passes", self.passes),
            ("peers", self.cluster.peers),
        ])?;
        let (setup, peers) = (self.setup(), self.cluster.peers);
        let (parts, times) = (setup.cuts.parts(), setup.cuts.times());
        let order: Vec<LoopBlock> = if self.wavefront {
            wavefront_order(parts, times).collect()
        } else {
            rotation_order(self.ratio, parts).collect()
        };
        let (expected_parts, expected_times) = run_serially(&setup, &order);
        let mut simulation = Simulation::new(&self.cluster, self.seed, |me| LoopActor::new(me, peers, setup.clone()))
            .map_err(|error| error.to_string())?
            .event_limit(MAX_EVENTS);
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        let (mut seen_parts, mut seen_times) = (0, 0);
        for actor in simulation.actors() {
            for (part, values) in actor.parts() {
                seen_parts += 1;
                if bits(values) != bits(&expected_parts[part]) {
                    return Err(format!("part {part} differs in bits from the serial run"));
                }
            }
            for (time, values) in actor.times() {
                seen_times += 1;
                if bits(values) != bits(&expected_times[time]) {
                    return Err(format!("time block {time} differs in bits from the serial run"));
                }
            }
        }
        if (seen_parts, seen_times) != (parts, times) {
            return Err(format!("{seen_parts} parts of {parts} and {seen_times} time blocks of {times} were found"));
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let with = |cluster, passes| Self { cluster, passes: passes as usize, ..self.clone() };
        let mut all = random_cluster::simpler(&self.cluster, self.passes as u64, with);
        for workers in random_cluster::smaller_numbers(self.workers, 1) {
            all.push(Self { workers, ..self.clone() });
        }
        for ratio in random_cluster::smaller_numbers(self.ratio, 1) {
            all.push(Self { ratio, ..self.clone() });
        }
        all
    }
}
