//! Communicators of a node's channels, and its collectives in flight.
//!
//! **Invariant:** each channel has a communicator of its own, so peers need to agree only on the
//! order within a channel.

use hemiola_cluster::{Cluster, Result};
use hemiola_collective::{
    CollectiveExt, Communicator, Gossip, GossipExt, GossipStats, PendingCollective, PendingCompressed,
};
use hemiola_core::Rank;
use hemiola_sync_proto::{CallPlan, CollectiveOp, CollectiveOutput, SyncChannel, SyncMethod, SyncPlan, UnitId};

/// Communicators of all channels, and gossip averagers of the units that have one.
pub(crate) struct SyncCommunicators {
    me: Rank,
    peers: usize,
    /// By channel, in the order of [`SyncChannel::ALL`].
    channels: Vec<Communicator>,
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
        let mut channels = vec![first.clone()];
        for _ in 1..SyncChannel::ALL.len() {
            channels.push(first.duplicate()?);
        }
        let mut gossip = Vec::new();
        for unit in &plan.units {
            gossip.push(match &unit.method {
                SyncMethod::Gossip { topology, synchronization } => {
                    let graph = cluster.graph(topology)?;
                    let gossip = cluster.gossip::<f32>(&graph, unit.length).synchronization(*synchronization);
                    Some(gossip.build()?)
                }
                _ => None,
            });
        }
        Ok(Self { me: cluster.rank(), peers: cluster.size(), channels, gossip })
    }

    /// Starts a collective and returns at once.
    pub(crate) fn start(&self, channel: SyncChannel, op: CollectiveOp) -> Result<PendingSync> {
        let communicator = &self.channels[channel.index()];
        Ok(match op.call_plan(self.me, self.peers) {
            CallPlan::Elements(operation, buffer) => {
                PendingSync::Elements(communicator.begin_operation(buffer, &operation)?)
            }
            CallPlan::Integers(operation, buffer) => {
                PendingSync::Integers(communicator.begin_operation(buffer, &operation)?)
            }
            CallPlan::Numbers(operation, buffer) => {
                PendingSync::Numbers(communicator.begin_operation(buffer, &operation)?)
            }
            CallPlan::Compressed { goal, context, elements, compressor } => {
                let communicator = communicator.with_algorithm(context.algorithm);
                let pending = communicator.begin_compressed(goal, &elements, context.operator, compressor)?;
                PendingSync::Compressed(pending)
            }
        })
    }

    /// Averages the values of a unit with those of its neighbours. With NOTIFY-ACK, blocks until
    /// they have sent theirs, and with a barrier until all peers have; or until the deadline of the
    /// cluster.
    pub(crate) fn average(&mut self, unit: UnitId, values: &mut [f32]) -> Result<()> {
        let gossip = self.gossip[unit].as_mut().expect("only units with gossip average");
        gossip.average(values).map(drop)
    }

    /// Totals over all gossip averages of this peer; `None` without a unit that has one.
    pub(crate) fn gossip_stats(&self) -> Option<GossipStats> {
        let mut units = self.gossip.iter().flatten().map(Gossip::stats);
        let first = units.next()?.clone();
        Some(units.fold(first, |mut sum, unit| {
            sum.reduces += unit.reduces;
            sum.consistent += unit.consistent;
            sum.stale += unit.stale;
            sum.torn += unit.torn;
            sum.missing += unit.missing;
            sum.bytes += unit.bytes;
            sum
        }))
    }
}

/// Collective in flight.
pub(crate) enum PendingSync {
    Elements(PendingCollective<f32>),
    Compressed(PendingCompressed),
    Integers(PendingCollective<i64>),
    Numbers(PendingCollective<f64>),
}

impl PendingSync {
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Elements(pending) => pending.is_ready(),
            Self::Compressed(pending) => pending.is_ready(),
            Self::Integers(pending) => pending.is_ready(),
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
            Self::Integers(pending) => CollectiveOutput::Integers(pending.wait()?),
            Self::Numbers(pending) => CollectiveOutput::Numbers(pending.wait()?),
        })
    }
}
