//! Gossip averaging on a cluster: stochastic reduce over a communication graph, with NOTIFY-ACK or
//! without.
//!
//! With NOTIFY-ACK the calling thread takes in messages itself and waits only for its neighbours.
//! With a barrier, and asynchronously, a service writes arriving values into the slots at once, as
//! one-sided writes would, so a reduce uses whatever is in the slots; that is what those two modes
//! exist to show. Values and NOTIFY travel on the bulk lane, ACKs on the control lane.
//!
//! **Peer loss.** With [`PeerLossPolicy::Exclude`], each remaining peer notices a loss at its next
//! call here at the latest. It sends the number of its next round, its *vote*, to all remaining
//! peers and waits for theirs. The largest is the first round without the lost peer; see
//! [`hemiola_collective_proto::gossip`]. If two peers are lost at the same moment, votes about the
//! second may have reached only some; then a round can be awaited in vain, and the deadline ends
//! the job.

mod barrier;
mod builder;
mod peer_loss;
mod receive;

pub use builder::{GossipBuilder, GossipExt, PeerLossPolicy};

use crate::communicator::{allocate_handle, channel};
use crate::error::{protocol_error, receive_failure};
use hemiola_cluster::{ChannelReceiver, Cluster, Error, PeerHandle, Result, ServiceHandle, ShutdownToken, WaitReason};
use hemiola_collective_proto::gossip::{GossipBody, GossipElement, GossipMessage, GossipRound};
use hemiola_collective_proto::{GossipAverager, GossipSync};
use hemiola_core::{ChannelId, Lane, Moment, OutgoingMessage, Purpose, Rank, Waiter};
use parking_lot::Mutex;
use receive::{deliver, deliver_all, serve, wake_up};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a send before the sender takes in arrived messages.
const SEND_TIMEOUT: Duration = Duration::from_millis(5);
/// Timeout of a receive before losses are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Message that a neighbour is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GossipWait {
    Ack,
    Values,
}

impl GossipWait {
    fn name(self) -> &'static str {
        match self {
            Self::Ack => "a neighbour to average",
            Self::Values => "values to average",
        }
    }
}

/// Totals over all reduces of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GossipStats {
    /// Total number of reduces.
    pub reduces: u64,
    /// Number of reduces with this round's complete values of every sender.
    pub consistent: u64,
    /// Values that were complete but of an earlier round.
    pub stale: u64,
    /// Slots with parts of different versions, or of an incomplete one.
    pub torn: u64,
    /// Senders without new values, torn or complete.
    pub missing: u64,
    /// Bytes of values sent by this peer.
    pub bytes: u64,
    /// Peers that were lost and excluded.
    pub lost: Vec<Rank>,
}

impl GossipStats {
    /// Share of the reduces that were consistent; 1 if there were none.
    #[must_use]
    pub fn consistent_share(&self) -> f64 {
        if self.reduces == 0 { 1.0 } else { self.consistent as f64 / self.reduces as f64 }
    }
}

/// Receivers of values, ACKs, votes and barrier messages.
#[derive(Debug)]
struct GossipReceivers {
    /// Owned by the service, where there is one.
    values: Option<ChannelReceiver>,
    acks: ChannelReceiver,
    votes: ChannelReceiver,
    barriers: ChannelReceiver,
}

/// Gossip averaging of one peer.
///
/// ```
/// use hemiola_collective::{GossipExt, Topology};
///
/// hemiola_cluster::standalone(4).run(|cluster| {
///     let graph = cluster.graph(&Topology::RootExpander)?;
///     let mut gossip = cluster.gossip::<f64>(&graph, 1).build()?;
///     let mut model = [cluster.rank().index() as f64];
///     for _ in 0..40 {
///         gossip.average(&mut model)?;
///     }
///     assert!((model[0] - 1.5).abs() < 1e-3);
///     assert_eq!(gossip.stats().consistent, 40);
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub struct Gossip<T: GossipElement> {
    cluster: Cluster,
    peer_handle: PeerHandle,
    synchronization: GossipSync,
    on_peer_loss: PeerLossPolicy,
    averager: Arc<Mutex<GossipAverager<T>>>,
    /// Channels of values, ACKs, votes and barrier messages.
    channels: [ChannelId; 4],
    receivers: GossipReceivers,
    service: Option<ServiceHandle>,
    /// Votes that arrived before this peer asked for them: lost peer and voter, with the voter's
    /// next round.
    votes: BTreeMap<(Rank, Rank), u64>,
    /// Number of rounds that each peer has announced in barriers.
    announced_rounds: BTreeMap<Rank, u64>,
    stats: GossipStats,
}

