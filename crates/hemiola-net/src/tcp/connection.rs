//! Connection to one peer on one lane: its readers, its writers and its flow control.
//!
//! The holder of `inbound` reads: the lane's I/O loop, or a thread that waits for a message of this
//! peer ([`Connection::assist`]). The holder of `send_queue` writes. **Invariant:** no thread
//! releases `inbound` with complete frames undelivered, nor with bytes that TLS has already
//! decrypted: the poller sees neither.
//!
//! **Locks**, in order: `inbound`, `send_queue`, `interest`. The observer is called with `inbound`
//! held. See README.md, sections Reading, Leases, Writing, Back-pressure, Lock order and Races.

use crate::decoder::FrameDecoder;
use crate::frame::{FrameHeader, FrameKind};
use crate::tcp::lease::{AssistState, LeaseCount};
use crate::tcp::send_queue::SendQueue;
use crate::tcp::stream::{BRIEF_WAIT, PeerStream, ReadWait};
use bytes::Bytes;
use hemiola_core::FRAME_OVERHEAD_BYTES;
use hemiola_core::{
    AssistOutcome, Env, GoodbyeReason, Lane, LossCause, Message, Moment, OutgoingMessage, Rank, TransportError,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use polling::{Event, PollMode, Poller};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Reads or writes in a row before another connection has its turn.
const MAX_OPERATIONS_PER_TURN: usize = 16;

/// Reads in a row after which an assisting thread checks the time.
const READS_PER_TIME_CHECK: u32 = 64;

/// Memory of an unconsumed message besides its payload, so that small messages are bounded too: its
/// place in the queue, its allocation, and the state of a channel that it may be the first of.
const MESSAGE_COST: usize = 512;

/// Time that a thread waits for the I/O loop to hand reading over; one read takes a fraction of it.
const HANDOVER_TIMEOUT: Duration = Duration::from_millis(2);

/// Time that a peer may still send after one of its lanes has ended.
const GOODBYE_TIMEOUT: Duration = Duration::from_millis(200);

/// Time that an assisting thread spins before it sleeps: about as long as falling asleep and waking
/// up takes.
const SPIN_DURATION: Duration = Duration::from_micros(30);

/// Observer of a connection, implemented by the transport. Called with `inbound` held.
pub(crate) trait ConnectionObserver: Send + Sync {
    /// Records that bytes arrived from the peer.
    fn bytes_received(&self, peer: Rank);
    /// Delivers a message to the sink.
    fn deliver(&self, message: Message);
    /// Handles the goodbye of the peer on this lane.
    fn goodbye_received(&self, peer: Rank, lane: Lane, goodbye: GoodbyeReason);
    /// Handles the end of a connection that cannot be used any more.
    fn connection_lost(&self, peer: Rank, lane: Lane, cause: LossCause);
}

/// Size limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// Bytes that may be queued before senders wait.
    pub(crate) queue: usize,
    /// Unconsumed bytes above which reading stops.
    pub(crate) inbound: usize,
}

/// Events for which the poller watches this connection.
#[derive(Debug, Default)]
struct PollInterest {
    assist: AssistState,
    /// True while too much is unconsumed.
    paused: bool,
    /// True while frames are queued for writing.
    writing: bool,
    /// True while the socket is registered with the poller.
    watched: bool,
    /// Registered interest: readable, writable.
    registered: (bool, bool),
}

pub(crate) struct Connection {
    pub(crate) peer: Rank,
    pub(crate) lane: Lane,
    stream: PeerStream,
    key: usize,
    poller: Arc<Poller>,
    /// Number of leased connections of this lane. The loop reads it before it sleeps; see
    /// `IoLoop::run`.
    leases: Arc<LeaseCount>,
    env: Arc<dyn Env>,
    limits: ConnectionLimits,
    inbound: Mutex<FrameDecoder>,
    send_queue: Mutex<SendQueue>,
    room: Condvar,
    interest: Mutex<PollInterest>,
    unconsumed: AtomicUsize,
    /// True while the I/O loop holds `inbound`. Like the next flag, a hint that affects only speed.
    io_loop_reads: AtomicBool,
    /// True while a thread waits for the I/O loop to release `inbound`.
    reading_requested: AtomicBool,
    /// Set once, when the connection is closed or lost; every thread checks it before using the
    /// connection.
    down: AtomicBool,
}

