//! Agreement of peers on the step at which training pauses within an epoch: to save a checkpoint, or
//! to stop.
//!
//! Clocks and callers of peers differ, so a pause is agreed on. A *vote* is a gather of the next step
//! and the wishes of every peer. Peers at different steps run on to the largest of them and vote
//! again; at equal steps the vote decides.
//!
//! - Peers whose steps wait for each other vote together, a few times a second: peer 0 measures its
//!   steps and tells after how many the next vote is. A vote then waits no longer than a step does.
//! - Peers that never wait for each other (asynchronous tables, asynchronous gossip averaging) vote
//!   when one of them asks for it by a message, so that no fast peer waits for a slow one without a
//!   reason. A message has the number of votes so far; one of an earlier vote is ignored.
//!
//! Every peer votes at the end of its steps, so that no peer takes a vote for another collective
//! call.
//!
//! **Invariant:** all peers take part in the same votes, and pause at the same step.

use hemiola_cluster::{ChannelReceiver, Cluster, Result, StopRequestCause};
use hemiola_collective::GossipSync;
use hemiola_core::{ChannelId, ChannelOwner, Lane, Moment, OutgoingMessage, Purpose, Rank};
use hemiola_strategy::{Strategy, Synchronizer, TableConsistency};
use serde::{Deserialize, Serialize};

/// Seconds between the votes of synchronous peers.
const VOTE_SECONDS: f64 = 0.25;

/// Wishes of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PauseWishes {
    /// Request to stop of this peer.
    pub(super) stop: Option<StopRequestCause>,
    /// A checkpoint is due; that of peer 0 counts.
    pub(super) save: bool,
}

impl PauseWishes {
    fn any(self) -> bool {
        self.stop.is_some() || self.save
    }

    /// Adds the wishes of a vote: the stop of any peer, and what peer 0 decides about checkpoints.
    fn add(&mut self, votes: &[Vote]) {
        self.stop = votes.iter().filter_map(|vote| vote.wishes.stop).max().max(self.stop);
        self.save |= votes[0].wishes.save;
    }
}

/// Vote of a peer.
#[derive(Debug, Serialize, Deserialize)]
struct Vote {
    /// Next step of the peer.
    step: u64,
    wishes: PauseWishes,
    /// Steps until the next vote of synchronous peers; that of peer 0 counts.
    interval: u64,
}

/// Agreement on pauses, for all epochs of a run.
#[derive(Debug)]
pub(super) struct PauseAgreement {
    cluster: Cluster,
    mode: VoteMode,
    /// Number of votes so far.
    votes: u64,
    /// Step at which peers vote again because they were at different ones, and their wishes.
    target: Option<u64>,
    pending: PauseWishes,
}

#[derive(Debug)]
enum VoteMode {
    /// Peers vote together at step `next`. The last vote was at a step and a time.
    Together { next: u64, last: (u64, Moment) },
    /// Peers ask for votes by messages; `asked` is the vote that this peer has asked for.
    ByMessage { channel: ChannelId, receiver: ChannelReceiver, asked: Option<u64> },
}

/// Place in an epoch at which a peer may vote.
#[derive(Clone, Copy, Debug)]
pub(super) struct PausePoint {
    /// Next step.
    pub(super) step: u64,
    /// Number of steps of the epoch.
    pub(super) end: u64,
    /// True if a checkpoint is due at this step on all peers.
    pub(super) due: bool,
}

impl PauseAgreement {
    /// *Collective.* Creates the agreement for peers that train by a strategy.
    pub(super) fn new(cluster: &Cluster, strategy: &Strategy) -> Self {
        let mode = if cluster.size() > 1 && is_free_running(strategy) {
            let channel = cluster.next_channel(ChannelOwner::Training);
            let receiver = cluster.open_channel(channel, Lane::Control);
            VoteMode::ByMessage { channel, receiver, asked: None }
        } else {
            VoteMode::Together { next: 1, last: (0, cluster.env().now()) }
        };
        Self { cluster: cluster.clone(), mode, votes: 0, target: None, pending: PauseWishes::default() }
    }

    /// Begins an epoch, or continues one, at `step`.
    pub(super) fn begin(&mut self, step: u64) {
        let now = self.cluster.env().now();
        if let VoteMode::Together { next, last } = &mut self.mode {
            (*next, *last) = (step + 1, (step, now));
        }
    }

    /// *Collective* over the steps of an epoch: each peer calls it after each of its steps. Returns
    /// the wishes of all peers if they are at the same step and have voted, as they do at the end.
    pub(super) fn poll(
        &mut self,
        point: PausePoint,
        mut wishes: impl FnMut() -> PauseWishes,
    ) -> Result<Option<PauseWishes>> {
        let PausePoint { step, end, due } = point;
        loop {
            let own = match self.target {
                Some(target) => (step >= target).then(&mut wishes),
                None if step == end || due => Some(wishes()),
                None => self.wants_vote(step, &mut wishes)?,
            };
            let Some(mut own) = own else { return Ok(None) };
            own.save |= due;
            let votes = self.cluster.all_gather(Vote { step, wishes: own, interval: self.interval(step) })?;
            self.votes += 1;
            self.pending.add(&votes);
            let target = votes.iter().map(|vote| vote.step).max().unwrap_or(step);
            if votes.iter().any(|vote| vote.step != target) {
                self.target = Some(target);
                continue;
            }
            self.target = None;
            let now = self.cluster.env().now();
            if let VoteMode::Together { next, last } = &mut self.mode {
                (*next, *last) = (step + votes[0].interval.max(1), (step, now));
            }
            return Ok(Some(std::mem::take(&mut self.pending)));
        }
    }

