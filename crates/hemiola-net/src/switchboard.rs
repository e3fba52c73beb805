//! Where arriving messages wait for the thread that wants them.
//!
//! The [`Router`] is the [`Inbox`] of a real transport: it sorts messages into [`Mailbox`]es by channel. A message
//! may come before its mailbox is opened (the sender is ahead); it is kept until then. Inside a mailbox each sender
//! has its own queue, in order.
//!
//! A mailbox may have an *attendant*, which takes messages where they are read, on the thread that reads: a request that is answered at once needs
//! no other thread to be woken. What it gives back lies in the mailbox as usual. And it may have a *bell*, for a thread that waits for several mailboxes and other things at once.
//!
//! **Threads.** Any thread may deliver, open and receive. A receiver first looks into its queue, then
//! [assists](Transport::assist) the transport (reads the socket itself), and only if another thread reads already does
//! it sleep until woken. **Locks.** `Router::state` before a mailbox's `queues`; neither is held while calling the
//! transport. **Loss.** When a peer is lost, every waiting receiver wakes and fails, because in an SPMD job no wait can
//! be trusted to end any more; a peer that *left* after ending well fails only those who wait for it, and so does one whose loss was *forgiven*.

use hemiola_core::{Assist, ChannelId, Env, Inbox, Lane, LossCause, Message, PeerLost, Rank, Transport};
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Why no message was received.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// A peer is gone.
    #[error(transparent)]
    Lost(#[from] PeerLost),
    /// Nothing came in time.
    #[error("nothing arrived within {:.1} s", waited.as_secs_f64())]
    TimedOut {
        /// How long the receiver waited.
        waited: Duration,
    },
}

/// How long a sleeping receiver goes without looking around. It is woken for everything it needs to know; this
/// only bounds the harm should that ever fail.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// Sorts arriving messages into mailboxes.
#[derive(Debug)]
pub struct Router {
    size: usize,
    state: Mutex<State>,
    /// Number of peers lost. Grows under `state`, before the mailboxes are woken; a receiver that is about to sleep
    /// compares it with what it saw before it looked for losses.
    lost: AtomicUsize,
}

#[derive(Debug)]
struct State {
    /// Mailboxes that are open, or hold messages that came early.
    boxes: BTreeMap<ChannelId, Arc<Slot>>,
    /// By rank: why that peer is gone.
    losses: Vec<Option<PeerLost>>,
    /// Ranks in the order they were lost.
    order: Vec<Rank>,
    /// By rank: the others go on without it.
    forgiven: Vec<bool>,
}

impl State {
    /// The first loss that makes the job fail.
    fn failure(&self) -> Option<&PeerLost> {
        let lost = |rank: &Rank| self.losses[rank.index()].as_ref().filter(|_| !self.forgiven[rank.index()]);
        self.order.iter().filter_map(lost).find(|loss| loss.cause != LossCause::Left)
    }

    /// Why waiting for `from` (for anyone, if `None`) is in vain, if it is.
    fn obstacle(&self, from: Option<Rank>) -> Option<&PeerLost> {
        let lost = |rank: &Rank| self.losses[rank.index()].as_ref();
        let fatal = self.failure();
        match from {
            Some(rank) => fatal.or_else(|| lost(&rank)),
            None => {
                fatal.or_else(|| self.order.last().filter(|_| self.order.len() + 1 >= self.losses.len()).and_then(lost))
            }
        }
    }
}

type Attendant = Arc<dyn Fn(Message) -> Option<Message> + Send + Sync>;
type Bell = Arc<dyn Fn() + Send + Sync>;

struct Slot {
    queues: Mutex<Queues>,
    arrived: Condvar,
    attendant: OnceLock<Attendant>,
    bell: OnceLock<Bell>,
}

