//! Connections that come in while a job comes together.
//!
//! Each one is authenticated on a thread of its own, so that a stranger who connects and says nothing holds up nobody.
//! What passes the handshake is handed to the thread that runs the conversation, which grants or refuses it.

use crate::buffer::BufferPool;
use crate::error::JoinError;
use crate::join::handshake::{Acceptor, Handshake, Intent, Refusal};
use crate::join::wire::{Wire, WireError};
use crate::secret::Secret;
use crate::tcp::stream::Stream;
use crate::tls::Tls;
use hemiola_core::{Env, JobId, Moment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Connections that may be in their handshake at once; the rest wait in the system's queue.
const AT_ONCE: usize = 128;
/// How often the accepting thread looks whether it should end.
const LOOK_AROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// How long a refusal may take to be written.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What the listener needs to know of the job.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    pub(crate) job: JobId,
    pub(crate) secret: Secret,
    pub(crate) tls: Option<Tls>,
    pub(crate) pool: BufferPool,
    /// How long a handshake may take.
    pub(crate) patience: Duration,
}

impl Door {
    fn wire(&self, connection: TcpStream, env: &Arc<dyn Env>) -> Result<Wire, String> {
        let tls = self.tls.as_ref().map(Tls::accept).transpose().map_err(|error| error.to_string())?;
        let stream = Stream::new(connection, tls).map_err(|error| error.to_string())?;
        Ok(Wire::new(stream, self.job, self.pool.clone(), env.clone()))
    }
}

/// Someone who knows the secret and wants something.
#[derive(Debug)]
pub(crate) struct Visitor {
    pub(crate) from: SocketAddr,
    pub(crate) wire: Wire,
    acceptor: Acceptor,
    pub(crate) intent: Intent,
}

impl Visitor {
    /// Grants the intent and hands the connection over.
    pub(crate) fn welcome(mut self, deadline: Moment) -> Result<Wire, WireError> {
        self.wire.send(&self.acceptor.welcome(&self.intent), deadline)?;
        Ok(self.wire)
    }

    /// Refuses the intent; the visitor hears why if it still listens.
    pub(crate) fn refuse(mut self, refusal: Refusal, deadline: Moment) {
        let _ = self.wire.send(&Handshake::Refused(refusal), deadline);
    }
}

/// Someone who did not pass the handshake.
#[derive(Debug)]
pub(crate) struct Stranger {
    pub(crate) from: SocketAddr,
    pub(crate) refusal: Refusal,
}

/// An open door. Dropping it closes the door; handshakes under way end by their own deadline.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    arrivals: Receiver<Result<Visitor, Stranger>>,
    stop: Arc<AtomicBool>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release); // pairs with the load in `accept_until_told`
    }
}

impl Listener {
    /// Opens the door at `ip:port` (port 0: any free one). A public address without a secret is refused.
    pub(crate) fn open(ip: IpAddr, port: u16, door: Door, env: &Arc<dyn Env>) -> Result<Self, JoinError> {
        let wanted = SocketAddr::new(ip, port);
        if !ip.is_loopback() && door.secret.is_none() {
            return Err(JoinError::PublicWithoutSecret { address: wanted.to_string() });
        }
        let no_bind =
            |error: std::io::Error| JoinError::Bind { address: wanted.to_string(), reason: error.to_string() };
        let socket = bind(wanted).map_err(no_bind)?;
        let address = socket.local_addr().map_err(no_bind)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, arrivals) = sync_channel(AT_ONCE);
        let (told, clock) = (stop.clone(), env.clone());
        let body = move || accept_until_told(&socket, &door, &clock, &sender, &told);
        let _running = env.spawn("hemiola-accept".into(), Box::new(body)).map_err(JoinError::Thread)?;
        Ok(Self { address, arrivals, stop })
    }

    /// The next arrival within `patience`.
    pub(crate) fn next(&self, patience: Duration) -> Result<Option<Result<Visitor, Stranger>>, JoinError> {
        match self.arrivals.recv_timeout(patience) {
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
    // A job that is started again must not wait for the last one's closed connections to time out.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1024)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn accept_until_told(
    socket: &TcpListener,
    door: &Door,
    env: &Arc<dyn Env>,
    sender: &SyncSender<Result<Visitor, Stranger>>,
    stop: &AtomicBool,
) {
    let under_way = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Acquire) {
        let full = under_way.load(Ordering::Relaxed) >= AT_ONCE;
        let flags = if full { PollFlags::empty() } else { PollFlags::IN };
        if poll(&mut [PollFd::new(socket, flags)], Some(&LOOK_AROUND)).is_err() || full {
            continue;
        }
        let Ok((connection, from)) = socket.accept() else { continue };
        let (door, clock, sender, count) = (door.clone(), env.clone(), sender.clone(), under_way.clone());
        under_way.fetch_add(1, Ordering::Relaxed);
        let body = move || {
            let arrival = authenticate(connection, from, &door, &clock);
            // The receiver is gone when the job has come together; then nobody needs to know.
            let _ = sender.send(arrival);
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = env.spawn("hemiola-handshake".into(), Box::new(body)) {
            tracing::warn!(%from, %error, "no thread for a handshake");
            under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn authenticate(connection: TcpStream, from: SocketAddr, door: &Door, env: &Arc<dyn Env>) -> Result<Visitor, Stranger> {
    let stranger = |refusal| Stranger { from, refusal };
    let broken_off = |error: WireError| Refusal::Protocol { reason: error.to_string() };
    let deadline = env.now() + door.patience;
    let mut wire = door.wire(connection, env).map_err(|reason| stranger(Refusal::Protocol { reason }))?;
    let mut nonce = [0; 32];
    env.fill_random(&mut nonce);
    let claim = (|| -> Result<_, Refusal> {
        let hello: Handshake = wire.receive(deadline).map_err(broken_off)?;
        let (acceptor, challenge) = Acceptor::start(door.secret.clone(), door.job, nonce, &hello)?;
        wire.send(&challenge, deadline).map_err(broken_off)?;
        let claim: Handshake = wire.receive(deadline).map_err(broken_off)?;
        let intent = acceptor.claimed(claim)?;
        Ok((acceptor, intent))
    })();
    match claim {
        Ok((acceptor, intent)) => Ok(Visitor { from, wire, acceptor, intent }),
        Err(refusal) => {
            // Also after a frame of another job or version: the header of this answer tells the other side as much.
            let _ = wire.send(&Handshake::Refused(refusal.clone()), env.now() + LAST_WORDS);
            Err(stranger(refusal))
        }
    }
}
