//! Messages between peers while a loop runs, and the driver that receives them while workers
//! compute.
//!
//! A block is sent by the worker that has run it, immediately afterwards: the changed cells of rows
//! that two peers share (`halo`), the rows of every rotating array in pieces, and a final token.
//! **Invariant:** blocks in flight are received even after a failure, so every row is on some peer
//! and arrays can be reassembled. See README.md, sections Messages, Failure and Races.

use super::row_requests::RowRequests;
use super::stages::BlockStages;
use crate::arrays::{BlockPiece, LoopArrays};
use crate::halo::HaloChange;
use crate::plan::route::BlockRoute;
use crate::plan::{ArrayPlacement, Cuts};
use hemiola_cluster::{ChannelReceiver, Cluster, Result, WaitReason};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Payload, Purpose, Rank, Waiter};
use hemiola_schedule::plan::rotation_inbox::RotationInbox;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Header of a message to a driver. Cells or rows may follow it.
#[derive(Debug, Serialize, Deserialize)]
enum LoopMessage {
    Piece(BlockPiece),
    /// Cells changed in rows that the sender shares with this peer.
    Change(HaloChange),
    /// Ends a time block: all its rows have been sent.
    Token {
        time: usize,
    },
    /// Requests rows of a served array: a `RowRequest` follows.
    Get,
    /// The workers of the sender have ended and send nothing more.
    Done,
    /// The pass has failed on the sender or on a peer before it.
    Stop,
}

/// Messages that the driver still expects.
struct ExpectedMessages {
    /// Time blocks that will arrive, and whether the sender will send more.
    inbox: RotationInbox,
    /// Arrays whose rows of the next block have arrived completely.
    complete_arrays: usize,
    /// Peers that have yet to send `Done`.
    running_peers: Vec<Rank>,
}

/// Network endpoint of a loop on this peer, for one pass.
pub(crate) struct LoopEndpoint<'l> {
    cluster: &'l Cluster,
    route: BlockRoute,
    channel: ChannelId,
    messages: ChannelReceiver,
    /// Present if rows are served.
    pub(crate) requests: Option<Arc<RowRequests>>,
    stop_sent: AtomicBool,
    done_sent: AtomicBool,
    /// Workers of this peer that have not ended.
    running_workers: AtomicUsize,
}

impl<'l> LoopEndpoint<'l> {
    /// *Collective.* Opens the endpoint of a pass. `None` if the plan sends no messages.
    pub(crate) fn new(
        cluster: &'l Cluster,
        cuts: &Cuts,
        placements: &[ArrayPlacement],
        workers: usize,
    ) -> Option<Self> {
        let route = BlockRoute::new(cuts, cluster.rank());
        let serves = cuts.peers_used > 1 && placements.contains(&ArrayPlacement::Served);
        if !route.segment().has_links() && !serves {
            return None;
        }
        let channel = cluster.next_channel(ChannelOwner::Loops);
        let messages = cluster.open_channel(channel, Lane::Bulk);
        let requests =
            serves.then(|| Arc::new(RowRequests::open(cluster, channel, workers, encode(&LoopMessage::Get))));
        let running_workers = AtomicUsize::new(cluster.workers());
        let (stop_sent, done_sent) = (AtomicBool::new(false), AtomicBool::new(false));
        Some(Self { cluster, route, channel, messages, requests, stop_sent, done_sent, running_workers })
    }

    fn receiver(&self) -> Rank {
        self.route.receiver()
    }

    fn sender(&self) -> Rank {
        self.route.sender()
    }

    fn others(&self) -> impl Iterator<Item = Rank> {
        let me = self.cluster.rank();
        Rank::all(self.cluster.size()).filter(move |peer| *peer != me)
    }

    /// True if a block moves to another peer after a part of this one has run it.
    pub(crate) fn sends_after(&self, part: usize) -> bool {
        self.route.segment().leaves_after(part)
    }

    /// Sends a time block to the next peer of the route, with its changes of shared rows.
    pub(crate) fn send(&self, arrays: &LoopArrays<'_>, time: usize) -> Result<()> {
        for (number, array) in arrays.all() {
            for change in array.halo_changes(number, time) {
                self.send_message(self.receiver(), Purpose::Rotation, change.into())?;
            }
        }
        for (number, array) in arrays.rotating() {
            for piece in array.pack(number, time) {
                self.send_message(self.receiver(), Purpose::Rotation, piece.into())?;
            }
        }
        self.send_message(self.receiver(), Purpose::Rotation, encode(&LoopMessage::Token { time }).into())
    }

    fn send_message(&self, to: Rank, purpose: Purpose, payload: Payload) -> Result<()> {
        self.cluster.send(to, OutgoingMessage { lane: Lane::Bulk, channel: self.channel, purpose, payload })
    }

    /// Notifies other peers that the pass has failed. Send errors are ignored: a lost peer is
    /// detected elsewhere.
    pub(crate) fn send_stop(&self) {
        if self.stop_sent.swap(true, Ordering::SeqCst) {
            return;
        }
        let stop = || encode(&LoopMessage::Stop).into();
        if self.requests.is_some() {
            self.others().for_each(|peer| drop(self.send_message(peer, Purpose::Served, stop())));
        } else {
            drop(self.send_message(self.receiver(), Purpose::Rotation, stop()));
        }
        self.send_done_if_finished();
    }

