//! One connection to one peer on one lane.
//!
//! **Reading.** Whoever holds `inbound` reads: the lane's I/O loop when the socket is readable, or a thread that waits
//! for a message of this peer ([`Connection::assist`]). While a thread assists, the loop does not watch the socket, so
//! that a message wakes one thread, not two. Nobody leaves `inbound` with complete frames undelivered, nor with bytes that
//! TLS has decrypted: the poller sees neither, so nobody would come back for them.
//!
//! A message that somebody waits for often comes within microseconds, less than it takes to be woken. So an assistant stays awake for a moment, and
//! lets others run meanwhile.
//!
//! **Lending.** Telling the poller before and after each message costs more than reading it. A connection whose
//! assistants keep coming back within [`SOON`] is *lent* to them: the loop leaves it alone between their visits, and
//! takes it back when none has come for [`LEASE`]. So a message that nobody waits for is delayed by at most about two
//! leases, and only right after a burst of messages that somebody did wait for.
//!
//! **Writing.** Whoever holds `outbound` writes. A sender writes at once if nothing is queued, and leaves the rest to
//! the I/O loop. When more than `queue_limit` bytes are queued, senders wait for `room`.
//!
//! **Back-pressure.** Bytes delivered and not yet taken out of their mailbox are counted in `untaken`. Above
//! `inbound_limit` the loop stops watching the socket until half is taken, so that the sender's socket fills and the
//! sender waits. A thread that assists holds back while others take messages out, and reads on slowly if nobody does, since
//! its own message may be behind; at four times the limit the peer counts as flooding us.
//!
//! **Locks**, in order: `inbound` or `outbound`, then `interest`. The inbox is called with `inbound` held.

use crate::decoder::Decoder;
use crate::frame::{FrameHeader, FrameKind, OVERHEAD_BYTES};
use crate::tcp::outbound::Outbound;
use crate::tcp::stream::{BRIEF, Patience, Stream};
use bytes::Bytes;
use hemiola_core::{Assist, Env, JobId, Lane, LossCause, Message, Moment, Outgoing, Parting, Rank, TransportError};
use parking_lot::{Condvar, Mutex, MutexGuard};
use polling::{Event, PollMode, Poller};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Reads or writes in a row before another connection has its turn.
const TURN_PIECES: usize = 16;

/// Reads in a row after which a thread that assists looks at the clock.
const TIME_CHECK: u32 = 64;

/// What an untaken message costs besides its payload, so that small ones are bounded too.
const MESSAGE_COST: usize = 128;

/// How long a thread waits for the I/O loop to hand reading over; one piece takes a fraction of it.
const HANDOVER: Duration = Duration::from_millis(2);

/// How long a peer may go on talking after one of its lanes has ended.
const HEARING: Duration = Duration::from_millis(200);

/// A thread that assists again within this time is likely to go on like that. Longer than it takes to add up and send on a large message, also where peers share a core: whenever the I/O loop
/// reads in between, two threads take turns where one would do.
const SOON: Duration = Duration::from_millis(1);
/// How long a thread that assists looks again and again before it sleeps: about as long as falling asleep and being woken takes.
const AWAKE: Duration = Duration::from_micros(30);
/// So many quick returns in a row make a connection lent.
const HABIT: u32 = 4;
/// A lent connection goes back to the I/O loop when nobody has read it for this long. The loop looks as often.
pub(crate) const LEASE: Duration = Duration::from_millis(1);

/// What a connection tells its transport. Called with `inbound` held.
pub(crate) trait Listener: Send + Sync {
    /// Something came from the peer.
    fn heard(&self, peer: Rank);
    /// A message came.
    fn deliver(&self, message: Message);
    /// The peer said goodbye on this lane.
    fn parted(&self, peer: Rank, lane: Lane, parting: Parting);
    /// The connection is of no use any more.
    fn broken(&self, peer: Rank, lane: Lane, cause: LossCause);
}

/// Sizes a connection keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes that may be queued before senders wait.
    pub(crate) queue: usize,
    /// Bytes that may lie untaken before reading stops.
    pub(crate) inbound: usize,
}

