//! Parallel loops over blocks, as rotations and wavefronts, on an uneven cluster.

use super::{EVENTS, Scenario, bits, some, weather};
use crate::actors::blocks::{Blocks, Setup, serially};
use crate::chance;
use crate::describe::Description;
use crate::units::Span;
use crate::world::{Ended, World};
use hemiola_analysis::schedule::{rotation_order, wavefront_order};
use hemiola_loops::plan::{Block, Cuts, Schedule};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A loop on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopScenario {
    /// Of the weather.
    pub seed: u64,
    /// Where it runs.
    pub cluster: Description,
    /// Parts of each peer.
    pub workers: usize,
    /// Blocks of time for each part.
    pub ratio: usize,
    /// Whether blocks follow each other as a wavefront, in place of a rotation.
    pub wavefront: bool,
    /// How often it runs.
    pub passes: usize,
    /// Plants a fault: time blocks are handed on before they have run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub early: bool,
}

/// What the body does: rows of its part and of its time go into each other, so that order shows in the bits.
fn body(block: Block, pass: usize, part: &mut [f64], time: &mut [f64]) {
    let key = 1.0 / (7.0 + block.part as f64 + 3.0 * block.time as f64 + pass as f64);
    for (a, b) in part.iter_mut().zip(time) {
        (*a, *b) = (*a * 0.9 + *b * 0.1 + key, *b * 0.8 + *a * 0.2 - key);
    }
}

impl LoopScenario {
    fn setup(&self) -> Setup {
        let parts = self.cluster.peers * self.workers;
        let bounds = |count: usize| (0..=count as u64).collect();
        let ratio = self.ratio;
        let schedule = if self.wavefront { Schedule::Wavefront } else { Schedule::Rotation { ratio } };
        let (space, time, peers_used) = (bounds(parts), bounds(ratio * parts), self.cluster.peers);
        Setup {
            cuts: Cuts { space, time, skew: None, peers_used, schedule },
            passes: self.passes,
            part_values: 3,
            time_values: 3,
            message_bytes: None,
            meetings: 0,
            work: Arc::new(|block: Block| Span::from_micros(10 + 20 * ((block.part + block.time) as u64 % 4))),
            body: Arc::new(body),
            early: self.early,
        }
    }
}

impl Scenario for LoopScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut chance::generator(seed, 0);
        let peers = 1 + random.below(5);
        Self {
            seed,
            cluster: weather::draw(peers, random),
            workers: 1 + random.below(3),
            ratio: 1 + random.below(3),
            wavefront: random.below(2) == 0,
            passes: 1 + random.below(3),
            early: false,
        }
    }

    fn check(&self) -> Result<Ended, String> {
        some(&[
            ("workers", self.workers),
            ("ratio", self.ratio),
            ("passes", self.passes),
            ("peers", self.cluster.peers),
        ])?;
        let (setup, peers) = (self.setup(), self.cluster.peers);
        let (parts, times) = (setup.cuts.parts(), setup.cuts.times());
        let order: Vec<Block> = if self.wavefront {
            wavefront_order(parts, times).collect()
        } else {
            rotation_order(self.ratio, parts).collect()
        };
        let (expected_parts, expected_times) = serially(&setup, &order);
        let mut world = World::new(&self.cluster, self.seed, |me| Blocks::new(me, peers, setup.clone()))
            .map_err(|error| error.to_string())?
            .limit(EVENTS);
        let ended = world.run().map_err(|trouble| trouble.to_string())?;
        let (mut seen_parts, mut seen_times) = (0, 0);
        for actor in world.actors() {
            for (part, values) in actor.parts() {
                seen_parts += 1;
                if bits(values) != bits(&expected_parts[part]) {
                    return Err(format!("part {part} has other bits than its blocks one after the other give"));
                }
            }
            for (time, values) in actor.times() {
                seen_times += 1;
                if bits(values) != bits(&expected_times[time]) {
                    return Err(format!("time block {time} has other bits than its blocks one after the other give"));
                }
            }
        }
        if (seen_parts, seen_times) != (parts, times) {
            return Err(format!("{seen_parts} parts of {parts} and {seen_times} time blocks of {times} are somewhere"));
        }
        Ok(ended)
    }

    fn smaller(&self) -> Vec<Self> {
        let with = |cluster, passes| Self { cluster, passes: passes as usize, ..self.clone() };
        let mut all = weather::simpler(&self.cluster, self.passes as u64, with);
        for workers in weather::less(self.workers, 1) {
            all.push(Self { workers, ..self.clone() });
        }
        for ratio in weather::less(self.ratio, 1) {
            all.push(Self { ratio, ..self.clone() });
        }
        all
    }
}