impl Slot {
    /// Wakes whoever waits for something to happen here.
    fn call(&self) {
        self.arrived.notify_all();
        if let Some(ring) = self.bell.get() {
            ring();
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Slot").field("queues", &self.queues).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Queues {
    /// By sender.
    waiting: Vec<VecDeque<Message>>,
    /// Where the next look for a message of anyone starts, so that nobody is starved.
    cursor: usize,
    /// A mailbox takes messages out.
    open: bool,
}

impl Queues {
    fn pop(&mut self, from: Option<Rank>) -> Option<Message> {
        if let Some(rank) = from {
            return self.waiting[rank.index()].pop_front();
        }
        let size = self.waiting.len();
        let at = (self.cursor..self.cursor + size).map(|at| at % size).find(|at| !self.waiting[*at].is_empty())?;
        self.cursor = (at + 1) % size;
        self.waiting[at].pop_front()
    }

    fn holds(&self, from: Option<Rank>) -> bool {
        match from {
            Some(rank) => !self.waiting[rank.index()].is_empty(),
            None => self.waiting.iter().any(|queue| !queue.is_empty()),
        }
    }
}

impl Router {
    /// The switchboard of a peer in a job of `size`.
    #[must_use]
    pub fn new(size: usize) -> Arc<Self> {
        let state =
            State { boxes: BTreeMap::new(), losses: vec![None; size], order: Vec::new(), forgiven: vec![false; size] };
        Arc::new(Self { size, state: Mutex::new(state), lost: AtomicUsize::new(0) })
    }

    /// Opens the mailbox of `channel`, whose messages come on `lane`. Messages that came early are in it.
    ///
    /// # Panics
    /// If the mailbox is open already: two owners would steal each other's messages.
    #[must_use]
    pub fn open(
        self: &Arc<Self>,
        channel: ChannelId,
        lane: Lane,
        transport: &Arc<dyn Transport>,
        env: &Arc<dyn Env>,
    ) -> Mailbox {
        let mut state = self.state.lock();
        let slot = self.slot(&mut state, channel);
        let open = std::mem::replace(&mut slot.queues.lock().open, true);
        drop(state);
        assert!(!open, "mailbox {channel} is open already");
        Mailbox { board: self.clone(), slot, channel, lane, transport: transport.clone(), env: env.clone() }
    }

    /// The first loss that makes the job fail, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<PeerLost> {
        self.state.lock().failure().cloned()
    }

    /// From now on the loss of `rank`, whenever it came or comes, fails only those who wait for it: the others know how to go on without it.
    pub fn forgive(&self, rank: Rank) {
        self.state.lock().forgiven[rank.index()] = true;
    }

    /// All peers but those whose loss was forgiven.
    #[must_use]
    pub fn members(&self) -> Vec<Rank> {
        let state = self.state.lock();
        Rank::all(self.size).filter(|rank| !state.forgiven[rank.index()]).collect()
    }

    /// Why `rank` is gone, if it is.
    #[must_use]
    pub fn loss(&self, rank: Rank) -> Option<PeerLost> {
        self.state.lock().losses[rank.index()].clone()
    }

    /// Whether `rank` is lost or has left.
    #[must_use]
    pub fn is_gone(&self, rank: Rank) -> bool {
        self.state.lock().losses[rank.index()].is_some()
    }

    fn slot(&self, state: &mut State, channel: ChannelId) -> Arc<Slot> {
        let fresh = || {
            let waiting = (0..self.size).map(|_| VecDeque::new()).collect();
            let queues = Mutex::new(Queues { waiting, cursor: 0, open: false });
            Arc::new(Slot { queues, arrived: Condvar::new(), attendant: OnceLock::new(), bell: OnceLock::new() })
        };
        state.boxes.entry(channel).or_insert_with(fresh).clone()
    }
}

impl Inbox for Router {
    fn deliver(&self, mut message: Message) {
        let mut state = self.state.lock();
        let mut slot = self.slot(&mut state, message.channel);
        if let Some(attend) = slot.attendant.get().cloned() {
            drop(state);
            match attend(message) {
                None => return,
                Some(back) => message = back,
            }
            state = self.state.lock();
            slot = self.slot(&mut state, message.channel);
        }
        // The state stays locked until the message lies in its queue, so that a mailbox that closes takes it along.
        slot.queues.lock().waiting[message.from.index()].push_back(message);
        drop(state);
        slot.call();
    }

