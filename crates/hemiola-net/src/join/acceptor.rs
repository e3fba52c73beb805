//! Acceptor of incoming connections while a job is joining.
//!
//! ```text
//!  accept ──▶ waiting: no memory but the socket ──first message is there──▶ handshake: a thread ──▶ authenticated
//! ```
//! A connection waits until its first message has arrived completely. Then it is authenticated on a
//! thread of its own, so that a client that stops half-way delays no other. Both stages hold a
//! limited number of connections, and drop the oldest when more arrive ([`pending`](super::pending)):
//! a flood costs a few microseconds per connection. A peer whose connection was dropped connects
//! again. Authenticated connections are passed to the thread that runs the join protocol, which
//! grants or refuses them.

use crate::buffer::BufferPool;
use crate::error::JoinError;
use crate::frame::{HEADER_BYTES, MAGIC};
use crate::join::handshake::{ConnectionIntent, HandshakeMessage, JoinRefusal, ServerHandshake};
use crate::join::handshake_stream::{HandshakeError, HandshakeStream, UNAUTHENTICATED_LIMIT};
use crate::join::pending::PendingConnections;
use crate::secret::Secret;
use crate::tcp::stream::PeerStream;
use crate::tls::TlsConfig;
use hemiola_core::{Env, FRAME_OVERHEAD_BYTES, JobId, Moment};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};
use std::cell::Cell;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Connections that may wait for their first message. Small against the usual limit of 1,024 open
/// files.
const MAX_WAITING: usize = 256;
/// Handshakes that may run at once.
const MAX_HANDSHAKES: usize = 128;
/// Time that a handshake has before a newer one may displace it. A peer needs a few milliseconds, and
/// more while a thousand others of a large job start beside it.
const HANDSHAKE_GRACE: Duration = Duration::from_millis(250);
/// Threads of handshakes that may exist at once, including those of dropped connections that are
/// about to end.
const MAX_THREADS: usize = 2 * MAX_HANDSHAKES;
/// Connections that are accepted before the waiting ones are looked at again: few against
/// [`MAX_WAITING`], so that the first message of a peer has time to arrive.
const ACCEPTED_PER_TURN: usize = 32;
/// Interval at which the accepting thread checks whether to stop.
const STOP_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Interval at which sockets are checked that are readable all the time.
const BLOCKED_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
/// Pause after a failure to accept.
const BRIEF_PAUSE: Duration = Duration::from_millis(10);

/// Timeout for writing a refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(200);

/// Job parameters that the acceptor needs.
#[derive(Clone, Debug)]
pub(crate) struct AcceptorConfig {
    pub(crate) job: JobId,
    pub(crate) secret: Secret,
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) pool: BufferPool,
    /// Timeout of a handshake.
    pub(crate) handshake_timeout: Duration,
}

impl AcceptorConfig {
    fn handshake_stream(&self, connection: TcpStream, env: &Arc<dyn Env>) -> Result<HandshakeStream, String> {
        let tls = self.tls.as_ref().map(TlsConfig::accept).transpose().map_err(|error| error.to_string())?;
        let peer_stream = PeerStream::new(connection, tls).map_err(|error| error.to_string())?;
        Ok(HandshakeStream::new(peer_stream, self.pool.clone(), env.clone()))
    }
}

/// Connection whose client has proven to know the secret.
#[derive(Debug)]
pub(crate) struct AuthenticatedConnection {
    pub(crate) from: SocketAddr,
    pub(crate) stream: HandshakeStream,
    handshake: ServerHandshake,
    pub(crate) intent: ConnectionIntent,
}

impl AuthenticatedConnection {
    /// Grants the intent and returns the connection.
    pub(crate) fn welcome(mut self, deadline: Moment) -> Result<HandshakeStream, HandshakeError> {
        let (welcome, keys) = self.handshake.welcome(&self.intent);
        self.stream.send(&welcome, deadline)?;
        self.stream.authenticate_as_acceptor(keys);
        Ok(self.stream)
    }

    /// Refuses the intent; the client learns the reason if it still reads.
    pub(crate) fn refuse(mut self, refusal: JoinRefusal, deadline: Moment) {
        let _ = self.stream.send(&HandshakeMessage::Refused(refusal), deadline);
    }
}

