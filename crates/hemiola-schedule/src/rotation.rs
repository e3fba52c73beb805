//! The static engine: parts of the model go around a ring of workers.
//!
//! What is known beforehand needs no scheduler. Every worker of every peer has data of its own, which stays, and jobs, which carry their part of the model with them and
//! go from worker to worker: a word with its counts, an item with its factors. A worker therefore has what it changes to itself. In a rotation every job is done
//! once by every worker; [`plan::ring`](crate::plan::ring) says in which order.
//!
//! Jobs are dealt out by their weight, the heaviest first, so that every worker has as much; and they travel in blocks, the heaviest ones in the first, so that what is on its way while others wait
//! at the end of a rotation is light. A block is passed on as soon as it is done: by address inside a peer, through a queue that only the next
//! worker reads, and as bytes to the next peer.
//!
//! If a worker fails, it tells the next one to stop, who passes it on; then all peers hear why.
//!
//! **Invariant:** the same jobs, data and numbers of peers and workers give the same bits, whatever the threads' speed.

use crate::error::Error;
use crate::meet::OWNER;
use crate::plan::deal::{Deal, deal};
use crate::plan::ring::Seat;
use hemiola_cluster::{Cluster, Mailbox, Result};
use hemiola_core::{ChannelId, Lane, Rank};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use station::{Door, Station, Stopped};
use std::fmt;
use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

mod station;

/// A program whose schedule is a rotation. [`Rotation`] runs it.
pub trait Rotating: Sync {
    /// What travels: what is to be done, with the part of the model it changes.
    type Job: Serialize + DeserializeOwned + Send + fmt::Debug;
    /// What stays with a worker: its data, and the part of the model that belongs to it.
    type Own: Send;
    /// What a worker finds in a rotation besides: sums that all must know of.
    type Partial: Default + Serialize + DeserializeOwned + Send;

    /// Does a job on a worker's own data.
    fn update(&self, job: &mut Self::Job, own: &mut Self::Own, partial: &mut Self::Partial);

    /// Takes in what all workers found in a rotation, in the order of peers and workers. `own` are those of this peer.
    fn aggregate(&mut self, partials: Vec<Self::Partial>, own: &mut [Self::Own]) -> Result<()>;
}

/// When workers wait for each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Synchronize {
    /// Once in a rotation: blocks flow.
    #[default]
    Macro,
    /// Also after every step around the ring: for comparison.
    Micro,
}

/// What a rotation took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Turn {
    /// Rotations so far.
    pub rotations: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// By worker of this peer: how long it worked.
    pub busy: Vec<Duration>,
}

/// Jobs on a ring of workers: see the [module](self).
pub struct Rotation<'c, J> {
    cluster: &'c Cluster,
    synchronize: Synchronize,
    /// Jobs that are home at workers of this peer: by worker and block.
    home: Vec<Vec<Vec<J>>>,
    /// Blocks of each seat.
    blocks: Vec<usize>,
    /// The seat of this peer's first worker.
    first: usize,
    rotations: u64,
    /// Where blocks of the peer before come in.
    mailbox: Option<(ChannelId, Mailbox)>,
}

impl<J> fmt::Debug for Rotation<'_, J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Rotation");
        debug.field("blocks", &self.blocks).field("first", &self.first).field("rotations", &self.rotations);
        debug.finish_non_exhaustive()
    }
}

