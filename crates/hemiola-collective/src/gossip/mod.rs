//! Gossip averaging on a cluster: stochastic reduce over a communication graph, with NOTIFY-ACK or
//! without.
//!
//! A [`GossipNode`] of `hemiola-collective-proto` makes all decisions of the protocol; this driver
//! gives it channels, threads and deadlines. With NOTIFY-ACK the calling thread takes in messages
//! itself and waits only for its neighbours. With a barrier, and asynchronously, a service writes arriving values into the slots at once, as
//! one-sided writes would, so a reduce uses whatever is in the slots; that is what those two modes
//! exist to show.
//!
//! **Peer loss.** With [`PeerLossPolicy::Exclude`], the remaining peers vote on the first round
//! without the lost peer. See README.md of [`hemiola_collective_proto::gossip`], section Losses.

mod builder;
mod receive;

pub use builder::{GossipBuilder, GossipExt, PeerLossPolicy};

use crate::communicator::allocate_handle;
use crate::error::{protocol_error, receive_failure};
use crate::in_flight::channel;
use hemiola_cluster::{ChannelReceiver, Cluster, Error, PeerHandle, Result, ServiceHandle, ShutdownToken, WaitReason};
use hemiola_collective_proto::gossip::{GossipChannel, GossipElement, GossipNodeMessage, GossipRound, GossipWait};
use hemiola_collective_proto::{GossipNode, GossipSync};
use hemiola_core::{ChannelId, LossCause, Moment, OutgoingMessage, POLL_INTERVAL, PeerLost, Rank, Waiter};
use parking_lot::Mutex;
use receive::{deliver, deliver_all, serve, wake_up};
use std::collections::BTreeSet;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a send before the sender takes in arrived messages.
const SEND_TIMEOUT: Duration = Duration::from_millis(5);

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
    node: Arc<Mutex<GossipNode<T>>>,
    /// Channels by [`GossipChannel::index`], and their receivers. The service owns that of the
    /// values, where there is one.
    channels: [ChannelId; 4],
    receivers: [Option<ChannelReceiver>; 4],
    service: Option<ServiceHandle>,
    stats: GossipStats,
}

impl<T: GossipElement> Gossip<T> {
    fn start(
        cluster: Cluster,
        node: GossipNode<T>,
        synchronization: GossipSync,
        on_peer_loss: PeerLossPolicy,
    ) -> Result<Self> {
        let handle = allocate_handle(&cluster)?;
        let channels = GossipChannel::ALL.map(|kind| channel(handle, kind.index() as u64));
        let open = |kind: GossipChannel| Some(cluster.open_channel(channels[kind.index()], kind.lane()));
        let mut receivers = GossipChannel::ALL.map(open);
        let (node, peer_handle) = (Arc::new(Mutex::new(node)), cluster.peer_handle());
        let mut service = None;
        if synchronization != GossipSync::NotifyAck
            && cluster.size() > 1
            && let Some(values) = receivers[GossipChannel::Values.index()].take()
        {
            let (inside, patient) = (node.clone(), on_peer_loss == PeerLossPolicy::Exclude);
            let waking = (peer_handle.clone(), channels[GossipChannel::Values.index()]);
            let own = peer_handle.clone();
            let wake = move || wake_up(&waking.0, waking.1);
            let body = move |ending: &ShutdownToken| serve(&own, &values, &inside, patient, ending);
            service = Some(cluster.service("gossip", wake, body)?);
        }
        let stats = GossipStats::default();
        Ok(Self { cluster, peer_handle, synchronization, on_peer_loss, node, channels, receivers, service, stats })
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
        loop {
            self.handle_losses(site)?;
            let wait = self.node.lock().poll_push();
            let Some(wait) = wait else { break };
            self.wait_for(wait, site)?;
        }
        let mut out = Vec::new();
        self.node.lock().push(values, &mut out).map_err(protocol_error)?;
        self.send(out, site)
    }

    /// Second half of a round: reduces. With NOTIFY-ACK, first waits until the values of all
    /// senders have arrived.
    #[track_caller]
    pub fn reduce(&mut self, values: &mut [T]) -> Result<GossipRound> {
        let site = Location::caller();
        loop {
            self.handle_losses(site)?;
            let mut out = Vec::new();
            let wait = self.node.lock().poll_reduce(&mut out);
            let sent = !out.is_empty();
            self.send(out, site)?;
            match wait {
                Some(wait) => self.wait_for(wait, site)?,
                // A loss may have been found while sending.
                None if sent => {}
                None => break,
            }
        }
        let mut out = Vec::new();
        let reduced = self.node.lock().reduce(values, &mut out).map_err(protocol_error)?;
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
        self.node.lock().next_round()
    }

