//! Averages over a communication graph on a cluster: stochastic reduce, with NOTIFY-ACK or without.
//!
//! With NOTIFY-ACK the thread that mixes takes messages in itself: it waits for nobody but its neighbours. With a barrier and without any synchronization, a
//! service writes what comes into the slots at once, as one-sided writes would, so a reduce finds what happens to be there; that is what those two are there
//! to show. Values and NOTIFY travel on the bulk lane, ACKs on the control lane.
//!
//! **When a peer is lost** and the others are to go on ([`OnLoss::Drop`]), each of them notices at its next call here at the latest, tells all who are left which round it
//! comes to next, and waits for their word. The largest is the first round without the lost peer; see [`hemiola_collective_proto::mix`]. If two are lost at
//! the same moment, word of the second may have reached some only; then a round can be awaited in vain, and the deadline ends the job.

mod barrier;
mod builder;
mod losses;
mod slots;

pub use builder::{MakeMixing, MixingBuilder, OnLoss};

use crate::collectives::{channel, handle};
use crate::error::{not_received, refused};
use hemiola_cluster::{Cluster, Ending, Error, Link, Mailbox, Reason, Result, Service};
use hemiola_collective_proto::mix::{Body, Message, Mixed, Reduced};
use hemiola_collective_proto::{Mixer, Synchronization};
use hemiola_core::{ChannelId, Lane, Moment, Outgoing, Purpose, Rank, Waiter};
use parking_lot::Mutex;
use slots::{serve, take, take_all, wake_up};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// How long a sender waits for room before it takes in what has come.
const ROOM: Duration = Duration::from_millis(5);
/// How long anybody waits for one peer before it looks around.
const LOOK_AROUND: Duration = Duration::from_millis(50);
/// What a neighbour is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Ack,
    Values,
}

impl Awaited {
    fn name(self) -> &'static str {
        match self {
            Self::Ack => "a neighbour to have averaged",
            Self::Values => "values to average",
        }
    }
}

/// What the reduces of a peer found, all together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MixingTally {
    /// How many there were.
    pub reduces: u64,
    /// How many of them had this round's whole values of every sender.
    pub consistent: u64,
    /// Values that were whole but of an earlier round.
    pub stale: u64,
    /// Slots that held parts of different versions, or of an unfinished one.
    pub torn: u64,
    /// Senders of whom nothing new was there, torn or whole.
    pub missing: u64,
    /// Bytes of values sent.
    pub bytes: u64,
    /// Peers that the others went on without.
    pub lost: Vec<Rank>,
}

impl MixingTally {
    /// The part of reduces that were consistent; 1 if there were none.
    #[must_use]
    pub fn consistent_share(&self) -> f64 {
        if self.reduces == 0 { 1.0 } else { self.consistent as f64 / self.reduces as f64 }
    }
}

/// The mailboxes for values, ACKs, words and barriers.
#[derive(Debug)]
struct Boxes {
    /// The service has it, where there is one.
    values: Option<Mailbox>,
    acks: Mailbox,
    words: Mailbox,
    barriers: Mailbox,
}

/// This peer's part of averages over a graph.
///
/// ```
/// use hemiola_collective::{MakeMixing, Topology};
///
/// hemiola_cluster::standalone(4).run(|cluster| {
///     let graph = cluster.graph(&Topology::RootExpander)?;
///     let mut mixing = cluster.mixing::<f64>(&graph, 1).build()?;
///     let mut model = [cluster.rank().index() as f64];
///     for _ in 0..40 {
///         mixing.mix(&mut model)?;
///     }
///     assert!((model[0] - 1.5).abs() < 1e-3);
///     assert_eq!(mixing.tally().consistent, 40);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub struct Mixing<T: Mixed> {
    cluster: Cluster,
    link: Link,
    synchronization: Synchronization,
    on_loss: OnLoss,
    mixer: Arc<Mutex<Mixer<T>>>,
    /// Of values, ACKs, words and barriers.
    channels: [ChannelId; 4],
    boxes: Boxes,
    service: Option<Service>,
    /// Words that came before this peer asked for them: who is lost, who says so, which round.
    words: BTreeMap<(Rank, Rank), u64>,
    /// How many rounds others have announced in barriers.
    heard: BTreeMap<Rank, u64>,
    tally: MixingTally,
}

