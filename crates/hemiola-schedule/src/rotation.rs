//! Rotation scheduler: blocks of the model travel around a ring of workers.
//!
//! A schedule that is known in advance needs no scheduling at run time. Every worker of every peer
//! has its own data, which stays. Jobs carry their part of the model and travel from worker to
//! worker: a word with its counts, an item with its factors. A worker therefore has exclusive
//! access to the parameters it changes. In a rotation every worker runs every job once;
//! [`plan::ring`](crate::plan::ring) defines the order, and blocks move to higher positions. A
//! [`RotationNode`] for each worker makes all decisions; this module adds threads and messages.
//!
//! Jobs are assigned by weight, the heaviest first, so that workers are balanced. They travel in
//! blocks, the heaviest in the first block, so that the blocks still in transit at the end of a
//! rotation are light. A block is passed on as soon as its jobs are done: by pointer inside a peer,
//! through a queue that only the next worker reads, and serialized to the next peer.
//!
//! If a worker fails, it tells the next worker to stop, which passes the message on. Then all peers
//! exchange the reason.
//!
//! **Invariant:** the same jobs, data and numbers of peers and workers give bit-identical results,
//! for any speed of the threads.

use crate::error::Error;
use crate::plan::assignment::{JobAssignment, assign_jobs};
use crate::plan::ring::{Ring, RingDirection};
use crate::plan::ring_segment::RingSegment;
use crate::plan::rotation_node::RotationNode;
use hemiola_cluster::{ChannelReceiver, Cluster, Result};
use hemiola_core::{ChannelId, ChannelOwner, Lane, Rank};
use parking_lot::Mutex;
use ring_worker::{RingLink, RingWorker, StopReason};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

mod ring_worker;

/// Direction in which blocks travel; it decides the serial order that a rotation is equivalent to.
const DIRECTION: RingDirection = RingDirection::ToHigher;

/// A program whose schedule is a rotation. [`RotationScheduler`] runs it.
pub trait RotationProgram: Sync {
    /// Unit of work that travels, with the part of the model it changes.
    type Job: Serialize + DeserializeOwned + Send + fmt::Debug;
    /// State that stays with a worker: its data, and the part of the model that belongs to it.
    type WorkerState: Send;
    /// Result of a worker in a rotation that all workers need, such as sums.
    type Partial: Default + Serialize + DeserializeOwned + Send;

    /// Runs a job on a worker's own data.
    fn update(&self, job: &mut Self::Job, own: &mut Self::WorkerState, partial: &mut Self::Partial);

    /// Aggregates the results of all workers in a rotation, in the order of peers and workers.
    /// `own` are the states of this peer's workers.
    fn aggregate(&mut self, partials: Vec<Self::Partial>, own: &mut [Self::WorkerState]) -> Result<()>;
}

/// Barrier among the workers of a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RotationBarrier {
    /// One barrier per rotation, macro-synchronization in the paper: blocks flow freely in between.
    #[default]
    PerRotation,
    /// A barrier after every stage, when all blocks have visited one more worker
    /// (micro-synchronization), for comparison.
    PerStage,
}

/// Report of one rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RotationReport {
    /// Number of rotations so far.
    pub rotations: u64,
    /// Duration of this rotation.
    pub elapsed: Duration,
    /// Computing time of each worker of this peer.
    pub busy: Vec<Duration>,
}

/// Runs jobs on a ring of workers. See the [module](self).
pub struct RotationScheduler<'c, J> {
    cluster: &'c Cluster,
    barrier: RotationBarrier,
    /// Nodes of this peer's workers, with the jobs whose home they are. Empty after a failure.
    nodes: Vec<RotationNode<Vec<J>>>,
    ring: Arc<Ring>,
    /// Ring position of each peer's first worker.
    first_positions: Vec<usize>,
    rotations: u64,
    /// Channel on which blocks of the previous peer arrive.
    peer_channel: Option<(ChannelId, ChannelReceiver)>,
}

impl<J> fmt::Debug for RotationScheduler<'_, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Rotation");
        debug.field("ring", &self.ring).field("first", &self.first_positions).field("rotations", &self.rotations);
        debug.finish_non_exhaustive()
    }
}

