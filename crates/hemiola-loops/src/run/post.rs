//! What travels between peers while a loop runs, and the driver that receives it while workers compute.
//!
//! **Blocks.** Peers form a ring. In a rotation each sends its time blocks to the peer before it, in a wavefront to the peer
//! after it; in both, every peer sends every time block once and receives every time block once, in an order both ends know.
//! A block is sent by the worker that has run it, as soon as it has. It is what has changed in rows that two peers share
//! (`halo`), the rows of every travelling array, in pieces, and then a token; so blocks without rows travel too.
//!
//! **Requests.** Workers ask the owners of rows for them; drivers answer. Each worker has a mailbox for answers. A peer whose
//! workers have ended says so to all others: when all have, nobody will ask any more.
//!
//! A peer that fails says stop, to the next in the ring, or to all where rows are served; whoever hears it first passes it on.
//! Blocks that are on their way then are still taken in: a peer that has stopped says when its workers have ended, and its
//! receiver listens until then. So every row is on some peer when a pass has failed, and arrays can be put together again.

use super::stages::Stages;
use crate::arrays::{Arrays, Piece};
use crate::halo::Change;
use crate::plan::route::Route;
use crate::plan::{Cuts, Placement};
use hemiola_cluster::{Cluster, Mailbox, Reason, Result};
use hemiola_core::{ChannelId, Lane, Outgoing, Payload, Purpose, Rank, Waiter, WorkerId};
use hemiola_tables_proto::rows;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Top byte of the channels that belong to loops.
const OWNER: u8 = 4;

/// What stands in front of a message to a driver.
#[derive(Debug, Serialize, Deserialize)]
enum Head {
    Piece(Piece),
    /// Rows that the sender shares with this peer have changed.
    Change(Change),
    /// All rows of a time block have been sent.
    Token {
        time: usize,
    },
    /// Rows are wanted, on a channel of the sender.
    Get {
        array: usize,
        answer: u64,
    },
    /// The workers of the sender have ended: they ask for no more.
    Done,
    /// The sender, or one before it, has failed.
    Stop,
}

/// How workers ask for rows.
pub(crate) struct Requests {
    channel: ChannelId,
    /// By worker: where answers come.
    pub(crate) answers: Vec<Mailbox>,
    channels: Vec<ChannelId>,
}

impl Requests {
    /// Asks the owner of ascending rows for them.
    pub(crate) fn ask(
        &self,
        cluster: &Cluster,
        owner: Rank,
        worker: WorkerId,
        array: usize,
        wanted: &[u64],
    ) -> Result<()> {
        let mut bytes = encoded(&Head::Get { array, answer: self.channels[worker.index()].number() });
        rows::pack(wanted, &mut bytes);
        let message = Outgoing {
            lane: Lane::Bulk,
            channel: self.channel,
            purpose: Purpose::Served,
            payload: Payload::from(bytes),
        };
        cluster.send(owner, message)
    }
}

/// What a driver waits for.
struct Expected {
    /// Time blocks that will come, in order, with the stage each has then.
    due: VecDeque<(usize, usize)>,
    /// Arrays whose rows of the next block have all come.
    complete: usize,
    /// Peers that will say when their workers have ended.
    working: Vec<Rank>,
}

pub(crate) struct Post<'l> {
    cluster: &'l Cluster,
    cuts: &'l Cuts,
    channel: ChannelId,
    mailbox: Mailbox,
    /// Present if rows are served.
    pub(crate) requests: Option<Arc<Requests>>,
    stop_sent: AtomicBool,
    done_sent: AtomicBool,
    /// Workers that have not ended.
    working: AtomicUsize,
}

