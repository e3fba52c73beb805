//! A worker on the ring: receives blocks, runs their jobs, passes them on.

use super::RotationProgram;
use crate::error::Error;
use crate::plan::ring::RingPosition;
use crate::result_exchange::encode;
use hemiola_cluster::{ChannelReceiver, Cluster, WaitReason, panic_message};
use hemiola_core::{ChannelId, Lane, OutgoingMessage, Purpose, Rank, Waiter, WorkerId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Message from a worker to the next.
#[derive(Serialize, Deserialize)]
pub(super) enum RingMessage<J> {
    Block {
        home: usize,
        block: usize,
        jobs: Vec<J>,
    },
    /// The sender, or a worker before it, has failed.
    Stop,
}

/// Link of the ring: a queue of this peer, or another peer.
pub(super) enum RingLink<Q, P> {
    Queue(Q),
    Peer(P),
}

/// Link from the previous worker, and link to the next one.
type IncomingLink<'s, J> = RingLink<Receiver<RingMessage<J>>, (Rank, &'s ChannelReceiver)>;
type OutgoingLink<J> = RingLink<Sender<RingMessage<J>>, (Rank, ChannelId)>;

/// Reason why a worker stopped before the end.
pub(super) enum StopReason {
    /// The worker failed; the error is reported to all peers.
    Failed(Error),
    /// Another worker failed and sent a stop message.
    Propagated,
    /// The connection to other peers is lost.
    Lost(hemiola_cluster::Error),
}

impl StopReason {
    /// Returns the more informative of two reasons.
    pub(super) fn or(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Propagated, _) | (Self::Failed(_), Self::Lost(_)) => other,
            _ => self,
        }
    }

    /// Text to report to other peers.
    pub(super) fn reason(&self) -> Option<String> {
        match self {
            Self::Failed(error) => Some(error.to_string()),
            Self::Propagated => None,
            Self::Lost(error) => Some(error.to_string()),
        }
    }
}

impl From<hemiola_cluster::Error> for StopReason {
    fn from(error: hemiola_cluster::Error) -> Self {
        Self::Lost(error)
    }
}

pub(super) struct RingWorker<'s, P: RotationProgram> {
    cluster: &'s Cluster,
    worker: usize,
    program: &'s P,
    rotation: u64,
    position: RingPosition,
    /// Blocks that have arrived and not run, in the order of [`RingPosition::next`].
    queued: VecDeque<Vec<P::Job>>,
    /// Own blocks that have come back, by number.
    returned: BTreeMap<usize, Vec<P::Job>>,
    own: &'s mut P::WorkerState,
    partial: P::Partial,
    incoming: IncomingLink<'s, P::Job>,
    outgoing: OutgoingLink<P::Job>,
}

