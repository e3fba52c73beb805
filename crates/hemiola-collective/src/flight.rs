//! One collective on its way: a machine and its mailbox.
//!
//! Every collective has a channel of its own, so collectives never take each other's messages and any thread can drive one. What comes before a peer
//! has begun waits in the mailbox that will be opened. **Invariants:** whoever cannot send takes in what has come before it tries again, so peers that
//! send to each other make way for each other, however long the vectors are; and nobody waits for one peer without looking, now and then, for word
//! of failure from the others.

use crate::error::{not_received, refused};
use crate::outcome::Wake;
use hemiola_cluster::{Cluster, Link, Mailbox, Reason, Result};
use hemiola_collective_proto::encode::Label;
use hemiola_collective_proto::protocol::{
    Body, Call, Disagreement, Element, ElementKind, Machine, Message, Operation, Tag,
};
use hemiola_core::{ChannelId, Lane, Moment, Outgoing, Purpose, Rank, Waiter};
use std::panic::Location;
use std::time::Duration;

/// Bytes of elements in a message: enough that a message's costs do not show, few enough that those under way stay in a second-level cache.
pub(crate) const SEGMENT_BYTES: usize = 1 << 18;
/// Collectives of so few bytes take the control lane, where nothing large is in front of them.
const SMALL_BYTES: usize = 1 << 13;
/// How long a sender waits for room before it takes in what has come.
const ROOM: Duration = Duration::from_millis(5);
/// How long anybody waits for one peer before it looks at what others have said.
const LOOK_AROUND: Duration = Duration::from_millis(50);

/// How far a collective has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It is over.
    Done,
    /// It waits for a message of this peer.
    Waits(Rank),
    /// It waits for this peer to take what was sent.
    Full(Rank),
}

/// A collective in flight on this peer. The elements are the caller's and lent with each call.
pub(crate) struct Flight {
    link: Link,
    machine: Machine,
    tag: Tag,
    peers: usize,
    channel: ChannelId,
    lane: Lane,
    mailbox: Mailbox,
    site: &'static Location<'static>,
    /// When something last went on.
    moved: Moment,
}

impl Flight {
    pub(crate) fn begin<T: Element>(
        cluster: &Cluster,
        channel: ChannelId,
        tag: Tag,
        operation: &Operation,
        site: &'static Location<'static>,
    ) -> Result<Self> {
        Self::begin_as(cluster, channel, tag, operation, (T::KIND, None), site)
    }

    /// The same with a type that is known when it runs, and with what the collective is a part of.
    pub(crate) fn begin_as(
        cluster: &Cluster,
        channel: ChannelId,
        tag: Tag,
        operation: &Operation,
        (kind, label): (ElementKind, Option<&Label>),
        site: &'static Location<'static>,
    ) -> Result<Self> {
        let peers = cluster.size();
        let segment = SEGMENT_BYTES / kind.bytes();
        let mut machine = Machine::new(tag, cluster.rank(), peers, operation, kind, segment).map_err(refused)?;
        if let Some(label) = label {
            machine = machine.labelled(label);
        }
        let bytes = operation.buffer_length(peers).saturating_mul(kind.bytes());
        let lane = if bytes <= SMALL_BYTES { Lane::Control } else { Lane::Bulk };
        let (link, mailbox) = (cluster.link(), cluster.open(channel, lane));
        let moved = link.env().now();
        Ok(Self { link, machine, tag, peers, channel, lane, mailbox, site, moved })
    }

    pub(crate) fn call(&self) -> Call {
        self.machine.call()
    }

    /// Elements of the result that are not numbers.
    pub(crate) fn nan(&self) -> usize {
        self.machine.nan()
    }

    /// What a thread that waits for this waits for.
    pub(crate) fn reason(&self) -> Reason {
        Reason { what: self.call().name(), number: Some(self.tag.number()), site: Some(self.site) }
    }

    /// Has `ring` called whenever a message has come for it, or will never come.
    pub(crate) fn with_bell(&self, ring: &Wake) {
        let ring = ring.clone();
        self.mailbox.with_bell(move || ring());
    }

    /// Carries it through on the calling thread.
    pub(crate) fn run<T: Element>(&mut self, elements: &mut [T]) -> Result<()> {
        loop {
            let progress = self.advance(elements)?;
            let (Progress::Waits(peer) | Progress::Full(peer)) = progress else { return Ok(()) };
            let link = self.link.clone();
            let _waiting = link.waiting(Waiter::Driver, self.reason(), Some(peer));
            while !self.wait(progress, LOOK_AROUND)? {}
        }
    }

