//! Router of arriving messages: delivers each message to the receiver of its channel.
//!
//! The [`Router`] is the [`MessageSink`] of a real transport. It sorts messages by channel. A message
//! may arrive before its channel is opened, because the sender is ahead; it is kept until then. Each
//! sender of a channel has its own first-in, first-out queue. The queues exist from the opening on,
//! so that a message for a channel that nobody opens costs the same in a job of any size.
//!
//! A channel may have a *handler*, which is called inline on the thread that reads the message: a
//! request that is answered immediately needs no other thread to be woken. Messages that the handler
//! returns are queued as usual. A channel may also have a *waker*, for a thread that waits for
//! several channels and other conditions at once.
//!
//! **Threads.** Any thread may deliver, open and receive. A receiver first checks its queue, then
//! [assists](Transport::assist) the transport (reads the socket itself), and sleeps only if another
//! thread already reads. **Locks.** `Router::state` before the `queues` of a channel; neither is held
//! while calling the transport.
//!
//! **Loss.** When a peer is lost, every waiting receiver wakes and fails, because in an SPMD job no
//! wait can be trusted to end any more. A peer that *left* after a successful end fails only the
//! receivers that wait for it, and so does a peer that was *excluded*. See shutdown.md of
//! `hemiola-cluster`, sections States of a peer and Races.

use hemiola_core::{
    AssistOutcome, ChannelId, Env, Lane, LossCause, Message, MessageSink, PeerLost, RECHECK_INTERVAL, Rank, Transport,
};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Error of receiving a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// A peer was lost.
    #[error(transparent)]
    Lost(#[from] PeerLost),
    /// No message arrived within the timeout.
    #[error("nothing arrived within {:.1} s", waited.as_secs_f64())]
    TimedOut {
        /// Time that the receiver waited.
        waited: Duration,
    },
}

/// Sorts arriving messages into channels.
#[derive(Debug)]
pub struct Router {
    size: usize,
    state: Mutex<RouterState>,
    /// Number of lost peers. Grows under `state`, before the receivers are woken. A receiver that
    /// is about to sleep compares it with the value from before its check for losses.
    lost: AtomicUsize,
}

#[derive(Debug)]
struct RouterState {
    /// Channels that are open, or hold messages that arrived early.
    channels: BTreeMap<ChannelId, Arc<ChannelState>>,
    /// By rank: the loss of that peer.
    losses: Vec<Option<PeerLost>>,
    /// Ranks in the order of their loss.
    loss_order: Vec<Rank>,
    /// By rank: the other peers continue without it.
    excluded: Vec<bool>,
}

impl RouterState {
    /// Returns the first loss that makes the job fail.
    fn failure(&self) -> Option<&PeerLost> {
        let lost = |rank: &Rank| self.losses[rank.index()].as_ref().filter(|_| !self.excluded[rank.index()]);
        self.loss_order.iter().filter_map(lost).find(|loss| loss.cause != LossCause::Left)
    }

    /// Returns the loss that makes waiting for `from` (for any sender, if `None`) hopeless.
    fn blocking_loss(&self, from: Option<Rank>) -> Option<&PeerLost> {
        let lost = |rank: &Rank| self.losses[rank.index()].as_ref();
        let fatal = self.failure();
        match from {
            Some(rank) => fatal.or_else(|| lost(&rank)),
            None => fatal.or_else(|| {
                self.loss_order.last().filter(|_| self.loss_order.len() + 1 >= self.losses.len()).and_then(lost)
            }),
        }
    }
}

type MessageHandler = Arc<dyn Fn(Message) -> Option<Message> + Send + Sync>;
type ChannelWaker = Arc<dyn Fn() + Send + Sync>;

struct ChannelState {
    queues: Mutex<SenderQueues>,
    arrived: Condvar,
    handler: OnceLock<MessageHandler>,
    waker: OnceLock<ChannelWaker>,
}

impl ChannelState {
    /// Wakes all threads that wait for this channel.
    fn wake(&self) {
        self.arrived.notify_all();
        if let Some(wake) = self.waker.get() {
            wake();
        }
    }
}

impl fmt::Debug for ChannelState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ChannelState").field("queues", &self.queues).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct SenderQueues {
    /// Messages that arrived before the channel was opened.
    early: Vec<Message>,
    /// Queued messages by sender; empty before the channel is opened.
    waiting: Vec<VecDeque<Message>>,
    /// Sender at which the next search for a message of any sender starts, so that none is starved.
    next_sender: usize,
    /// True while a [`ChannelReceiver`] exists.
    open: bool,
}