impl<T: Mixed> Mixing<T> {
    fn start(cluster: Cluster, mixer: Mixer<T>, synchronization: Synchronization, on_loss: OnLoss) -> Result<Self> {
        let handle = handle(&cluster)?;
        let channels = [0, 1, 2, 3].map(|number| channel(handle, number));
        let [values, acks, words, barriers] = channels;
        let values = cluster.open(values, Lane::Bulk);
        let [acks, words, barriers] = [acks, words, barriers].map(|channel| cluster.open(channel, Lane::Control));
        let (mixer, link) = (Arc::new(Mutex::new(mixer)), cluster.link());
        let (values, service) = if synchronization == Synchronization::NotifyAck || cluster.size() == 1 {
            (Some(values), None)
        } else {
            let (inside, patient) = (mixer.clone(), on_loss == OnLoss::Drop);
            let waking = (link.clone(), channels[0]);
            let own = link.clone();
            let wake = move || wake_up(&waking.0, waking.1);
            let body = move |ending: &Ending| serve(&own, &values, &inside, patient, ending);
            (None, Some(cluster.service("mixing", wake, body)?))
        };
        let (boxes, words, tally) = (Boxes { values, acks, words, barriers }, BTreeMap::new(), MixingTally::default());
        Ok(Self {
            cluster,
            link,
            synchronization,
            on_loss,
            mixer,
            channels,
            boxes,
            service,
            words,
            heard: BTreeMap::new(),
            tally,
        })
    }

    /// One round: `values` become the weighted mean of themselves and those of this peer's senders. What was found there is returned.
    #[track_caller]
    pub fn mix(&mut self, values: &mut [T]) -> Result<Reduced> {
        self.push(values)?;
        self.reduce(values)
    }

    /// The first half of a round: sends values to this peer's receivers. With NOTIFY-ACK waits before, until all of them have reduced what they were sent last.
    ///
    /// What is computed between this and [`Mixing::reduce`] goes on while values travel.
    #[track_caller]
    pub fn push(&mut self, values: &[T]) -> Result<()> {
        let site = Location::caller();
        self.notice_losses(site)?;
        loop {
            let waits = {
                let mixer = self.mixer.lock();
                if mixer.can_push() { None } else { mixer.waits().0.first().copied() }
            };
            let Some(peer) = waits else { break };
            self.wait_for(Awaited::Ack, peer, site)?;
        }
        let mut out = Vec::new();
        self.mixer.lock().push(values, &mut out).map_err(refused)?;
        self.send(out, site)
    }

    /// The second half: reduces. With NOTIFY-ACK waits before, until the values of all senders have come.
    #[track_caller]
    pub fn reduce(&mut self, values: &mut [T]) -> Result<Reduced> {
        let site = Location::caller();
        self.notice_losses(site)?;
        if self.synchronization == Synchronization::Barrier && self.cluster.size() > 1 {
            self.barrier(site)?;
        }
        loop {
            let waits = self.mixer.lock().waits().1.first().copied();
            let Some(peer) = waits else { break };
            self.wait_for(Awaited::Values, peer, site)?;
        }
        let mut out = Vec::new();
        let reduced = self.mixer.lock().reduce(values, &mut out).map_err(refused)?;
        self.send(out, site)?;
        self.tally.reduces += 1;
        let Reduced { senders, used, torn, stale, .. } = reduced;
        self.tally.consistent += u64::from(used == senders && torn == 0 && stale == 0);
        self.tally.stale += stale as u64;
        self.tally.torn += torn as u64;
        self.tally.missing += senders.saturating_sub(used + torn) as u64;
        Ok(reduced)
    }

    /// What the reduces of this peer found so far.
    #[must_use]
    pub fn tally(&self) -> &MixingTally {
        &self.tally
    }

