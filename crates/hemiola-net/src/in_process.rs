//! Peers as threads of one process: messages change hands by pointer.
//!
//! Used by standalone clusters, in tests and notebooks. It keeps the contract of [`Transport`] to the letter, limits
//! included: a sender waits while the receiver holds more than [`IN_FLIGHT_LIMIT`] undelivered bytes of one lane.

use crate::buffer::{BufferPool, POOLED_FROM};
use crate::counters::Counters;
use crate::frame::OVERHEAD_BYTES;
use hemiola_core::{
    Env, Inbox, Lane, LossCause, Message, Moment, Outgoing, Parting, PeerLost, Rank, Traffic, Transport, TransportError,
};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of one sender on one lane that may lie in the receiver's mailboxes.
pub const IN_FLIGHT_LIMIT: usize = 256 << 20;

/// Bytes of idle buffers kept for reuse.
const POOL_BYTES: usize = 64 << 20;

/// What all peers of one process share.
struct Hub {
    inboxes: Vec<Arc<dyn Inbox>>,
    state: Mutex<State>,
    room: Condvar,
    /// By peer: when it last sent anything.
    heard: Vec<AtomicU64>,
    /// By peer.
    counters: Vec<Counters>,
    /// For payloads that were only lent: memory fresh from the system costs more to touch than a message to copy.
    pool: BufferPool,
}

struct State {
    /// By receiver, sender, lane: bytes delivered and not taken.
    in_flight: Vec<usize>,
    /// By peer: it sends nothing any more.
    closed: Vec<bool>,
    /// By peer: why it is gone. Set when every inbox has heard of it, since whoever fails to send asks there who is to blame.
    gone: Vec<Option<LossCause>>,
}

/// One peer's end of the hub.
pub struct InProcess {
    rank: Rank,
    hub: Arc<Hub>,
    env: Arc<dyn Env>,
}

impl InProcess {
    /// The ends of a job whose peers receive in `inboxes`, in rank order.
    #[must_use]
    pub fn connect(inboxes: Vec<Arc<dyn Inbox>>, env: &Arc<dyn Env>) -> Vec<Arc<Self>> {
        let size = inboxes.len();
        let hub = Arc::new(Hub {
            inboxes,
            state: Mutex::new(State {
                in_flight: vec![0; size * size * 2],
                closed: vec![false; size],
                gone: vec![None; size],
            }),
            room: Condvar::new(),
            pool: BufferPool::new(POOL_BYTES),
            counters: (0..size).map(|_| Counters::new(size)).collect(),
            heard: (0..size).map(|_| AtomicU64::new(env.now().as_nanos())).collect(),
        });
        let end = |rank| Arc::new(Self { rank, hub: hub.clone(), env: env.clone() });
        Rank::all(size).map(end).collect()
    }

    /// The only peer of a job of one.
    #[must_use]
    pub fn alone(inbox: Arc<dyn Inbox>, env: &Arc<dyn Env>) -> Arc<Self> {
        Self::connect(vec![inbox], env).remove(0)
    }

    fn place(&self, to: Rank, from: Rank, lane: Lane) -> usize {
        (to.index() * self.size() + from.index()) * 2 + lane.index()
    }

    fn loss(&self, rank: Rank, cause: LossCause) -> PeerLost {
        let last_heard = self.env.now() - self.last_heard(rank);
        PeerLost { rank, address: self.address(rank), cause, last_heard }
    }

    fn error_if_gone(&self, state: &State, to: Rank) -> Result<(), TransportError> {
        if state.closed[self.rank.index()] {
            return Err(TransportError::Closed);
        }
        match &state.gone[to.index()] {
            Some(cause) => Err(TransportError::Lost(self.loss(to, cause.clone()))),
            None => Ok(()),
        }
    }
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("InProcess")
            .field("rank", &self.rank)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}