    fn lost(&self, loss: PeerLost) {
        let mut state = self.state.lock();
        let place = &mut state.losses[loss.rank.index()];
        if place.is_some() {
            return;
        }
        let rank = loss.rank;
        *place = Some(loss);
        state.order.push(rank);
        // Pairs with the loads in `Mailbox::sleep`; the mutexes around both order everything else.
        self.lost.fetch_add(1, Ordering::SeqCst);
        let slots: Vec<Arc<Slot>> = state.boxes.values().cloned().collect();
        drop(state);
        for slot in slots {
            // Taking the lock waits for a receiver that has just looked to fall asleep, so that it hears the call.
            drop(slot.queues.lock());
            slot.call();
        }
    }
}

/// The messages of one channel.
#[derive(Debug)]
pub struct Mailbox {
    board: Arc<Router>,
    slot: Arc<Slot>,
    channel: ChannelId,
    lane: Lane,
    transport: Arc<dyn Transport>,
    env: Arc<dyn Env>,
}

impl Mailbox {
    /// Has `attend` take messages from now on, on the thread that reads them. It gives back those that are to lie here.
    ///
    /// It must not wait for anything but a lock that is held for a moment: nothing else is read meanwhile. Messages that lie here already stay, and
    /// what is given back may be overtaken.
    ///
    /// # Panics
    /// If there is an attendant already.
    pub fn attend(&self, attend: impl Fn(Message) -> Option<Message> + Send + Sync + 'static) {
        let transport = self.transport.clone();
        let attendant = move |message: Message| {
            let (from, lane, bytes) = (message.from, message.lane, message.payload.len());
            let back = attend(message);
            if back.is_none() {
                transport.taken(from, lane, bytes);
            }
            back
        };
        let set = self.slot.attendant.set(Arc::new(attendant));
        assert!(set.is_ok(), "mailbox {} has an attendant already", self.channel);
    }

    /// Has `ring` called from now on whenever a message has come to lie here and whenever a peer is lost, on the thread that has noticed. It must not wait for anything but a lock that is held for a moment.
    ///
    /// # Panics
    /// If there is a bell already.
    pub fn with_bell(&self, ring: impl Fn() + Send + Sync + 'static) {
        assert!(self.slot.bell.set(Arc::new(ring)).is_ok(), "mailbox {} has a bell already", self.channel);
    }

    /// The next message of `from`, waiting at most `timeout`. With no time at all, nobody but the transport's own threads reads: for those who come back when the bell rings.
    pub fn receive_from(&self, from: Rank, timeout: Duration) -> Result<Message, ReceiveError> {
        self.take(Some(from), timeout)
    }

    /// The next message of anyone, waiting at most `timeout`. Senders take turns.
    pub fn receive(&self, timeout: Duration) -> Result<Message, ReceiveError> {
        self.take(None, timeout)
    }

    /// A message of anyone, if one is here now.
    #[must_use]
    pub fn try_receive(&self) -> Option<Message> {
        let message = self.slot.queues.lock().pop(None);
        self.popped(message)
    }

