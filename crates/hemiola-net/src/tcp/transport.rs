//! All TCP connections of a peer as a [`Transport`].
//!
//! **Loss.** The first sign of a loss (end of stream, error, invalid frame, silence, a failure
//! notice) takes both lanes of the peer down and is reported to the sink once. A peer that ended
//! successfully has *left* when it has said goodbye on both lanes, so that messages on the slower
//! lane are still delivered; its lanes stay open for the goodbye of this peer. See README.md,
//! section Loss and goodbye.

use crate::buffer::BufferPool;
use crate::counters::TrafficCounters;
use crate::decoder::FrameDecoder;
use crate::frame::FrameKind;
use crate::tcp::connection::{Connection, ConnectionLimits, ConnectionObserver, FrameSendError, loss_cause};
use crate::tcp::io_loop::IoLoop;
use crate::tcp::lease::LeaseCount;
use crate::tcp::send_queue::SendQueue;
use crate::tcp::stream::PeerStream;
use bytes::Bytes;
use hemiola_core::FRAME_OVERHEAD_BYTES;
use hemiola_core::{
    AssistOutcome, ChannelId, Env, GoodbyeReason, Lane, LossCause, Message, MessageSink, Moment, OutgoingMessage,
    Payload, PeerLost, Purpose, Rank, Traffic, Transport, TransportError,
};
use parking_lot::{Condvar, Mutex};
use polling::Poller;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Size limits of a TCP transport.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TcpLimits {
    /// Largest payload of one frame. Default 1 GiB.
    pub frame: usize,
    /// Bytes that may be queued for one peer on the control lane before senders wait. Default 1
    /// MiB.
    pub control_queue: usize,
    /// Bytes that may be queued for one peer on the bulk lane before senders wait. Default 16 MiB;
    /// a single larger message is queued whole if the queue is empty.
    pub bulk_queue: usize,
    /// Unconsumed bytes of one peer and lane above which its socket is not read. Default 256 MiB.
    pub inbound: usize,
    /// Bytes of idle receive buffers kept for reuse. Default 256 MiB.
    pub pool: usize,
}

impl Default for TcpLimits {
    fn default() -> Self {
        Self { frame: 1 << 30, control_queue: 1 << 20, bulk_queue: 16 << 20, inbound: 256 << 20, pool: 256 << 20 }
    }
}

/// Authenticated connection, handed over by the join protocol.
#[derive(Debug)]
pub(crate) struct EstablishedConnection {
    pub(crate) peer: Rank,
    pub(crate) lane: Lane,
    pub(crate) stream: PeerStream,
    pub(crate) decoder: FrameDecoder,
    pub(crate) send_queue: SendQueue,
}

/// State of one other peer.
struct TcpPeer {
    address: String,
    /// Connections by lane; `None` for this peer itself.
    connections: [Option<Arc<Connection>>; 2],
    /// Time of the last received bytes, in nanoseconds of the environment.
    last_heard_nanos: AtomicU64,
    /// True if `state` holds a loss.
    gone: AtomicBool,
    state: Mutex<TcpPeerState>,
}

#[derive(Default)]
struct TcpPeerState {
    loss: Option<PeerLost>,
    /// By lane: true once the peer has said goodbye.
    said_goodbye: [bool; 2],
}

/// State shared between the transport and its I/O loops; observer of all connections.
struct TcpShared {
    rank: Rank,
    peers: Vec<TcpPeer>,
    sink: Arc<dyn MessageSink>,
    counters: TrafficCounters,
    env: Arc<dyn Env>,
    /// Number of lost peers. Locked while a loss is recorded and reported.
    gone: Mutex<usize>,
    peer_gone: Condvar,
}

impl TcpShared {
    fn describe(&self, rank: Rank, cause: LossCause) -> PeerLost {
        let peer = &self.peers[rank.index()];
        let last_heard = self.env.now() - Moment::from_nanos(peer.last_heard_nanos.load(Ordering::Relaxed));
        PeerLost { rank, address: peer.address.clone(), cause, last_heard }
    }