/// Connection that failed the handshake.
#[derive(Debug)]
pub(crate) struct RejectedConnection {
    pub(crate) from: SocketAddr,
    pub(crate) refusal: JoinRefusal,
}

/// Open listening socket. Dropping it stops accepting; running handshakes end by their own
/// deadline.
#[derive(Debug)]
pub(crate) struct Acceptor {
    pub(crate) address: SocketAddr,
    arrivals: Receiver<Result<AuthenticatedConnection, RejectedConnection>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release); // pairs with the load in `accept_until_stopped`
    }
}

impl Acceptor {
    /// Binds `ip:port` (port 0: any free port), calls `prepare`, and then starts to listen: nobody
    /// gets a connection before `prepare` has returned.
    pub(crate) fn open(
        ip: IpAddr,
        port: u16,
        config: AcceptorConfig,
        env: &Arc<dyn Env>,
        prepare: impl FnOnce(SocketAddr) -> Result<(), JoinError>,
    ) -> Result<Self, JoinError> {
        let wanted = SocketAddr::new(ip, port);
        if config.secret.is_none() {
            return Err(JoinError::NoSecret { action: "listen on", address: wanted.to_string() });
        }
        let no_bind =
            |error: std::io::Error| JoinError::Bind { address: wanted.to_string(), reason: error.to_string() };
        let socket = bind(wanted).map_err(no_bind)?;
        let address = socket.local_addr().map_err(no_bind)?;
        prepare(address)?;
        rustix::net::listen(&socket, BACKLOG).map_err(|error| no_bind(error.into()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, arrivals) = sync_channel(MAX_THREADS);
        let handshakes = Arc::new(Handshakes {
            config,
            env: env.clone(),
            sender,
            running: Mutex::new(PendingConnections::new(MAX_HANDSHAKES)),
            threads: AtomicUsize::new(0),
        });
        let stopping = stop.clone();
        let body = move || accept_until_stopped(&socket, &handshakes, &stopping);
        let _running = env.spawn("hemiola-accept".into(), Box::new(body)).map_err(JoinError::Thread)?;
        Ok(Self { address, arrivals, stop })
    }

    /// Returns the next authenticated or rejected connection within `timeout`.
    pub(crate) fn next(
        &self,
        timeout: Duration,
    ) -> Result<Option<Result<AuthenticatedConnection, RejectedConnection>>, JoinError> {
        match self.arrivals.recv_timeout(timeout) {
            Ok(arrival) => Ok(Some(arrival)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let address = self.address.to_string();
                Err(JoinError::Bind { address, reason: "the accepting thread has ended".into() })
            }
        }
    }
}

/// Connections that the system may complete before they are accepted.
const BACKLOG: i32 = 4096;

/// Binds a socket that does not listen yet.
fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    // A restarted job must not wait until closed connections of the previous run time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Connection whose first message has not arrived completely.
#[derive(Debug)]
struct WaitingConnection {
    socket: TcpStream,
    from: SocketAddr,
    /// Progress of the first message, as of the last look.
    first: Cell<FirstMessage>,
}

/// Progress of the first message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstMessage {
    Nothing,
    Partial,
    /// It is there, or it is none of this protocol.
    Complete,
    /// The other side has closed the connection.
    Closed,
}

impl FirstMessage {
    /// Looks at the bytes that have arrived, and leaves them where they are.
    fn peek(socket: &TcpStream, tls: bool) -> Self {
        let mut start = [0; 128];
        let count = match recv(socket, &mut start[..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Self::Closed,
            Ok((count, _)) => count,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Self::Nothing,
            Err(_) => return Self::Closed,
        };
        if tls { Self::Complete } else { Self::of(&start[..count]) }
    }

    fn of(bytes: &[u8]) -> Self {
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Self::Complete;
        }
        let Some(&[_, _, _, _, _, _, _, _, a, b, c, d]) = bytes.first_chunk::<12>() else { return Self::Partial };
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        // Longer than any first message: the header alone is enough to refuse it.
        let needed = if length > UNAUTHENTICATED_LIMIT { HEADER_BYTES } else { length + FRAME_OVERHEAD_BYTES };
        if bytes.len() >= needed.min(128) { Self::Complete } else { Self::Partial }
    }
}