impl Connection {
    #[expect(clippy::too_many_arguments, reason = "called once, by the transport that owns all of these")]
    pub(crate) fn new(
        peer: Rank,
        lane: Lane,
        stream: PeerStream,
        decoder: FrameDecoder,
        send_queue: SendQueue,
        key: usize,
        poller: Arc<Poller>,
        leases: Arc<LeaseCount>,
        env: Arc<dyn Env>,
        limits: ConnectionLimits,
    ) -> Self {
        Self {
            peer,
            lane,
            stream,
            key,
            poller,
            leases,
            env,
            limits,
            inbound: Mutex::new(decoder),
            send_queue: Mutex::new(send_queue),
            room: Condvar::new(),
            interest: Mutex::new(PollInterest::default()),
            unconsumed: AtomicUsize::new(0),
            io_loop_reads: AtomicBool::new(false),
            reading_requested: AtomicBool::new(false),
            down: AtomicBool::new(false),
        }
    }

    /// Starts polling the socket.
    #[expect(unsafe_code, reason = "the poller asks for a promise about the socket's life")]
    pub(crate) fn watch(&self) -> io::Result<()> {
        let mut interest = self.interest.lock();
        // SAFETY: the socket must be deleted from the poller before it is closed. `unwatch` does
        // so; it runs when the connection is taken down and, at the latest, in `drop`, which is
        // before the stream's own drop.
        unsafe { self.poller.add_with_mode(&self.stream.fd(), Event::readable(self.key), PollMode::Level)? };
        interest.watched = true;
        interest.registered = (true, false);
        Ok(())
    }

    fn unwatch(&self) {
        let mut interest = self.interest.lock();
        if std::mem::take(&mut interest.watched) {
            // This only fails for a socket that is not registered.
            let _ = self.poller.delete(self.stream.fd());
        }
    }

    fn change_interest(&self, change: impl FnOnce(&mut PollInterest)) {
        let mut interest = self.interest.lock();
        change(&mut interest);
        let wanted = (interest.assist.loop_reads() && !interest.paused, interest.writing);
        if interest.watched && interest.registered != wanted {
            interest.registered = wanted;
            let event = Event::new(self.key, wanted.0, wanted.1);
            // This only fails for a socket that is not registered.
            let _ = self.poller.modify_with_mode(self.stream.fd(), event, PollMode::Level);
        }
    }

    /// Returns true if the socket is not read because too much is unconsumed.
    pub(crate) fn is_paused(&self) -> bool {
        self.interest.lock().paused
    }

    fn is_down(&self) -> bool {
        self.down.load(Ordering::Acquire) // pairs with the store in `take_down`
    }

    /// Closes the connection at once and wakes all threads that wait on it.
    pub(crate) fn take_down(&self) {
        self.down.store(true, Ordering::Release); // pairs with the load in `is_down`
        self.unwatch();
        self.stream.shutdown(Shutdown::Both);
        self.send_queue.lock().clear();
        self.room.notify_all();
    }

