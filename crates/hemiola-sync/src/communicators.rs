//! Communicators of a node's channels, and its collectives in flight.
//!
//! **Invariant:** each channel has a communicator of its own, so peers need to agree only on the
//! order within a channel.

use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{
    Algorithm, CollectiveExt, Communicator, Gossip, GossipExt, PendingCollective, PendingCompressed, ReduceOp,
};
use hemiola_sync_proto::{CollectiveOp, CollectiveOutput, SyncChannel, SyncMethod, SyncPlan, SyncStage, UnitId};

/// Communicators of all channels, and gossip averagers of the units that have one.
pub(crate) struct SyncCommunicators {
    /// By stage, in the order of [`SyncStage::ALL`].
    stages: Vec<Communicator>,
    counts: Communicator,
    norms: Communicator,
    /// By unit.
    gossip: Vec<Option<Gossip<f32>>>,
}

impl SyncCommunicators {
    /// *Collective.* Creates the communicators; `wake` is called when a collective completes.
    pub(crate) fn new(
        cluster: &Cluster,
        plan: &SyncPlan,
        wake: impl Fn() + Send + Sync + Clone + 'static,
    ) -> Result<Self> {
        let first = cluster.communicator()?.on_complete(wake);
        let mut stages = vec![first.clone()];
        for _ in 1..SyncStage::ALL.len() {
            stages.push(first.duplicate()?);
        }
        // Two numbers per message: recursive doubling has the fewest rounds, and needs no
        // measurement.
        let small = first.with_algorithm(Algorithm::Doubling);
        let (counts, norms) = (small.duplicate()?, small.duplicate()?);
        let mut gossip = Vec::new();
        for unit in &plan.units {
            gossip.push(match &unit.method {
                SyncMethod::Gossip { topology } => {
                    Some(cluster.gossip::<f32>(&cluster.graph(topology)?, unit.length).build()?)
                }
                _ => None,
            });
        }
        Ok(Self { stages, counts, norms, gossip })
    }

    fn of(&self, channel: SyncChannel) -> &Communicator {
        match channel {
            SyncChannel::Stage(stage) => &self.stages[stage as usize],
            SyncChannel::Counts => &self.counts,
            SyncChannel::Norms => &self.norms,
        }
    }

    /// Starts a collective and returns at once.
    pub(crate) fn start(&self, channel: SyncChannel, op: CollectiveOp) -> Result<PendingSync> {
        let communicator = self.of(channel);
        Ok(match op {
            CollectiveOp::AllReduce { algorithm, elements } => {
                PendingSync::Elements(communicator.with_algorithm(algorithm).begin_all_reduce(elements, ReduceOp::Sum)?)
            }
            CollectiveOp::Reduce { root, elements } => {
                PendingSync::Elements(communicator.begin_reduce(root, elements, ReduceOp::Sum)?)
            }
            CollectiveOp::Compressed { goal, algorithm, elements, compressor } => PendingSync::Compressed(
                communicator.with_algorithm(algorithm).begin_compressed(goal, &elements, ReduceOp::Sum, compressor)?,
            ),
            CollectiveOp::Broadcast { root, elements } => {
                PendingSync::Elements(communicator.begin_broadcast(root, elements)?)
            }
            CollectiveOp::AllGather { block } => PendingSync::Elements(communicator.begin_all_gather(&block)?),
            CollectiveOp::AllGatherLengths { lengths } => {
                PendingSync::Lengths(communicator.begin_all_gather(&lengths)?)
            }
            CollectiveOp::AllToAll { blocks } => PendingSync::Elements(communicator.begin_all_to_all(blocks)?),
            CollectiveOp::SumNumbers { numbers } => {
                PendingSync::Numbers(communicator.begin_all_reduce(numbers, ReduceOp::Sum)?)
            }
        })
    }

    /// Averages the values of a unit with those of its neighbours. Blocks until they have sent
    /// theirs, or until the deadline of the cluster.
    pub(crate) fn average(&mut self, unit: UnitId, values: &mut [f32]) -> Result<()> {
        let gossip = self.gossip[unit].as_mut().expect("only units with gossip average");
        gossip.average(values).map(drop)
    }
}

/// Collective in flight.
pub(crate) enum PendingSync {
    Elements(PendingCollective<f32>),
    Compressed(PendingCompressed),
    Lengths(PendingCollective<i64>),
    Numbers(PendingCollective<f64>),
}

impl PendingSync {
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Elements(pending) => pending.is_ready(),
            Self::Compressed(pending) => pending.is_ready(),
            Self::Lengths(pending) => pending.is_ready(),
            Self::Numbers(pending) => pending.is_ready(),
        }
    }

    /// Returns the result of a collective that is ready.
    pub(crate) fn output(self) -> Result<CollectiveOutput> {
        Ok(match self {
            Self::Elements(pending) => CollectiveOutput::Elements(pending.wait()?),
            Self::Compressed(pending) => {
                let (compressor, sum) = pending.wait();
                CollectiveOutput::Compressed(compressor, sum?)
            }
            Self::Lengths(pending) => CollectiveOutput::Lengths(pending.wait()?),
            Self::Numbers(pending) => CollectiveOutput::Numbers(pending.wait()?),
        })
    }
}
