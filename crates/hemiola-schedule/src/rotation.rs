//! Rotation scheduler: blocks of the model travel around a ring of workers.
//!
//! A schedule that is known in advance needs no scheduling at run time. Every worker of every peer
//! has its own data, which stays. Jobs carry their part of the model and travel from worker to
//! worker: a word with its counts, an item with its factors. A worker therefore has exclusive
//! access to the parameters it changes. In a rotation every worker runs every job once;
//! [`plan::ring`](crate::plan::ring) defines the order.
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
use crate::plan::ring::RingPosition;
use hemiola_cluster::{ChannelReceiver, Cluster, Result};
use hemiola_core::{ChannelId, ChannelOwner, Lane, Rank};
use parking_lot::Mutex;
use ring_worker::{RingLink, RingWorker, StopReason};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

mod ring_worker;

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
    /// A barrier after every step around the ring (micro-synchronization), for comparison.
    PerStep,
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
    /// Jobs whose home is a worker of this peer, by worker and block.
    home: Vec<Vec<Vec<J>>>,
    /// Number of blocks of each ring position.
    blocks: Vec<usize>,
    /// Ring position of this peer's first worker.
    first: usize,
    rotations: u64,
    /// Channel on which blocks of the previous peer arrive.
    peer_channel: Option<(ChannelId, ChannelReceiver)>,
}

impl<J> fmt::Debug for RotationScheduler<'_, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Rotation");
        debug.field("blocks", &self.blocks).field("first", &self.first).field("rotations", &self.rotations);
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
        let first = of_peers[..cluster.rank().index()].iter().map(|of| of.0).sum();
        let ring_size = of_peers.iter().map(|of| of.0).sum();
        let assigned = assign_jobs(assignment, weights, ring_size);
        let cuts: Vec<_> = assigned.iter().map(|jobs| cut(jobs.iter().map(|job| weights[*job]), blocks)).collect();
        let counts = cuts.iter().map(Vec::len).collect();
        let own = assigned.iter().zip(&cuts).skip(first).take(cluster.workers());
        let home = own.map(|(jobs, cuts)| {
            cuts.iter().map(|cut| jobs[cut.clone()].iter().map(|job| make(*job)).collect()).collect()
        });
        let home = home.collect();
        Ok(Self {
            cluster,
            barrier: RotationBarrier::PerRotation,
            home,
            blocks: counts,
            first,
            rotations: 0,
            peer_channel,
        })
    }

    /// Sets the barrier among workers; once per rotation by default.
    #[must_use]
    pub fn barrier(mut self, when: RotationBarrier) -> Self {
        self.barrier = when;
        self
    }

    /// Jobs whose home is this peer.
    pub fn jobs(&self) -> impl Iterator<Item = &J> {
        self.home.iter().flatten().flatten()
    }

    /// Jobs whose home is this peer, to be changed between rotations.
    pub fn jobs_mut(&mut self) -> impl Iterator<Item = &mut J> {
        self.home.iter_mut().flatten().flatten()
    }

    /// Ring position of this peer's first worker, and the number of positions.
    #[must_use]
    pub fn ring_positions(&self) -> (usize, usize) {
        (self.first, self.blocks.len())
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
        let home = std::mem::take(&mut self.home);
        let ring_workers: Vec<Mutex<RingWorker<'_, P>>> =
            self.ring_workers(shared, home, own).into_iter().map(Mutex::new).collect();
        let mut failed: Option<StopReason> = None;
        let mut busy = vec![Duration::ZERO; ring_workers.len()];
        for steps in self.stages() {
            let outcomes = cluster.each_worker(|worker| ring_workers[worker.index()].lock().run(steps.clone()))?;
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
            // Barrier after a step: either all peers continue, or none.
            let all_go_on =
                self.barrier == RotationBarrier::PerRotation || !cluster.all_gather(failed.is_some())?.contains(&true);
            if failed.is_some() || !all_go_on {
                break;
            }
        }
        let (mut partials, mut home) = (Vec::new(), Vec::new());
        for ring_worker in ring_workers {
            let (back, partial) = ring_worker.into_inner().into_results();
            home.push(back);
            partials.push(partial);
        }
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
        self.home = home;
        self.rotations += 1;
        program.aggregate(all.into_iter().flat_map(|of_peer| of_peer.1).collect(), own)?;
        Ok(RotationReport { rotations: self.rotations, elapsed: cluster.env().now() - start, busy })
    }

    /// Ranges of steps between barriers.
    fn stages(&self) -> Vec<Range<usize>> {
        let ring_size = self.blocks.len();
        match self.barrier {
            RotationBarrier::PerRotation => std::iter::once(0..ring_size + 1).collect(),
            RotationBarrier::PerStep => (0..=ring_size).map(|step| step..step + 1).collect(),
        }
    }

    /// Creates the workers of this peer, with their jobs and the links between them.
    fn ring_workers<'s, P: RotationProgram<Job = J>>(
        &'s self,
        program: &'s P,
        home: Vec<Vec<Vec<J>>>,
        own: &'s mut [P::WorkerState],
    ) -> Vec<RingWorker<'s, P>> {
        let cluster = self.cluster;
        let (rank, peers, workers) = (cluster.rank().index(), cluster.size(), cluster.workers());
        let peer = |rank: usize| Rank::new((rank % peers) as u32);
        // The queue from each worker to the next. The last one leads to the first, unless other
        // peers are in between.
        let (mut ins, mut outs) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (sender, receiver) = mpsc::channel();
            outs.push(RingLink::Queue(sender));
            ins.push(RingLink::Queue(receiver));
        }
        ins.rotate_right(1);
        if let Some((channel, receiver)) = &self.peer_channel {
            outs[workers - 1] = RingLink::Peer((peer(rank + 1), *channel));
            ins[0] = RingLink::Peer((peer(rank + peers - 1), receiver));
        }
        let links = ins.into_iter().zip(outs);
        let rotation = self.rotations;
        let (first, blocks) = (self.first, &self.blocks);
        let workers_with_links = home.into_iter().zip(own).zip(links).enumerate();
        workers_with_links
            .map(|(worker, ((home, own), (incoming, outgoing)))| {
                let position = RingPosition::new(first + worker, blocks);
                RingWorker::new(cluster, worker, (program, rotation), position, home, own, incoming, outgoing)
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