    fn take(&self, from: Option<Rank>, timeout: Duration) -> Result<Message, ReceiveError> {
        let here = self.slot.queues.lock().pop(from);
        if let Some(message) = self.popped(here) {
            return Ok(message);
        }
        let start = self.env.now();
        let deadline = start + timeout;
        loop {
            let now = self.env.now();
            let left = deadline - now;
            let assisted = match from {
                _ if timeout.is_zero() => Assist::Decline,
                Some(peer) if peer != self.transport.rank() => {
                    let mut done =
                        || self.slot.queues.lock().holds(from) || self.board.state.lock().obstacle(from).is_some();
                    self.transport.assist(peer, self.lane, left, &mut done)
                }
                _ => Assist::Decline,
            };
            let message =
                if assisted == Assist::Decline { self.sleep(from, left) } else { self.slot.queues.lock().pop(from) };
            if let Some(message) = self.popped(message) {
                return Ok(message);
            }
            let obstacle = self.board.state.lock().obstacle(from).cloned();
            if let Some(loss) = obstacle {
                // What a peer sent before it went has been delivered before its loss: look once more.
                let last = self.slot.queues.lock().pop(from);
                return self.popped(last).ok_or(ReceiveError::Lost(loss));
            }
            if self.env.now() >= deadline {
                return Err(ReceiveError::TimedOut { waited: self.env.now() - start });
            }
        }
    }

    /// Waits to be woken, or for a while.
    fn sleep(&self, from: Option<Rank>, left: Duration) -> Option<Message> {
        let lost = self.board.lost.load(Ordering::SeqCst);
        let vain = self.board.state.lock().obstacle(from).is_some();
        let mut queues = self.slot.queues.lock();
        // A loss from here on locks `queues` before it calls, so it finds us asleep and wakes us.
        if !vain && !queues.holds(from) && lost == self.board.lost.load(Ordering::SeqCst) {
            self.slot.arrived.wait_for(&mut queues, left.min(LOOK_AROUND));
        }
        queues.pop(from)
    }

    fn popped(&self, message: Option<Message>) -> Option<Message> {
        if let Some(message) = &message {
            self.transport.taken(message.from, message.lane, message.payload.len());
        }
        message
    }
}

impl Drop for Mailbox {
    /// Closes the mailbox; messages still in it are dropped.
    fn drop(&mut self) {
        let mut state = self.board.state.lock();
        state.boxes.remove(&self.channel);
        drop(state);
        while let Some(message) = self.try_receive() {
            drop(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_process::InProcess;
    use crate::test_support::Still;
    use hemiola_core::{Outgoing, Parting, Purpose};

    #[test]
    fn a_bell_rings_when_a_message_lies_here_and_when_a_peer_is_gone() {
        let env: Arc<dyn Env> = Arc::new(Still);
        let boards: Vec<_> = (0..2).map(|_| Router::new(2)).collect();
        let ends = InProcess::connect(boards.iter().map(|board| board.clone() as Arc<dyn Inbox>).collect(), &env);
        let (channel, lane) = (ChannelId::new(7), Lane::Control);
        let send = || {
            let (purpose, payload) = (Purpose::Custom, vec![1_u8].into());
            ends[0].send(Rank::new(1), Outgoing { lane, channel, purpose, payload }, Duration::ZERO).unwrap();
        };
        // What came before there was a bell has to be looked for.
        send();
        let transport: Arc<dyn Transport> = ends[1].clone();
        let mailbox = Arc::new(boards[1].open(channel, lane, &transport, &env));
        let heard: Arc<Mutex<Vec<usize>>> = Arc::default();
        let (hearing, looking) = (heard.clone(), Arc::downgrade(&mailbox));
        mailbox.with_bell(move || {
            let mailbox = looking.upgrade().expect("it is open");
            let here = std::iter::from_fn(|| mailbox.try_receive()).count();
            hearing.lock().push(here);
        });
        assert!(heard.lock().is_empty());
        send();
        send();
        ends[0].close(Parting::Failed { reason: "no more paper".into() }, Duration::ZERO);
        assert_eq!(*heard.lock(), [2, 1, 0], "messages at each ring");
        // Without any time to wait, nothing is waited for: time stands still here.
        assert!(matches!(mailbox.receive_from(Rank::ROOT, Duration::ZERO), Err(ReceiveError::Lost(_))));
    }
}
