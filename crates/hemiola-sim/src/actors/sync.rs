//! Training of a model whose variables are synchronized by a strategy: `SyncNode` of
//! `hemiola-sync-proto` in virtual time.
//!
//! A [`SyncActor`] is one peer. Its model computes real values and gradients, and a
//! [`ComputeProfile`] says how long each variable takes. A forward pass waits for the values of each
//! variable and computes with it, from the first to the last. The backward pass computes in
//! reverse order, and each gradient goes to the node as soon as it is complete. Collectives of the
//! node travel meanwhile; `channel_calls.rs` drives them. Updates and compression take no time.
//!
//! The node decides what travels, in which order and by which collective. **Invariant:** results
//! depend on models, strategy and learning rates only, never on the cluster, unless the strategy
//! has a staleness bound above 0 or asynchronous tables.
//!
//! Strategies with gossip averaging are refused: on a cluster, an average blocks the thread that
//! drives the node, since `SyncEffect::Average` is a round of `hemiola-collective`'s gossip and no
//! collective. [`gossip`](super::gossip) simulates such rounds.

use crate::actor::{Actor, ActorContext, ActorResult};
use crate::actors::FRAME;
use crate::actors::channel_calls::{ChannelCalls, CompletedCall};
use crate::wait_graph::PendingWait;
use hemiola_collective_proto::protocol::CallSetup;
use hemiola_core::{Moment, Rank};
use hemiola_sync_proto::{
    GradientClip, NodeSettings, SyncChannel, SyncEffect, SyncMethod, SyncNode, SyncPlan, SyncStage, UpdateKernel,
    VariableId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use super::channel_calls::SyncMessage;
pub use super::simulated_model::{BatchTotals, ComputeProfile, SimulatedModel};

/// Injected fault of a driver, which a check must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyncFault {
    /// Forward passes do not wait for the updates of earlier steps.
    StaleRead,
    /// All channels share one sequence of calls, so the order of calls depends on timing.
    SharedChannel,
}

/// Settings of a peer.
#[derive(Clone, Debug)]
pub struct SyncSetup<K> {
    /// Rank of the peer.
    pub rank: Rank,
    /// Model and strategy, as all peers execute them.
    pub plan: Arc<SyncPlan>,
    /// Optimizer and matrix product of the model.
    pub kernel: K,
    /// Gradient clipping, if any.
    pub clip: Option<GradientClip>,
    /// Initial values of each variable, equal on all peers.
    pub values: Vec<Vec<f32>>,
    /// Compute times of the model.
    pub profile: ComputeProfile,
    /// Number of steps to train.
    pub steps: u64,
    /// Bytes of elements in a message; by default those of the runtime.
    pub segment: Option<usize>,
    /// Injected fault; `None` in regular runs.
    pub fault: Option<SyncFault>,
}

/// Position of a peer in its current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassPhase {
    /// The forward pass waits for the values of this variable.
    Waiting(usize),
    /// The forward pass computes with this variable.
    Forward(usize),
    /// The backward pass computes the gradient of this variable.
    Backward(usize),
    Finished,
}

/// A peer that trains a model.
pub struct SyncActor<K: UpdateKernel, M> {
    node: SyncNode<K>,
    plan: Arc<SyncPlan>,
    calls: ChannelCalls,
    model: M,
    profile: ComputeProfile,
    /// Current step, counted from 0.
    step: u64,
    steps: u64,
    phase: PassPhase,
    /// Newest values by variable, with the number of updates that they contain.
    published: Vec<(u64, Vec<f32>)>,
    /// Values that the current pass has read, by variable.
    values: Vec<Vec<f32>>,
    /// Mean loss over all peers, by step.
    losses: BTreeMap<u64, f64>,
    /// End of the backward pass of each step, on the clock of this peer.
    step_ends: Vec<Moment>,
    fault: Option<SyncFault>,
}

impl<K: UpdateKernel, M: SimulatedModel> SyncActor<K, M> {
    /// Creates one of the peers. Fails if the strategy cannot be simulated, or if the profile does
    /// not fit the model.
    pub fn new(setup: SyncSetup<K>, model: M) -> Result<Self, String> {
        let SyncSetup { rank, plan, kernel, clip, values, profile, steps, segment, fault } = setup;
        let variables = plan.model.variables.len();
        if profile.forward.len() != variables || profile.backward.len() != variables {
            let lengths = (profile.forward.len(), profile.backward.len());
            return Err(format!(
                "the profile has {lengths:?} times and the model {variables} variables; give one of each per variable"
            ));
        }
        if variables == 0 {
            return Err("the model has no variables; give it at least one".to_owned());
        }
        if plan.units.iter().any(|unit| matches!(unit.method, SyncMethod::Gossip { .. })) {
            return Err("gossip averaging is not simulated here; use `GossipActor`, or another strategy".to_owned());
        }
        let setup = CallSetup::new(rank, plan.peers);
        let setup = segment.map_or(setup, |bytes| setup.segment_bytes(bytes));
        let published = values.iter().map(|values| (0, values.clone())).collect();
        let node = NodeSettings::new(plan.clone(), kernel, rank, values).clip(clip);
        let node = SyncNode::new(node).map_err(|error| error.to_string())?;
        let phase = if steps == 0 { PassPhase::Finished } else { PassPhase::Waiting(0) };
        Ok(Self {
            node,
            plan,
            calls: ChannelCalls::new(setup),
            model,
            profile,
            step: 0,
            steps,
            phase,
            published,
            values: vec![Vec::new(); variables],
            losses: BTreeMap::new(),
            step_ends: Vec::new(),
            fault,
        })
    }