impl<'c, J: Serialize + DeserializeOwned + Send + fmt::Debug> Rotation<'c, J> {
    /// *Collective.* Deals out jobs by their weights, which must be the same on every peer, to the workers of all peers, as `blocks` blocks each; `make` makes those
    /// that are at home here, by their number.
    pub fn new(
        cluster: &'c Cluster,
        weights: &[u64],
        blocks: usize,
        how: Deal,
        mut make: impl FnMut(usize) -> J,
    ) -> Result<Self> {
        if blocks == 0 {
            let setting = "the number of blocks of a worker".to_owned();
            let reason = "jobs travel in blocks: take 1 or more".to_owned();
            return Err(Error::Setting { setting, found: "0".to_owned(), reason }.into());
        }
        let mailbox = (cluster.size() > 1).then(|| {
            let channel = cluster.next_channel(OWNER);
            (channel, cluster.open(channel, Lane::Bulk))
        });
        // Nobody sends before all have opened their mailboxes: the gather is over only then.
        let of_peers = cluster.all_gather((cluster.workers(), weights.len(), weights.iter().sum::<u64>(), blocks))?;
        let told = |rank: usize| {
            let (_, jobs, weight, blocks) = of_peers[rank];
            format!("{jobs} jobs of weight {weight} in {blocks} blocks for each worker")
        };
        if let Some(other) = (1..of_peers.len()).find(|rank| told(*rank) != told(0)) {
            return Err(Error::Differs { rank: Rank::new(other as u32), here: told(0), there: told(other) }.into());
        }
        let first = of_peers[..cluster.rank().index()].iter().map(|of| of.0).sum();
        let seats = of_peers.iter().map(|of| of.0).sum();
        let hands = deal(how, weights, seats);
        let cuts: Vec<_> = hands.iter().map(|hand| cut(hand.iter().map(|job| weights[*job]), blocks)).collect();
        let counts = cuts.iter().map(Vec::len).collect();
        let own = hands.iter().zip(&cuts).skip(first).take(cluster.workers());
        let home = own.map(|(hand, cuts)| {
            cuts.iter().map(|cut| hand[cut.clone()].iter().map(|job| make(*job)).collect()).collect()
        });
        let home = home.collect();
        Ok(Self { cluster, synchronize: Synchronize::Macro, home, blocks: counts, first, rotations: 0, mailbox })
    }

    /// When workers wait for each other.
    #[must_use]
    pub fn synchronize(mut self, when: Synchronize) -> Self {
        self.synchronize = when;
        self
    }

    /// Jobs that are at home on this peer.
    pub fn jobs(&self) -> impl Iterator<Item = &J> {
        self.home.iter().flatten().flatten()
    }

    /// The same, to be changed between rotations.
    pub fn jobs_mut(&mut self) -> impl Iterator<Item = &mut J> {
        self.home.iter_mut().flatten().flatten()
    }

    /// The number of this peer's first worker among all workers, and how many there are.
    #[must_use]
    pub fn seats(&self) -> (usize, usize) {
        (self.first, self.blocks.len())
    }

    /// *Collective.* One rotation: every job is done once by every worker. `own` has one for each worker of this peer.
    ///
    /// If it fails, jobs are lost with it: a program goes on from what it saved.
    ///
    /// # Panics
    /// If `own` does not have one for each worker.
    pub fn rotate<P: Rotating<Job = J>>(&mut self, program: &mut P, own: &mut [P::Own]) -> Result<Turn> {
        let cluster = self.cluster;
        assert_eq!(own.len(), cluster.workers(), "every worker has something of its own");
        let start = cluster.env().now();
        let shared = &*program;
        let home = std::mem::take(&mut self.home);
        let stations: Vec<Mutex<Station<'_, P>>> =
            self.stations(shared, home, own).into_iter().map(Mutex::new).collect();
        let mut failed: Option<Stopped> = None;
        let mut busy = vec![Duration::ZERO; stations.len()];
        for steps in self.stages() {
            let outcomes = cluster.each_worker(|worker| stations[worker.index()].lock().run(steps.clone()))?;
            for (outcome, busy) in outcomes.into_iter().zip(&mut busy) {
                match outcome {
                    Ok(spent) => *busy += spent,
                    // What went wrong here counts more than what was heard of.
                    Err(stopped) => {
                        failed = Some(match failed.take() {
                            Some(before) => before.or(stopped),
                            None => stopped,
                        });
                    }
                }
            }
            // The barrier after a step: all go on, or none.
            let all_go_on =
                self.synchronize == Synchronize::Macro || !cluster.all_gather(failed.is_some())?.contains(&true);
            if failed.is_some() || !all_go_on {
                break;
            }
        }
        let (mut partials, mut home) = (Vec::new(), Vec::new());
        for station in stations {
            let (back, partial) = station.into_inner().leave();
            home.push(back);
            partials.push(partial);
        }
        let failed = match failed {
            Some(Stopped::Lost(error)) => return Err(error),
            other => other,
        };
        // All hear whether all are through, so that all fail or none.
        let all = cluster.all_gather((failed.as_ref().and_then(Stopped::reason), partials))?;
        if let Some(Stopped::Failed(error)) = failed {
            return Err(error.into());
        }
        if let Some((rank, reason)) = all.iter().enumerate().find_map(|(rank, of)| Some((rank, of.0.as_ref()?))) {
            let (rank, reason) = (Rank::new(rank as u32), reason.clone());
            return Err(Error::Elsewhere { round: self.rotations, rank, reason }.into());
        }
        self.home = home;
        self.rotations += 1;
        program.aggregate(all.into_iter().flat_map(|of_peer| of_peer.1).collect(), own)?;
        Ok(Turn { rotations: self.rotations, elapsed: cluster.env().now() - start, busy })
    }