impl<'c, J: Serialize + DeserializeOwned + Send + fmt::Debug> RotationScheduler<'c, J> {
    /// *Collective.* Assigns jobs to the workers of all peers, in at most `blocks` blocks for each.
    ///
    /// `weights` must be the same on every peer. `make` creates the jobs whose home is this peer,
    /// by their number.
    pub fn new(
        cluster: &'c Cluster,
        weights: &[u64],
        blocks: usize,
        assignment: JobAssignment,
        mut make: impl FnMut(usize) -> J,
    ) -> Result<Self> {
        if blocks == 0 {
            let setting = "the number of blocks of a worker".to_owned();
            let reason = "jobs travel in blocks: use 1 or more".to_owned();
            return Err(Error::InvalidSetting { setting, found: "0".to_owned(), reason }.into());
        }
        let peer_channel = (cluster.size() > 1).then(|| {
            let channel = cluster.next_channel(ChannelOwner::Schedules);
            (channel, cluster.open_channel(channel, Lane::Bulk))
        });
        // No peer sends before all have opened the channel: the gather completes only then.
        let of_peers = cluster.all_gather((cluster.workers(), weights.len(), weights.iter().sum::<u64>(), blocks))?;
        let settings = |rank: usize| {
            let (_, jobs, weight, blocks) = of_peers[rank];
            format!("{jobs} jobs of weight {weight} in {blocks} blocks for each worker")
        };
        if let Some(other) = (1..of_peers.len()).find(|rank| settings(*rank) != settings(0)) {
            return Err(Error::SettingsMismatch {
                rank: Rank::new(other as u32),
                here: settings(0),
                there: settings(other),
            }
            .into());
        }
        let first_of = |rank: usize| of_peers[..rank].iter().map(|of| of.0).sum::<usize>();
        let first_positions: Vec<usize> = (0..of_peers.len()).map(first_of).collect();
        let (first, ring_size) = (first_positions[cluster.rank().index()], first_of(of_peers.len()));
        let assigned = assign_jobs(assignment, weights, ring_size);
        let cuts: Vec<_> = assigned.iter().map(|jobs| cut(jobs.iter().map(|job| weights[*job]), blocks)).collect();
        let ring = Arc::new(Ring::new(DIRECTION, cuts.iter().map(Vec::len)));
        let nodes = (first..first + cluster.workers()).map(|position| {
            let jobs = &assigned[position];
            let block = |cut: &Range<usize>| jobs[cut.clone()].iter().map(|job| make(*job)).collect();
            let segment = RingSegment::new(Arc::clone(&ring), position..position + 1);
            RotationNode::new(segment, cuts[position].iter().map(block))
        });
        let nodes = nodes.collect();
        let barrier = RotationBarrier::PerRotation;
        Ok(Self { cluster, barrier, nodes, ring, first_positions, rotations: 0, peer_channel })
    }

    /// Sets the barrier among workers; once per rotation by default.
    #[must_use]
    pub fn barrier(mut self, when: RotationBarrier) -> Self {
        self.barrier = when;
        self
    }

    /// Jobs whose home is this peer.
    pub fn jobs(&self) -> impl Iterator<Item = &J> {
        self.nodes.iter().flat_map(RotationNode::blocks).flat_map(|(_, jobs)| jobs)
    }

    /// Jobs whose home is this peer, to be changed between rotations.
    pub fn jobs_mut(&mut self) -> impl Iterator<Item = &mut J> {
        self.nodes.iter_mut().flat_map(RotationNode::blocks_mut).flat_map(|(_, jobs)| jobs)
    }

    /// Ring position of this peer's first worker, and the number of positions.
    #[must_use]
    pub fn ring_positions(&self) -> (usize, usize) {
        (self.first(), self.ring.size())
    }

    fn first(&self) -> usize {
        self.first_positions[self.cluster.rank().index()]
    }

    /// Peer whose worker is at a ring position.
    fn peer_of(&self, position: usize) -> Rank {
        Rank::new((self.first_positions.partition_point(|first| *first <= position) - 1) as u32)
    }