impl<'l> Post<'l> {
    /// *Collective.* The post of a pass; `None` if nothing travels.
    pub(crate) fn new(cluster: &'l Cluster, cuts: &'l Cuts, placements: &[Placement], workers: usize) -> Option<Self> {
        let ring = Route::new(cuts, cluster.rank(), cluster.size()).is_ring();
        let serves = cuts.peers_used > 1 && placements.contains(&Placement::Served);
        if !ring && !serves {
            return None;
        }
        let channel = cluster.next_channel(OWNER);
        let mailbox = cluster.open(channel, Lane::Bulk);
        let requests = serves.then(|| {
            // As many channels on every peer, so that all count alike.
            let channels: Vec<_> = (0..workers).map(|_| cluster.next_channel(OWNER)).collect();
            let answers = channels.iter().map(|channel| cluster.open(*channel, Lane::Bulk)).collect();
            Arc::new(Requests { channel, answers, channels })
        });
        let working = AtomicUsize::new(cluster.workers());
        let (stop_sent, done_sent) = (AtomicBool::new(false), AtomicBool::new(false));
        Some(Self { cluster, cuts, channel, mailbox, requests, stop_sent, done_sent, working })
    }

    fn route(&self) -> Route<'_> {
        Route::new(self.cuts, self.cluster.rank(), self.cluster.size())
    }

    fn receiver(&self) -> Rank {
        self.route().receiver()
    }

    fn sender(&self) -> Rank {
        self.route().sender()
    }

    fn others(&self) -> impl Iterator<Item = Rank> {
        let me = self.cluster.rank();
        Rank::all(self.cluster.size()).filter(move |peer| *peer != me)
    }

    /// Whether a block goes to another peer after a part of this one has run it.
    pub(crate) fn leaves(&self, part: usize) -> bool {
        self.route().leaves(part)
    }

    /// Sends a time block on, and what it has changed in rows that the receiver shares.
    pub(crate) fn send(&self, arrays: &Arrays<'_>, time: usize) -> Result<()> {
        for (number, array) in arrays.all() {
            for change in array.changes(number, time) {
                self.post(self.receiver(), Purpose::Rotation, change.into())?;
            }
        }
        for (number, array) in arrays.travelling() {
            for piece in array.pack(number, time) {
                self.post(self.receiver(), Purpose::Rotation, piece.into())?;
            }
        }
        self.post(self.receiver(), Purpose::Rotation, encoded(&Head::Token { time }).into())
    }

    fn post(&self, to: Rank, purpose: Purpose, payload: Payload) -> Result<()> {
        self.cluster.send(to, Outgoing { lane: Lane::Bulk, channel: self.channel, purpose, payload })
    }

    /// Tells the others that the pass has failed. Errors do not matter: then they learn it in another way.
    pub(crate) fn send_stop(&self) {
        if self.stop_sent.swap(true, Ordering::SeqCst) {
            return;
        }
        let stop = || encoded(&Head::Stop).into();
        if self.requests.is_some() {
            self.others().for_each(|peer| drop(self.post(peer, Purpose::Served, stop())));
        } else {
            drop(self.post(self.receiver(), Purpose::Rotation, stop()));
        }
        self.maybe_done();
    }

    /// Whether this peer has said stop, or is about to.
    fn has_stopped(&self) -> bool {
        self.stop_sent.load(Ordering::SeqCst)
    }

    /// Says that a worker of this peer has ended; the last one tells the others.
    pub(crate) fn ended(&self) {
        self.working.fetch_sub(1, Ordering::SeqCst);
        self.maybe_done();
    }

    /// Says that no worker of this peer will send anything more, if it is so and somebody waits for it. Called after each
    /// of the two things it depends on, so that the later call sees both.
    fn maybe_done(&self) {
        let ended = self.working.load(Ordering::SeqCst) == 0;
        if !ended || self.requests.is_none() && !self.has_stopped() || self.done_sent.swap(true, Ordering::SeqCst) {
            return;
        }
        let done = || encoded(&Head::Done).into();
        if self.requests.is_some() {
            self.others().for_each(|peer| drop(self.post(peer, Purpose::Served, done())));
        } else {
            drop(self.post(self.receiver(), Purpose::Rotation, done()));
        }
    }

    /// Receives and answers until nothing will come any more, on the driver, while workers run.
    pub(crate) fn drive(&self, arrays: &Arrays<'_>, stages: &Stages) -> Result<()> {
        let mut expected = Expected {
            due: self.route().arrivals(),
            complete: 0,
            working: if self.requests.is_some() { self.others().collect() } else { Vec::new() },
        };
        while !expected.due.is_empty() || !expected.working.is_empty() {
            match self.step(arrays, stages, &mut expected) {
                Ok(()) => {}
                Err(problem) => {
                    self.stop(stages);
                    return Err(problem);
                }
            }
        }
        Ok(())
    }

    /// Ends the pass on this peer, and on those it tells.
    fn stop(&self, stages: &Stages) {
        stages.stop();
        self.send_stop();
    }

    /// Receives one message and does what it asks for.
    fn step(
        &self,
        arrays: &Arrays<'_>,
        stages: &Stages,
        Expected { due, complete, working }: &mut Expected,
    ) -> Result<()> {
        let bad = |problem: &str| hemiola_array::Error::BadMessage { problem: problem.to_owned() };
        let reason = Reason {
            what: if due.is_empty() { "the end of a loop" } else { "block of a loop" },
            number: due.front().map(|(time, _)| *time as u64),
            site: None,
        };
        let message = if self.requests.is_some() {
            self.cluster.receive_any(&self.mailbox, Waiter::Driver, reason)?
        } else {
            self.cluster.receive(&self.mailbox, self.sender(), Waiter::Driver, reason)?
        };
        let (head, rest) = postcard::take_from_bytes(&message.payload).map_err(|error| bad(&error.to_string()))?;
        let expected = due.front().map(|(time, _)| *time);
        match head {
            Head::Piece(piece) if Some(piece.time) == expected && piece.array < arrays.len() => {
                *complete += usize::from(arrays.get(piece.array).unpack(piece, rest)?);
            }
            Head::Change(change) if Some(change.time) == expected && change.array < arrays.len() => {
                arrays.get(change.array).take_in(&change, rest)?;
            }
            Head::Token { time } if Some(time) == expected && *complete == arrays.travelling().count() => {
                *complete = 0;
                if let Some((time, stage)) = due.pop_front() {
                    stages.advance(time, stage);
                }
            }
            Head::Get { array, answer } if array < arrays.len() => {
                let mut cells = Vec::new();
                arrays.get(array).serve(rest, &mut cells)?;
                let channel = ChannelId::new(answer);
                let payload = Payload::from(cells);
                let answer = Outgoing { lane: Lane::Bulk, channel, purpose: Purpose::Served, payload };
                self.cluster.send(message.from, answer)?;
            }
            Head::Done => {
                working.retain(|peer| *peer != message.from);
                if message.from == self.sender() && !due.is_empty() {
                    // It sends no more, and so has stopped, even if it says so later.
                    self.stop(stages);
                    due.clear();
                }
            }
            Head::Stop => {
                self.stop(stages);
                if self.requests.is_none() {
                    // Blocks may still come, until its workers have ended.
                    working.push(message.from);
                }
            }
            _ => return Err(bad("a message that is not due").into()),
        }
        Ok(())
    }
}

fn encoded(head: &Head) -> Vec<u8> {
    postcard::to_stdvec(head).expect("a head is plain data")
}

/// Changed cells as they begin a message.
pub(crate) fn encoded_change(change: Change) -> Vec<u8> {
    encoded(&Head::Change(change))
}

/// The way back, with what follows.
#[cfg(test)]
pub(crate) fn decoded_change(message: &[u8]) -> Option<(Change, &[u8])> {
    match postcard::take_from_bytes(message).ok()? {
        (Head::Change(change), rest) => Some((change, rest)),
        _ => None,
    }
}

/// A piece of a block as it begins a message.
pub(crate) fn encoded_piece(piece: Piece) -> Vec<u8> {
    encoded(&Head::Piece(piece))
}