    /// Steps that are run without waiting for anybody but those before.
    fn stages(&self) -> Vec<Range<usize>> {
        let seats = self.blocks.len();
        match self.synchronize {
            Synchronize::Macro => std::iter::once(0..seats + 1).collect(),
            Synchronize::Micro => (0..=seats).map(|step| step..step + 1).collect(),
        }
    }

    /// The workers of this peer, with their jobs, and the doors between them.
    fn stations<'s, P: Rotating<Job = J>>(
        &'s self,
        program: &'s P,
        home: Vec<Vec<Vec<J>>>,
        own: &'s mut [P::Own],
    ) -> Vec<Station<'s, P>> {
        let cluster = self.cluster;
        let (rank, peers, workers) = (cluster.rank().index(), cluster.size(), cluster.workers());
        let peer = |rank: usize| Rank::new((rank % peers) as u32);
        // The queue from each worker to the next. The last one's leads to the first, unless other peers are between.
        let (mut ins, mut outs) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (sender, receiver) = mpsc::channel();
            outs.push(Door::Queue(sender));
            ins.push(Door::Queue(receiver));
        }
        ins.rotate_right(1);
        if let Some((channel, mailbox)) = &self.mailbox {
            outs[workers - 1] = Door::Peer((peer(rank + 1), *channel));
            ins[0] = Door::Peer((peer(rank + peers - 1), mailbox));
        }
        let doors = ins.into_iter().zip(outs);
        let rotation = self.rotations;
        let (first, blocks) = (self.first, &self.blocks);
        let places = home.into_iter().zip(own).zip(doors).enumerate();
        places
            .map(|(worker, ((home, own), (entry, exit)))| {
                let seat = Seat::new(first + worker, blocks);
                Station::new(cluster, worker, (program, rotation), seat, home, own, entry, exit)
            })
            .collect()
    }
}

/// Cuts jobs into at most `blocks` runs of about the same weight, none of them empty.
fn cut(weights: impl ExactSizeIterator<Item = u64> + Clone, blocks: usize) -> Vec<Range<usize>> {
    let total: u128 = weights.clone().map(u128::from).sum();
    let count = weights.len();
    let (mut cuts, mut start, mut sum) = (Vec::new(), 0, 0);
    for (place, weight) in weights.enumerate() {
        sum += u128::from(weight);
        // Jobs that weigh nothing are cut by count.
        let share =
            (sum * blocks as u128).checked_div(total).map_or((place + 1) * blocks / count, |share| share as usize);
        if share > cuts.len() && cuts.len() + 1 < blocks || place + 1 == count {
            cuts.push(start..place + 1);
            start = place + 1;
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