    /// Returns the wishes of this peer if it votes at `step`.
    fn wants_vote(&mut self, step: u64, wishes: &mut impl FnMut() -> PauseWishes) -> Result<Option<PauseWishes>> {
        let (channel, receiver, asked) = match &mut self.mode {
            // A vote of one peer costs nothing.
            VoteMode::Together { next, .. } => {
                return Ok((step >= *next || self.cluster.size() == 1).then(wishes));
            }
            VoteMode::ByMessage { channel, receiver, asked } => (*channel, receiver, asked),
        };
        let mut asked_by_others = false;
        while let Some(message) = receiver.try_receive() {
            asked_by_others |= message.payload[..] == self.votes.to_le_bytes();
        }
        let own = wishes();
        if own.any() && *asked != Some(self.votes) {
            *asked = Some(self.votes);
            for peer in Rank::all(self.cluster.size()).filter(|peer| *peer != self.cluster.rank()) {
                let payload = self.votes.to_le_bytes().to_vec().into();
                let (lane, purpose) = (Lane::Control, Purpose::Custom);
                self.cluster.send(peer, OutgoingMessage { lane, channel, purpose, payload })?;
            }
        }
        Ok((own.any() || asked_by_others).then_some(own))
    }

    /// Number of steps that take about [`VOTE_SECONDS`].
    fn interval(&self, step: u64) -> u64 {
        let VoteMode::Together { last: (since, start), .. } = &self.mode else { return 1 };
        let seconds = (self.cluster.env().now() - *start).as_secs_f64() / step.saturating_sub(*since).max(1) as f64;
        (VOTE_SECONDS / seconds.max(1e-6)) as u64
    }
}

/// Returns whether peers never wait for each other within an epoch.
fn is_free_running(strategy: &Strategy) -> bool {
    let is_free = |synchronizer: &Synchronizer| match synchronizer {
        Synchronizer::Table { consistency } => *consistency == TableConsistency::Async,
        Synchronizer::Gossip(plan) => plan.synchronization == GossipSync::Asynchronous,
        _ => false,
    };
    let mut nodes = strategy.plans.iter().flat_map(|plan| &plan.nodes);
    !strategy.plans.is_empty() && nodes.all(|node| is_free(&node.synchronizer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_strategy::{Partitioning, StrategyNode, VariablePlan, VariableSpec};

    fn strategy(free: bool) -> Strategy {
        let consistency = if free { TableConsistency::Async } else { TableConsistency::Bsp };
        let node = StrategyNode {
            synchronizer: Synchronizer::Table { consistency },
            ..StrategyNode::parameter_server(Rank::ROOT)
        };
        let plan = VariablePlan {
            variable: "w".to_owned(),
            shape: vec![1],
            partitioning: Partitioning::whole(&VariableSpec::dense("w", [1])),
            nodes: vec![node],
        };
        Strategy::new(3, Rank::all(3).collect(), vec![plan])
    }

    /// Runs an epoch of 40 steps, of which `wishes` are those of a peer at a step. Returns the step
    /// and the wishes of each vote that decided.
    fn epoch(free: bool, due: u64, wishes: impl Fn(usize, u64) -> PauseWishes + Sync) -> Vec<Vec<(u64, PauseWishes)>> {
        let run = hemiola_cluster::standalone(3).run(|cluster| {
            let mut agreement = PauseAgreement::new(cluster, &strategy(free));
            let (rank, mut decided) = (cluster.rank().index(), Vec::new());
            agreement.begin(0);
            for step in 1..=40 {
                let point = PausePoint { step, end: 40, due: step % due == 0 && step < 40 };
                decided.extend(agreement.poll(point, || wishes(rank, step))?.map(|wishes| (step, wishes)));
            }
            Ok(decided)
        });
        run.unwrap()
    }

    #[test]
    fn a_wish_of_one_peer_pauses_all_at_the_same_step() {
        for free in [false, true] {
            let decided = epoch(free, 1000, |rank, step| {
                let stop = (rank == 1 && step >= 7).then_some(StopRequestCause::Request);
                PauseWishes { stop, ..PauseWishes::default() }
            });
            assert!(decided.iter().all(|peer| *peer == decided[0]), "{decided:?}");
            let (step, _) = decided[0].iter().find(|(_, wishes)| wishes.stop.is_some()).unwrap();
            assert!(*step >= 7, "{decided:?}");
            assert_eq!(decided[0].last().unwrap().0, 40, "all vote at the end");
        }
    }

    #[test]
    fn checkpoints_by_steps_are_at_those_steps() {
        for free in [false, true] {
            let decided = epoch(free, 16, |_, _| PauseWishes::default());
            assert!(decided.iter().all(|peer| *peer == decided[0]), "{decided:?}");
            let saves: Vec<u64> = decided[0].iter().filter(|(_, wishes)| wishes.save).map(|(step, _)| *step).collect();
            assert_eq!(saves, [16, 32]);
        }
    }

    #[test]
    fn checkpoints_by_time_are_decided_by_peer_0() {
        let decided = epoch(false, 1000, |rank, _| PauseWishes { save: rank == 2, ..PauseWishes::default() });
        assert!(decided.iter().flatten().all(|(_, wishes)| !wishes.any()), "{decided:?}");
        let decided =
            epoch(true, 1000, |rank, step| PauseWishes { save: rank == 0 && step == 9, ..PauseWishes::default() });
        assert!(decided[2].iter().any(|(step, wishes)| *step >= 9 && wishes.save), "{decided:?}");
    }
}
