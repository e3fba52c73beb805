//! Training of a synthetic model by a random strategy on a random cluster.

use super::serial_training::SerialTraining;
use super::{MAX_EVENTS, Scenario, bits, bits32, random_cluster, require_nonzero};
use crate::actors::sync::{ComputeProfile, SyncActor, SyncFault, SyncSetup};
use crate::cluster_spec::ClusterSpec;
use crate::sampling;
use crate::simulation::{RunSummary, Simulation};
use crate::units::SimDuration;
use crate::workload::synthetic_model::{MAX_EXAMPLES, MomentumKernel, SyntheticModel};
use hemiola_collective_proto::{Compression, Route};
use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use hemiola_strategy::{ModelSpec, Strategy, StrategyBuilder, Synchronizer, VariableSpec};
use hemiola_sync_proto::{GradientClip, SyncPlan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A training on a random cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SyncScenario {
    /// Random seed of data and cluster.
    pub seed: u64,
    /// Cluster on which it runs.
    pub cluster: ClusterSpec,
    /// Variables of the model.
    pub variables: Vec<VariableSpec>,
    /// Name of the strategy builder.
    pub builder: String,
    /// Compression of the gradients of all variables that support it.
    pub compression: Compression,
    /// Staleness bound of served variables, in steps.
    pub staleness: u64,
    /// Maximum global norm of the gradient, if it is clipped.
    pub max_norm: Option<f64>,
    /// Route of the updates and proxies of uncompressed variables, if they are not direct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Number of steps.
    pub steps: u64,
    /// Bytes of elements in a message.
    pub segment: usize,
    /// Injected fault; `None` in regular runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<SyncFault>,
}

/// Actor of the scenario.
type TrainingPeer = SyncActor<MomentumKernel, SyntheticModel>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl SyncScenario {
    /// Returns the scenario with an injected fault.
    #[must_use]
    pub fn with_fault(mut self, fault: SyncFault) -> Self {
        self.fault = Some(fault);
        self
    }

    fn strategy(&self, model: &ModelSpec) -> Result<Strategy, String> {
        let resources = self.cluster.resource_spec();
        let builder: StrategyBuilder = self.builder.parse().map_err(text)?;
        let mut strategy = builder.build(model, &resources).map_err(text)?;
        for node in strategy.plans.iter_mut().flat_map(|plan| &mut plan.nodes) {
            let half = matches!(self.compression, Compression::Bf16 | Compression::F16);
            match node.synchronizer {
                Synchronizer::AllReduce { .. } => node.compression = self.compression,
                Synchronizer::ParameterServer if half => node.compression = self.compression,
                _ => {}
            }
            if matches!(node.synchronizer, Synchronizer::ParameterServer | Synchronizer::ParameterServerRows) {
                node.staleness = self.staleness;
            }
            let is_server = node.synchronizer == Synchronizer::ParameterServer;
            if node.compression == Compression::Plain && (is_server || node.group().is_some()) {
                node.route.clone_from(&self.route);
            }
            if is_server {
                node.proxies.clone_from(&self.route);
            }
        }
        strategy.verify(model, &resources).map_err(text)?;
        Ok(strategy)
    }

    fn run(&self, cluster: &ClusterSpec, plan: &Arc<SyncPlan>) -> Result<(RunSummary, Vec<TrainingPeer>), String> {
        let (model, time) = (&plan.model, SimDuration::from_micros);
        let setup = |rank: Rank| SyncSetup {
            rank,
            plan: plan.clone(),
            kernel: MomentumKernel,
            clip: self.max_norm.map(GradientClip::Norm),
            values: SyntheticModel::initial_values(self.seed, model),
            profile: ComputeProfile::uniform(model.variables.len(), time(30), time(60)),
            steps: self.steps,
            segment: Some(self.segment),
            fault: self.fault,
        };
        let peer = |rank: Rank| SyncActor::new(setup(rank), SyntheticModel::new(self.seed, rank, model.clone()));
        let peers = Rank::all(cluster.peers).map(peer).collect::<Result<Vec<_>, _>>()?;
        let mut peers = peers.into_iter().map(Some);
        let mut simulation =
            Simulation::new(cluster, self.seed, |_| peers.next().flatten()).map_err(text)?.event_limit(MAX_EVENTS);
        let ended = simulation.run().map_err(text)?;
        Ok((ended, simulation.into_actors().into_iter().flatten().collect()))
    }

    /// Compares a peer with the serial training.
    fn check_serial(&self, plan: &SyncPlan, first: &TrainingPeer) -> Result<(), String> {
        let model = |rank| SyntheticModel::new(self.seed, rank, plan.model.clone());
        let mut models: Vec<SyntheticModel> = Rank::all(self.cluster.peers).map(model).collect();
        let values = SyntheticModel::initial_values(self.seed, &plan.model);
        let mut serial = SerialTraining::new(plan, self.max_norm, values);
        (0..self.steps).for_each(|step| serial.step(step, &mut models));
        let losses: Vec<f64> = first.losses().values().copied().collect();
        if bits(&losses) != bits(&serial.losses) {
            return Err(format!("the losses are {losses:?}, and in a serial training {:?}", serial.losses));
        }
        for ((found, expected), variable) in first.values().zip(&serial.values).zip(&plan.model.variables) {
            if bits32(found) != bits32(expected) {
                return Err(format!("{variable} differs in bits from a serial training"));
            }
        }
        Ok(())
    }
}

/// Route of all peers in random groups, in a third of all cases.
fn random_route(peers: usize, seed: u64) -> Option<Route> {
    // A generator of its own, so that a seed keeps its cluster and model.
    let mut random = SplitMix64::new(!seed);
    if random.below(3) > 0 {
        return None;
    }
    let mut ranks: Vec<Rank> = Rank::all(peers).collect();
    for index in (1..peers).rev() {
        ranks.swap(index, random.below(index + 1));
    }
    let mut groups: Vec<Vec<Rank>> = Vec::new();
    for rank in ranks {
        match groups.last_mut().filter(|_| random.below(3) > 0) {
            Some(group) => group.push(rank),
            None => groups.push(vec![rank]),
        }
    }
    Some(Route::new(groups))
}

fn variable(index: usize, random: &mut SplitMix64) -> VariableSpec {
    let name = format!("variable-{index}");
    let (rows, columns) = ([1, 3, 8][random.below(3)], [1, 2, 7][random.below(3)]);
    match random.below(4) {
        0 => VariableSpec::embedding(name, [rows, columns], MAX_EXAMPLES),
        1 => VariableSpec::linear(name, [rows, columns], MAX_EXAMPLES),
        2 => VariableSpec::dense(name, [rows * columns]),
        _ => VariableSpec::dense(name, [[rows, columns], [40, 60]][random.below(2)]),
    }
}

impl Scenario for SyncScenario {
    fn from_seed(seed: u64) -> Self {
        let random = &mut sampling::generator(seed, 0);
        let cluster = random_cluster::draw(1 + random.below(6), random);
        let variables = (0..=random.below(5)).map(|index| variable(index, random)).collect();
        let builder = match random.below(StrategyBuilder::ALL.len() + 2) {
            0 => StrategyBuilder::AllReduce { chunk: Some(1) },
            1 => StrategyBuilder::AllReduce { chunk: Some(2) },
            other => StrategyBuilder::ALL[other - 2],
        };
        let compression = match random.below(12) {
            0 => Compression::Bf16,
            1 => Compression::F16,
            2 => Compression::OneBit { block: 4 },
            3 => Compression::TopK { keep: 2 },
            _ => Compression::Plain,
        };
        let route = random_route(cluster.peers, seed);
        Self {
            seed,
            cluster,
            variables,
            route,
            builder: builder.to_string(),
            compression,
            staleness: [0, 0, 0, 0, 1, 2][random.below(6)],
            max_norm: (random.below(4) == 0).then_some(0.5),
            steps: 1 + random.below(5) as u64,
            segment: [16, 256, 4096][random.below(3)],
            fault: None,
        }
    }

    fn check(&self) -> Result<RunSummary, String> {
        let Self { cluster, variables, steps, .. } = self;
        require_nonzero(&[("peers", cluster.peers), ("variables", variables.len()), ("steps", *steps as usize)])?;
        let model = ModelSpec::new(variables.clone()).map_err(text)?;
        let plan = Arc::new(SyncPlan::new(&model, &self.strategy(&model)?).map_err(text)?);
        let (ended, peers) = self.run(cluster, &plan)?;
        let values = |peer: &TrainingPeer| peer.values().map(bits32).collect::<Vec<_>>();
        if let Some(rank) = peers.iter().position(|peer| values(peer) != values(&peers[0])) {
            return Err(format!("peers 0 and {rank} have different copies"));
        }
        // A staleness bound lets gradients depend on timing.
        if plan.staleness.iter().any(|staleness| *staleness > 0) {
            return Ok(ended);
        }
        if self.compression == Compression::Plain {
            self.check_serial(&plan, &peers[0])?;
        } else {
            let (_, calm) = self.run(&ClusterSpec::new(cluster.peers), &plan)?;
            if values(&calm[0]) != values(&peers[0]) {
                return Err("the values differ from those on an undisturbed cluster".to_owned());
            }
        }
        Ok(ended)
    }

    fn shrink(&self) -> Vec<Self> {
        let mut all = random_cluster::simpler(&self.cluster, self.steps, |cluster, steps| Self {
            cluster,
            steps,
            ..self.clone()
        });
        for number in (0..self.variables.len()).filter(|_| self.variables.len() > 1) {
            let mut variables = self.variables.clone();
            variables.remove(number);
            all.push(Self { variables, ..self.clone() });
        }
        let plain = Self { compression: Compression::Plain, ..self.clone() };
        let fresh = Self { staleness: 0, ..self.clone() };
        let unclipped = Self { max_norm: None, ..self.clone() };
        all.extend([plain, fresh, unclipped].into_iter().filter(|simpler| simpler != self));
        all
    }
}
