//! All connections of a peer as a [`Transport`].
//!
//! **Loss.** The first sign of it (end of stream, error, bad frame, silence, a failure notice) takes both lanes of the
//! peer down and tells the inbox once. A peer that ended well has *left* when it has said so on both lanes, so that
//! what it sent on the slower lane is still delivered; its lanes stay open for our own goodbye.

use crate::buffer::BufferPool;
use crate::counters::Counters;
use crate::decoder::Decoder;
use crate::frame::{FrameKind, OVERHEAD_BYTES};
use crate::tcp::connection::{Connection, Limits, Listener, SendFailure, broken};
use crate::tcp::io_loop::IoLoop;
use crate::tcp::outbound::Outbound;
use crate::tcp::stream::Stream;
use bytes::Bytes;
use hemiola_core::{
    Assist, ChannelId, Env, Inbox, JobId, Lane, LossCause, Message, Moment, Outgoing, Parting, Payload, PeerLost,
    Purpose, Rank, Traffic, Transport, TransportError,
};
use parking_lot::{Condvar, Mutex};
use polling::Poller;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Sizes a TCP transport keeps to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TcpLimits {
    /// Largest payload of one frame. Default 1 GiB.
    pub frame: usize,
    /// Bytes that may be queued for one peer on the control lane before senders wait. Default 1 MiB.
    pub control_queue: usize,
    /// Bytes that may be queued for one peer on the bulk lane before senders wait. Default 16 MiB; a single larger
    /// message is queued whole when nothing else is.
    pub bulk_queue: usize,
    /// Bytes of one peer and lane that may lie untaken in mailboxes before its socket is no longer read.
    /// Default 256 MiB.
    pub inbound: usize,
    /// Bytes of idle receive buffers kept for reuse. Default 256 MiB.
    pub pool: usize,
}

impl Default for TcpLimits {
    fn default() -> Self {
        Self { frame: 1 << 30, control_queue: 1 << 20, bulk_queue: 16 << 20, inbound: 256 << 20, pool: 256 << 20 }
    }
}

/// An authenticated connection that joining hands over.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: Rank,
    pub(crate) lane: Lane,
    pub(crate) stream: Stream,
    pub(crate) decoder: Decoder,
    /// Frames this side has sent on it.
    pub(crate) sent: u64,
}

/// What is known of one other peer.
struct Peer {
    address: String,
    /// By lane. `None` for this peer itself.
    connections: [Option<Arc<Connection>>; 2],
    /// When it was last heard of, in nanoseconds of the environment.
    heard: AtomicU64,
    /// `state` holds a loss.
    gone: AtomicBool,
    state: Mutex<PeerState>,
}

#[derive(Default)]
struct PeerState {
    loss: Option<PeerLost>,
    /// By lane: it has said goodbye.
    parted: [bool; 2],
}

/// What connections report to; shared between transport and I/O loops.
struct Shared {
    rank: Rank,
    peers: Vec<Peer>,
    inbox: Arc<dyn Inbox>,
    counters: Counters,
    env: Arc<dyn Env>,
    /// How many peers are gone. Held while a loss is recorded and reported.
    gone: Mutex<usize>,
    someone_gone: Condvar,
}

impl Shared {
    fn describe(&self, rank: Rank, cause: LossCause) -> PeerLost {
        let peer = &self.peers[rank.index()];
        let last_heard = self.env.now() - Moment::from_nanos(peer.heard.load(Ordering::Relaxed));
        PeerLost { rank, address: peer.address.clone(), cause, last_heard }
    }