impl<T: GossipElement> Gossip<T> {
    fn start(
        cluster: Cluster,
        averager: GossipAverager<T>,
        synchronization: GossipSync,
        on_peer_loss: PeerLossPolicy,
    ) -> Result<Self> {
        let handle = allocate_handle(&cluster)?;
        let channels = [0, 1, 2, 3].map(|number| channel(handle, number));
        let [values, acks, votes, barriers] = channels;
        let values = cluster.open_channel(values, Lane::Bulk);
        let [acks, votes, barriers] =
            [acks, votes, barriers].map(|channel| cluster.open_channel(channel, Lane::Control));
        let (averager, peer_handle) = (Arc::new(Mutex::new(averager)), cluster.peer_handle());
        let (values, service) = if synchronization == GossipSync::NotifyAck || cluster.size() == 1 {
            (Some(values), None)
        } else {
            let (inside, patient) = (averager.clone(), on_peer_loss == PeerLossPolicy::Exclude);
            let waking = (peer_handle.clone(), channels[0]);
            let own = peer_handle.clone();
            let wake = move || wake_up(&waking.0, waking.1);
            let body = move |ending: &ShutdownToken| serve(&own, &values, &inside, patient, ending);
            (None, Some(cluster.service("gossip", wake, body)?))
        };
        let (receivers, votes, stats) =
            (GossipReceivers { values, acks, votes, barriers }, BTreeMap::new(), GossipStats::default());
        Ok(Self {
            cluster,
            peer_handle,
            synchronization,
            on_peer_loss,
            averager,
            channels,
            receivers,
            service,
            votes,
            announced_rounds: BTreeMap::new(),
            stats,
        })
    }

    /// Runs one round: `values` become the weighted mean of themselves and those of this peer's
    /// senders.
    #[track_caller]
    pub fn average(&mut self, values: &mut [T]) -> Result<GossipRound> {
        self.push(values)?;
        self.reduce(values)
    }

    /// First half of a round: sends values to this peer's receivers. With NOTIFY-ACK, first waits
    /// until all of them have reduced the previous values.
    ///
    /// Computation between this call and [`Gossip::reduce`] overlaps with communication.
    #[track_caller]
    pub fn push(&mut self, values: &[T]) -> Result<()> {
        let site = Location::caller();
        self.handle_losses(site)?;
        loop {
            let waits = {
                let averager = self.averager.lock();
                if averager.can_push() { None } else { averager.waits().0.first().copied() }
            };
            let Some(peer) = waits else { break };
            self.wait_for(GossipWait::Ack, peer, site)?;
        }
        let mut out = Vec::new();
        self.averager.lock().push(values, &mut out).map_err(protocol_error)?;
        self.send(out, site)
    }

    /// Second half of a round: reduces. With NOTIFY-ACK, first waits until the values of all
    /// senders have arrived.
    #[track_caller]
    pub fn reduce(&mut self, values: &mut [T]) -> Result<GossipRound> {
        let site = Location::caller();
        self.handle_losses(site)?;
        if self.synchronization == GossipSync::Barrier && self.cluster.size() > 1 {
            self.barrier(site)?;
        }
        loop {
            let waits = self.averager.lock().waits().1.first().copied();
            let Some(peer) = waits else { break };
            self.wait_for(GossipWait::Values, peer, site)?;
        }
        let mut out = Vec::new();
        let reduced = self.averager.lock().reduce(values, &mut out).map_err(protocol_error)?;
        self.send(out, site)?;
        self.stats.reduces += 1;
        let GossipRound { senders, used, torn, stale, .. } = reduced;
        self.stats.consistent += u64::from(used == senders && torn == 0 && stale == 0);
        self.stats.stale += stale as u64;
        self.stats.torn += torn as u64;
        self.stats.missing += senders.saturating_sub(used + torn) as u64;
        Ok(reduced)
    }