    /// Newest values of each variable on this peer.
    pub fn values(&self) -> impl Iterator<Item = &[f32]> {
        self.published.iter().map(|(_, values)| &values[..])
    }

    /// Mean loss over the examples of all peers, by step.
    #[must_use]
    pub fn losses(&self) -> &BTreeMap<u64, f64> {
        &self.losses
    }

    /// End of the backward pass of each step, on the clock of this peer.
    #[must_use]
    pub fn step_ends(&self) -> &[Moment] {
        &self.step_ends
    }

    /// Executes the effects of the node, and delivers results that exist at once.
    fn execute_effects(&mut self, context: &mut ActorContext<'_, SyncMessage>) -> ActorResult {
        while let Some(effect) = self.node.poll_effect().map_err(|error| error.to_string())? {
            match effect {
                SyncEffect::Start { id, channel, op } => {
                    let channel = match self.fault {
                        Some(SyncFault::SharedChannel) => SyncChannel::Stage(SyncStage::Gradients),
                        _ => channel,
                    };
                    if let Some((id, output)) = self.calls.start(id, channel, op, context)? {
                        self.node.complete(id, output).map_err(|error| error.to_string())?;
                    }
                }
                SyncEffect::SendTable { to, message } => {
                    let (lane, bytes) = message.lane_and_bytes();
                    context.send(to, lane, bytes + FRAME, SyncMessage::Table(message));
                }
                SyncEffect::Publish { variable, values, version } => {
                    self.published[variable.index()] = (version, values);
                }
                SyncEffect::RecordLoss { step, loss } => {
                    self.losses.insert(step, loss);
                }
                SyncEffect::Average { .. } => return Err("a plan without gossip asked for an average".to_owned()),
                SyncEffect::UnitStarted { .. } | SyncEffect::UnitFinished { .. } => {}
            }
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        completed: Option<CompletedCall>,
        context: &mut ActorContext<'_, SyncMessage>,
    ) -> ActorResult {
        if let Some((id, output)) = completed {
            self.node.complete(id, output).map_err(|error| error.to_string())?;
            self.execute_effects(context)?;
            self.read_values(context);
        }
        Ok(())
    }

    /// Continues the forward pass if the values that it waits for are new enough.
    fn read_values(&mut self, context: &mut ActorContext<'_, SyncMessage>) {
        let PassPhase::Waiting(index) = self.phase else { return };
        let (version, values) = &self.published[index];
        let needed = self.plan.needed_version(VariableId::new(index), self.step);
        if *version < needed && self.fault != Some(SyncFault::StaleRead) {
            context.begin_wait(0, "waits for values");
            return;
        }
        self.values[index].clone_from(values);
        context.end_wait(0);
        self.phase = PassPhase::Forward(index);
        context.compute(0, "forward pass", self.profile.forward[index], 0);
    }

    fn start_backward(&mut self, index: usize, context: &mut ActorContext<'_, SyncMessage>) {
        self.phase = PassPhase::Backward(index);
        context.compute(0, "backward pass", self.profile.backward[index], 0);
    }
}

impl<K: UpdateKernel, M: SimulatedModel> Actor for SyncActor<K, M> {
    type Message = SyncMessage;

    fn on_start(&mut self, context: &mut ActorContext<'_, SyncMessage>) -> ActorResult {
        self.read_values(context);
        Ok(())
    }

    fn on_message(
        &mut self,
        _: Rank,
        message: SyncMessage,
        context: &mut ActorContext<'_, SyncMessage>,
    ) -> ActorResult {
        match message {
            SyncMessage::Collective { channel, message } => {
                let completed = self.calls.receive(channel, message, context)?;
                self.deliver(completed, context)
            }
            SyncMessage::Table(message) => {
                self.node.receive_table(message).map_err(|error| error.to_string())?;
                self.execute_effects(context)?;
                self.read_values(context);
                Ok(())
            }
        }
    }