    /// Tells the inbox, records why a peer is gone and takes its lanes down; only the first call does anything.
    ///
    /// The inbox comes first: whoever fails to send to the peer asks it who is to blame.
    fn lose(&self, loss: PeerLost) {
        let peer = &self.peers[loss.rank.index()];
        // One loss at a time, so that the inbox hears of them in the order in which they follow from each other: the
        // loss a leaving peer names has been reported before that peer's own leaving is.
        let mut gone = self.gone.lock();
        if peer.state.lock().loss.is_some() {
            return;
        }
        self.inbox.lost(loss.clone());
        tracing::debug!(peer = %loss.rank, cause = %loss.cause, "peer gone");
        let loss = peer.state.lock().loss.insert(loss).clone();
        peer.gone.store(true, Ordering::Release); // pairs with the load in `TcpTransport::frame`
        if loss.cause != LossCause::Left {
            tell_why(peer, &loss);
            for connection in peer.connections.iter().flatten() {
                connection.take_down();
            }
        }
        *gone += 1;
        drop(gone);
        self.someone_gone.notify_all();
    }

    fn loss(&self, rank: Rank) -> Option<PeerLost> {
        self.peers[rank.index()].state.lock().loss.clone()
    }
}

/// A peer that is given up although it lives should hear why, if it can still hear.
fn tell_why(peer: &Peer, loss: &PeerLost) {
    let lives = matches!(loss.cause, LossCause::Corrupt { .. } | LossCause::Flooded { .. } | LossCause::Silent { .. });
    if let (true, Some(control)) = (lives, &peer.connections[Lane::Control.index()]) {
        // What cannot be written at once is not worth waiting for: the connection ends here.
        let refused = || TransportError::Closed;
        let _ = control.send(
            FrameKind::Farewell,
            farewell(Lane::Control, &Parting::Lost(loss.clone())),
            &[],
            Duration::ZERO,
            &refused,
        );
    }
}

/// The last message of a connection.
fn farewell(lane: Lane, parting: &Parting) -> Outgoing {
    let payload = postcard::to_stdvec(parting).expect("a parting is plain data").into();
    Outgoing { lane, channel: ChannelId::new(0), purpose: Purpose::Liveness, payload }
}

impl Listener for Shared {
    fn heard(&self, peer: Rank) {
        self.peers[peer.index()].heard.store(self.env.now().as_nanos(), Ordering::Relaxed);
    }

    fn deliver(&self, message: Message) {
        self.counters.received(message.from, message.lane, message.purpose, message.payload.len() + OVERHEAD_BYTES);
        self.inbox.deliver(message);
    }

    fn parted(&self, peer: Rank, lane: Lane, parting: Parting) {
        let cause = match parting {
            Parting::Done => {
                let mut state = self.peers[peer.index()].state.lock();
                state.parted[lane.index()] = true;
                if state.parted != [true; 2] {
                    return;
                }
                LossCause::Left
            }
            Parting::Failed { reason } => LossCause::Failed { reason },
            Parting::Lost(loss) => {
                // The messenger only passes on the news. News of our own death mean that it could not hear us.
                if loss.rank == self.rank || loss.rank.index() >= self.peers.len() {
                    LossCause::Failed { reason: loss.to_string() }
                } else {
                    self.lose(loss);
                    LossCause::Left
                }
            }
        };
        self.lose(self.describe(peer, cause));
    }

    fn broken(&self, peer: Rank, lane: Lane, cause: LossCause) {
        // A peer says why it goes on the control lane; that explains more than the end of the other lane.
        let control = self.peers[peer.index()].connections[Lane::Control.index()].as_ref();
        if let (Lane::Bulk, LossCause::Closed, Some(control)) = (lane, &cause, control) {
            control.hear_out(self);
        }
        self.lose(self.describe(peer, cause));
    }
}

/// The transport between processes.
pub struct TcpTransport {
    shared: Arc<Shared>,
    limit: usize,
    stop: Arc<AtomicBool>,
    pollers: [Arc<Poller>; 2],
}