    /// *Collective.* Runs one rotation: every worker runs every job once. `own` has one state for
    /// each worker of this peer.
    ///
    /// After an error the jobs are lost; resume the program from a checkpoint.
    ///
    /// # Panics
    /// If `own` does not have one state per worker.
    pub fn rotate<P: RotationProgram<Job = J>>(
        &mut self,
        program: &mut P,
        own: &mut [P::WorkerState],
    ) -> Result<RotationReport> {
        let cluster = self.cluster;
        assert_eq!(own.len(), cluster.workers(), "`own` needs one state per worker");
        let start = cluster.env().now();
        let shared = &*program;
        let nodes = std::mem::take(&mut self.nodes);
        let ring_workers: Vec<Mutex<RingWorker<'_, P>>> =
            self.ring_workers(shared, nodes, own).into_iter().map(Mutex::new).collect();
        let mut failed: Option<StopReason> = None;
        let mut busy = vec![Duration::ZERO; ring_workers.len()];
        for stages in self.stages() {
            let outcomes = cluster.each_worker(|worker| ring_workers[worker.index()].lock().run(stages.clone()))?;
            for (outcome, busy) in outcomes.into_iter().zip(&mut busy) {
                match outcome {
                    Ok(spent) => *busy += spent,
                    // An error of this peer takes precedence over one reported by another.
                    Err(stopped) => {
                        failed = Some(match failed.take() {
                            Some(before) => before.or(stopped),
                            None => stopped,
                        });
                    }
                }
            }
            // Barrier after a stage: either all peers continue, or none.
            let all_go_on =
                self.barrier == RotationBarrier::PerRotation || !cluster.all_gather(failed.is_some())?.contains(&true);
            if failed.is_some() || !all_go_on {
                break;
            }
        }
        let (mut nodes, partials): (Vec<_>, Vec<_>) =
            ring_workers.into_iter().map(|ring_worker| ring_worker.into_inner().into_results()).unzip();
        let failed = match failed {
            Some(StopReason::Lost(error)) => return Err(error),
            other => other,
        };
        // All peers learn whether all have succeeded, so that all fail or none.
        let all = cluster.all_gather((failed.as_ref().and_then(StopReason::reason), partials))?;
        if let Some(StopReason::Failed(error)) = failed {
            return Err(error.into());
        }
        if let Some((rank, reason)) = all.iter().enumerate().find_map(|(rank, of)| Some((rank, of.0.as_ref()?))) {
            let (rank, reason) = (Rank::new(rank as u32), reason.clone());
            return Err(Error::PeerFailed { round: self.rotations, rank, reason }.into());
        }
        for node in &mut nodes {
            let invalid = |error| ring_worker::invalid_block(&error, self.rotations, cluster.rank());
            node.begin_rotation().map_err(invalid)?;
        }
        self.nodes = nodes;
        self.rotations += 1;
        program.aggregate(all.into_iter().flat_map(|of_peer| of_peer.1).collect(), own)?;
        Ok(RotationReport { rotations: self.rotations, elapsed: cluster.env().now() - start, busy })
    }

    /// Ranges of stages between barriers. In the last stage, blocks come home.
    fn stages(&self) -> Vec<Range<usize>> {
        let ring_size = self.ring.size();
        match self.barrier {
            RotationBarrier::PerRotation => std::iter::once(0..ring_size + 1).collect(),
            RotationBarrier::PerStage => (0..=ring_size).map(|stage| stage..stage + 1).collect(),
        }
    }

    /// Creates the workers of this peer, with their nodes and the links between them.
    fn ring_workers<'s, P: RotationProgram<Job = J>>(
        &'s self,
        program: &'s P,
        nodes: Vec<RotationNode<Vec<J>>>,
        own: &'s mut [P::WorkerState],
    ) -> Vec<RingWorker<'s, P>> {
        let (first, workers) = (self.first(), self.cluster.workers());
        let is_here = |position: usize| (first..first + workers).contains(&position);
        // The queue to each worker, for a worker of the same peer that passes blocks on to it. A block
        // is in one place, so all of them and the message that stops the ring fit: nobody waits.
        let capacity = self.ring.blocks() + 1;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..workers).map(|_| mpsc::sync_channel(capacity)).unzip();
        let members = nodes.into_iter().zip(own).zip(receivers).enumerate();
        members
            .map(|(worker, ((node, own), receiver))| {
                let (source, destination) = (node.segment().source(), node.segment().destination());
                let incoming = match &self.peer_channel {
                    Some((_, messages)) if !is_here(source) => RingLink::Peer((self.peer_of(source), messages)),
                    _ => RingLink::Queue(receiver),
                };
                let outgoing = match &self.peer_channel {
                    Some((channel, _)) if !is_here(destination) => {
                        RingLink::Peer((self.peer_of(destination), *channel))
                    }
                    _ => RingLink::Queue(senders[destination - first].clone()),
                };
                RingWorker::new(self.cluster, worker, program, node, own, incoming, outgoing)
            })
            .collect()
    }
}

/// Cuts jobs into at most `blocks` ranges of about equal weight, none of them empty.
fn cut(weights: impl ExactSizeIterator<Item = u64> + Clone, blocks: usize) -> Vec<Range<usize>> {
    let total: u128 = weights.clone().map(u128::from).sum();
    let count = weights.len();
    let (mut cuts, mut start, mut sum) = (Vec::new(), 0, 0);
    for (index, weight) in weights.enumerate() {
        sum += u128::from(weight);
        // Jobs of weight zero are cut by count.
        let share =
            (sum * blocks as u128).checked_div(total).map_or((index + 1) * blocks / count, |share| share as usize);
        if share > cuts.len() && cuts.len() + 1 < blocks || index + 1 == count {
            cuts.push(start..index + 1);
            start = index + 1;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cuts_cover_all_jobs_in_order(weights in prop::collection::vec(0..50_u64, 0..40), blocks in 1..6_usize) {
            let cuts = cut(weights.iter().copied(), blocks);
            prop_assert!(cuts.len() <= blocks && cuts.iter().all(|cut| !cut.is_empty()));
            prop_assert!(cuts.into_iter().flatten().eq(0..weights.len()));
        }
    }
}
