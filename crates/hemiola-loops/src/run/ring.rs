//! Blocks that travel between peers.
//!
//! Peers form a ring. In a rotation each sends its time blocks to the peer before it, in a wavefront to the peer after it;
//! in both, every peer sends every time block once and receives every time block once, in an order both ends know. A block
//! is sent by the worker that has run it, as soon as it has, and received by the driver while workers compute.
//!
//! A time block is the rows of every travelling array, in pieces, and then a token; so blocks without rows travel too. A
//! peer that fails sends a stop instead, which goes round until all know.

use super::stages::Stages;
use crate::arrays::{Arrays, Piece};
use crate::plan::{Cuts, Schedule};
use hemiola_cluster::{Cluster, Mailbox, Reason, Result};
use hemiola_core::{ChannelId, Lane, Outgoing, Purpose, Rank, Waiter};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// Top byte of the channels that belong to loops.
pub(crate) const OWNER: u8 = 4;

/// What stands in front of a message.
#[derive(Debug, Serialize, Deserialize)]
enum Head {
    Piece(Piece),
    /// All rows of a time block have been sent.
    Token { time: usize },
    /// The sender, or one before it, has failed.
    Stop,
}

pub(crate) struct Ring<'l> {
    cluster: &'l Cluster,
    cuts: &'l Cuts,
    channel: ChannelId,
    mailbox: Mailbox,
    stop_sent: AtomicBool,
}

impl<'l> Ring<'l> {
    /// *Collective.* The ring of a pass; nothing travels if one peer runs all blocks.
    pub(crate) fn new(cluster: &'l Cluster, cuts: &'l Cuts) -> Option<Self> {
        if cuts.peers_used == 1 || cuts.schedule == Schedule::Independent {
            return None;
        }
        let channel = cluster.next_channel(OWNER);
        let mailbox = cluster.open(channel, Lane::Bulk);
        Some(Self { cluster, cuts, channel, mailbox, stop_sent: AtomicBool::new(false) })
    }

    fn neighbour(&self, ahead: bool) -> Rank {
        let (me, size) = (self.cluster.rank().index(), self.cluster.size());
        Rank::new(((me + if ahead { 1 } else { size - 1 }) % size) as u32)
    }

    fn receiver(&self) -> Rank {
        self.neighbour(self.cuts.schedule == Schedule::Wavefront)
    }

    fn sender(&self) -> Rank {
        self.neighbour(self.cuts.schedule != Schedule::Wavefront)
    }

    /// Whether a block goes to another peer after a part of this one has run it.
    pub(crate) fn leaves(&self, part: usize) -> bool {
        let parts = self.cuts.parts_of(self.cluster.rank());
        match self.cuts.schedule {
            Schedule::Wavefront => part + 1 == parts.end,
            _ => part == parts.start,
        }
    }

    /// Sends a time block on.
    pub(crate) fn send(&self, arrays: &Arrays<'_>, time: usize) -> Result<()> {
        for (number, array) in arrays.travelling() {
            for piece in array.pack(number, time) {
                self.post(piece.into())?;
            }
        }
        self.post(encoded(&Head::Token { time }).into())
    }

    fn post(&self, payload: hemiola_core::Payload) -> Result<()> {
        let message = Outgoing { lane: Lane::Bulk, channel: self.channel, purpose: Purpose::Rotation, payload };
        self.cluster.send(self.receiver(), message)
    }

    /// Tells the others that the pass has failed. Errors do not matter: then they learn it in another way.
    pub(crate) fn send_stop(&self) {
        if !self.stop_sent.swap(true, Ordering::SeqCst) {
            let _ = self.post(encoded(&Head::Stop).into());
        }
    }

    /// The time blocks that will come, in order, with the stage each has then.
    fn arrivals(&self) -> Vec<(usize, usize)> {
        let (parts, times) = (self.cuts.parts_of(self.cluster.rank()), self.cuts.times());
        match self.cuts.schedule {
            Schedule::Rotation { ratio } => {
                let top = parts.end - 1;
                (ratio..times + ratio).map(|step| ((ratio * top + step) % times, step / ratio)).collect()
            }
            // The first peer gets them when all parts have run them.
            _ if parts.start == 0 => (0..times).map(|time| (time, self.cuts.parts())).collect(),
            _ => (0..times).map(|time| (time, parts.start)).collect(),
        }
    }

    /// Receives all blocks of a pass, on the driver, while workers run.
    pub(crate) fn drive(&self, arrays: &Arrays<'_>, stages: &Stages) -> Result<()> {
        let outcome = self.arrivals().into_iter().try_for_each(|(time, stage)| {
            if self.take_in(arrays, time)? {
                stages.advance(time, stage);
                return Ok(());
            }
            Err(None)
        });
        match outcome {
            Ok(()) => Ok(()),
            Err(problem) => {
                stages.stop();
                self.send_stop();
                problem.map_or(Ok(()), Err)
            }
        }
    }

    /// Receives one time block; false if the sender has stopped.
    fn take_in(&self, arrays: &Arrays<'_>, expected: usize) -> Result<bool, Option<hemiola_cluster::Error>> {
        let bad = |problem: &str| {
            let error = hemiola_array::Error::BadMessage { problem: problem.to_owned() };
            Some(hemiola_cluster::Error::from(error))
        };
        let mut complete = 0;
        loop {
            let reason = Reason { what: "block of a loop", number: Some(expected as u64), site: None };
            let message = self.cluster.receive(&self.mailbox, self.sender(), Waiter::Driver, reason).map_err(Some)?;
            let (head, cells) = postcard::take_from_bytes(&message.payload).map_err(|error| bad(&error.to_string()))?;
            match head {
                Head::Piece(piece) if piece.time == expected && piece.array < arrays.len() => {
                    complete += usize::from(arrays.get(piece.array).unpack(piece, cells).map_err(Some)?);
                }
                Head::Token { time } if time == expected && complete == arrays.travelling().count() => return Ok(true),
                Head::Stop => return Ok(false),
                _ => return Err(bad("a block that is not due")),
            }
        }
    }
}

fn encoded(head: &Head) -> Vec<u8> {
    postcard::to_stdvec(head).expect("a head is plain data")
}

/// A piece of a block as it begins a message.
pub(crate) fn encoded_piece(piece: Piece) -> Vec<u8> {
    encoded(&Head::Piece(piece))
}
