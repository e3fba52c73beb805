//! Acceptor of incoming connections while a job is joining.
//!
//! Each pending connection is authenticated on a thread of its own, so that a client that connects
//! and sends nothing delays no other. Authenticated connections are passed to the thread that runs
//! the join protocol, which grants or refuses them.

use crate::buffer::BufferPool;
use crate::error::JoinError;
use crate::join::handshake::{ConnectionIntent, HandshakeMessage, JoinRefusal, ServerHandshake};
use crate::join::handshake_stream::{HandshakeError, HandshakeStream};
use crate::secret::Secret;
use crate::tcp::stream::PeerStream;
use crate::tls::TlsConfig;
use hemiola_core::{Env, JobId, Moment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Handshakes that may run at once; further connections wait in the system's queue.
const MAX_HANDSHAKES: usize = 128;
/// Interval at which the accepting thread checks whether to stop.
const STOP_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

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
        Ok(HandshakeStream::new(peer_stream, self.job, self.pool.clone(), env.clone()))
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
        self.stream.send(&self.handshake.welcome(&self.intent), deadline)?;
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
    /// Binds `ip:port` (port 0: any free port). Refuses a public address without a secret.
    pub(crate) fn open(ip: IpAddr, port: u16, config: AcceptorConfig, env: &Arc<dyn Env>) -> Result<Self, JoinError> {
        let wanted = SocketAddr::new(ip, port);
        if !ip.is_loopback() && config.secret.is_none() {
            return Err(JoinError::PublicWithoutSecret { address: wanted.to_string() });
        }
        let no_bind =
            |error: std::io::Error| JoinError::Bind { address: wanted.to_string(), reason: error.to_string() };
        let socket = bind(wanted).map_err(no_bind)?;
        let address = socket.local_addr().map_err(no_bind)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, arrivals) = sync_channel(MAX_HANDSHAKES);
        let (stopping, clock) = (stop.clone(), env.clone());
        let body = move || accept_until_stopped(&socket, &config, &clock, &sender, &stopping);
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

fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    // A restarted job must not wait until closed connections of the previous run time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn accept_until_stopped(
    socket: &TcpListener,
    config: &AcceptorConfig,
    env: &Arc<dyn Env>,
    sender: &SyncSender<Result<AuthenticatedConnection, RejectedConnection>>,
    stop: &AtomicBool,
) {
    let running = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Acquire) {
        let full = running.load(Ordering::Relaxed) >= MAX_HANDSHAKES;
        let flags = if full { PollFlags::empty() } else { PollFlags::IN };
        if poll(&mut [PollFd::new(socket, flags)], Some(&STOP_CHECK_INTERVAL)).is_err() || full {
            continue;
        }
        let Ok((connection, from)) = socket.accept() else { continue };
        let (config, clock, sender, count) = (config.clone(), env.clone(), sender.clone(), running.clone());
        running.fetch_add(1, Ordering::Relaxed);
        let body = move || {
            let arrival = authenticate(connection, from, &config, &clock);
            // The receiver is dropped when all peers have joined; later results are not needed.
            let _ = sender.send(arrival);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = env.spawn("hemiola-handshake".into(), Box::new(body)) {
            tracing::warn!(%from, %error, "no thread for a handshake");
            running.fetch_sub(1, Ordering::Relaxed);
        }
    }
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
        let (handshake, challenge) = ServerHandshake::start(config.secret.clone(), config.job, nonce, &hello)?;
        stream.send(&challenge, deadline).map_err(failed)?;
        let claim: HandshakeMessage = stream.receive(deadline).map_err(failed)?;
        let intent = handshake.verify_claim(claim)?;
        Ok((handshake, intent))
    })();
    match claim {
        Ok((handshake, intent)) => Ok(AuthenticatedConnection { from, stream, handshake, intent }),
        Err(refusal) => {
            // Sent also after a frame of another job or version: the header of this answer informs
            // the other side.
            let _ = stream.send(&HandshakeMessage::Refused(refusal.clone()), env.now() + REFUSAL_TIMEOUT);
            Err(rejected(refusal))
        }
    }
}