/// Handshakes on threads of their own.
struct Handshakes {
    config: AcceptorConfig,
    env: Arc<dyn Env>,
    sender: SyncSender<Result<AuthenticatedConnection, RejectedConnection>>,
    /// Sockets of running handshakes that have not authenticated.
    running: Mutex<PendingConnections<Arc<TcpStream>>>,
    threads: AtomicUsize,
}

impl Handshakes {
    /// Starts a handshake. Returns false if the connection has to wait.
    fn start(self: &Arc<Self>, connection: &WaitingConnection) -> bool {
        let (now, from) = (self.env.now(), connection.from);
        let mut running = self.running.lock();
        if self.threads.load(Ordering::Relaxed) >= MAX_THREADS || !running.has_room(now, HANDSHAKE_GRACE) {
            return false;
        }
        // The second handle ends a handshake that is displaced.
        let Ok((socket, handle)) = connection.socket.try_clone().and_then(|socket| Ok((socket.try_clone()?, socket)))
        else {
            return false;
        };
        let handle = Arc::new(handle);
        let displaced = running.add(from.ip(), now, handle.clone());
        drop(running);
        if let Some(displaced) = displaced {
            let _ = displaced.shutdown(Shutdown::Both); // it may already be closed
        }
        self.threads.fetch_add(1, Ordering::Relaxed);
        let (this, ending) = (self.clone(), handle.clone());
        let body = move || {
            let outcome = authenticate(socket, from, &this.config, &this.env);
            this.end(&ending);
            match outcome {
                // The receiver is dropped when all peers have joined; later results are not needed.
                Ok(authenticated) => drop(this.sender.send(Ok(authenticated))),
                Err(rejected) => this.reject(rejected),
            }
        };
        if let Err(error) = self.env.spawn("hemiola-handshake".into(), Box::new(body)) {
            tracing::warn!(%from, %error, "no thread for a handshake");
            self.end(&handle);
        }
        true
    }