    /// Reports a loss to the sink, records it and takes the lanes of the peer down. Only the first
    /// call for a peer has an effect.
    ///
    /// The sink comes first: a sender that fails asks it for the peer to blame.
    fn record_loss(&self, loss: PeerLost) {
        let peer = &self.peers[loss.rank.index()];
        // One loss at a time, so that the sink learns of them in causal order: the loss that a
        // leaving peer names is reported before that peer's own leaving.
        let mut gone = self.gone.lock();
        if peer.state.lock().loss.is_some() {
            return;
        }
        self.sink.peer_lost(loss.clone());
        tracing::debug!(peer = %loss.rank, cause = %loss.cause, "peer lost");
        let loss = peer.state.lock().loss.insert(loss).clone();
        peer.gone.store(true, Ordering::Release); // pairs with the load in `TcpTransport::send_frame`
        if loss.cause != LossCause::Left {
            notify_of_loss(peer, &loss);
            for connection in peer.connections.iter().flatten() {
                connection.take_down();
            }
        }
        *gone += 1;
        drop(gone);
        self.peer_gone.notify_all();
    }

    fn loss(&self, rank: Rank) -> Option<PeerLost> {
        self.peers[rank.index()].state.lock().loss.clone()
    }
}

/// Notifies a peer that is disconnected although it is alive, if it can still receive.
fn notify_of_loss(peer: &TcpPeer, loss: &PeerLost) {
    let lives = matches!(loss.cause, LossCause::Corrupt { .. } | LossCause::Flooded { .. } | LossCause::Silent { .. });
    if let (true, Some(control)) = (lives, &peer.connections[Lane::Control.index()]) {
        // A notice that cannot be written at once is dropped: the connection ends here.
        let refused = || TransportError::Closed;
        let _ = control.send(
            FrameKind::Goodbye,
            goodbye_message(Lane::Control, &GoodbyeReason::Lost(loss.clone())),
            &[],
            Duration::ZERO,
            &refused,
        );
    }
}

/// Creates the last message of a connection.
fn goodbye_message(lane: Lane, goodbye: &GoodbyeReason) -> OutgoingMessage {
    let payload = postcard::to_stdvec(goodbye).expect("a goodbye reason is plain data").into();
    OutgoingMessage { lane, channel: ChannelId::new(0), purpose: Purpose::Liveness, payload }
}

impl ConnectionObserver for TcpShared {
    fn bytes_received(&self, peer: Rank) {
        self.peers[peer.index()].last_heard_nanos.store(self.env.now().as_nanos(), Ordering::Relaxed);
    }

    fn deliver(&self, message: Message) {
        self.counters.received(
            message.from,
            message.lane,
            message.purpose,
            message.payload.len() + FRAME_OVERHEAD_BYTES,
        );
        self.sink.deliver(message);
    }

    fn goodbye_received(&self, peer: Rank, lane: Lane, goodbye: GoodbyeReason) {
        let cause = match goodbye {
            GoodbyeReason::Done => {
                let mut state = self.peers[peer.index()].state.lock();
                state.said_goodbye[lane.index()] = true;
                if state.said_goodbye != [true; 2] {
                    return;
                }
                LossCause::Left
            }
            GoodbyeReason::Failed { reason } => LossCause::Failed { reason },
            GoodbyeReason::Lost(loss) => {
                // The sender only passes the news on. News of the own loss mean that the sender
                // could not receive from this peer.
                if loss.rank == self.rank || loss.rank.index() >= self.peers.len() {
                    LossCause::Failed { reason: loss.to_string() }
                } else {
                    self.record_loss(loss);
                    LossCause::Left
                }
            }
        };
        self.record_loss(self.describe(peer, cause));
    }

    fn connection_lost(&self, peer: Rank, lane: Lane, cause: LossCause) {
        // A peer gives its reason on the control lane; that explains more than the end of the bulk
        // lane.
        let control = self.peers[peer.index()].connections[Lane::Control.index()].as_ref();
        if let (Lane::Bulk, LossCause::Closed, Some(control)) = (lane, &cause, control) {
            control.read_goodbye(self);
        }
        self.record_loss(self.describe(peer, cause));
    }
}

/// Transport between processes over TCP, plain or with TLS.
pub struct TcpTransport {
    shared: Arc<TcpShared>,
    limit: usize,
    stop: Arc<AtomicBool>,
    pollers: [Arc<Poller>; 2],
}