    /// Sends messages. While it waits for room, it takes in messages, so that other senders find
    /// room.
    fn send(&mut self, messages: Vec<GossipNodeMessage>, site: &'static Location<'static>) -> Result<()> {
        // Receivers that get nothing more of this version, because they do not take in messages.
        let mut full = BTreeSet::new();
        let skips = !messages.is_empty() && self.node.lock().skips_slow_receivers();
        for message in messages {
            let (to, kind) = (message.to(), message.channel());
            let may_skip = skips && kind == GossipChannel::Values;
            if may_skip && full.contains(&to) {
                continue;
            }
            let payload = message.to_payload();
            let bytes = payload.len() as u64;
            let (lane, channel, purpose) = (kind.lane(), self.channels[kind.index()], kind.purpose());
            let mut next = Some(OutgoingMessage { lane, channel, purpose, payload });
            let mut since = None;
            while let Some(outgoing) = next.take() {
                next = match self.peer_handle.send_within(to, outgoing, SEND_TIMEOUT) {
                    // No waiting: a receiver that does not read gets the next version, later.
                    Ok(Some(_)) if may_skip => {
                        full.insert(to);
                        None
                    }
                    Ok(Some(outgoing)) => {
                        let now = self.peer_handle.env().now();
                        let start: Moment = *since.get_or_insert(now);
                        let reason = self.reason("a neighbour to take values", site);
                        let peer_handle = self.peer_handle.clone();
                        let _waiting = peer_handle.waiting(Waiter::Driver, reason, Some(to));
                        if self.peer_handle.time_left(start, Some(to)).is_zero() {
                            return Err(self.peer_handle.timed_out(&reason, ""));
                        }
                        if let Some(values) = &self.receivers[GossipChannel::Values.index()] {
                            deliver_all(values, GossipChannel::Values, &mut self.node.lock(), &mut Vec::new())?;
                        }
                        // A peer that does not read may be waiting for this peer's vote about a
                        // loss.
                        self.handle_losses(site)?;
                        Some(outgoing)
                    }
                    Ok(None) => {
                        self.stats.bytes += if matches!(message, GossipNodeMessage::Averager(_)) { bytes } else { 0 };
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
        WaitReason { operation: what, number: Some(self.next_round()), site: Some(site) }
    }

    /// Waits until a message has arrived, or a loss was reported.
    fn wait_for(&mut self, wait: GossipWait, site: &'static Location<'static>) -> Result<()> {
        let GossipWait { channel, peer } = wait;
        let reason = self.reason(channel.awaited(), site);
        let peer_handle = self.peer_handle.clone();
        let _waiting = peer_handle.waiting(Waiter::Driver, reason, Some(peer));
        let start = peer_handle.env().now();
        loop {
            let left = peer_handle.time_left(start, Some(peer));
            if left.is_zero() {
                return Err(peer_handle.timed_out(&format_args!("{reason} of peer {peer}"), ""));
            }
            let receiver = self.receivers[channel.index()].as_ref();
            let receiver = receiver.expect("only NOTIFY-ACK waits for values, and it has no service");
            match receiver.receive_from(peer, left.min(POLL_INTERVAL)) {
                Ok(message) => {
                    let mut out = Vec::new();
                    let mut node = self.node.lock();
                    deliver(&mut node, channel, &message, &mut out)?;
                    deliver_all(receiver, channel, &mut node, &mut out)?;
                    drop(node);
                    return self.send(out, site);
                }
                Err(error) => match receive_failure(error) {
                    Some(Error::Lost(loss)) => return self.exclude_lost(loss, site),
                    Some(error) => return Err(error),
                    None => {}
                },
            }
        }
    }

    /// Handles losses that no wait has reported.
    fn handle_losses(&mut self, site: &'static Location<'static>) -> Result<()> {
        while let Some(loss) = self.peer_handle.failure() {
            self.exclude_lost(loss, site)?;
        }
        Ok(())
    }

    /// Starts the exclusion of a lost peer, or fails with its loss. The next wait is for the votes
    /// of the remaining peers.
    fn exclude_lost(&mut self, loss: PeerLost, site: &'static Location<'static>) -> Result<()> {
        let lost = loss.rank;
        if self.on_peer_loss == PeerLossPolicy::Fail || lost == self.peer_handle.rank() || loss.cause == LossCause::Left
        {
            return Err(loss.into());
        }
        // The loss would end every wait until the peer is excluded.
        self.cluster.exclude(lost);
        let mut out = Vec::new();
        let mut node = self.node.lock();
        node.on_peer_lost(lost, &mut out).map_err(protocol_error)?;
        self.stats.lost.clear();
        self.stats.lost.extend_from_slice(node.lost());
        drop(node);
        self.send(out, site)
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