    /// Queues a frame and writes as much as the socket takes. `loss` returns the error once this
    /// connection is down. The payload ends in the borrowed `tail`, of which only the unwritten
    /// part is copied.
    pub(crate) fn send(
        &self,
        kind: FrameKind,
        message: OutgoingMessage,
        tail: &[u8],
        timeout: Duration,
        loss: &dyn Fn() -> TransportError,
    ) -> Result<(), FrameSendError> {
        let OutgoingMessage { channel, purpose, payload, .. } = message;
        let bytes = payload.len() + tail.len() + FRAME_OVERHEAD_BYTES;
        let mut send_queue = self.send_queue.lock();
        let mut start = None;
        loop {
            if self.is_down() {
                return Err(FrameSendError::Refused(loss()));
            }
            if send_queue.closed {
                return Err(FrameSendError::Refused(TransportError::Closed));
            }
            let queued = send_queue.queued();
            if queued == 0 || queued + bytes <= self.limits.queue {
                break;
            }
            let now = self.env.now();
            let start: Moment = *start.get_or_insert(now);
            if now - start >= timeout {
                let stuck =
                    TransportError::SendTimeout { peer: self.peer, lane: self.lane, queued, waited: now - start };
                return Err(FrameSendError::Refused(stuck));
            }
            self.make_room(&mut send_queue).map_err(FrameSendError::Broken)?;
        }
        let header = FrameHeader { kind, purpose, length: 0, channel };
        let idle = send_queue.is_empty();
        if tail.is_empty() {
            send_queue.push(header, payload);
        } else {
            send_queue.push_borrowed(header, payload, tail, &self.stream).map_err(FrameSendError::Broken)?;
        }
        send_queue.closed = kind == FrameKind::Goodbye;
        if idle {
            // As many writes as the socket takes: it blocks long before this number.
            send_queue.pump(&self.stream, usize::MAX).map_err(FrameSendError::Broken)?;
            self.leave_rest_to_loop(&send_queue).map_err(FrameSendError::Broken)?;
        }
        Ok(())
    }

    /// Writes as much as the socket takes, waiting briefly for it to take anything. A sender that
    /// waits for room writes by itself, so that it is woken directly and not through the I/O loop.
    fn make_room(&self, send_queue: &mut MutexGuard<'_, SendQueue>) -> io::Result<()> {
        self.change_interest(|interest| interest.writing = false);
        send_queue.pump(&self.stream, MAX_OPERATIONS_PER_TURN)?;
        if !send_queue.is_empty() {
            MutexGuard::unlocked(send_queue, || self.stream.wait_writable())?;
            send_queue.pump(&self.stream, MAX_OPERATIONS_PER_TURN)?;
        }
        self.leave_rest_to_loop(send_queue)?;
        self.room.notify_all();
        Ok(())
    }

    /// Lets the I/O loop write the rest, if there is any.
    fn leave_rest_to_loop(&self, send_queue: &SendQueue) -> io::Result<()> {
        let rest = !send_queue.is_empty() || !self.stream.flush()?;
        self.change_interest(|interest| interest.writing = rest);
        Ok(())
    }

    /// Writes queued frames when the socket is writable.
    pub(crate) fn on_writable(&self) -> io::Result<()> {
        let mut send_queue = self.send_queue.lock();
        send_queue.pump(&self.stream, MAX_OPERATIONS_PER_TURN)?;
        self.leave_rest_to_loop(&send_queue)?;
        drop(send_queue);
        self.room.notify_all();
        Ok(())
    }

    /// Waits until everything queued is written. Returns `false` if that takes longer than
    /// `timeout` or the connection is down.
    pub(crate) fn drain(&self, timeout: Duration) -> bool {
        let deadline = self.env.now() + timeout;
        let mut send_queue = self.send_queue.lock();
        while !send_queue.is_empty() && !self.is_down() {
            let left = deadline - self.env.now();
            if left.is_zero() {
                return false;
            }
            self.room.wait_for(&mut send_queue, left);
        }
        !self.is_down()
    }

    /// Reads and delivers frames when the socket is readable.
    pub(crate) fn on_readable(&self, observer: &dyn ConnectionObserver) {
        // An assisting thread reads already.
        let Some(mut decoder) = self.inbound.try_lock() else { return };
        self.io_loop_reads.store(true, Ordering::Relaxed);
        for _ in 0..MAX_OPERATIONS_PER_TURN {
            if self.is_down() || !self.read_once(&mut decoder, ReadWait::Now, observer) {
                break;
            }
            // Stop if a waiting thread wants to read by itself, or if enough is unconsumed.
            if self.reading_requested.load(Ordering::Relaxed)
                || self.unconsumed.load(Ordering::Relaxed) > self.limits.inbound
            {
                break;
            }
        }
        self.read_buffered_input(&mut decoder, observer);
        self.io_loop_reads.store(false, Ordering::Relaxed);
    }