impl TcpTransport {
    /// Takes over the connections of a joined peer. Nothing arrives before the returned loops run.
    pub(crate) fn new(
        rank: Rank,
        addresses: Vec<String>,
        established: Vec<EstablishedConnection>,
        limits: &TcpLimits,
        sink: Arc<dyn MessageSink>,
        env: &Arc<dyn Env>,
    ) -> io::Result<(Arc<Self>, Vec<IoLoop>)> {
        let size = addresses.len();
        let pollers = [Arc::new(Poller::new()?), Arc::new(Poller::new()?)];
        let now = env.now().as_nanos();
        let mut peers: Vec<TcpPeer> = addresses
            .into_iter()
            .map(|address| TcpPeer {
                address,
                connections: [None, None],
                last_heard_nanos: AtomicU64::new(now),
                gone: AtomicBool::new(false),
                state: Mutex::default(),
            })
            .collect();
        let leases: [Arc<LeaseCount>; 2] = Default::default();
        let mut by_key = [Vec::new(), Vec::new()];
        for EstablishedConnection { peer, lane, stream, mut decoder, send_queue } in established {
            decoder.set_limit(limits.frame);
            let queue = match lane {
                Lane::Control => limits.control_queue,
                Lane::Bulk => limits.bulk_queue,
            };
            let connection = Arc::new(Connection::new(
                peer,
                lane,
                stream,
                decoder,
                send_queue,
                by_key[lane.index()].len(),
                pollers[lane.index()].clone(),
                leases[lane.index()].clone(),
                env.clone(),
                ConnectionLimits { queue, inbound: limits.inbound },
            ));
            by_key[lane.index()].push(connection.clone());
            peers[peer.index()].connections[lane.index()] = Some(connection);
        }
        let shared = Arc::new(TcpShared {
            rank,
            peers,
            sink,
            counters: TrafficCounters::new(size),
            env: env.clone(),
            gone: Mutex::new(0),
            peer_gone: Condvar::new(),
        });
        let stop = Arc::new(AtomicBool::new(false));
        let mut loops = Vec::new();
        for (lane, connections) in Lane::ALL.into_iter().zip(by_key) {
            for connection in &connections {
                connection.watch()?;
            }
            loops.push(IoLoop {
                lane,
                poller: pollers[lane.index()].clone(),
                connections,
                observer: shared.clone(),
                leases: leases[lane.index()].clone(),
                env: env.clone(),
                stop: stop.clone(),
            });
        }
        Ok((Arc::new(Self { shared, limit: limits.frame.min(u32::MAX as usize), stop, pollers }), loops))
    }

    /// Creates the pool of receive buffers for all connections of a peer.
    pub(crate) fn pool(limits: &TcpLimits) -> BufferPool {
        BufferPool::new(limits.pool)
    }

    fn others(&self) -> impl Iterator<Item = Rank> + '_ {
        Rank::all(self.size()).filter(|rank| *rank != self.shared.rank)
    }

    fn connection(&self, peer: Rank, lane: Lane) -> Option<&Arc<Connection>> {
        self.shared.peers.get(peer.index())?.connections[lane.index()].as_ref()
    }

    fn send_frame(
        &self,
        to: Rank,
        kind: FrameKind,
        message: OutgoingMessage,
        tail: &[u8],
        timeout: Duration,
    ) -> Result<(), TransportError> {
        let OutgoingMessage { lane, purpose, .. } = message;
        let connection = self.connection(to, lane).ok_or(TransportError::NoSuchPeer { peer: to, size: self.size() })?;
        let bytes = message.payload.len() + tail.len() + FRAME_OVERHEAD_BYTES;
        let loss = || self.shared.loss(to).map_or(TransportError::Closed, TransportError::Lost);
        if kind == FrameKind::Data && self.shared.peers[to.index()].gone.load(Ordering::Acquire) {
            return Err(loss());
        }
        match connection.send(kind, message, tail, timeout, &loss) {
            Ok(()) => {
                self.shared.counters.sent(to, lane, purpose, bytes);
                Ok(())
            }
            Err(FrameSendError::Refused(error)) => Err(error),
            Err(FrameSendError::Broken(error)) => {
                // The last message of the peer may still be in the socket and explains more than
                // the error.
                connection.read_goodbye(&*self.shared);
                self.shared.connection_lost(to, lane, loss_cause(&error));
                Err(loss())
            }
        }
    }
}

impl Transport for TcpTransport {
    fn rank(&self) -> Rank {
        self.shared.rank
    }

    fn size(&self) -> usize {
        self.shared.peers.len()
    }

    fn send(&self, to: Rank, message: OutgoingMessage, timeout: Duration) -> Result<(), TransportError> {
        self.send_borrowed(to, message, &[], timeout)
    }