/// What the poller watches this connection for.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other; no enum would say more")]
struct Interest {
    /// A thread assists.
    assisted: bool,
    /// The I/O loop leaves reading to threads that assist, even while none does.
    lent: bool,
    /// When a thread last ended assisting, and how many have come back soon, in a row.
    left: Moment,
    habit: u32,
    /// Too much is untaken.
    paused: bool,
    /// Something is queued for writing.
    writing: bool,
    /// Registered with the poller.
    watched: bool,
    /// What the poller was told last.
    told: (bool, bool),
}

pub(crate) struct Connection {
    pub(crate) peer: Rank,
    pub(crate) lane: Lane,
    job: JobId,
    stream: Stream,
    key: usize,
    poller: Arc<Poller>,
    /// How many connections of this lane are lent. The loop reads it before it sleeps; see `IoLoop::run`.
    leases: Arc<AtomicUsize>,
    env: Arc<dyn Env>,
    limits: Limits,
    inbound: Mutex<Decoder>,
    outbound: Mutex<Outbound>,
    room: Condvar,
    interest: Mutex<Interest>,
    untaken: AtomicUsize,
    /// The I/O loop holds `inbound`. A hint, like the next one: nothing but speed depends on them.
    loop_reads: AtomicBool,
    /// A thread waits for the I/O loop to hand `inbound` over.
    claimed: AtomicBool,
    /// Set once, when the connection is given up or the peer has parted; read by everyone before they touch it.
    down: AtomicBool,
}

impl Connection {
    #[expect(clippy::too_many_arguments, reason = "called once, by the transport that owns all of these")]
    pub(crate) fn new(
        peer: Rank,
        lane: Lane,
        job: JobId,
        stream: Stream,
        decoder: Decoder,
        outbound: Outbound,
        key: usize,
        poller: Arc<Poller>,
        leases: Arc<AtomicUsize>,
        env: Arc<dyn Env>,
        limits: Limits,
    ) -> Self {
        Self {
            peer,
            lane,
            job,
            stream,
            key,
            poller,
            leases,
            env,
            limits,
            inbound: Mutex::new(decoder),
            outbound: Mutex::new(outbound),
            room: Condvar::new(),
            interest: Mutex::new(Interest::default()),
            untaken: AtomicUsize::new(0),
            loop_reads: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            down: AtomicBool::new(false),
        }
    }

    /// Starts watching the socket.
    #[expect(unsafe_code, reason = "the poller asks for a promise about the socket's life")]
    pub(crate) fn watch(&self) -> io::Result<()> {
        let mut interest = self.interest.lock();
        // SAFETY: the socket must be deleted from the poller before it is closed. `unwatch` does so; it runs when the
        // connection is taken down and, at the latest, in `drop`, which is before the stream's own drop.
        unsafe { self.poller.add_with_mode(&self.stream.fd(), Event::readable(self.key), PollMode::Level)? };
        interest.watched = true;
        interest.told = (true, false);
        Ok(())
    }

    fn unwatch(&self) {
        let mut interest = self.interest.lock();
        if std::mem::take(&mut interest.watched) {
            // It can only fail for a socket that is not registered.
            let _ = self.poller.delete(self.stream.fd());
        }
    }

    fn change_interest(&self, change: impl FnOnce(&mut Interest)) {
        let mut interest = self.interest.lock();
        change(&mut interest);
        let wanted = (!interest.assisted && !interest.lent && !interest.paused, interest.writing);
        if interest.watched && interest.told != wanted {
            interest.told = wanted;
            let event = Event::new(self.key, wanted.0, wanted.1);
            // It can only fail for a socket that is not registered.
            let _ = self.poller.modify_with_mode(self.stream.fd(), event, PollMode::Level);
        }
    }