    /// Reads bytes that are already out of the socket: at most a few TLS records.
    fn read_buffered_input(&self, decoder: &mut FrameDecoder, observer: &dyn ConnectionObserver) {
        while !self.is_down() && self.stream.has_buffered_input() && self.read_once(decoder, ReadWait::Now, observer) {}
    }

    /// Acquires the right to read: at once if no thread reads, after the current read if the I/O
    /// loop does. Another assisting thread may keep it for long, and delivers for all threads
    /// meanwhile.
    fn acquire_reading(&self) -> Option<MutexGuard<'_, FrameDecoder>> {
        if let Some(decoder) = self.inbound.try_lock() {
            return Some(decoder);
        }
        if !self.io_loop_reads.load(Ordering::Relaxed) {
            return None;
        }
        self.reading_requested.store(true, Ordering::Relaxed);
        let decoder = self.inbound.try_lock_for(HANDOVER_TIMEOUT);
        self.reading_requested.store(false, Ordering::Relaxed);
        decoder
    }

    /// Reads a last message of the peer, such as its goodbye, waiting briefly for it.
    pub(crate) fn read_goodbye(&self, observer: &dyn ConnectionObserver) {
        let deadline = self.env.now() + GOODBYE_TIMEOUT;
        // Another thread may be about to deliver the same message.
        if let Some(mut decoder) = self.inbound.try_lock_for(GOODBYE_TIMEOUT) {
            while !self.is_down()
                && self.env.now() < deadline
                && self.read_once(&mut decoder, ReadWait::Brief, observer)
            {}
        }
    }

    /// Lends the calling thread; see [`hemiola_core::Transport::assist`].
    pub(crate) fn assist(
        &self,
        timeout: Duration,
        observer: &dyn ConnectionObserver,
        done: &mut dyn FnMut() -> bool,
    ) -> AssistOutcome {
        let Some(mut decoder) = self.acquire_reading() else { return AssistOutcome::Declined };
        if done() {
            return AssistOutcome::Done;
        }
        if self.is_down() {
            return AssistOutcome::Declined;
        }
        let arrival = self.env.now();
        self.change_interest(|interest| interest.assist.begin_assist(arrival));
        let deadline = arrival + timeout;
        let mut reads = 0_u32;
        let mut spin_until = arrival + SPIN_DURATION;
        let outcome = loop {
            let throttled = self.throttle();
            let spinning = self.env.now() < spin_until;
            let wait = if spinning { ReadWait::Now } else { ReadWait::Brief };
            let read = !throttled && self.read_once(&mut decoder, wait, observer);
            if read {
                spin_until = self.env.now() + SPIN_DURATION;
            } else if spinning {
                // Lets other threads run, perhaps the sender.
                std::thread::yield_now();
            }
            reads = reads.wrapping_add(1);
            if done() {
                break AssistOutcome::Done;
            }
            if self.is_down() {
                break AssistOutcome::Declined;
            }
            // Checking the time only after an unsuccessful read keeps it off the fast path. But all
            // messages may be for other threads, for as long as the peer keeps sending.
            if ((!read && !spinning) || reads.is_multiple_of(READS_PER_TIME_CHECK)) && self.env.now() >= deadline {
                break AssistOutcome::TimedOut;
            }
        };
        self.read_buffered_input(&mut decoder, observer);
        drop(decoder);
        self.stop_assisting();
        outcome
    }

    /// Returns true if too much is unconsumed while other threads consume it: reading on would only
    /// buffer more. If no thread consumes anything, the consumer may be the one that waits for a
    /// message further behind, so reading continues, piece by piece.
    fn throttle(&self) -> bool {
        let before = self.unconsumed.load(Ordering::Relaxed);
        if before <= self.limits.inbound {
            return false;
        }
        self.env.sleep(BRIEF_WAIT);
        self.unconsumed.load(Ordering::Relaxed) < before
    }

    fn stop_assisting(&self) {
        let left = self.env.now();
        let mut newly_leased = false;
        self.change_interest(|interest| newly_leased = interest.assist.end_assist(left));
        if newly_leased && self.leases.begin() {
            let _ = self.poller.notify();
        }
    }

    /// Returns a leased connection to the I/O loop if no thread has assisted for a while.
    pub(crate) fn end_lease(&self, now: Moment) {
        let mut ended = false;
        self.change_interest(|interest| ended = interest.assist.end_lease(now));
        if ended {
            self.leases.end();
        }
    }

    /// Reads once. Returns true if bytes arrived and more may follow.
    fn read_once(&self, decoder: &mut FrameDecoder, wait: ReadWait, observer: &dyn ConnectionObserver) -> bool {
        match self.stream.read(decoder.space(), wait) {
            Ok(0) => {
                self.give_up(LossCause::Closed, observer);
                false
            }
            Ok(count) => {
                observer.bytes_received(self.peer);
                let outcome = decoder.filled(count, &mut |header, payload| self.accept(header, payload, observer));
                if let Err(error) = outcome {
                    self.give_up(LossCause::Corrupt { reason: error.to_string() }, observer);
                }
                outcome.is_ok()
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                self.give_up(loss_cause(&error), observer);
                false
            }
        }
    }

    /// Takes the connection down because nothing more can be read. The observer ignores the cause
    /// if the peer has already left.
    fn give_up(&self, cause: LossCause, observer: &dyn ConnectionObserver) {
        observer.connection_lost(self.peer, self.lane, cause);
        self.take_down();
    }

    fn accept(&self, header: FrameHeader, payload: Bytes, observer: &dyn ConnectionObserver) {
        if self.is_down() {
            return; // an earlier frame of the same read ended the connection: nothing follows a loss
        }
        match header.kind {
            FrameKind::Data => {
                let cost = payload.len() + MESSAGE_COST;
                let unconsumed = self.unconsumed.fetch_add(cost, Ordering::Relaxed) + cost;
                if unconsumed > self.limits.inbound {
                    self.change_interest(|interest| interest.paused = true);
                    // Everything may have been consumed before `paused` was set; then no other
                    // thread would lift it.
                    self.resume_if_low();
                }
                if unconsumed > self.limits.inbound.saturating_mul(4) {
                    observer.connection_lost(self.peer, self.lane, LossCause::Flooded { pending: unconsumed as u64 });
                    return;
                }
                let FrameHeader { purpose, channel, .. } = header;
                observer.deliver(Message { from: self.peer, lane: self.lane, channel, purpose, payload });
            }
            FrameKind::Goodbye => match postcard::from_bytes(&payload) {
                Ok(goodbye) => observer.goodbye_received(self.peer, self.lane, goodbye),
                Err(error) => {
                    observer.connection_lost(self.peer, self.lane, LossCause::Corrupt { reason: error.to_string() });
                }
            },
            FrameKind::Handshake => {
                let reason = "a handshake frame after joining".to_owned();
                observer.connection_lost(self.peer, self.lane, LossCause::Corrupt { reason });
            }
        }
    }

    /// Records that a message of `bytes` has been consumed.
    pub(crate) fn consumed(&self, bytes: usize) {
        let before = self.unconsumed.fetch_sub(bytes + MESSAGE_COST, Ordering::Relaxed);
        // Only crossing the threshold makes a difference, so the lock is taken rarely.
        if before > self.limits.inbound / 2 {
            self.resume_if_low();
        }
    }

    fn resume_if_low(&self) {
        if self.unconsumed.load(Ordering::Relaxed) <= self.limits.inbound / 2 {
            self.change_interest(|interest| interest.paused = false);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.unwatch();
    }
}

/// Error of sending a frame.
pub(crate) enum FrameSendError {
    /// The frame was not queued.
    Refused(TransportError),
    /// The connection broke while writing.
    Broken(io::Error),
}

/// Returns the loss that an I/O error means. A reset means the end of the other process, like a
/// close without a goodbye.
pub(crate) fn loss_cause(error: &io::Error) -> LossCause {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            LossCause::Closed
        }
        _ => LossCause::Broken { reason: error.to_string() },
    }
}