    fn send_borrowed(
        &self,
        to: Rank,
        message: OutgoingMessage,
        tail: &[u8],
        timeout: Duration,
    ) -> Result<(), TransportError> {
        let length = message.payload.len() + tail.len();
        if length > self.limit {
            return Err(TransportError::TooLarge { length, limit: self.limit });
        }
        if to == self.shared.rank {
            let OutgoingMessage { lane, channel, purpose, payload } = message;
            let parts = payload.parts().cloned().chain(std::iter::once(Bytes::copy_from_slice(tail)));
            let payload = Payload::from_parts(parts).into_bytes();
            self.shared.sink.deliver(Message { from: to, lane, channel, purpose, payload });
            return Ok(());
        }
        self.send_frame(to, FrameKind::Data, message, tail, timeout)
    }

    fn assist(&self, from: Rank, lane: Lane, timeout: Duration, done: &mut dyn FnMut() -> bool) -> AssistOutcome {
        match self.connection(from, lane) {
            Some(connection) => connection.assist(timeout, &*self.shared, done),
            None => AssistOutcome::Declined,
        }
    }

    fn consumed(&self, from: Rank, lane: Lane, bytes: usize) {
        if let Some(connection) = self.connection(from, lane) {
            connection.consumed(bytes);
        }
    }

    fn last_heard(&self, peer: Rank) -> Moment {
        if self.connection(peer, Lane::Control).is_some_and(|control| control.is_paused()) {
            self.shared.bytes_received(peer); // this peer pauses reading
        }
        Moment::from_nanos(self.shared.peers[peer.index()].last_heard_nanos.load(Ordering::Relaxed))
    }

    fn address(&self, peer: Rank) -> String {
        self.shared.peers[peer.index()].address.clone()
    }

    fn disconnect(&self, loss: PeerLost) {
        self.shared.record_loss(loss);
    }

    fn traffic(&self) -> Traffic {
        self.shared.counters.snapshot()
    }

    fn close(&self, goodbye: GoodbyeReason, timeout: Duration) {
        let deadline = self.shared.env.now() + timeout;
        for (peer, lane) in self.others().flat_map(|peer| Lane::ALL.map(|lane| (peer, lane))) {
            // A lost peer needs no goodbye.
            let left = deadline - self.shared.env.now();
            let _ = self.send_frame(peer, FrameKind::Goodbye, goodbye_message(lane, &goodbye), &[], left);
        }
        for connection in self.shared.peers.iter().flat_map(|peer| peer.connections.iter().flatten()) {
            connection.drain(deadline - self.shared.env.now());
        }
        // Closing a socket with unread bytes resets the connection, and a reset destroys bytes that
        // the other side has not read yet, including this goodbye. So wait for the goodbyes of the
        // others.
        let mut gone = self.shared.gone.lock();
        while *gone + 1 < self.size() {
            let left = deadline - self.shared.env.now();
            if left.is_zero() {
                break;
            }
            self.shared.peer_gone.wait_for(&mut gone, left);
        }
        drop(gone);
        self.stop.store(true, Ordering::Release); // pairs with the load in `IoLoop::run`
        for poller in &self.pollers {
            // Without the wake-up the loop would end up to a second later.
            let _ = poller.notify();
        }
        for peer in self.others() {
            self.shared.record_loss(self.shared.describe(peer, LossCause::Left));
            for connection in self.shared.peers[peer.index()].connections.iter().flatten() {
                connection.take_down();
            }
        }
    }
}

impl fmt::Debug for TcpTransport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TcpTransport")
            .field("rank", &self.rank())
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{BlockingSink, FrozenTimeEnv};

    #[test]
    fn senders_learn_of_a_loss_after_the_sink() {
        let sink = BlockingSink::new();
        let peer = || TcpPeer {
            address: "here".into(),
            connections: [None, None],
            last_heard_nanos: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            state: Mutex::default(),
        };
        let shared = TcpShared {
            rank: Rank::ROOT,
            peers: vec![peer(), peer()],
            sink: sink.clone(),
            counters: TrafficCounters::new(2),
            env: Arc::new(FrozenTimeEnv),
            gone: Mutex::new(0),
            peer_gone: Condvar::new(),
        };
        let other = Rank::new(1);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                shared.record_loss(shared.describe(other, LossCause::Failed { reason: "no more paper".into() }));
            });
            sink.while_blocked(|| {
                // A sender that learns of the loss now asks the sink for the peer to blame, and
                // would leave with the blame on itself if the sink did not know.
                assert_eq!(shared.loss(other), None);
                assert!(!shared.peers[1].gone.load(Ordering::Acquire));
            });
        });
        assert!(shared.loss(other).is_some());
    }
}
