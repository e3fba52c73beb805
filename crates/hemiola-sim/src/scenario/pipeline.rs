//! Dynamic scheduling on a random cluster.

use super::{MAX_EVENTS, Scenario, bits, random_cluster, require_nonzero};
use crate::actors::pipeline::{PipelineActor, PipelineSetup, ScheduledProgram};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use hemiola_core::Rank;
use hemiola_schedule::plan::pipeline::PipelineSettings;
use hemiola_schedule::{ConflictPolicy, JobCandidate};
use serde::{Deserialize, Serialize};

/// Maximum coupling between jobs that run concurrently.
const MAX_COUPLING: f64 = 0.5;

/// A scheduled program on a random cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineScenario {
    /// Random seed of jobs and cluster.
    pub seed: u64,
    /// Cluster on which it runs.
    pub cluster: ClusterSpec,
    /// Maximum number of jobs per round.
    pub concurrent: usize,
    /// Maximum number of rounds in flight.
    pub depth: usize,
    /// Number of rounds to run.
    pub rounds: u64,
    /// Number of jobs and model elements.
    pub length: usize,
    /// Injected fault: a round is aggregated when the peer's own results are ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub skip_missing_results: bool,
}

/// Coordinates that are coupled to their neighbours.
#[derive(Clone, Copy, Debug)]
struct CoupledCoordinates {
    seed: u64,
    length: usize,
}

impl ScheduledProgram for CoupledCoordinates {
    fn schedule(&self, asked: u64, count: usize, model: &[f64]) -> Vec<JobCandidate<usize>> {
        let candidate = |number: u64| {
            let job = sampling::generator(self.seed, number).below(self.length);
            JobCandidate { job, priority: model[job].abs() }
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
    fn run(
        &self,
        cluster: &ClusterSpec,
    ) -> Result<(RunSummary, Simulation<PipelineActor<CoupledCoordinates>>), String> {
        let conflicts = ConflictPolicy::Avoid { pair: MAX_COUPLING, total: 1.0 };
        let setup = PipelineSetup {
            rules: PipelineSettings { concurrent: self.concurrent, depth: self.depth, conflicts },
            rounds: self.rounds,
            work: SimDuration::from_micros(20),
            length: self.length,
            skip_missing_results: self.skip_missing_results,
        };
        let program = CoupledCoordinates { seed: self.seed, length: self.length };
        let mut simulation = Simulation::new(cluster, self.seed, |me| PipelineActor::new(me, setup.clone(), program))
            .map_err(|error| error.to_string())?
            .event_limit(MAX_EVENTS);
        let ended = simulation.run().map_err(|trouble| trouble.to_string())?;
        Ok((ended, simulation))
    }
}

impl Scenario for PipelineScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
        let peers = 1 + random.below(7);
        Self {
            seed,
            cluster: random_cluster::draw(peers, random),
            concurrent: 1 + random.below(5),
            depth: 1 + random.below(4),
            rounds: 1 + random.below(20) as u64,
            length: 3 + random.below(20),
            skip_missing_results: false,
        }
    }

    fn check(&self) -> Result<RunSummary, String> {
        require_nonzero(&[
            ("concurrent", self.concurrent),
            ("depth", self.depth),
            ("length", self.length),
            ("peers", self.cluster.peers),
        ])?;
        let (ended, simulation) = self.run(&self.cluster)?;
        // On an undisturbed cluster the same rounds run: the schedule depends on counts only.
        let (_, calm) = self.run(&ClusterSpec::new(self.cluster.peers))?;
        let reference = &calm.actors()[0];
        for (peer, actor) in simulation.actors().iter().enumerate() {
            if actor.log() != reference.log() {
                return Err(format!("peer {peer} started other rounds than an undisturbed cluster"));
            }
            if bits(actor.model()) != bits(reference.model()) {
                return Err(format!("peer {peer} has another model than an undisturbed cluster"));
            }
            for (round, ((jobs, staleness), beside)) in actor.log().iter().zip(actor.concurrent_jobs()).enumerate() {
                if *staleness >= self.depth {
                    return Err(format!(
                        "round {round} has a staleness of {staleness}, with a bound of {}",
                        self.depth - 1
                    ));
                }
                for (index, job) in jobs.iter().enumerate() {
                    let others = jobs[..index].iter().chain(beside);
                    if let Some(other) = others.into_iter().find(|other| job.abs_diff(**other) <= 1) {
                        return Err(format!(
                            "round {round} of peer {peer} has job {job}, which conflicts with job {other} in flight"
                        ));
                    }
                }
            }
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let with = |cluster, rounds| Self { cluster, rounds, ..self.clone() };
        let mut all = random_cluster::simpler(&self.cluster, self.rounds, with);
        for depth in random_cluster::smaller_numbers(self.depth, 1) {
            all.push(Self { depth, ..self.clone() });
        }
        for concurrent in random_cluster::smaller_numbers(self.concurrent, 1) {
            all.push(Self { concurrent, ..self.clone() });
        }
        all
    }
}