    /// Totals over all reduces of this peer so far.
    #[must_use]
    pub fn stats(&self) -> &GossipStats {
        &self.stats
    }

    /// First round that this peer has not started.
    #[must_use]
    pub fn next_round(&self) -> u64 {
        self.averager.lock().next_round()
    }

    /// Sends messages. While it waits for room, it takes in messages, so that other senders find
    /// room.
    fn send(&mut self, messages: Vec<GossipMessage>, site: &'static Location<'static>) -> Result<()> {
        // Receivers that get nothing more of this version, because they do not take in messages.
        let mut full = BTreeSet::new();
        for message in messages {
            let to = message.to;
            if full.contains(&to) {
                continue;
            }
            let (lane, channel) = match message.body {
                GossipBody::Ack => (Lane::Control, self.channels[1]),
                GossipBody::Piece { .. } | GossipBody::Notify => (Lane::Bulk, self.channels[0]),
            };
            let payload = message.to_payload();
            let bytes = payload.len() as u64;
            let mut next = Some(OutgoingMessage { lane, channel, purpose: Purpose::Gossip, payload });
            let mut since = None;
            while let Some(outgoing) = next.take() {
                next = match self.peer_handle.send_within(to, outgoing, SEND_TIMEOUT) {
                    // No waiting: a receiver that does not read gets the next version, later.
                    Ok(Some(_)) if self.synchronization == GossipSync::Asynchronous => {
                        full.insert(to);
                        None
                    }
                    Ok(Some(outgoing)) => {
                        let now = self.peer_handle.env().now();
                        let start: Moment = *since.get_or_insert(now);
                        let reason = self.reason("a neighbour to take values", site);
                        let peer_handle = self.peer_handle.clone();
                        let _waiting = peer_handle.waiting(Waiter::Driver, reason, Some(to));
                        if now - start >= self.peer_handle.wait_timeout() {
                            return Err(self.peer_handle.timed_out(&reason, ""));
                        }
                        if let Some(values) = &self.receivers.values {
                            deliver_all(values, &mut self.averager.lock())?;
                        }
                        // A peer that does not read may be waiting for this peer's vote about a
                        // loss.
                        self.handle_losses(site)?;
                        Some(outgoing)
                    }
                    Ok(None) => {
                        self.stats.bytes += bytes;
                        None
                    }
                    // A message to a lost peer is dropped.
                    Err(Error::Lost(loss)) => {
                        self.exclude_lost(loss, site)?;
                        None
                    }
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(())
    }

    fn reason(&self, what: &'static str, site: &'static Location<'static>) -> WaitReason {
        WaitReason { operation: what, number: Some(self.averager.lock().next_round()), site: Some(site) }
    }

    /// Waits until a message of a neighbour has arrived, or a loss was handled.
    fn wait_for(&mut self, awaited: GossipWait, peer: Rank, site: &'static Location<'static>) -> Result<()> {
        let reason = self.reason(awaited.name(), site);
        let peer_handle = self.peer_handle.clone();
        let _waiting = peer_handle.waiting(Waiter::Driver, reason, Some(peer));
        let start = peer_handle.env().now();
        loop {
            let receiver = match (awaited, &self.receivers.values) {
                (GossipWait::Values, Some(values)) => values,
                _ => &self.receivers.acks,
            };
            match receiver.receive_from(peer, POLL_INTERVAL) {
                Ok(message) => {
                    let mut averager = self.averager.lock();
                    deliver(&mut averager, &message)?;
                    return deliver_all(receiver, &mut averager);
                }
                Err(error) => match receive_failure(error) {
                    Some(Error::Lost(loss)) => return self.exclude_lost(loss, site),
                    Some(error) => return Err(error),
                    None => {}
                },
            }
            if peer_handle.env().now() - start >= peer_handle.wait_timeout() {
                return Err(peer_handle.timed_out(&format_args!("{reason} of peer {peer}"), ""));
            }
        }
    }
}

impl<T: GossipElement> Drop for Gossip<T> {
    fn drop(&mut self) {
        if let Some(service) = &self.service {
            service.shutdown();
        }
    }
}

impl<T: GossipElement> fmt::Debug for Gossip<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Gossip")
            .field("synchronization", &self.synchronization)
            .field("on_peer_loss", &self.on_peer_loss)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