    /// Goes as far as it can without waiting for messages.
    pub(crate) fn advance<T: Element>(&mut self, elements: &mut [T]) -> Result<Progress> {
        let Self { link, machine, lane, channel, moved, .. } = self;
        let mut stopped = None;
        let went = machine.advance(elements, &mut |lent| {
            let payload = lent.header().into();
            let message = Outgoing { lane: *lane, channel: *channel, purpose: Purpose::Collective, payload };
            let sent = link.send_lent(lent.to, message, lent.elements, ROOM);
            match sent {
                Ok(true) => *moved = link.env().now(),
                Ok(false) => stopped = Some(Ok(Progress::Full(lent.to))),
                Err(error) => stopped = Some(Err(error)),
            }
            stopped.is_none()
        });
        match (stopped, went) {
            (Some(stopped), _) => {
                self.take_all()?;
                stopped
            }
            (None, Ok(true)) => Ok(Progress::Done),
            // Neither full nor done: it can only be waiting.
            (None, Ok(false)) => Ok(Progress::Waits(self.machine.waits_for().unwrap_or(self.link.rank()))),
            (None, Err(error)) => Err(self.fail(error, None)),
        }
    }

    /// Waits until it can go on, or for a while; whether it can. An error if this has lasted too long.
    pub(crate) fn wait(&mut self, progress: Progress, timeout: Duration) -> Result<bool> {
        let helped = match progress {
            Progress::Done => true,
            // Whether there is room now is found by sending.
            Progress::Full(_) => {
                self.take_all()?;
                self.link.env().now() - self.moved < self.link.patience()
            }
            Progress::Waits(peer) => match self.mailbox.receive_from(peer, timeout) {
                Ok(message) => {
                    self.take(&message)?;
                    true
                }
                Err(error) => {
                    // Somebody else may have said what is wrong, which explains more than a loss that follows from it. And what was waited for may have come just now: then
                    // nobody would hear of it any more.
                    let taken = self.take_all()?;
                    if let Some(error) = not_received(error) {
                        return Err(error);
                    }
                    taken
                }
            },
        };
        let (Progress::Waits(peer) | Progress::Full(peer)) = progress else { return Ok(true) };
        if helped || self.link.env().now() - self.moved < self.link.patience() {
            return Ok(helped);
        }
        let deed = if matches!(progress, Progress::Full(_)) { "to take what was sent" } else { "to send" };
        let (reason, call) = (self.reason(), self.call());
        let (taken, steps) = self.machine.progress();
        let details = format!("\nthis peer waits for peer {peer} {deed} in {call}, after {taken} of its {steps} steps");
        Err(self.link.timed_out(&format_args!("{reason}, with peer {peer}"), &details))
    }

    /// Takes in everything that is here; whether there was anything.
    fn take_all(&mut self) -> Result<bool> {
        let mut taken = false;
        while let Some(message) = self.mailbox.try_receive() {
            self.take(&message)?;
            taken = true;
        }
        Ok(taken)
    }

    fn take(&mut self, message: &hemiola_core::Message) -> Result<()> {
        self.moved = self.link.env().now();
        let from = message.from;
        let message = Message::from_bytes(from, self.link.rank(), &message.payload).map_err(refused)?;
        let teller = matches!(message.body, Body::Failed(_)).then_some(from);
        self.machine.receive(message).map_err(|error| self.fail(error, teller))
    }

    /// The error, after the other peers have been told of it, if they have not been by `teller`.
    fn fail(&mut self, error: hemiola_collective_proto::Error, teller: Option<Rank>) -> hemiola_cluster::Error {
        if let (hemiola_collective_proto::Error::Disagreement(disagreement), None) = (&error, teller) {
            self.tell(**disagreement);
        }
        refused(error)
    }

    fn tell(&self, disagreement: Disagreement) {
        let me = self.link.rank();
        for to in Rank::all(self.peers).filter(|&to| to != me) {
            let body = Body::Failed(disagreement);
            let payload = Message { from: me, to, tag: self.tag, sequence: 0, call: self.call(), body }.to_payload();
            let (lane, channel, purpose) = (Lane::Control, self.channel, Purpose::Collective);
            // Whoever cannot be told now hears of it when this peer leaves.
            let _ = self.link.send_within(to, Outgoing { lane, channel, purpose, payload }, ROOM);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_when_a_wait_has_just_ended_is_noticed() {
        let run = hemiola_cluster::standalone(2).run(|cluster| {
            let operation = Operation::Broadcast { root: Rank::ROOT, length: 1 };
            let (channel, site) = (ChannelId::of(200, 1), Location::caller());
            let mut flight = Flight::begin::<f32>(cluster, channel, Tag::new(1), &operation, site)?;
            if cluster.is_root() {
                flight.run(&mut [7.0_f32])?;
                return cluster.barrier();
            }
            cluster.barrier()?;
            let mut here = [0.0_f32];
            assert_eq!(flight.advance(&mut here)?, Progress::Waits(Rank::ROOT));
            // The message is here, and the wait for another peer ends without it, as one that ends a moment too early does.
            assert!(flight.wait(Progress::Waits(cluster.rank()), Duration::ZERO)?, "it can go on");
            assert_eq!(flight.advance(&mut here)?, Progress::Done);
            assert_eq!(here.map(f32::to_bits), [7.0_f32.to_bits()]);
            Ok(())
        });
        run.unwrap();
    }
}
