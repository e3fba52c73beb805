//! Scheduled rounds on an uneven cluster.

use super::{EVENTS, Scenario, bits, some, weather};
use crate::actors::pipeline::{Program, Scheduled, Setup};
use crate::chance;
use crate::describe::Description;
use crate::units::Span;
use crate::world::{Ended, World};
use hemiola_core::Rank;
use hemiola_schedule::plan::pipeline::Rules;
use hemiola_schedule::{Candidate, Conflicts};
use serde::{Deserialize, Serialize};

/// Jobs are coupled by so much at most to run at once.
const PAIR: f64 = 0.5;

/// A schedule on a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineScenario {
    /// Of jobs and weather.
    pub seed: u64,
    /// Where it runs.
    pub cluster: Description,
    /// Jobs of a round.
    pub concurrent: usize,
    /// Rounds in flight.
    pub depth: usize,
    /// Rounds in all.
    pub rounds: u64,
    /// Jobs there are.
    pub length: usize,
    /// Plants a fault: a peer takes rounds in when its own results are there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub impatient: bool,
}

/// Coordinates of a model that are coupled to their neighbours.
#[derive(Clone, Copy, Debug)]
struct Coordinates {
    seed: u64,
    length: usize,
}

impl Program for Coordinates {
    fn schedule(&self, asked: u64, count: usize, model: &[f64]) -> Vec<Candidate<usize>> {
        let candidate = |number: u64| {
            let job = chance::generator(self.seed, number).below(self.length);
            Candidate { job, priority: model[job].abs() }
        };
        (asked..asked + count as u64).map(candidate).collect()
    }

    fn coupling(&self, a: usize, b: usize) -> f64 {
        if a.abs_diff(b) == 1 { 0.9 } else { 0.0 }
    }

    fn update(&self, peer: Rank, job: usize, model: &[f64]) -> f64 {
        let around = model[(job + 1) % model.len()] + model[(job + model.len() - 1) % model.len()];
        0.01 / (1.0 + peer.index() as f64) * (around - model[job])
    }

    fn aggregate(&self, job: usize, sum: f64, model: &mut [f64]) {
        model[job] += sum;
    }
}

impl PipelineScenario {
    fn run(&self, cluster: &Description) -> Result<(Ended, World<Scheduled<Coordinates>>), String> {
        let conflicts = Conflicts::Avoid { pair: PAIR, total: 1.0 };
        let setup = Setup {
            rules: Rules { concurrent: self.concurrent, depth: self.depth, conflicts },
            rounds: self.rounds,
            work: Span::from_micros(20),
            length: self.length,
            impatient: self.impatient,
        };
        let program = Coordinates { seed: self.seed, length: self.length };
        let mut world = World::new(cluster, self.seed, |me| Scheduled::new(me, setup.clone(), program))
            .map_err(|error| error.to_string())?
            .limit(EVENTS);
        let ended = world.run().map_err(|trouble| trouble.to_string())?;
        Ok((ended, world))
    }
}

impl Scenario for PipelineScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut chance::generator(seed, 0);
        let peers = 1 + random.below(7);
        Self {
            seed,
            cluster: weather::draw(peers, random),
            concurrent: 1 + random.below(5),
            depth: 1 + random.below(4),
            rounds: 1 + random.below(20) as u64,
            length: 3 + random.below(20),
            impatient: false,
        }
    }

    fn check(&self) -> Result<Ended, String> {
        some(&[
            ("concurrent", self.concurrent),
            ("depth", self.depth),
            ("length", self.length),
            ("peers", self.cluster.peers),
        ])?;
        let (ended, world) = self.run(&self.cluster)?;
        // The same on a cluster where nothing happens: what runs depends on counts alone.
        let (_, calm) = self.run(&Description::new(self.cluster.peers))?;
        let reference = &calm.actors()[0];
        for (peer, actor) in world.actors().iter().enumerate() {
            if actor.log() != reference.log() {
                return Err(format!("peer {peer} began other rounds than a calm cluster does"));
            }
            if bits(actor.model()) != bits(reference.model()) {
                return Err(format!("peer {peer} has another model than a calm cluster gives"));
            }
            for (round, ((jobs, staleness), beside)) in actor.log().iter().zip(actor.beside()).enumerate() {
                if *staleness >= self.depth {
                    return Err(format!("round {round} began {staleness} rounds late, of at most {}", self.depth - 1));
                }
                for (place, job) in jobs.iter().enumerate() {
                    let others = jobs[..place].iter().chain(beside);
                    if let Some(other) = others.into_iter().find(|other| job.abs_diff(**other) <= 1) {
                        return Err(format!(
                            "round {round} of peer {peer} has job {job}, which disturbs job {other} in flight"
                        ));
                    }
                }
            }
        }
        Ok(ended)
    }

    fn smaller(&self) -> Vec<Self> {
        let with = |cluster, rounds| Self { cluster, rounds, ..self.clone() };
        let mut all = weather::simpler(&self.cluster, self.rounds, with);
        for depth in weather::less(self.depth, 1) {
            all.push(Self { depth, ..self.clone() });
        }
        for concurrent in weather::less(self.concurrent, 1) {
            all.push(Self { concurrent, ..self.clone() });
        }
        all
    }
}