    /// Whether the socket is not read because too much is untaken.
    pub(crate) fn is_paused(&self) -> bool {
        self.interest.lock().paused
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire) // pairs with the store in `take_down`
    }

    /// Closes the connection at once and wakes everyone who waits on it.
    pub(crate) fn take_down(&self) {
        self.down.store(true, Ordering::Release); // pairs with the load in `is_down`
        self.unwatch();
        self.stream.shutdown(Shutdown::Both);
        self.outbound.lock().clear();
        self.room.notify_all();
    }

    /// Queues a frame and writes what fits. `loss` says why the peer is gone, once this connection is down. The payload ends in `tail`, which is lent: what of it
    /// does not fit is copied.
    pub(crate) fn send(
        &self,
        kind: FrameKind,
        message: Outgoing,
        tail: &[u8],
        timeout: Duration,
        loss: &dyn Fn() -> TransportError,
    ) -> Result<(), SendFailure> {
        let Outgoing { channel, purpose, payload, .. } = message;
        let bytes = payload.len() + tail.len() + OVERHEAD_BYTES;
        let mut outbound = self.outbound.lock();
        let mut start = None;
        loop {
            if self.is_down() {
                return Err(SendFailure::Refused(loss()));
            }
            if outbound.closed {
                return Err(SendFailure::Refused(TransportError::Closed));
            }
            let queued = outbound.queued();
            if queued == 0 || queued + bytes <= self.limits.queue {
                break;
            }
            let now = self.env.now();
            let start: Moment = *start.get_or_insert(now);
            if now - start >= timeout {
                let stuck = TransportError::Stuck { peer: self.peer, lane: self.lane, queued, waited: now - start };
                return Err(SendFailure::Refused(stuck));
            }
            self.make_room(&mut outbound).map_err(SendFailure::Broken)?;
        }
        let header = FrameHeader { kind, purpose, length: 0, job: self.job, sequence: 0, channel };
        let idle = outbound.is_empty();
        if tail.is_empty() {
            outbound.push(header, payload);
        } else {
            outbound.push_lent(header, payload, tail, &self.stream).map_err(SendFailure::Broken)?;
        }
        outbound.closed = kind == FrameKind::Farewell;
        if idle {
            // As many pieces as the socket takes: it stops us long before this number.
            outbound.pump(&self.stream, usize::MAX).map_err(SendFailure::Broken)?;
            self.leave_rest_to_loop(&outbound).map_err(SendFailure::Broken)?;
        }
        Ok(())
    }

    /// Writes what the socket takes, waiting briefly for it to take anything. A sender that has to wait for room makes
    /// it itself, so that it is woken directly and not through the I/O loop.
    fn make_room(&self, outbound: &mut MutexGuard<'_, Outbound>) -> io::Result<()> {
        self.change_interest(|interest| interest.writing = false);
        outbound.pump(&self.stream, TURN_PIECES)?;
        if !outbound.is_empty() {
            MutexGuard::unlocked(outbound, || self.stream.wait_writable())?;
            outbound.pump(&self.stream, TURN_PIECES)?;
        }
        self.leave_rest_to_loop(outbound)?;
        self.room.notify_all();
        Ok(())
    }

    /// Has the I/O loop write what is left, if anything is.
    fn leave_rest_to_loop(&self, outbound: &Outbound) -> io::Result<()> {
        let rest = !outbound.is_empty() || !self.stream.flush()?;
        self.change_interest(|interest| interest.writing = rest);
        Ok(())
    }

    /// The socket can take more.
    pub(crate) fn on_writable(&self) -> io::Result<()> {
        let mut outbound = self.outbound.lock();
        outbound.pump(&self.stream, TURN_PIECES)?;
        self.leave_rest_to_loop(&outbound)?;
        drop(outbound);
        self.room.notify_all();
        Ok(())
    }

    /// Waits until everything queued is written; `false` if that takes longer than `timeout` or is in vain.
    pub(crate) fn drain(&self, timeout: Duration) -> bool {
        let deadline = self.env.now() + timeout;
        let mut outbound = self.outbound.lock();
        while !outbound.is_empty() && !self.is_down() {
            let left = deadline - self.env.now();
            if left.is_zero() {
                return false;
            }
            self.room.wait_for(&mut outbound, left);
        }
        !self.is_down()
    }

    /// The socket has something to read.
    pub(crate) fn on_readable(&self, listener: &dyn Listener) {
        // If a thread assists, it reads.
        let Some(mut decoder) = self.inbound.try_lock() else { return };
        self.loop_reads.store(true, Ordering::Relaxed);
        for _ in 0..TURN_PIECES {
            if self.is_down() || !self.read_once(&mut decoder, Patience::Now, listener) {
                break;
            }
            // A thread that waits for a message wants to read by itself, or enough lies untaken.
            if self.claimed.load(Ordering::Relaxed) || self.untaken.load(Ordering::Relaxed) > self.limits.inbound {
                break;
            }
        }
        self.read_held_back(&mut decoder, listener);
        self.loop_reads.store(false, Ordering::Relaxed);
    }

    /// Reads what is out of the socket already. That is no more than a few records of TLS.
    fn read_held_back(&self, decoder: &mut Decoder, listener: &dyn Listener) {
        while !self.is_down() && self.stream.holds_back() && self.read_once(decoder, Patience::Now, listener) {}
    }

    /// The right to read: at once if nobody reads, after its current piece if the I/O loop does. Another thread that
    /// assists may keep it for long, and serves everyone meanwhile.
    fn claim(&self) -> Option<MutexGuard<'_, Decoder>> {
        if let Some(decoder) = self.inbound.try_lock() {
            return Some(decoder);
        }
        if !self.loop_reads.load(Ordering::Relaxed) {
            return None;
        }
        self.claimed.store(true, Ordering::Relaxed);
        let decoder = self.inbound.try_lock_for(HANDOVER);
        self.claimed.store(false, Ordering::Relaxed);
        decoder
    }

    /// Reads what the peer may have said last, waiting briefly for it.
    pub(crate) fn hear_out(&self, listener: &dyn Listener) {
        let deadline = self.env.now() + HEARING;
        // Another thread may be about to report the very words.
        if let Some(mut decoder) = self.inbound.try_lock_for(HEARING) {
            while !self.is_down()
                && self.env.now() < deadline
                && self.read_once(&mut decoder, Patience::Brief, listener)
            {}
        }
    }

    /// See [`hemiola_core::Transport::assist`].
    pub(crate) fn assist(&self, timeout: Duration, listener: &dyn Listener, done: &mut dyn FnMut() -> bool) -> Assist {
        let Some(mut decoder) = self.claim() else { return Assist::Decline };
        if done() {
            return Assist::Done;
        }
        if self.is_down() {
            return Assist::Decline;
        }
        let arrival = self.env.now();
        self.change_interest(|interest| {
            interest.assisted = true;
            let soon = arrival - interest.left < SOON;
            interest.habit = if soon { interest.habit.saturating_add(1) } else { 0 };
        });
        let deadline = arrival + timeout;
        let mut reads = 0_u32;
        let mut awake_until = arrival + AWAKE;
        let outcome = loop {
            let held_back = self.holds_back();
            let awake = self.env.now() < awake_until;
            let patience = if awake { Patience::Now } else { Patience::Brief };
            let read = !held_back && self.read_once(&mut decoder, patience, listener);
            if read {
                awake_until = self.env.now() + AWAKE;
            } else if awake {
                // Whoever has something to do, the sender perhaps, does it meanwhile.
                std::thread::yield_now();
            }
            reads = reads.wrapping_add(1);
            if done() {
                break Assist::Done;
            }
            if self.is_down() {
                break Assist::Decline;
            }
            // Asking for the time only after a fruitless read keeps it off the fast path; but what comes may all be for
            // others, for as long as the peer likes.
            if ((!read && !awake) || reads.is_multiple_of(TIME_CHECK)) && self.env.now() >= deadline {
                break Assist::TimedOut;
            }
        };
        self.read_held_back(&mut decoder, listener);
        drop(decoder);
        self.stop_assisting();
        outcome
    }

    /// Whether too much is untaken while others are taking it out: to read on would only pile up more. If nobody takes
    /// anything, whoever should may be the one that waits for what is behind, so reading goes on, piece by piece.
    fn holds_back(&self) -> bool {
        let before = self.untaken.load(Ordering::Relaxed);
        if before <= self.limits.inbound {
            return false;
        }
        self.env.pause(BRIEF);
        self.untaken.load(Ordering::Relaxed) < before
    }

    fn stop_assisting(&self) {
        let left = self.env.now();
        let mut newly_lent = false;
        self.change_interest(|interest| {
            interest.assisted = false;
            interest.left = left;
            newly_lent = interest.habit >= HABIT && !std::mem::replace(&mut interest.lent, interest.habit >= HABIT);
        });
        if newly_lent && self.leases.fetch_add(1, Ordering::SeqCst) == 0 {
            // The loop may be asleep for long: it has to look at the clock from now on.
            let _ = self.poller.notify();
        }
    }

    /// Takes the connection back for the I/O loop if it was lent and nobody has come for a while.
    pub(crate) fn end_lease(&self, now: Moment) {
        let mut ended = false;
        self.change_interest(|interest| {
            // Also while a thread assists: it may wait for long, and nobody should watch the clock meanwhile.
            ended = interest.lent && now - interest.left >= LEASE;
            interest.lent &= !ended;
        });
        if ended {
            self.leases.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// One read; says whether anything came and more may follow.
    fn read_once(&self, decoder: &mut Decoder, patience: Patience, listener: &dyn Listener) -> bool {
        match self.stream.read(decoder.space(), patience) {
            Ok(0) => {
                self.give_up(LossCause::Closed, listener);
                false
            }
            Ok(count) => {
                listener.heard(self.peer);
                let outcome = decoder.filled(count, &mut |header, payload| self.accept(header, payload, listener));
                if let Err(error) = outcome {
                    self.give_up(LossCause::Corrupt { reason: error.to_string() }, listener);
                }
                outcome.is_ok()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                self.give_up(broken(&error), listener);
                false
            }
        }
    }

    /// Nothing more can be read. The listener may know why already (the peer has left); then the connection goes
    /// down quietly.
    fn give_up(&self, cause: LossCause, listener: &dyn Listener) {
        listener.broken(self.peer, self.lane, cause);
        self.take_down();
    }

    fn accept(&self, header: FrameHeader, payload: Bytes, listener: &dyn Listener) {
        if self.is_down() {
            return; // a frame before this one in the same read has ended the connection: nothing follows a loss
        }
        match header.kind {
            FrameKind::Data => {
                let cost = payload.len() + MESSAGE_COST;
                let untaken = self.untaken.fetch_add(cost, Ordering::Relaxed) + cost;
                if untaken > self.limits.inbound {
                    self.change_interest(|interest| interest.paused = true);
                    // Everything may have been taken before `paused` was set; then nobody else would lift it.
                    self.resume_if_low();
                }
                if untaken > self.limits.inbound.saturating_mul(4) {
                    listener.broken(self.peer, self.lane, LossCause::Flooded { pending: untaken as u64 });
                    return;
                }
                let FrameHeader { purpose, channel, .. } = header;
                listener.deliver(Message { from: self.peer, lane: self.lane, channel, purpose, payload });
            }
            FrameKind::Farewell => match postcard::from_bytes(&payload) {
                Ok(parting) => listener.parted(self.peer, self.lane, parting),
                Err(error) => listener.broken(self.peer, self.lane, LossCause::Corrupt { reason: error.to_string() }),
            },
            FrameKind::Handshake => {
                let reason = "a handshake frame after joining".to_owned();
                listener.broken(self.peer, self.lane, LossCause::Corrupt { reason });
            }
        }
    }

    /// A message of `bytes` has been taken out of its mailbox.
    pub(crate) fn taken(&self, bytes: usize) {
        let before = self.untaken.fetch_sub(bytes + MESSAGE_COST, Ordering::Relaxed);
        // Only a crossing of the mark can make a difference, so the lock is taken rarely.
        if before > self.limits.inbound / 2 {
            self.resume_if_low();
        }
    }

    fn resume_if_low(&self) {
        if self.untaken.load(Ordering::Relaxed) <= self.limits.inbound / 2 {
            self.change_interest(|interest| interest.paused = false);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.unwatch();
    }
}

/// Why a frame was not sent.
pub(crate) enum SendFailure {
    /// The frame was not queued.
    Refused(TransportError),
    /// The connection broke while writing.
    Broken(io::Error),
}

/// The loss that an I/O error means. A reset is the end of the other process, as a silent close is.
pub(crate) fn broken(error: &io::Error) -> LossCause {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            LossCause::Closed
        }
        _ => LossCause::Broken { reason: error.to_string() },
    }
}