    /// The first round that this peer has not begun.
    #[must_use]
    pub fn next_round(&self) -> u64 {
        self.mixer.lock().next_round()
    }

    /// Sends messages. Nobody who waits for room keeps others from finding some.
    fn send(&mut self, messages: Vec<Message>, site: &'static Location<'static>) -> Result<()> {
        // Those to whom nothing more of this version goes, because they do not take what they were sent.
        let mut full = BTreeSet::new();
        for message in messages {
            let to = message.to;
            if full.contains(&to) {
                continue;
            }
            let (lane, channel) = match message.body {
                Body::Ack => (Lane::Control, self.channels[1]),
                Body::Piece { .. } | Body::Notify => (Lane::Bulk, self.channels[0]),
            };
            let payload = message.to_payload();
            let bytes = payload.len() as u64;
            let mut next = Some(Outgoing { lane, channel, purpose: Purpose::Mixing, payload });
            let mut since = None;
            while let Some(outgoing) = next.take() {
                next = match self.link.send_within(to, outgoing, ROOM) {
                    // Nobody is waited for: a receiver that does not read has the next version, later.
                    Ok(Some(_)) if self.synchronization == Synchronization::Asynchronous => {
                        full.insert(to);
                        None
                    }
                    Ok(Some(outgoing)) => {
                        let now = self.link.env().now();
                        let start: Moment = *since.get_or_insert(now);
                        let reason = self.reason("a neighbour to take values", site);
                        let link = self.link.clone();
                        let _waiting = link.waiting(Waiter::Driver, reason, Some(to));
                        if now - start >= self.link.patience() {
                            return Err(self.link.timed_out(&reason, ""));
                        }
                        if let Some(values) = &self.boxes.values {
                            take_all(values, &mut self.mixer.lock())?;
                        }
                        // Whoever does not read may be waiting for our word about a loss.
                        self.notice_losses(site)?;
                        Some(outgoing)
                    }
                    Ok(None) => {
                        self.tally.bytes += bytes;
                        None
                    }
                    // What was meant for a peer that is gone is not missed.
                    Err(Error::Lost(loss)) => {
                        self.outlive(loss, site)?;
                        None
                    }
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(())
    }

    fn reason(&self, what: &'static str, site: &'static Location<'static>) -> Reason {
        Reason { what, number: Some(self.mixer.lock().next_round()), site: Some(site) }
    }

    /// Waits until something has come from a neighbour, or a loss was dealt with.
    fn wait_for(&mut self, awaited: Awaited, peer: Rank, site: &'static Location<'static>) -> Result<()> {
        let reason = self.reason(awaited.name(), site);
        let link = self.link.clone();
        let _waiting = link.waiting(Waiter::Driver, reason, Some(peer));
        let start = link.env().now();
        loop {
            let mailbox = match (awaited, &self.boxes.values) {
                (Awaited::Values, Some(values)) => values,
                _ => &self.boxes.acks,
            };
            match mailbox.receive_from(peer, LOOK_AROUND) {
                Ok(message) => {
                    let mut mixer = self.mixer.lock();
                    take(&mut mixer, &message)?;
                    return take_all(mailbox, &mut mixer);
                }
                Err(error) => match not_received(error) {
                    Some(Error::Lost(loss)) => return self.outlive(loss, site),
                    Some(error) => return Err(error),
                    None => {}
                },
            }
            if link.env().now() - start >= link.patience() {
                return Err(link.timed_out(&format_args!("{reason} of peer {peer}"), ""));
            }
        }
    }
}

impl<T: Mixed> Drop for Mixing<T> {
    fn drop(&mut self) {
        if let Some(service) = &self.service {
            service.end();
        }
    }
}

impl<T: Mixed> fmt::Debug for Mixing<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Mixing")
            .field("synchronization", &self.synchronization)
            .field("on_loss", &self.on_loss)
            .field("tally", &self.tally)
            .finish_non_exhaustive()
    }
}