impl SenderQueues {
    /// Opens the channel in a job of `size`. Returns false if it was open.
    fn open(&mut self, size: usize) -> bool {
        if std::mem::replace(&mut self.open, true) {
            return false;
        }
        self.waiting = (0..size).map(|_| VecDeque::new()).collect();
        for message in std::mem::take(&mut self.early) {
            self.push(message);
        }
        true
    }

    fn push(&mut self, message: Message) {
        if self.open {
            self.waiting[message.from.index()].push_back(message);
        } else {
            self.early.push(message);
        }
    }

    fn pop(&mut self, from: Option<Rank>) -> Option<Message> {
        if let Some(rank) = from {
            return self.waiting[rank.index()].pop_front();
        }
        let size = self.waiting.len();
        let at =
            (self.next_sender..self.next_sender + size).map(|at| at % size).find(|at| !self.waiting[*at].is_empty())?;
        self.next_sender = (at + 1) % size;
        self.waiting[at].pop_front()
    }

    fn has_message(&self, from: Option<Rank>) -> bool {
        match from {
            Some(rank) => !self.waiting[rank.index()].is_empty(),
            None => self.waiting.iter().any(|queue| !queue.is_empty()),
        }
    }
}

impl Router {
    /// Creates the router of a peer in a job of `size`.
    #[must_use]
    pub fn new(size: usize) -> Arc<Self> {
        let state = RouterState {
            channels: BTreeMap::new(),
            losses: vec![None; size],
            loss_order: Vec::new(),
            excluded: vec![false; size],
        };
        Arc::new(Self { size, state: Mutex::new(state), lost: AtomicUsize::new(0) })
    }

    /// Opens `channel`, whose messages travel on `lane`. The receiver also gets messages that
    /// arrived early.
    ///
    /// # Panics
    /// If the channel is already open: two receivers would steal each other's messages.
    #[must_use]
    pub fn open_channel(
        self: &Arc<Self>,
        channel: ChannelId,
        lane: Lane,
        transport: &Arc<dyn Transport>,
        env: &Arc<dyn Env>,
    ) -> ChannelReceiver {
        let mut state = self.state.lock();
        let channel_state = Self::channel_state(&mut state, channel);
        let opened = channel_state.queues.lock().open(self.size);
        drop(state);
        assert!(opened, "channel {channel} is already open");
        ChannelReceiver {
            router: self.clone(),
            channel_state,
            channel,
            lane,
            transport: transport.clone(),
            env: env.clone(),
        }
    }

    /// Returns the first loss that makes the job fail, if any.
    #[must_use]
    pub fn failure(&self) -> Option<PeerLost> {
        self.state.lock().failure().cloned()
    }

    /// Excludes `rank`: from now on its loss, past or future, fails only the receivers that wait
    /// for it. The other peers know how to continue without it.
    pub fn exclude(&self, rank: Rank) {
        self.state.lock().excluded[rank.index()] = true;
    }

    /// Returns all peers that are not excluded.
    #[must_use]
    pub fn members(&self) -> Vec<Rank> {
        let state = self.state.lock();
        Rank::all(self.size).filter(|rank| !state.excluded[rank.index()]).collect()
    }

    /// Returns the loss of `rank`, if it is lost or has left.
    #[must_use]
    pub fn loss(&self, rank: Rank) -> Option<PeerLost> {
        self.state.lock().losses[rank.index()].clone()
    }

    /// Returns true if `rank` is lost or has left.
    #[must_use]
    pub fn is_gone(&self, rank: Rank) -> bool {
        self.state.lock().losses[rank.index()].is_some()
    }

    fn channel_state(state: &mut RouterState, channel: ChannelId) -> Arc<ChannelState> {
        let fresh = || {
            let queues = SenderQueues { early: Vec::new(), waiting: Vec::new(), next_sender: 0, open: false };
            let queues = Mutex::new(queues);
            Arc::new(ChannelState { queues, arrived: Condvar::new(), handler: OnceLock::new(), waker: OnceLock::new() })
        };
        state.channels.entry(channel).or_insert_with(fresh).clone()
    }
}

