//! Transport between peers that are threads of one process: messages are passed by pointer.
//!
//! Used by standalone clusters, in tests and notebooks. It implements the full contract of
//! [`Transport`], limits included: a sender waits while the receiver holds more than
//! [`IN_FLIGHT_LIMIT`] unconsumed bytes of one lane.

use crate::buffer::{BufferPool, MIN_POOLED_BYTES};
use crate::counters::TrafficCounters;
use hemiola_core::FRAME_OVERHEAD_BYTES;
use hemiola_core::{
    Env, GoodbyeReason, Lane, LossCause, Message, MessageSink, Moment, OutgoingMessage, PeerLost, Rank, Traffic,
    Transport, TransportError,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Maximum unconsumed bytes of one sender and lane in the channels of a receiver.
pub const IN_FLIGHT_LIMIT: usize = 256 << 20;

/// Bytes of idle buffers kept for reuse.
const POOL_BYTES: usize = 64 << 20;

/// State shared by all peers of one process.
struct InProcessNetwork {
    sinks: Vec<Arc<dyn MessageSink>>,
    state: Mutex<InProcessState>,
    room: Condvar,
    /// By peer: time of its last message.
    last_sent: Vec<AtomicU64>,
    /// By peer: its traffic counters.
    counters: Vec<TrafficCounters>,
    /// Buffers for borrowed payloads: touching fresh memory costs more than copying a message.
    pool: BufferPool,
}

struct InProcessState {
    /// By receiver, sender and lane: bytes delivered and not yet consumed.
    in_flight: Vec<usize>,
    /// By peer: true once it sends nothing any more.
    closed: Vec<bool>,
    /// By peer: cause of its loss. Set after every sink has been notified, since a sender that
    /// fails asks its sink for the peer to blame.
    gone: Vec<Option<LossCause>>,
}

/// Endpoint of one peer.
pub struct InProcessTransport {
    rank: Rank,
    network: Arc<InProcessNetwork>,
    env: Arc<dyn Env>,
}

impl InProcessTransport {
    /// Creates the endpoints of a job whose peers receive in `sinks`, in rank order.
    #[must_use]
    pub fn connect(sinks: Vec<Arc<dyn MessageSink>>, env: &Arc<dyn Env>) -> Vec<Arc<Self>> {
        let size = sinks.len();
        let network = Arc::new(InProcessNetwork {
            sinks,
            state: Mutex::new(InProcessState {
                in_flight: vec![0; size * size * 2],
                closed: vec![false; size],
                gone: vec![None; size],
            }),
            room: Condvar::new(),
            pool: BufferPool::new(POOL_BYTES),
            counters: (0..size).map(|_| TrafficCounters::new(size)).collect(),
            last_sent: (0..size).map(|_| AtomicU64::new(env.now().as_nanos())).collect(),
        });
        let end = |rank| Arc::new(Self { rank, network: network.clone(), env: env.clone() });
        Rank::all(size).map(end).collect()
    }

    /// Creates the endpoint of a job of one peer.
    #[must_use]
    pub fn single_peer(sink: Arc<dyn MessageSink>, env: &Arc<dyn Env>) -> Arc<Self> {
        Self::connect(vec![sink], env).remove(0)
    }

    fn lane_index(&self, to: Rank, from: Rank, lane: Lane) -> usize {
        (to.index() * self.size() + from.index()) * 2 + lane.index()
    }

    fn loss(&self, rank: Rank, cause: LossCause) -> PeerLost {
        let last_heard = self.env.now() - self.last_heard(rank);
        PeerLost { rank, address: self.address(rank), cause, last_heard }
    }

    fn error_if_lost(&self, state: &InProcessState, to: Rank) -> Result<(), TransportError> {
        if state.closed[self.rank.index()] {
            return Err(TransportError::Closed);
        }
        match &state.gone[to.index()] {
            Some(cause) => Err(TransportError::Lost(self.loss(to, cause.clone()))),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for InProcessTransport {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("InProcessTransport")
            .field("rank", &self.rank)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Transport for InProcessTransport {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.network.sinks.len()
    }

    fn send(&self, to: Rank, message: OutgoingMessage, timeout: Duration) -> Result<(), TransportError> {
        if to.index() >= self.size() {
            return Err(TransportError::NoSuchPeer { peer: to, size: self.size() });
        }
        let OutgoingMessage { lane, channel, purpose, payload } = message;
        let payload = payload.into_bytes();
        let lane_index = self.lane_index(to, self.rank, lane);
        let start = self.env.now();
        let mut state = self.network.state.lock();
        loop {
            self.error_if_lost(&state, to)?;
            let queued = state.in_flight[lane_index];
            // A message to the own rank never waits: the thread that would make room may be this
            // one.
            let cost = payload.len() + FRAME_OVERHEAD_BYTES;
            if queued == 0 || queued + cost <= IN_FLIGHT_LIMIT || to == self.rank {
                state.in_flight[lane_index] += cost;
                break;
            }
            let waited = self.env.now() - start;
            if waited >= timeout {
                return Err(TransportError::SendTimeout { peer: to, lane, queued, waited });
            }
            self.network.room.wait_for(&mut state, timeout.saturating_sub(waited));
        }
        drop(state);
        self.network.last_sent[self.rank.index()].store(self.env.now().as_nanos(), Ordering::Relaxed);
        let bytes = payload.len() + FRAME_OVERHEAD_BYTES;
        self.network.counters[self.rank.index()].sent(to, lane, purpose, bytes);
        self.network.counters[to.index()].received(self.rank, lane, purpose, bytes);
        self.network.sinks[to.index()].deliver(Message { from: self.rank, lane, channel, purpose, payload });
        Ok(())
    }

    fn send_borrowed(
        &self,
        to: Rank,
        message: OutgoingMessage,
        tail: &[u8],
        timeout: Duration,
    ) -> Result<(), TransportError> {
        let length = message.payload.len() + tail.len();
        let fill = |bytes: &mut [u8]| {
            let mut rest = &mut *bytes;
            for part in message.payload.parts().map(|part| &part[..]).chain(std::iter::once(tail)) {
                let (target, after) = rest.split_at_mut(part.len());
                target.copy_from_slice(part);
                rest = after;
            }
        };
        let whole = if length < MIN_POOLED_BYTES {
            let mut bytes = vec![0; length];
            fill(&mut bytes);
            bytes.into()
        } else {
            let mut buffer = self.network.pool.take(length);
            fill(buffer.bytes_mut());
            buffer.into_bytes()
        };
        self.send(to, OutgoingMessage { payload: whole.into(), ..message }, timeout)
    }

    fn consumed(&self, from: Rank, lane: Lane, bytes: usize) {
        let mut state = self.network.state.lock();
        state.in_flight[self.lane_index(self.rank, from, lane)] -= bytes + FRAME_OVERHEAD_BYTES;
        drop(state);
        self.network.room.notify_all();
    }

    fn last_heard(&self, peer: Rank) -> Moment {
        Moment::from_nanos(self.network.last_sent[peer.index()].load(Ordering::Relaxed))
    }

    fn address(&self, peer: Rank) -> String {
        format!("thread {peer} of this process")
    }

    fn disconnect(&self, loss: PeerLost) {
        self.network.sinks[self.rank.index()].peer_lost(loss);
    }

    /// Counts bytes as they would travel, headers included, so that a plan can be evaluated without
    /// a network.
    fn traffic(&self) -> Traffic {
        self.network.counters[self.rank.index()].snapshot()
    }

    fn close(&self, goodbye: GoodbyeReason, _timeout: Duration) {
        let (blamed, cause) = match goodbye {
            GoodbyeReason::Done => (None, LossCause::Left),
            GoodbyeReason::Failed { reason } => (None, LossCause::Failed { reason }),
            GoodbyeReason::Lost(loss) => (Some(loss), LossCause::Left),
        };
        if std::mem::replace(&mut self.network.state.lock().closed[self.rank.index()], true) {
            return;
        }
        let loss = self.loss(self.rank, cause.clone());
        for other in Rank::all(self.size()).filter(|other| *other != self.rank) {
            let sink = &self.network.sinks[other.index()];
            if let Some(blamed) = blamed.clone().filter(|blamed| blamed.rank != other) {
                sink.peer_lost(blamed);
            }
            sink.peer_lost(loss.clone());
        }
        self.network.state.lock().gone[self.rank.index()] = Some(cause);
        self.network.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{BlockingSink, FrozenTimeEnv};
    use hemiola_core::{ChannelId, Purpose};

    #[test]
    fn senders_learn_of_a_loss_after_their_sink() {
        let env: Arc<dyn Env> = Arc::new(FrozenTimeEnv);
        let sinks: Vec<_> = (0..2).map(|_| BlockingSink::new()).collect();
        let ends =
            InProcessTransport::connect(sinks.iter().map(|sink| sink.clone() as Arc<dyn MessageSink>).collect(), &env);
        let send = || {
            let payload = vec![1_u8].into();
            let (lane, channel, purpose) = (Lane::Control, ChannelId::new(1), Purpose::Custom);
            ends[0].send(Rank::new(1), OutgoingMessage { lane, channel, purpose, payload }, Duration::ZERO)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| ends[1].close(GoodbyeReason::Failed { reason: "no more paper".into() }, Duration::ZERO));
            sinks[0].while_blocked(|| assert_eq!(send(), Ok(())));
        });
        assert!(matches!(send(), Err(TransportError::Lost(loss)) if loss.rank == Rank::new(1)));
    }
}