    /// True if this peer has sent `Stop`, or is about to.
    fn has_stopped(&self) -> bool {
        self.stop_sent.load(Ordering::SeqCst)
    }

    /// Notes that a worker of this peer has ended. The last one notifies the other peers.
    pub(crate) fn worker_finished(&self) {
        self.running_workers.fetch_sub(1, Ordering::SeqCst);
        self.send_done_if_finished();
    }

    /// Sends `Done` if no worker of this peer will send anything more and a peer waits for it.
    /// Called after each of the two events it depends on, so that the later call sees both.
    fn send_done_if_finished(&self) {
        let ended = self.running_workers.load(Ordering::SeqCst) == 0;
        if !ended || self.requests.is_none() && !self.has_stopped() || self.done_sent.swap(true, Ordering::SeqCst) {
            return;
        }
        let done = || encode(&LoopMessage::Done).into();
        if self.requests.is_some() {
            self.others().for_each(|peer| drop(self.send_message(peer, Purpose::Served, done())));
        } else {
            drop(self.send_message(self.receiver(), Purpose::Rotation, done()));
        }
    }

    /// Receives and answers messages on the driver, while workers run, until no more are expected.
    pub(crate) fn receive_all(&self, arrays: &LoopArrays<'_>, stages: &BlockStages) -> Result<()> {
        let mut expected = ExpectedMessages {
            inbox: RotationInbox::new(self.route.segment().clone(), 0),
            complete_arrays: 0,
            running_peers: if self.requests.is_some() { self.others().collect() } else { Vec::new() },
        };
        while !expected.inbox.is_done() || !expected.running_peers.is_empty() {
            match self.handle_message(arrays, stages, &mut expected) {
                Ok(()) => {}
                Err(problem) => {
                    self.stop(stages);
                    return Err(problem);
                }
            }
        }
        Ok(())
    }

    /// Stops the pass on this peer and notifies others.
    fn stop(&self, stages: &BlockStages) {
        stages.stop();
        self.send_stop();
    }

    /// Receives and handles one message.
    fn handle_message(
        &self,
        arrays: &LoopArrays<'_>,
        stages: &BlockStages,
        ExpectedMessages { inbox, complete_arrays: complete, running_peers: working }: &mut ExpectedMessages,
    ) -> Result<()> {
        let bad = |problem: &str| hemiola_array::Error::BadMessage { problem: problem.to_owned() };
        let expected = inbox.expected().map(|visit| visit.block);
        let reason = WaitReason {
            operation: if expected.is_none() { "end of a loop" } else { "block of a loop" },
            number: expected.map(|time| time as u64),
            site: None,
        };
        let message = if self.requests.is_some() {
            self.cluster.receive_any(&self.messages, Waiter::Driver, reason)?
        } else {
            self.cluster.receive(&self.messages, self.sender(), Waiter::Driver, reason)?
        };
        let (head, rest) = postcard::take_from_bytes(&message.payload).map_err(|error| bad(&error.to_string()))?;
        match head {
            LoopMessage::Piece(piece) if Some(piece.time) == expected && piece.array < arrays.len() => {
                *complete += usize::from(arrays.get(piece.array).unpack(piece, rest)?);
            }
            LoopMessage::Change(change) if Some(change.time) == expected && change.array < arrays.len() => {
                arrays.get(change.array).apply_halo_change(&change, rest)?;
            }
            LoopMessage::Token { time } if *complete == arrays.rotating().count() => {
                *complete = 0;
                let visit = inbox.on_block(time).map_err(|error| bad(&error.to_string()))?;
                stages.advance(visit.block, visit.stage);
            }
            LoopMessage::Get if let Some(requests) = &self.requests => {
                requests.answer(self.cluster, arrays, message.from, rest)?;
            }
            LoopMessage::Done => {
                working.retain(|peer| *peer != message.from);
                // A sender that will not send missing blocks has stopped, even if its `Stop` comes
                // later.
                if message.from == self.sender() && inbox.on_done() {
                    self.stop(stages);
                }
            }
            LoopMessage::Stop => {
                self.stop(stages);
                // Blocks may still arrive until the workers of the sender have ended.
                inbox.on_stop();
            }
            _ => return Err(bad("unexpected loop message").into()),
        }
        Ok(())
    }
}

fn encode(head: &LoopMessage) -> Vec<u8> {
    postcard::to_stdvec(head).expect("a message header is plain data")
}

/// Header of a message of changed cells.
pub(crate) fn encode_change(change: HaloChange) -> Vec<u8> {
    encode(&LoopMessage::Change(change))
}

/// Splits a message of changed cells into its header and its cells.
#[cfg(test)]
pub(crate) fn decode_change(message: &[u8]) -> Option<(HaloChange, &[u8])> {
    match postcard::take_from_bytes(message).ok()? {
        (LoopMessage::Change(change), rest) => Some((change, rest)),
        _ => None,
    }
}

/// Header of a message with rows of a block.
pub(crate) fn encode_piece(piece: BlockPiece) -> Vec<u8> {
    encode(&LoopMessage::Piece(piece))
}