impl MessageSink for Router {
    fn deliver(&self, mut message: Message) {
        let mut state = self.state.lock();
        let mut channel_state = Self::channel_state(&mut state, message.channel);
        if let Some(handle) = channel_state.handler.get().cloned() {
            drop(state);
            match handle(message) {
                None => return,
                Some(back) => message = back,
            }
            state = self.state.lock();
            channel_state = Self::channel_state(&mut state, message.channel);
        }
        // The state stays locked until the message is queued, so that a receiver that closes drops
        // it too.
        channel_state.queues.lock().push(message);
        drop(state);
        channel_state.wake();
    }

    fn peer_lost(&self, loss: PeerLost) {
        let mut state = self.state.lock();
        let slot = &mut state.losses[loss.rank.index()];
        if slot.is_some() {
            return;
        }
        let rank = loss.rank;
        *slot = Some(loss);
        state.loss_order.push(rank);
        // Pairs with the loads in `ChannelReceiver::wait_for_arrival`; the mutexes around both
        // order everything else.
        self.lost.fetch_add(1, Ordering::SeqCst);
        let channel_states: Vec<Arc<ChannelState>> = state.channels.values().cloned().collect();
        drop(state);
        for channel_state in channel_states {
            // Taking the lock waits until a receiver that has just checked is asleep, so that it
            // gets the wake-up.
            drop(channel_state.queues.lock());
            channel_state.wake();
        }
    }
}

/// Receiver of the messages of one channel. Dropping it closes the channel.
#[derive(Debug)]
pub struct ChannelReceiver {
    router: Arc<Router>,
    channel_state: Arc<ChannelState>,
    channel: ChannelId,
    lane: Lane,
    transport: Arc<dyn Transport>,
    env: Arc<dyn Env>,
}

impl ChannelReceiver {
    /// Installs `handle`, which gets every message from now on, on the thread that reads it.
    /// Messages that it returns are queued.
    ///
    /// The handler must not block except on a lock that is held for a moment: nothing else is read
    /// in the meantime. Messages that are already queued stay queued, and later messages may
    /// overtake the returned ones.
    ///
    /// # Panics
    /// If the channel already has a handler.
    pub fn set_handler(&self, handle: impl Fn(Message) -> Option<Message> + Send + Sync + 'static) {
        let transport = self.transport.clone();
        let handler = move |message: Message| {
            let (from, lane, bytes) = (message.from, message.lane, message.payload.len());
            let back = handle(message);
            if back.is_none() {
                transport.consumed(from, lane, bytes);
            }
            back
        };
        let set = self.channel_state.handler.set(Arc::new(handler));
        assert!(set.is_ok(), "channel {} already has a handler", self.channel);
    }

    /// Installs `wake`, which is called whenever a message was queued and whenever a peer is lost,
    /// on the thread that noticed it. It must not block except on a lock that is held for a moment.
    ///
    /// # Panics
    /// If the channel already has a waker.
    pub fn set_waker(&self, wake: impl Fn() + Send + Sync + 'static) {
        assert!(self.channel_state.waker.set(Arc::new(wake)).is_ok(), "channel {} already has a waker", self.channel);
    }

    /// Returns the next message of `from`, waiting at most `timeout`. With a zero timeout only the
    /// transport's own threads read; this suits callers that come back when their waker is called.
    pub fn receive_from(&self, from: Rank, timeout: Duration) -> Result<Message, ReceiveError> {
        self.receive_message(Some(from), timeout)
    }

    /// Returns the next message of any sender, waiting at most `timeout`. Senders take turns.
    pub fn receive(&self, timeout: Duration) -> Result<Message, ReceiveError> {
        self.receive_message(None, timeout)
    }

    /// Returns a queued message of any sender, if there is one.
    #[must_use]
    pub fn try_receive(&self) -> Option<Message> {
        let message = self.channel_state.queues.lock().pop(None);
        self.mark_consumed(message)
    }

    fn receive_message(&self, from: Option<Rank>, timeout: Duration) -> Result<Message, ReceiveError> {
        let here = self.channel_state.queues.lock().pop(from);
        if let Some(message) = self.mark_consumed(here) {
            return Ok(message);
        }
        let start = self.env.now();
        let deadline = start + timeout;
        loop {
            let now = self.env.now();
            let left = deadline - now;
            let assisted = match from {
                _ if timeout.is_zero() => AssistOutcome::Declined,
                Some(peer) if peer != self.transport.rank() => {
                    let mut done = || {
                        self.channel_state.queues.lock().has_message(from)
                            || self.router.state.lock().blocking_loss(from).is_some()
                    };
                    self.transport.assist(peer, self.lane, left, &mut done)
                }
                _ => AssistOutcome::Declined,
            };
            let message = if assisted == AssistOutcome::Declined {
                self.wait_for_arrival(from, left)
            } else {
                self.channel_state.queues.lock().pop(from)
            };
            if let Some(message) = self.mark_consumed(message) {
                return Ok(message);
            }
            let blocking_loss = self.router.state.lock().blocking_loss(from).cloned();
            if let Some(loss) = blocking_loss {
                // Messages of a peer are delivered before its loss: check once more.
                let last = self.channel_state.queues.lock().pop(from);
                return self.mark_consumed(last).ok_or(ReceiveError::Lost(loss));
            }
            if self.env.now() >= deadline {
                return Err(ReceiveError::TimedOut { waited: self.env.now() - start });
            }
        }
    }