impl Transport for InProcess {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.hub.inboxes.len()
    }

    fn send(&self, to: Rank, message: Outgoing, timeout: Duration) -> Result<(), TransportError> {
        if to.index() >= self.size() {
            return Err(TransportError::NoSuchPeer { peer: to, size: self.size() });
        }
        let Outgoing { lane, channel, purpose, payload } = message;
        let payload = payload.into_bytes();
        let place = self.place(to, self.rank, lane);
        let start = self.env.now();
        let mut state = self.hub.state.lock();
        loop {
            self.error_if_gone(&state, to)?;
            let queued = state.in_flight[place];
            // To oneself nothing waits: the thread that would make room may be this one.
            let cost = payload.len() + OVERHEAD_BYTES;
            if queued == 0 || queued + cost <= IN_FLIGHT_LIMIT || to == self.rank {
                state.in_flight[place] += cost;
                break;
            }
            let waited = self.env.now() - start;
            if waited >= timeout {
                return Err(TransportError::Stuck { peer: to, lane, queued, waited });
            }
            self.hub.room.wait_for(&mut state, timeout.saturating_sub(waited));
        }
        drop(state);
        self.hub.heard[self.rank.index()].store(self.env.now().as_nanos(), Ordering::Relaxed);
        let bytes = payload.len() + OVERHEAD_BYTES;
        self.hub.counters[self.rank.index()].sent(to, lane, purpose, bytes);
        self.hub.counters[to.index()].received(self.rank, lane, purpose, bytes);
        self.hub.inboxes[to.index()].deliver(Message { from: self.rank, lane, channel, purpose, payload });
        Ok(())
    }

    fn send_lent(&self, to: Rank, message: Outgoing, tail: &[u8], timeout: Duration) -> Result<(), TransportError> {
        let length = message.payload.len() + tail.len();
        let fill = |bytes: &mut [u8]| {
            let mut rest = &mut *bytes;
            for part in message.payload.parts().map(|part| &part[..]).chain(std::iter::once(tail)) {
                let (place, after) = rest.split_at_mut(part.len());
                place.copy_from_slice(part);
                rest = after;
            }
        };
        let whole = if length < POOLED_FROM {
            let mut bytes = vec![0; length];
            fill(&mut bytes);
            bytes.into()
        } else {
            let mut buffer = self.hub.pool.take(length);
            fill(buffer.bytes_mut());
            buffer.into_bytes()
        };
        self.send(to, Outgoing { payload: whole.into(), ..message }, timeout)
    }

    fn taken(&self, from: Rank, lane: Lane, bytes: usize) {
        let mut state = self.hub.state.lock();
        state.in_flight[self.place(self.rank, from, lane)] -= bytes + OVERHEAD_BYTES;
        drop(state);
        self.hub.room.notify_all();
    }

    fn last_heard(&self, peer: Rank) -> Moment {
        Moment::from_nanos(self.hub.heard[peer.index()].load(Ordering::Relaxed))
    }

    fn address(&self, peer: Rank) -> String {
        format!("thread {peer} of this process")
    }

    fn sever(&self, loss: PeerLost) {
        self.hub.inboxes[self.rank.index()].lost(loss);
    }

    /// Counts bytes as they would travel, headers included, so that a plan can be judged without a network.
    fn traffic(&self) -> Traffic {
        self.hub.counters[self.rank.index()].snapshot()
    }

    fn close(&self, parting: Parting, _timeout: Duration) {
        let (blamed, cause) = match parting {
            Parting::Done => (None, LossCause::Left),
            Parting::Failed { reason } => (None, LossCause::Failed { reason }),
            Parting::Lost(loss) => (Some(loss), LossCause::Left),
        };
        if std::mem::replace(&mut self.hub.state.lock().closed[self.rank.index()], true) {
            return;
        }
        let loss = self.loss(self.rank, cause.clone());
        for other in Rank::all(self.size()).filter(|other| *other != self.rank) {
            let inbox = &self.hub.inboxes[other.index()];
            if let Some(blamed) = blamed.clone().filter(|blamed| blamed.rank != other) {
                inbox.lost(blamed);
            }
            inbox.lost(loss.clone());
        }
        self.hub.state.lock().gone[self.rank.index()] = Some(cause);
        self.hub.room.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{Hesitant, Still};
    use hemiola_core::{ChannelId, Purpose};

    #[test]
    fn senders_hear_of_a_loss_after_their_inbox() {
        let env: Arc<dyn Env> = Arc::new(Still);
        let inboxes: Vec<_> = (0..2).map(|_| Hesitant::new()).collect();
        let ends = InProcess::connect(inboxes.iter().map(|inbox| inbox.clone() as Arc<dyn Inbox>).collect(), &env);
        let send = || {
            let payload = vec![1_u8].into();
            let (lane, channel, purpose) = (Lane::Control, ChannelId::new(1), Purpose::Custom);
            ends[0].send(Rank::new(1), Outgoing { lane, channel, purpose, payload }, Duration::ZERO)
        };
        std::thread::scope(|scope| {
            scope.spawn(|| ends[1].close(Parting::Failed { reason: "no more paper".into() }, Duration::ZERO));
            inboxes[0].while_it_hears(|| assert_eq!(send(), Ok(())));
        });
        assert!(matches!(send(), Err(TransportError::Lost(loss)) if loss.rank == Rank::new(1)));
    }
}
