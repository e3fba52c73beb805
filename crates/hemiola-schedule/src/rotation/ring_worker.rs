//! A worker on the ring: receives blocks, runs their jobs, passes them on, as its
//! [`RotationNode`] decides.

use super::RotationProgram;
use crate::error::Error;
use crate::plan::rotation_inbox::OutOfOrderBlock;
use crate::plan::rotation_node::{BlockDeparture, RotationNode};
use crate::result_exchange::encode;
use hemiola_cluster::{ChannelReceiver, Cluster, WaitReason, panic_message};
use hemiola_core::{ChannelId, Lane, OutgoingMessage, Purpose, Rank, Waiter, WorkerId};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

/// Message from a worker to the next.
#[derive(Serialize, Deserialize)]
pub(super) enum RingMessage<J> {
    Block {
        rotation: u64,
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
type OutgoingLink<J> = RingLink<SyncSender<RingMessage<J>>, (Rank, ChannelId)>;

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

/// Error of a peer that received a block out of order.
pub(super) fn invalid_block(error: &OutOfOrderBlock, rotation: u64, rank: Rank) -> Error {
    Error::InvalidMessage { round: rotation, rank, reason: error.to_string() }
}

/// Worker at one position of the ring.
pub(super) struct RingWorker<'s, P: RotationProgram> {
    cluster: &'s Cluster,
    worker: usize,
    program: &'s P,
    /// Node of this worker's ring position alone.
    node: RotationNode<Vec<P::Job>>,
    position: usize,
    own: &'s mut P::WorkerState,
    partial: P::Partial,
    incoming: IncomingLink<'s, P::Job>,
    outgoing: OutgoingLink<P::Job>,
}

impl<'s, P: RotationProgram> RingWorker<'s, P> {
    pub(super) fn new(
        cluster: &'s Cluster,
        worker: usize,
        program: &'s P,
        node: RotationNode<Vec<P::Job>>,
        own: &'s mut P::WorkerState,
        incoming: IncomingLink<'s, P::Job>,
        outgoing: OutgoingLink<P::Job>,
    ) -> Self {
        let (position, partial) = (node.segment().positions().start, P::Partial::default());
        Self { cluster, worker, program, node, position, own, partial, incoming, outgoing }
    }

    /// Returns the node with the worker's own blocks, if they have come back, and its result.
    pub(super) fn into_results(self) -> (RotationNode<Vec<P::Job>>, P::Partial) {
        (self.node, self.partial)
    }

    /// Runs the blocks of a range of stages. In the last stage of a rotation, own blocks come back.
    /// Returns the computing time.
    pub(super) fn run(&mut self, stages: Range<usize>) -> Result<Duration, StopReason> {
        let outcome = self.run_stages(stages);
        if outcome.is_err() && self.node.on_stop() {
            // If the next worker is gone, it has failed, too.
            let _ = self.send_on(RingMessage::Stop);
        }
        outcome
    }

    fn run_stages(&mut self, stages: Range<usize>) -> Result<Duration, StopReason> {
        let mut busy = Duration::ZERO;
        for stage in stages {
            let ring = self.node.segment().ring();
            let (size, blocks) = (ring.size(), ring.blocks_of(ring.home_at(self.position, stage)));
            for _ in blocks {
                if stage > 0 {
                    self.receive_block()?;
                }
                if stage < size {
                    busy += self.run_block()?;
                }
            }
        }
        Ok(busy)
    }

    /// Waits for the next block.
    fn receive_block(&mut self) -> Result<(), StopReason> {
        // On a ring of one position, blocks stay.
        if self.node.inbox().expected().is_none() {
            return Ok(());
        }
        let reason = WaitReason { operation: "a block of rotation", number: Some(self.node.rotation()), site: None };
        let waiter = Waiter::Worker(WorkerId::new(self.worker as u32));
        let message = match &self.incoming {
            RingLink::Queue(queue) => {
                let _waiting = self.cluster.waiting(waiter, reason, None);
                let (peer_handle, start) = (self.cluster.peer_handle(), self.cluster.env().now());
                loop {
                    let left = peer_handle.time_left(start, None);
                    if left.is_zero() {
                        let reason = format!("{reason} from the previous worker");
                        return Err(StopReason::Lost(peer_handle.timed_out(&reason, "")));
                    }
                    match queue.recv_timeout(left) {
                        Ok(message) => break message,
                        Err(RecvTimeoutError::Disconnected) => break RingMessage::Stop,
                        Err(RecvTimeoutError::Timeout) => {}
                    }
                }
            }
            RingLink::Peer((from, receiver)) => {
                let message = self.cluster.receive(receiver, *from, waiter, reason)?;
                let invalid = |error: postcard::Error| {
                    let (round, reason) = (self.node.rotation(), error.to_string());
                    StopReason::Failed(Error::InvalidMessage { round, rank: *from, reason })
                };
                postcard::from_bytes(&message.payload).map_err(invalid)?
            }
        };
        let RingMessage::Block { rotation, block, jobs } = message else { return Err(StopReason::Propagated) };
        // All peers meet between rotations, so a block of the next one cannot be early here.
        if rotation != self.node.rotation() {
            let (round, rank) = (self.node.rotation(), self.cluster.rank());
            let reason = format!("block {block} of rotation {rotation} arrived in rotation {round}");
            return Err(StopReason::Failed(Error::InvalidMessage { round, rank, reason }));
        }
        let invalid = |error| StopReason::Failed(invalid_block(&error, rotation, self.cluster.rank()));
        self.node.on_block(rotation, block, jobs).map_err(invalid)
    }

    /// Runs the jobs of the next block and passes it on. Returns the computing time.
    fn run_block(&mut self) -> Result<Duration, StopReason> {
        let Some((_, mut jobs)) = self.node.start_block(self.position) else { return Ok(Duration::ZERO) };
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
            let (round, rank, message) = (self.node.rotation(), self.cluster.rank(), panic_message(&*panic));
            let job = jobs.get(at).map(|job| format!("{job:?}")).unwrap_or_default();
            return Err(StopReason::Failed(Error::JobPanicked { job, round, rank, message }));
        }
        let busy = self.cluster.env().now() - start;
        let departure = self.node.finish_block(self.position, jobs);
        if let Some(BlockDeparture { rotation, block, content: jobs, .. }) = departure {
            self.send_on(RingMessage::Block { rotation, block, jobs })?;
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