    /// Sleeps until woken, or until `left` or the recheck interval has passed.
    fn wait_for_arrival(&self, from: Option<Rank>, left: Duration) -> Option<Message> {
        let lost = self.router.lost.load(Ordering::SeqCst);
        let hopeless = self.router.state.lock().blocking_loss(from).is_some();
        let mut queues = self.channel_state.queues.lock();
        // A loss from here on locks `queues` before its wake-up, so it finds this thread asleep.
        if !hopeless && !queues.has_message(from) && lost == self.router.lost.load(Ordering::SeqCst) {
            self.channel_state.arrived.wait_for(&mut queues, left.min(RECHECK_INTERVAL));
        }
        queues.pop(from)
    }

    fn mark_consumed(&self, message: Option<Message>) -> Option<Message> {
        if let Some(message) = &message {
            self.transport.consumed(message.from, message.lane, message.payload.len());
        }
        message
    }
}

impl Drop for ChannelReceiver {
    /// Closes the channel; messages that are still queued are dropped.
    fn drop(&mut self) {
        let mut state = self.router.state.lock();
        state.channels.remove(&self.channel);
        drop(state);
        while let Some(message) = self.try_receive() {
            drop(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_process::InProcessTransport;
    use crate::test_support::FrozenTimeEnv;
    use hemiola_core::{GoodbyeReason, OutgoingMessage, Purpose};

    #[test]
    fn a_waker_is_called_for_queued_messages_and_lost_peers() {
        let env: Arc<dyn Env> = Arc::new(FrozenTimeEnv);
        let routers: Vec<_> = (0..2).map(|_| Router::new(2)).collect();
        let ends = InProcessTransport::connect(
            routers.iter().map(|router| router.clone() as Arc<dyn MessageSink>).collect(),
            &env,
        );
        let (channel, lane) = (ChannelId::new(7), Lane::Control);
        let send = || {
            let (purpose, payload) = (Purpose::Custom, vec![1_u8].into());
            ends[0].send(Rank::new(1), OutgoingMessage { lane, channel, purpose, payload }, Duration::ZERO).unwrap();
        };
        // A message that arrived before the waker was installed does not call it.
        send();
        let transport: Arc<dyn Transport> = ends[1].clone();
        let receiver = Arc::new(routers[1].open_channel(channel, lane, &transport, &env));
        let counts: Arc<Mutex<Vec<usize>>> = Arc::default();
        let (recorded, weak_receiver) = (counts.clone(), Arc::downgrade(&receiver));
        receiver.set_waker(move || {
            let receiver = weak_receiver.upgrade().expect("it is open");
            let here = std::iter::from_fn(|| receiver.try_receive()).count();
            recorded.lock().push(here);
        });
        assert!(counts.lock().is_empty());
        send();
        send();
        ends[0].close(GoodbyeReason::Failed { reason: "no more paper".into() }, Duration::ZERO);
        assert_eq!(*counts.lock(), [2, 1, 0], "messages at each call");
        // With a zero timeout the receiver does not wait: time stands still in this environment.
        assert!(matches!(receiver.receive_from(Rank::ROOT, Duration::ZERO), Err(ReceiveError::Lost(_))));
    }

    #[test]
    fn an_early_message_costs_the_same_in_a_job_of_any_size() {
        let router = Router::new(10_000);
        let (lane, purpose) = (Lane::Control, Purpose::Custom);
        for number in 0..100 {
            let (from, channel) = (Rank::new(9_999), ChannelId::new(number));
            router.deliver(Message { from, lane, channel, purpose, payload: vec![1_u8].into() });
        }
        let state = router.state.lock();
        assert_eq!(state.channels.len(), 100);
        assert!(state.channels.values().all(|channel| channel.queues.lock().waiting.capacity() == 0));
    }
}
