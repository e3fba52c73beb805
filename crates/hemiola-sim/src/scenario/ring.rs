//! Rotations of blocks around a ring of uneven seats.

use super::{EVENTS, Scenario, bits, some, weather};
use crate::actors::ring::{Block, Ring, Setup};
use crate::chance;
use crate::describe::Description;
use crate::units::Span;
use crate::world::{Ended, World};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rotations on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RingScenario {
    /// Of the weather.
    pub seed: u64,
    /// Where it runs.
    pub cluster: Description,
    /// Blocks of each seat.
    pub blocks: Vec<usize>,
    /// How often all go round.
    pub rotations: usize,
    /// Values of a block.
    pub length: usize,
    /// Whether all wait for each other after the blocks of each home.
    #[serde(default)]
    pub barrier: bool,
    /// Plants a fault: a seat runs whatever came last in place of what is due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub impatient: bool,
}

/// What a visit does: no two visits commute.
fn visit(seat: usize, rotation: usize, block: &mut Block) {
    for (at, value) in block.values.iter_mut().enumerate() {
        *value = *value * (1.0 + 0.1 / (seat as f64 + 2.0)) + 1.0 / (3.0 + rotation as f64 + at as f64);
    }
}

impl Scenario for RingScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut chance::generator(seed, 0);
        let seats = 1 + random.below(8);
        let blocks = (0..seats).map(|_| random.below(4)).collect();
        let cluster = weather::draw(seats, random);
        let (rotations, length) = (1 + random.below(3), [0, 3, 2000][random.below(3)]);
        Self { seed, cluster, blocks, rotations, length, barrier: random.below(4) == 0, impatient: false }
    }

    fn check(&self) -> Result<Ended, String> {
        some(&[("blocks", self.blocks.len()), ("rotations", self.rotations)])?;
        if self.blocks.len() != self.cluster.peers {
            return Err(format!("{} seats have blocks, of {}", self.blocks.len(), self.cluster.peers));
        }
        let seats = self.blocks.len();
        let setup = Setup {
            blocks: self.blocks.clone(),
            length: self.length,
            rotations: self.rotations,
            work: Arc::new(|_, home, _| Span::from_micros(20 + 30 * (home as u64 % 3))),
            barrier: self.barrier,
            value_bytes: 8,
            visit,
            impatient: self.impatient,
        };
        let mut world = World::new(&self.cluster, self.seed, |me| Ring::new(me, setup.clone()))
            .map_err(|error| error.to_string())?
            .limit(EVENTS);
        let ended = world.run().map_err(|trouble| trouble.to_string())?;
        // A seat runs its own blocks first, then those of the seat before it, and so on, in every rotation.
        for (seat, actor) in world.actors().iter().enumerate() {
            let mut expected = Vec::new();
            for rotation in 0..self.rotations {
                for step in 0..seats {
                    let home = (seat + seats - step) % seats;
                    expected.extend((0..self.blocks[home]).map(|number| (rotation, home, number)));
                }
            }
            if actor.ran() != expected {
                return Err(format!("seat {seat} ran {:?} in place of {expected:?}", actor.ran()));
            }
        }
        let mut at_home: BTreeMap<(usize, usize), &Block> = BTreeMap::new();
        for (seat, actor) in world.actors().iter().enumerate() {
            for block in actor.blocks() {
                if block.home != seat || at_home.insert((block.home, block.number), block).is_some() {
                    return Err(format!("block {} of seat {} ended at seat {seat}", block.number, block.home));
                }
            }
        }
        for (home, count) in self.blocks.iter().enumerate() {
            for number in 0..*count {
                let initial = |at: usize| 1.0 + (home * 31 + number * 7 + at) as f64;
                let mut expected = Block { home, number, values: (0..self.length).map(initial).collect() };
                for rotation in 0..self.rotations {
                    (0..seats).for_each(|step| visit((home + step) % seats, rotation, &mut expected));
                }
                let Some(found) = at_home.get(&(home, number)) else {
                    return Err(format!("block {number} of seat {home} is gone"));
                };
                if bits(&found.values) != bits(&expected.values) {
                    return Err(format!("block {number} of seat {home} has other bits than its way gives"));
                }
            }
        }
        Ok(ended)
    }

    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for seats in weather::less(self.blocks.len(), 1) {
            let cluster = weather::fewer(&self.cluster, seats);
            all.push(Self { cluster, blocks: self.blocks[..seats].to_vec(), ..self.clone() });
        }
        for rotations in weather::less(self.rotations, 1) {
            all.push(Self { rotations, ..self.clone() });
        }
        all.extend(weather::calmer(&self.cluster).into_iter().map(|cluster| Self { cluster, ..self.clone() }));
        for (seat, count) in self.blocks.iter().enumerate() {
            for count in weather::less(*count, 0) {
                let mut blocks = self.blocks.clone();
                blocks[seat] = count;
                all.push(Self { blocks, ..self.clone() });
            }
        }
        for length in weather::less(self.length, 0) {
            all.push(Self { length, ..self.clone() });
        }
        all
    }
}