    fn end(&self, handle: &Arc<TcpStream>) {
        self.running.lock().take(|running| Arc::ptr_eq(running, handle));
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// Reports a rejected connection, unless too many are to be reported already.
    fn reject(&self, rejected: RejectedConnection) {
        let _ = self.sender.try_send(Err(rejected));
    }

    fn reject_waiting(&self, connection: &WaitingConnection, error: &HandshakeError) {
        let refusal = JoinRefusal::Protocol { reason: error.to_string() };
        self.reject(RejectedConnection { from: connection.from, refusal });
    }
}

fn accept_until_stopped(listener: &TcpListener, handshakes: &Arc<Handshakes>, stop: &AtomicBool) {
    let mut waiting = PendingConnections::<WaitingConnection>::new(MAX_WAITING);
    let (env, patience) = (&handshakes.env, handshakes.config.handshake_timeout);
    while !stop.load(Ordering::Acquire) {
        wait_for_input(listener, &waiting);
        accept_some(listener, &mut waiting, env);
        start_ready(&mut waiting, handshakes);
        for late in waiting.expire(env.now(), patience) {
            handshakes.reject_waiting(&late, &HandshakeError::Silent { waited: patience });
        }
    }
}

/// Waits until a connection or a first message arrives, but not for long.
fn wait_for_input(listener: &TcpListener, waiting: &PendingConnections<WaitingConnection>) {
    // A socket with bytes that cannot be used yet is readable all the time.
    let (silent, blocked): (Vec<_>, Vec<_>) =
        waiting.iter().partition(|connection| connection.first.get() == FirstMessage::Nothing);
    let mut sockets = vec![PollFd::new(listener, PollFlags::IN)];
    sockets.extend(silent.iter().map(|connection| PollFd::new(&connection.socket, PollFlags::IN)));
    let interval = if blocked.is_empty() { &STOP_CHECK_INTERVAL } else { &BLOCKED_CHECK_INTERVAL };
    // After an error the sockets are looked at all the same.
    let _ = poll(&mut sockets, Some(interval));
}

fn accept_some(listener: &TcpListener, waiting: &mut PendingConnections<WaitingConnection>, env: &Arc<dyn Env>) {
    for _ in 0..ACCEPTED_PER_TURN {
        match listener.accept() {
            Ok((socket, from)) => {
                // Dropping the displaced connection closes it.
                drop(waiting.add(
                    from.ip(),
                    env.now(),
                    WaitingConnection { socket, from, first: Cell::new(FirstMessage::Nothing) },
                ));
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            Err(error) => {
                // Often there are too many open files: one less makes room for the next.
                tracing::debug!(%error, "cannot accept a connection");
                if waiting.drop_oldest().is_none() {
                    env.sleep(BRIEF_PAUSE);
                }
                return;
            }
        }
    }
}

/// Starts the handshakes of connections whose first message has arrived, as long as there is room.
fn start_ready(waiting: &mut PendingConnections<WaitingConnection>, handshakes: &Arc<Handshakes>) {
    let tls = handshakes.config.tls.is_some();
    for connection in waiting.iter() {
        connection.first.set(FirstMessage::peek(&connection.socket, tls));
    }
    for closed in waiting.take(|connection| connection.first.get() == FirstMessage::Closed) {
        handshakes.reject_waiting(&closed, &HandshakeError::Closed);
    }
    let ready = |connection: &WaitingConnection| connection.first.get() == FirstMessage::Complete;
    waiting.take(|connection| ready(connection) && handshakes.start(connection));
}

fn authenticate(
    connection: TcpStream,
    from: SocketAddr,
    config: &AcceptorConfig,
    env: &Arc<dyn Env>,
) -> Result<AuthenticatedConnection, RejectedConnection> {
    let rejected = |refusal| RejectedConnection { from, refusal };
    let failed = |error: HandshakeError| JoinRefusal::Protocol { reason: error.to_string() };
    let deadline = env.now() + config.handshake_timeout;
    let mut stream =
        config.handshake_stream(connection, env).map_err(|reason| rejected(JoinRefusal::Protocol { reason }))?;
    let mut nonce = [0; 32];
    env.fill_random(&mut nonce);
    let claim = (|| -> Result<_, JoinRefusal> {
        let hello: HandshakeMessage = stream.receive(deadline).map_err(failed)?;
        let binding = stream.channel_binding().map_err(failed)?;
        let (handshake, challenge) = ServerHandshake::start(config.secret.clone(), config.job, nonce, &hello, binding)?;
        stream.send(&challenge, deadline).map_err(failed)?;
        let claim: HandshakeMessage = stream.receive(deadline).map_err(failed)?;
        let intent = handshake.verify_claim(claim)?;
        Ok((handshake, intent))
    })();
    match claim {
        Ok((handshake, intent)) => Ok(AuthenticatedConnection { from, stream, handshake, intent }),
        Err(refusal) => {
            // Sent also after a frame of another version: the header of this answer informs the other
            // side. It says nothing about the job.
            let _ = stream.send(&HandshakeMessage::Refused(refusal.clone()), env.now() + REFUSAL_TIMEOUT);
            Err(rejected(refusal))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame_authentication::FrameKey;
    use crate::testing::encode_frame;

    #[test]
    fn a_first_message_is_complete_with_its_last_byte() {
        let hello = postcard::to_stdvec(&HandshakeMessage::Hello { nonce: [7; 32] }).unwrap();
        let frame = encode_frame(&FrameKey::PUBLIC, 0, &hello);
        for end in 1..frame.len() {
            assert_eq!(FirstMessage::of(&frame[..end]), FirstMessage::Partial, "{end}");
        }
        assert_eq!(FirstMessage::of(&frame), FirstMessage::Complete);
    }

    #[test]
    fn foreign_and_oversized_messages_do_not_wait_for_more() {
        assert_eq!(FirstMessage::of(b"G"), FirstMessage::Complete);
        let mut oversized = encode_frame(&FrameKey::PUBLIC, 0, b"");
        oversized[8..12].fill(0xff);
        assert_eq!(FirstMessage::of(&oversized[..HEADER_BYTES]), FirstMessage::Complete);
    }
}
