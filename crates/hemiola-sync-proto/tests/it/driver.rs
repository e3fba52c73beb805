//! Driver of several nodes in one thread: collectives are computed when all peers have started
//! them, and complete on each peer at a random time.

use hemiola_core::Rank;
use hemiola_core::rng::SplitMix64;
use hemiola_strategy::{ModelSpec, Strategy};
use hemiola_sync_proto::{
    CollectiveId, CollectiveOp, CollectiveOutput, GradientClip, GradientPayload, NodeSettings, SyncChannel, SyncEffect,
    SyncNode, SyncPlan, TableMessage, UpdateKernel, VariableId,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Gradient descent with a plain loop.
#[derive(Clone, Debug)]
pub(crate) struct PlainSgd;

impl UpdateKernel for PlainSgd {
    type State = u64;

    fn update(&self, rate: f64, values: &mut [f32], gradient: &mut [f32], scale: f32, updates: &mut u64) {
        *updates += 1;
        values.iter_mut().zip(gradient).for_each(|(value, gradient)| *value -= rate as f32 * scale * *gradient);
    }

    fn update_rows(
        &self,
        rate: f64,
        values: &mut [f32],
        (rows, gradients, width): (&[usize], &mut [f32], usize),
        scale: f32,
        updates: &mut u64,
    ) {
        *updates += 1;
        for (row, gradient) in rows.iter().zip(gradients.chunks(width)) {
            let values = &mut values[row * width..(row + 1) * width];
            values.iter_mut().zip(gradient).for_each(|(value, gradient)| *value -= rate as f32 * scale * gradient);
        }
    }

    fn can_update_rows(&self) -> bool {
        true
    }

    fn multiply_factors(&self, pairs: Vec<f32>, (rows, width): (usize, usize)) -> Vec<f32> {
        let mut product = vec![0.0; rows * width];
        for pair in pairs.chunks(rows + width) {
            for (row, input) in pair[..rows].iter().enumerate() {
                for (column, output) in pair[rows..].iter().enumerate() {
                    product[row * width + column] += input * output;
                }
            }
        }
        product
    }
}

/// Collective that some peers have started.
struct StartedCollective {
    inputs: Vec<Option<(CollectiveId, CollectiveOp)>>,
}

/// All peers of a training, with their collectives in flight.
pub(crate) struct Peers {
    nodes: Vec<SyncNode<PlainSgd>>,
    plan: Arc<SyncPlan>,
    /// Collectives by channel, in the order in which they are started.
    started: BTreeMap<SyncChannel, Vec<StartedCollective>>,
    /// Number of collectives that each peer has started, by channel.
    counts: Vec<BTreeMap<SyncChannel, usize>>,
    /// Results that have not been delivered, with their peer.
    results: Vec<(usize, CollectiveId, CollectiveOutput)>,
    /// Table messages that have not been delivered, with their receiver.
    table_messages: Vec<(usize, TableMessage<f32>)>,
    /// Newest values by peer and variable, with their version.
    pub(crate) published: Vec<Vec<(u64, Vec<f32>)>>,
    /// Gossip averages of each peer, in the order in which its node asked for them.
    pub(crate) averages: Vec<Vec<CollectiveId>>,
    random: SplitMix64,
}

impl Peers {
    pub(crate) fn new(model: &ModelSpec, strategy: &Strategy, clip: Option<GradientClip>, seed: u64) -> Self {
        let plan = Arc::new(SyncPlan::new(model, strategy).unwrap());
        let values: Vec<Vec<f32>> = model
            .variables
            .iter()
            .map(|variable| (0..variable.elements()).map(|index| (index as f32).sin()).collect())
            .collect();
        let nodes = Rank::all(strategy.peers).map(|rank| {
            let (plan, values) = (plan.clone(), values.clone());
            let settings = NodeSettings::new(plan, PlainSgd, rank, values).clip(clip);
            SyncNode::new(settings).unwrap()
        });
        let nodes = nodes.collect();
        let published = values.into_iter().map(|values| (0, values)).collect();
        Self {
            nodes,
            plan,
            started: BTreeMap::new(),
            counts: vec![BTreeMap::new(); strategy.peers],
            results: Vec::new(),
            table_messages: Vec::new(),
            published: vec![published; strategy.peers],
            averages: vec![Vec::new(); strategy.peers],
            random: SplitMix64::new(seed),
        }
    }

    pub(crate) fn plan(&self) -> &SyncPlan {
        &self.plan
    }

    pub(crate) fn node(&mut self, peer: usize) -> &mut SyncNode<PlainSgd> {
        &mut self.nodes[peer]
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    /// Passes a gradient to a peer.
    pub(crate) fn add_gradient(&mut self, peer: usize, step: u64, variable: VariableId, payload: GradientPayload) {
        self.nodes[peer].add_gradient(step, variable, payload).unwrap();
    }

    /// Executes the effects of a peer.
    pub(crate) fn poll(&mut self, peer: usize) {
        while let Some(effect) = self.nodes[peer].poll_effect().unwrap() {
            match effect {
                SyncEffect::Start { id, channel, op } => self.start(peer, channel, id, op),
                SyncEffect::Publish { variable, values, version } => {
                    let slot = &mut self.published[peer][variable];
                    // The newest values of tables have the version of the last step.
                    assert!(slot.0 <= version, "versions ascend");
                    *slot = (version, values);
                }
                SyncEffect::Average { id, values, .. } => {
                    self.averages[peer].push(id);
                    self.results.push((peer, id, CollectiveOutput::Elements(values)));
                }
                SyncEffect::SendTable { to, message } => self.table_messages.push((to.index(), message)),
                SyncEffect::RecordLoss { .. } | SyncEffect::UnitStarted { .. } | SyncEffect::UnitFinished { .. } => {}
            }
        }
    }

    fn start(&mut self, peer: usize, channel: SyncChannel, id: CollectiveId, op: CollectiveOp) {
        let number = self.counts[peer].entry(channel).or_default();
        let started = self.started.entry(channel).or_default();
        if started.len() == *number {
            started.push(StartedCollective { inputs: (0..self.nodes.len()).map(|_| None).collect() });
        }
        let collective = &mut started[*number];
        *number += 1;
        collective.inputs[peer] = Some((id, op));
        if collective.inputs.iter().all(Option::is_some) {
            let inputs: Vec<_> = collective.inputs.iter_mut().filter_map(Option::take).collect();
            assert!(inputs.iter().all(|(other, _)| *other == id), "peers start the same collective");
            self.results.extend(compute(inputs));
        }
    }

    /// Delivers one result or table message, chosen at random. Returns false if there is none.
    pub(crate) fn deliver_one(&mut self) -> bool {
        if !self.table_messages.is_empty() && (self.results.is_empty() || self.below(2) == 0) {
            let index = self.below(self.table_messages.len());
            let (peer, message) = self.table_messages.swap_remove(index);
            self.nodes[peer].receive_table(message).unwrap();
            self.poll(peer);
            return true;
        }
        if self.results.is_empty() {
            return false;
        }
        let index = self.below(self.results.len());
        let (peer, id, output) = self.results.swap_remove(index);
        self.nodes[peer].complete(id, output).unwrap();
        self.poll(peer);
        true
    }

    /// Number of collectives that all peers have started together.
    pub(crate) fn collectives(&self) -> usize {
        self.started.values().map(Vec::len).sum()
    }

    pub(crate) fn are_idle(&self) -> bool {
        self.results.is_empty() && self.table_messages.is_empty() && self.nodes.iter().all(SyncNode::is_idle)
    }
}

/// Computes the results of a collective on all peers.
fn compute(inputs: Vec<(CollectiveId, CollectiveOp)>) -> Vec<(usize, CollectiveId, CollectiveOutput)> {
    let id = inputs[0].0;
    let ops: Vec<CollectiveOp> = inputs.into_iter().map(|(_, op)| op).collect();
    let outputs: Vec<CollectiveOutput> = match &ops[0] {
        CollectiveOp::SumNumbers { numbers } => {
            let mut sum = vec![0.0; numbers.len()];
            for op in &ops {
                let CollectiveOp::SumNumbers { numbers } = op else { panic!("{op:?}") };
                sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
            }
            ops.iter().map(|_| CollectiveOutput::Numbers(sum.clone())).collect()
        }
        CollectiveOp::AllGatherLengths { .. } => {
            let all: Vec<i64> = ops.iter().flat_map(lengths).collect();
            ops.iter().map(|_| CollectiveOutput::Integers(all.clone())).collect()
        }
        CollectiveOp::BroadcastOrder { order } => {
            ops.iter().map(|_| CollectiveOutput::Integers(order.clone())).collect()
        }
        CollectiveOp::AllReduce { .. } | CollectiveOp::Reduce { .. } => {
            let mut sum = vec![0.0; elements(&ops[0]).len()];
            for op in &ops {
                sum.iter_mut().zip(elements(op)).for_each(|(sum, number)| *sum += number);
            }
            ops.iter().map(|_| CollectiveOutput::Elements(sum.clone())).collect()
        }
        CollectiveOp::Broadcast { root, .. } => {
            let values = elements(&ops[root.index()]).to_vec();
            ops.iter().map(|_| CollectiveOutput::Elements(values.clone())).collect()
        }
        CollectiveOp::AllGather { .. } => {
            let all: Vec<f32> = ops.iter().flat_map(|op| elements(op).to_vec()).collect();
            ops.iter().map(|_| CollectiveOutput::Elements(all.clone())).collect()
        }
        CollectiveOp::AllToAll { blocks } => {
            let block = blocks.len() / ops.len();
            let column = |peer: usize| {
                ops.iter().flat_map(|op| elements(op)[peer * block..(peer + 1) * block].to_vec()).collect()
            };
            (0..ops.len()).map(|peer| CollectiveOutput::Elements(column(peer))).collect()
        }
        CollectiveOp::Compressed { compressor, .. } => {
            panic!("no compression in these tests: {compressor:?}")
        }
    };
    outputs.into_iter().enumerate().map(|(peer, output)| (peer, id, output)).collect()
}

fn lengths(op: &CollectiveOp) -> Vec<i64> {
    match op {
        CollectiveOp::AllGatherLengths { lengths } => lengths.clone(),
        other => panic!("{other:?}"),
    }
}

fn elements(op: &CollectiveOp) -> &[f32] {
    match op {
        CollectiveOp::AllReduce { elements, .. }
        | CollectiveOp::Reduce { elements, .. }
        | CollectiveOp::Broadcast { elements, .. } => elements,
        CollectiveOp::AllGather { block } => block,
        CollectiveOp::AllToAll { blocks } => blocks,
        other => panic!("{other:?}"),
    }
}