    fn on_timer(&mut self, _: u64, context: &mut ActorContext<'_, SyncMessage>) -> ActorResult {
        let last = self.plan.model.variables.len() - 1;
        match self.phase {
            PassPhase::Forward(index) if index < last => self.phase = PassPhase::Waiting(index + 1),
            PassPhase::Forward(_) => {
                let BatchTotals { examples, loss, rate } = self.model.forward(self.step, &self.values);
                self.node.start_step(self.step, examples, loss, rate).map_err(|error| error.to_string())?;
                self.start_backward(last, context);
            }
            PassPhase::Backward(index) => {
                let variable = VariableId::new(index);
                let structured = self.plan.structured[variable];
                let payload = self.model.gradient(self.step, variable, structured, &self.values);
                self.node.add_gradient(self.step, variable, payload).map_err(|error| error.to_string())?;
                if index > 0 {
                    self.start_backward(index - 1, context);
                } else {
                    self.step_ends.push(context.now());
                    self.step += 1;
                    self.phase = if self.step < self.steps { PassPhase::Waiting(0) } else { PassPhase::Finished };
                }
            }
            PassPhase::Waiting(_) | PassPhase::Finished => return Err("no computation is in progress".to_owned()),
        }
        self.execute_effects(context)?;
        self.read_values(context);
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.phase == PassPhase::Finished && self.node.is_idle() && self.calls.is_empty()
    }

    fn pending_waits(&self) -> Vec<PendingWait> {
        let mut waits = self.calls.pending_waits();
        if let PassPhase::Waiting(index) = self.phase {
            let name = self.plan.name(VariableId::new(index));
            waits.push(PendingWait::new("forward pass", format!("`{name}` of step {}", self.step), Vec::new()));
        }
        waits
    }
}

impl<K: UpdateKernel, M> fmt::Debug for SyncActor<K, M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SyncActor")
            .field("node", &self.node)
            .field("step", &self.step)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::synthetic_model::{MomentumKernel, SyntheticModel};
    use crate::{ClusterSpec, DataRate, SimDuration, Simulation};
    use hemiola_strategy::{ModelSpec, StrategyBuilder, VariableSpec};

    /// Elements of a variable whose transfer takes about 33 ms at 1 Gbit/s.
    const ELEMENTS: usize = 1_000_000;

    /// Milliseconds of the second step of a training whose variables peer 0 serves.
    fn step_time(backward: &[u64]) -> f64 {
        let mut cluster = ClusterSpec::new(2);
        cluster.link.bandwidth = DataRate::from_bits(1_000_000_000);
        let variables = (0..backward.len()).map(|index| VariableSpec::dense(format!("w{index}"), [ELEMENTS]));
        let model = ModelSpec::new(variables.collect()).unwrap();
        let strategy = StrategyBuilder::ParameterServer.build(&model, &cluster.resource_spec()).unwrap();
        let plan = Arc::new(SyncPlan::new(&model, &strategy).unwrap());
        let setup = |rank| SyncSetup {
            rank,
            plan: plan.clone(),
            kernel: MomentumKernel,
            clip: None,
            values: SyntheticModel::initial_values(1, &model),
            profile: ComputeProfile {
                forward: vec![SimDuration::from_millis(1); backward.len()],
                backward: backward.iter().map(|millis| SimDuration::from_millis(*millis)).collect(),
            },
            steps: 2,
            segment: None,
            fault: None,
        };
        let peer = |rank| SyncActor::new(setup(rank), SyntheticModel::new(1, rank, model.clone())).unwrap();
        let mut simulation = Simulation::new(&cluster, 1, peer).unwrap();
        simulation.run().unwrap();
        let [first, second] = simulation.actors()[1].step_ends() else { panic!("two steps") };
        (*second - *first).as_secs_f64() * 1e3
    }

    #[test]
    fn a_step_takes_the_time_of_its_passes_and_transfers() {
        let time = step_time(&[20]);
        assert!((86.0..93.0).contains(&time), "1 + 20 ms of passes, twice 33 ms of transfer: {time}");
    }

    #[test]
    fn transfers_overlap_the_backward_pass() {
        // The second variable travels while the gradient of the first is computed.
        let time = step_time(&[40, 5]);
        assert!((112.0..122.0).contains(&time), "2 + 5 + 40 ms of passes, twice 33 ms of transfer: {time}");
    }

    #[test]
    fn a_profile_of_another_model_is_refused() {
        let model = ModelSpec::new(vec![VariableSpec::dense("w", [3])]).unwrap();
        let strategy = StrategyBuilder::ParameterServer.build(&model, &ClusterSpec::new(1).resource_spec()).unwrap();
        let setup = SyncSetup {
            rank: Rank::ROOT,
            plan: Arc::new(SyncPlan::new(&model, &strategy).unwrap()),
            kernel: MomentumKernel,
            clip: None,
            values: vec![vec![0.0; 3]],
            profile: ComputeProfile::uniform(2, SimDuration::ZERO, SimDuration::ZERO),
            steps: 1,
            segment: None,
            fault: None,
        };
        let error = SyncActor::new(setup, SyntheticModel::new(1, Rank::ROOT, model)).unwrap_err();
        assert!(error.contains("(2, 2) times") && error.contains("1 variables"), "{error}");
    }
}