impl<'s, P: RotationProgram> RingWorker<'s, P> {
    #[expect(clippy::too_many_arguments, reason = "called once, with values in scope there")]
    pub(super) fn new(
        cluster: &'s Cluster,
        worker: usize,
        (program, rotation): (&'s P, u64),
        position: RingPosition,
        home: Vec<Vec<P::Job>>,
        own: &'s mut P::WorkerState,
        incoming: IncomingLink<'s, P::Job>,
        outgoing: OutgoingLink<P::Job>,
    ) -> Self {
        let (queued, returned, partial) = (home.into(), BTreeMap::new(), P::Partial::default());
        Self { cluster, worker, program, rotation, position, queued, returned, own, partial, incoming, outgoing }
    }

    /// Returns the worker's own blocks, if they have come back, and its result.
    pub(super) fn into_results(self) -> (Vec<Vec<P::Job>>, P::Partial) {
        let alone = self.queued.into_iter();
        (self.returned.into_values().chain(alone).collect(), self.partial)
    }

    /// Runs a range of steps: in step `k` the blocks of the position `k` before this one. In the
    /// last step its own blocks come back. Returns the computing time.
    pub(super) fn run(&mut self, steps: Range<usize>) -> Result<Duration, StopReason> {
        let outcome = self.run_steps(steps);
        if outcome.is_err() {
            // If the next worker is gone, it has failed, too.
            let _ = self.send_on(RingMessage::Stop);
        }
        outcome
    }

    fn run_steps(&mut self, steps: Range<usize>) -> Result<Duration, StopReason> {
        let mut busy = Duration::ZERO;
        for step in steps {
            for _ in 0..self.position.blocks_of(step) {
                if step > 0 {
                    self.receive_block()?;
                }
                if step < self.position.ring_size() {
                    busy += self.run_block()?;
                }
            }
        }
        Ok(busy)
    }

    /// Waits for the next block.
    fn receive_block(&mut self) -> Result<(), StopReason> {
        // On a ring of one position, blocks stay.
        if self.position.expected_block().is_none() {
            return Ok(());
        }
        let reason = WaitReason { operation: "a block of rotation", number: Some(self.rotation), site: None };
        let waiter = Waiter::Worker(WorkerId::new(self.worker as u32));
        let message = match &self.incoming {
            RingLink::Queue(queue) => {
                let _waiting = self.cluster.waiting(waiter, reason, None);
                match queue.recv_timeout(self.cluster.deadlines().wait) {
                    Ok(message) => message,
                    Err(RecvTimeoutError::Disconnected) => RingMessage::Stop,
                    Err(RecvTimeoutError::Timeout) => {
                        let reason = format!("{reason} from the previous worker");
                        return Err(StopReason::Lost(self.cluster.peer_handle().timed_out(&reason, "")));
                    }
                }
            }
            RingLink::Peer((from, receiver)) => {
                let message = self.cluster.receive(receiver, *from, waiter, reason)?;
                let invalid = |error: postcard::Error| {
                    let (round, reason) = (self.rotation, error.to_string());
                    StopReason::Failed(Error::InvalidMessage { round, rank: *from, reason })
                };
                postcard::from_bytes(&message.payload).map_err(invalid)?
            }
        };
        let RingMessage::Block { home, block, jobs } = message else { return Err(StopReason::Propagated) };
        let out_of_order = |error: crate::plan::ring::OutOfOrderBlock| {
            let (round, rank, reason) = (self.rotation, self.cluster.rank(), error.to_string());
            StopReason::Failed(Error::InvalidMessage { round, rank, reason })
        };
        if self.position.accept_block(home, block).map_err(out_of_order)? {
            self.returned.insert(block, jobs);
        } else {
            self.queued.push_back(jobs);
        }
        Ok(())
    }

    /// Runs the jobs of the next block and passes it on. Returns the computing time.
    fn run_block(&mut self) -> Result<Duration, StopReason> {
        let (Some((home, block)), Some(mut jobs)) = (self.position.next(), self.queued.pop_front()) else {
            return Ok(Duration::ZERO);
        };
        let start = self.cluster.env().now();
        let mut at = 0;
        let (program, own, partial) = (self.program, &mut *self.own, &mut self.partial);
        let done = catch_unwind(AssertUnwindSafe(|| {
            for job in &mut jobs {
                program.update(job, own, partial);
                at += 1;
            }
        }));
        if let Err(panic) = done {
            let (round, rank, message) = (self.rotation, self.cluster.rank(), panic_message(&*panic));
            let job = jobs.get(at).map(|job| format!("{job:?}")).unwrap_or_default();
            return Err(StopReason::Failed(Error::JobPanicked { job, round, rank, message }));
        }
        let busy = self.cluster.env().now() - start;
        self.position.finish_block();
        if self.position.ring_size() == 1 {
            self.queued.push_back(jobs);
        } else {
            self.send_on(RingMessage::Block { home, block, jobs })?;
        }
        Ok(busy)
    }

    fn send_on(&self, message: RingMessage<P::Job>) -> Result<(), StopReason> {
        match &self.outgoing {
            RingLink::Queue(queue) => queue.send(message).map_err(|_| StopReason::Propagated),
            RingLink::Peer((to, channel)) => {
                let payload = encode(&message)?.into();
                let message =
                    OutgoingMessage { lane: Lane::Bulk, channel: *channel, purpose: Purpose::Rotation, payload };
                Ok(self.cluster.send(*to, message)?)
            }
        }
    }
}