impl TcpTransport {
    /// Takes over the links of a joined peer. The returned loops must run for anything to arrive.
    pub(crate) fn new(
        rank: Rank,
        job: JobId,
        addresses: Vec<String>,
        links: Vec<Link>,
        limits: &TcpLimits,
        inbox: Arc<dyn Inbox>,
        env: &Arc<dyn Env>,
    ) -> io::Result<(Arc<Self>, Vec<IoLoop>)> {
        let size = addresses.len();
        let pollers = [Arc::new(Poller::new()?), Arc::new(Poller::new()?)];
        let now = env.now().as_nanos();
        let mut peers: Vec<Peer> = addresses
            .into_iter()
            .map(|address| Peer {
                address,
                connections: [None, None],
                heard: AtomicU64::new(now),
                gone: AtomicBool::new(false),
                state: Mutex::default(),
            })
            .collect();
        let leases: [Arc<AtomicUsize>; 2] = Default::default();
        let mut by_key = [Vec::new(), Vec::new()];
        for Link { peer, lane, stream, mut decoder, sent } in links {
            decoder.set_limit(limits.frame);
            let queue = match lane {
                Lane::Control => limits.control_queue,
                Lane::Bulk => limits.bulk_queue,
            };
            let connection = Arc::new(Connection::new(
                peer,
                lane,
                job,
                stream,
                decoder,
                Outbound::starting_at(sent),
                by_key[lane.index()].len(),
                pollers[lane.index()].clone(),
                leases[lane.index()].clone(),
                env.clone(),
                Limits { queue, inbound: limits.inbound },
            ));
            by_key[lane.index()].push(connection.clone());
            peers[peer.index()].connections[lane.index()] = Some(connection);
        }
        let shared = Arc::new(Shared {
            rank,
            peers,
            inbox,
            counters: Counters::new(size),
            env: env.clone(),
            gone: Mutex::new(0),
            someone_gone: Condvar::new(),
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
                listener: shared.clone(),
                leases: leases[lane.index()].clone(),
                env: env.clone(),
                stop: stop.clone(),
            });
        }
        Ok((Arc::new(Self { shared, limit: limits.frame.min(u32::MAX as usize), stop, pollers }), loops))
    }

    /// A pool for the receive buffers of all connections of a peer.
    pub(crate) fn pool(limits: &TcpLimits) -> BufferPool {
        BufferPool::new(limits.pool)
    }

    fn others(&self) -> impl Iterator<Item = Rank> + '_ {
        Rank::all(self.size()).filter(|rank| *rank != self.shared.rank)
    }

    fn connection(&self, peer: Rank, lane: Lane) -> Option<&Arc<Connection>> {
        self.shared.peers.get(peer.index())?.connections[lane.index()].as_ref()
    }

    fn frame(
        &self,
        to: Rank,
        kind: FrameKind,
        message: Outgoing,
        tail: &[u8],
        timeout: Duration,
    ) -> Result<(), TransportError> {
        let Outgoing { lane, purpose, .. } = message;
        let connection = self.connection(to, lane).ok_or(TransportError::NoSuchPeer { peer: to, size: self.size() })?;
        let bytes = message.payload.len() + tail.len() + OVERHEAD_BYTES;
        let loss = || self.shared.loss(to).map_or(TransportError::Closed, TransportError::Lost);
        if kind == FrameKind::Data && self.shared.peers[to.index()].gone.load(Ordering::Acquire) {
            return Err(loss());
        }
        match connection.send(kind, message, tail, timeout, &loss) {
            Ok(()) => {
                self.shared.counters.sent(to, lane, purpose, bytes);
                Ok(())
            }
            Err(SendFailure::Refused(error)) => Err(error),
            Err(SendFailure::Broken(error)) => {
                // What the peer said before it went may still lie in our socket and explains more than the error.
                connection.hear_out(&*self.shared);
                self.shared.broken(to, lane, broken(&error));
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

    fn send(&self, to: Rank, message: Outgoing, timeout: Duration) -> Result<(), TransportError> {
        self.send_lent(to, message, &[], timeout)
    }

    fn send_lent(&self, to: Rank, message: Outgoing, tail: &[u8], timeout: Duration) -> Result<(), TransportError> {
        let length = message.payload.len() + tail.len();
        if length > self.limit {
            return Err(TransportError::TooLarge { length, limit: self.limit });
        }
        if to == self.shared.rank {
            let Outgoing { lane, channel, purpose, payload } = message;
            let parts = payload.parts().cloned().chain(std::iter::once(Bytes::copy_from_slice(tail)));
            let payload = Payload::from_parts(parts).into_bytes();
            self.shared.inbox.deliver(Message { from: to, lane, channel, purpose, payload });
            return Ok(());
        }
        self.frame(to, FrameKind::Data, message, tail, timeout)
    }

    fn assist(&self, from: Rank, lane: Lane, timeout: Duration, done: &mut dyn FnMut() -> bool) -> Assist {
        match self.connection(from, lane) {
            Some(connection) => connection.assist(timeout, &*self.shared, done),
            None => Assist::Decline,
        }
    }

    fn taken(&self, from: Rank, lane: Lane, bytes: usize) {
        if let Some(connection) = self.connection(from, lane) {
            connection.taken(bytes);
        }
    }

    fn last_heard(&self, peer: Rank) -> Moment {
        if self.connection(peer, Lane::Control).is_some_and(|control| control.is_paused()) {
            self.shared.heard(peer); // it is we who do not listen
        }
        Moment::from_nanos(self.shared.peers[peer.index()].heard.load(Ordering::Relaxed))
    }

    fn address(&self, peer: Rank) -> String {
        self.shared.peers[peer.index()].address.clone()
    }

    fn sever(&self, loss: PeerLost) {
        self.shared.lose(loss);
    }

    fn traffic(&self) -> Traffic {
        self.shared.counters.snapshot()
    }

    fn close(&self, parting: Parting, timeout: Duration) {
        let deadline = self.shared.env.now() + timeout;
        for (peer, lane) in self.others().flat_map(|peer| Lane::ALL.map(|lane| (peer, lane))) {
            // Whoever is gone already needs no goodbye.
            let left = deadline - self.shared.env.now();
            let _ = self.frame(peer, FrameKind::Farewell, farewell(lane, &parting), &[], left);
        }
        for connection in self.shared.peers.iter().flat_map(|peer| peer.connections.iter().flatten()) {
            connection.drain(deadline - self.shared.env.now());
        }
        // Closing a socket with unread bytes in it resets the connection, and a reset destroys what the other side has
        // not read yet, our goodbye included. So wait for theirs.
        let mut gone = self.shared.gone.lock();
        while *gone + 1 < self.size() {
            let left = deadline - self.shared.env.now();
            if left.is_zero() {
                break;
            }
            self.shared.someone_gone.wait_for(&mut gone, left);
        }
        drop(gone);
        self.stop.store(true, Ordering::Release); // pairs with the load in `IoLoop::run`
        for poller in &self.pollers {
            // Without the wake-up the loop would end a second later.
            let _ = poller.notify();
        }
        for peer in self.others() {
            self.shared.lose(self.shared.describe(peer, LossCause::Left));
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
    use crate::test_support::{Hesitant, Still};

    #[test]
    fn senders_hear_of_a_loss_after_the_inbox() {
        let inbox = Hesitant::new();
        let peer = || Peer {
            address: "here".into(),
            connections: [None, None],
            heard: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            state: Mutex::default(),
        };
        let shared = Shared {
            rank: Rank::ROOT,
            peers: vec![peer(), peer()],
            inbox: inbox.clone(),
            counters: Counters::new(2),
            env: Arc::new(Still),
            gone: Mutex::new(0),
            someone_gone: Condvar::new(),
        };
        let other = Rank::new(1);
        std::thread::scope(|scope| {
            scope.spawn(|| shared.lose(shared.describe(other, LossCause::Failed { reason: "no more paper".into() })));
            inbox.while_it_hears(|| {
                // Whoever knows of it now asks the inbox who is to blame, and leaves with the blame on itself if that does not know.
                assert_eq!(shared.loss(other), None);
                assert!(!shared.peers[1].gone.load(Ordering::Acquire));
            });
        });
        assert!(shared.loss(other).is_some());
    }
}
