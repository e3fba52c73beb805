//! Bootstrap of a job: the protocol drawn in the [module documentation](super).
//!
//! Runs on the thread that builds the cluster; every step keeps to the join deadline.

use crate::buffer::BufferPool;
use crate::error::JoinError;
use crate::join::acceptor::{Acceptor, AcceptorConfig};
use crate::join::handshake::{ClientHandshake, ConnectionIntent, HandshakeMessage, JoinRefusal, JoinRequest};
use crate::join::handshake_stream::{HandshakeError, HandshakeStream};
use crate::join::refusal_log::RefusalLog;
use crate::join::rendezvous::{Rendezvous, RendezvousRecord};
use crate::join::roster::{Member, Roster};
use crate::secret::{MIN_SECRET_BYTES, Secret};
use crate::tcp::io_loop::IoLoop;
use crate::tcp::stream::PeerStream;
use crate::tcp::transport::{EstablishedConnection, TcpLimits, TcpTransport};
use crate::tls::TlsConfig;
use hemiola_core::{ClusterEvent, Deadlines, Env, JobId, Lane, MessageSink, Moment, Observer, Rank};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Time between two attempts to reach a peer that does not listen yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(25);
/// Interval at which a waiting side checks its other connections.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval at which the root checks whether all peers are ready.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Timeout for sending the reason of an abort to one peer.
const ABORT_TIMEOUT: Duration = Duration::from_millis(500);

/// Parameters of joining a job.
#[derive(Clone, Debug)]
pub struct JoinConfig {
    /// Rank of this peer.
    pub rank: Rank,
    /// Number of peers, servers included.
    pub size: usize,
    /// Number of peers that do not run the program but serve the others. Peers that disagree about
    /// it are refused.
    pub servers: usize,
    /// Identifier of the job.
    pub job: JobId,
    /// Secret shared by all peers of the job. Without one, the root makes one and writes it into the
    /// rendezvous file or, if the job meets at an address on loopback, into `secret_file`.
    pub secret: Secret,
    /// File for a secret, in a folder that only this user can enter. Equal on all peers.
    pub secret_file: Option<PathBuf>,
    /// Rendezvous of all peers of the job.
    pub rendezvous: Rendezvous,
    /// Interface to listen on. Default: the one that leads to the rendezvous; loopback if that is
    /// on this host.
    pub bind: Option<IpAddr>,
    /// Address (`host:port` or host) at which other peers reach this one, if it differs from the
    /// listening address.
    pub advertise: Option<String>,
    /// Certificates, if the peers use TLS.
    pub tls: Option<TlsConfig>,
    /// Timeouts of the cluster.
    pub deadlines: Deadlines,
    /// Size limits of the transport.
    pub limits: TcpLimits,
}

/// Messages between the root and a peer after the handshake.
#[derive(Debug, Serialize, Deserialize)]
enum JoinMessage {
    Roster(Vec<Member>),
    Ready,
    Go,
    Abort(String),
}

/// Peer that has joined, before its transport starts.
#[derive(Debug)]
pub struct JoinedPeer {
    config: JoinConfig,
    members: Vec<Member>,
    connections: Vec<EstablishedConnection>,
    env: Arc<dyn Env>,
}

impl JoinedPeer {
    /// Returns the peers in rank order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Turns the connections into a transport that delivers to `sink`. Run each returned loop on a
    /// thread of its own.
    pub fn start(self, sink: Arc<dyn MessageSink>) -> Result<(Arc<TcpTransport>, Vec<IoLoop>), JoinError> {
        let addresses = self.members.into_iter().map(|member| member.address).collect();
        let JoinConfig { rank, limits, .. } = self.config;
        Ok(TcpTransport::new(rank, addresses, self.connections, &limits, sink, &self.env)?)
    }
}

/// Joins a job: connects to all of its other peers.
pub fn join(config: JoinConfig, env: &Arc<dyn Env>, observer: &dyn Observer) -> Result<JoinedPeer, JoinError> {
    let bytes = config.secret.bytes();
    if !config.secret.is_none() && bytes < MIN_SECRET_BYTES {
        return Err(JoinError::ShortSecret { bytes });
    }
    let start = env.now();
    let deadline = start + config.deadlines.join;
    let pool = TcpTransport::pool(&config.limits);
    let refusals = RefCell::default();
    let mut bootstrap = Bootstrap { config, env: env.clone(), observer, refusals, start, deadline, pool };
    let (members, connections) =
        if bootstrap.config.rank == Rank::ROOT { bootstrap.as_root()? } else { bootstrap.as_peer()? };
    let Bootstrap { config, .. } = bootstrap;
    observer.observe(&ClusterEvent::Joined { rank: config.rank, size: config.size, took: env.now() - start });
    Ok(JoinedPeer { config, members, connections, env: env.clone() })
}

struct Bootstrap<'a> {
    config: JoinConfig,
    env: Arc<dyn Env>,
    observer: &'a dyn Observer,
    refusals: RefCell<RefusalLog>,
    start: Moment,
    deadline: Moment,
    pool: BufferPool,
}

/// Removes the rendezvous file when the job has formed or failed to.
struct RendezvousFileGuard(Option<PathBuf>);

impl Drop for RendezvousFileGuard {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The file may already be gone.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Bootstrap<'_> {
    fn as_root(&mut self) -> Result<(Vec<Member>, Vec<EstablishedConnection>), JoinError> {
        let (acceptor, _file) = self.open_rendezvous()?;
        let size = self.config.size;
        let root = Member { address: self.advertised(acceptor.address, None), process: std::process::id() };
        let mut roster = Roster::new(size, self.config.servers, root);
        let mut joined: Vec<(Rank, HandshakeStream)> = Vec::new();
        let outcome = self.collect_peers(&acceptor, &mut roster, &mut joined);
        if let Err(error) = &outcome {
            let reason = error.to_string();
            for (_, stream) in &mut joined {
                // A peer that does not receive it notices the end of the connection.
                let _ = stream.send(&JoinMessage::Abort(reason.clone()), self.env.now() + ABORT_TIMEOUT);
            }
        }
        outcome
    }

    /// Runs the root's side from the first arrival to the final "go".
    fn collect_peers(
        &self,
        acceptor: &Acceptor,
        roster: &mut Roster,
        joined: &mut Vec<(Rank, HandshakeStream)>,
    ) -> Result<(Vec<Member>, Vec<EstablishedConnection>), JoinError> {
        let members = loop {
            if let Some(members) = roster.complete() {
                break members;
            }
            if self.env.now() >= self.deadline {
                let (missing, refused) = (roster.missing(), roster.refusals().to_vec());
                return Err(JoinError::Missing { missing, refused, waited: self.env.now() - self.start });
            }
            let arrival = acceptor.next(POLL_INTERVAL)?;
            check_joined(joined, roster)?;
            let incoming = match arrival {
                None => continue,
                Some(Ok(incoming)) => incoming,
                Some(Err(rejected)) => {
                    self.report_refusal(rejected.from, &rejected.refusal);
                    roster.refuse(rejected.from.to_string(), rejected.refusal);
                    continue;
                }
            };
            let (from, intent) = (incoming.from, incoming.intent.clone());
            let verdict = match &intent {
                ConnectionIntent::Join(request) => roster.check(request),
                ConnectionIntent::Connect { .. } => {
                    Err(JoinRefusal::Protocol { reason: "it asked for a lane before all peers had joined".into() })
                }
            };
            match (verdict, intent) {
                (Ok(()), ConnectionIntent::Join(request)) => {
                    // If the answer cannot be sent, the rank stays free.
                    if let Ok(stream) = incoming.welcome(self.step_deadline()) {
                        joined.push((request.rank, stream));
                        roster.admit(request);
                    }
                }
                (Err(refusal), _) => {
                    self.report_refusal(from, &refusal);
                    roster.refuse(from.to_string(), refusal.clone());
                    incoming.refuse(refusal, self.step_deadline());
                }
                (Ok(()), ConnectionIntent::Connect { .. }) => unreachable!("lane connections were refused above"),
            }
        };
        self.send_to_all(joined, &members, &JoinMessage::Roster(members.clone()))?;
        let connections = self.accept_connections(acceptor, &members, &mut || check_joined(joined, roster))?;
        self.await_ready(joined, &members)?;
        self.send_to_all(joined, &members, &JoinMessage::Go)?;
        Ok((members, connections))
    }

    /// Waits until all peers are ready, while checking each of them: a peer that disappears is to
    /// blame, not the one that is waited for.
    fn await_ready(&self, joined: &mut [(Rank, HandshakeStream)], members: &[Member]) -> Result<(), JoinError> {
        let mut ready = vec![false; members.len()];
        loop {
            for (rank, stream) in joined.iter_mut() {
                match stream.poll() {
                    Ok(None) => {}
                    Ok(Some(JoinMessage::Ready)) => ready[rank.index()] = true,
                    Ok(Some(JoinMessage::Abort(reason))) => return Err(peer_gone(*rank, members, &reason)),
                    Ok(Some(other)) => {
                        return Err(peer_gone(*rank, members, &format!("it sent {other:?} instead of being ready")));
                    }
                    Err(error) => return Err(peer_gone(*rank, members, &error)),
                }
            }
            let Some((late, _)) = joined.iter().find(|(rank, _)| !ready[rank.index()]) else { return Ok(()) };
            if self.env.now() >= self.deadline {
                return Err(peer_gone(*late, members, &"it was not ready in time"));
            }
            self.env.sleep(READY_POLL_INTERVAL);
        }
    }

    fn send_to_all(
        &self,
        joined: &mut [(Rank, HandshakeStream)],
        members: &[Member],
        message: &JoinMessage,
    ) -> Result<(), JoinError> {
        for (rank, stream) in joined {
            stream.send(message, self.deadline).map_err(|error| peer_gone(*rank, members, &error))?;
        }
        Ok(())
    }

    /// Binds the rendezvous address, and writes the rendezvous file if peers find it that way.
    fn open_rendezvous(&mut self) -> Result<(Acceptor, RendezvousFileGuard), JoinError> {
        let fresh = self.config.secret.is_none();
        let (ip, port, file) = match self.config.rendezvous.clone() {
            Rendezvous::Address(address) => {
                let resolved = resolve(&address)?;
                let ip = self.config.bind.unwrap_or(resolved.ip());
                let private = self.config.secret_file.clone().filter(|_| fresh && ip.is_loopback());
                if fresh && private.is_none() {
                    let address = SocketAddr::new(ip, resolved.port()).to_string();
                    return Err(JoinError::NoSecret { action: "listen on", address });
                }
                (ip, resolved.port(), private)
            }
            Rendezvous::File(path) => (self.config.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), 0, Some(path)),
        };
        if fresh {
            let mut bytes = [0; 32];
            self.env.fill_random(&mut bytes);
            self.config.secret = Secret::from_random(bytes);
        }
        let acceptor = Acceptor::open(ip, port, self.acceptor_config(), &self.env, |address| {
            let Some(path) = &file else { return Ok(()) };
            let secret = if fresh { self.config.secret.expose() } else { String::new() };
            RendezvousRecord { address: self.advertised(address, None), secret }
                .write(path, &*self.env)
                .map_err(|error| JoinError::RendezvousFile { path: path.clone(), reason: error.to_string() })
        })?;
        if !acceptor.address.ip().is_loopback() && self.config.tls.is_none() {
            self.observer.observe(&ClusterEvent::Unencrypted { address: acceptor.address.to_string() });
        }
        Ok((acceptor, RendezvousFileGuard(file)))
    }

    fn as_peer(&mut self) -> Result<(Vec<Member>, Vec<EstablishedConnection>), JoinError> {
        let mut listening = None;
        let (root_address, acceptor, mut root) = loop {
            let (root_address, stream) = self.connect_to_root()?;
            let near = stream.local_addr()?.ip();
            let acceptor = match listening.take() {
                Some(acceptor) => acceptor,
                None => self.open_acceptor(near)?,
            };
            let request = JoinRequest {
                rank: self.config.rank,
                size: self.config.size,
                servers: self.config.servers,
                address: self.advertised(acceptor.address, Some(near)),
                process: std::process::id(),
            };
            match self.authenticate(stream, &root_address, ConnectionIntent::Join(request)) {
                Err(error) if self.may_retry(&error) => listening = Some(acceptor),
                outcome => break (root_address, acceptor, outcome?),
            }
            self.env.sleep(RETRY_INTERVAL);
        };
        let outcome = self.connect_peers(&acceptor, &mut root, &root_address);
        if let Err(error) = &outcome {
            // If the root itself is lost, this does no harm.
            let _ = root.send(&JoinMessage::Abort(error.to_string()), self.env.now() + ABORT_TIMEOUT);
        }
        outcome
    }

    fn open_acceptor(&self, near: IpAddr) -> Result<Acceptor, JoinError> {
        let ip = self.config.bind.unwrap_or(near);
        Acceptor::open(ip, 0, self.acceptor_config(), &self.env, |_| Ok(()))
    }

    /// Returns true if the other side dropped a connection that had not authenticated, and there is
    /// time for another attempt.
    fn may_retry(&self, error: &JoinError) -> bool {
        matches!(error, JoinError::Handshake { error, .. } if error.is_closed()) && self.env.now() < self.deadline
    }

    /// Runs a peer's side from the roster to the final "go".
    fn connect_peers(
        &self,
        acceptor: &Acceptor,
        root: &mut HandshakeStream,
        root_address: &str,
    ) -> Result<(Vec<Member>, Vec<EstablishedConnection>), JoinError> {
        // The root waits for missing peers until its own deadline, then reports them: leave it time
        // for that.
        let deadline = self.deadline + Duration::from_secs(5);
        let members = match receive_message(root, root_address, deadline)? {
            JoinMessage::Roster(members) if members.len() == self.config.size => members,
            other => return Err(unexpected_message(root_address, &other)),
        };
        let mut check_root = || match root.poll::<JoinMessage>() {
            Ok(None) => Ok(()),
            Ok(Some(JoinMessage::Abort(reason))) => Err(JoinError::Aborted { reason }),
            Ok(Some(other)) => Err(unexpected_message(root_address, &other)),
            Err(error) => Err(JoinError::Handshake { address: root_address.to_owned(), error }),
        };
        let mut connections = Vec::new();
        for lower in Rank::all(self.config.rank.index()) {
            // The root is reached at the address used before: its advertised address may be a
            // different one.
            let address = if lower == Rank::ROOT { root_address } else { &members[lower.index()].address };
            for lane in Lane::ALL {
                let stream = self.connect_lane(lower, address, lane, &mut check_root)?;
                connections.push(stream.into_connection(lower, lane));
            }
        }
        connections.extend(self.accept_connections(acceptor, &members, &mut check_root)?);
        root.send(&JoinMessage::Ready, self.deadline)
            .map_err(|error| JoinError::Handshake { address: root_address.to_owned(), error })?;
        match receive_message(root, root_address, deadline)? {
            JoinMessage::Go => Ok((members, connections)),
            other => Err(unexpected_message(root_address, &other)),
        }
    }

    /// Connects to a peer of lower rank on one lane.
    fn connect_lane(
        &self,
        peer: Rank,
        address: &str,
        lane: Lane,
        check: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<HandshakeStream, JoinError> {
        loop {
            let stream = self.connect_with_retry(&format!("peer {peer}"), address, check)?;
            let intent = ConnectionIntent::Connect { rank: self.config.rank, lane };
            match self.authenticate(stream, address, intent) {
                Err(error) if self.may_retry(&error) => {
                    check()?;
                    self.env.sleep(RETRY_INTERVAL);
                }
                outcome => return outcome,
            }
        }
    }

    /// Accepts the connections of all higher ranks on both lanes.
    fn accept_connections(
        &self,
        acceptor: &Acceptor,
        members: &[Member],
        check: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<Vec<EstablishedConnection>, JoinError> {
        let mut missing: Vec<(Rank, Lane)> = Rank::all(self.config.size)
            .skip(self.config.rank.index() + 1)
            .flat_map(|rank| Lane::ALL.map(|lane| (rank, lane)))
            .collect();
        let mut connections = Vec::new();
        while let Some((first, _)) = missing.first() {
            if self.env.now() >= self.deadline {
                return Err(peer_gone(*first, members, &"it did not connect in time"));
            }
            let arrival = acceptor.next(POLL_INTERVAL)?;
            check()?;
            let incoming = match arrival {
                None => continue,
                Some(Ok(incoming)) => incoming,
                Some(Err(rejected)) => {
                    self.report_refusal(rejected.from, &rejected.refusal);
                    continue;
                }
            };
            let position = match incoming.intent {
                ConnectionIntent::Connect { rank, lane } => {
                    missing.iter().position(|connection| *connection == (rank, lane))
                }
                ConnectionIntent::Join(_) => None,
            };
            let Some(position) = position else {
                self.report_refusal(incoming.from, &JoinRefusal::TooLate);
                incoming.refuse(JoinRefusal::TooLate, self.step_deadline());
                continue;
            };
            let (rank, lane) = missing[position];
            match incoming.welcome(self.step_deadline()) {
                Ok(stream) => {
                    missing.remove(position);
                    connections.push(stream.into_connection(rank, lane));
                }
                Err(error) => return Err(peer_gone(rank, members, &error)),
            }
        }
        Ok(connections)
    }

    fn report_refusal(&self, from: SocketAddr, refusal: &JoinRefusal) {
        let Some(omitted) = self.refusals.borrow_mut().add(self.env.now()) else { return };
        let more = if omitted > 0 { format!(" ({omitted} other refusals were not reported)") } else { String::new() };
        let reason = format!("{refusal}{more}");
        self.observer.observe(&ClusterEvent::Refused { address: from.to_string(), reason });
    }

    /// Finds the root and connects to it.
    fn connect_to_root(&mut self) -> Result<(String, TcpStream), JoinError> {
        let path = match &self.config.rendezvous {
            Rendezvous::Address(address) => {
                let address = address.clone();
                if self.config.secret.is_none() {
                    refuse_public(&address)?;
                }
                let stream = self.connect_with_retry("the root", &address, &mut || Ok(()))?;
                self.read_secret(&stream)?;
                return Ok((address, stream));
            }
            Rendezvous::File(path) => path.clone(),
        };
        let mut reason = "the root has not written it".to_owned();
        loop {
            match RendezvousRecord::read(&path) {
                Ok(Some(record)) => match connect(&record.address, POLL_INTERVAL * 10) {
                    Ok(stream) => {
                        self.config.secret = record.secret(&self.config.secret);
                        return Ok((record.address, stream));
                    }
                    // The file may be left over from a failed run, and the new one is about to be
                    // written.
                    Err(error) => reason = format!("it contains {}, which cannot be reached: {error}", record.address),
                },
                Ok(None) => {}
                Err(error) => reason = error.to_string(),
            }
            if self.env.now() >= self.deadline {
                return Err(JoinError::RendezvousFile { path, reason });
            }
            self.env.sleep(RETRY_INTERVAL);
        }
    }

    /// Takes the secret of a job that was given none from its file. The root writes the file before
    /// it listens, so a connected peer finds it.
    fn read_secret(&mut self, stream: &TcpStream) -> Result<(), JoinError> {
        if !self.config.secret.is_none() {
            return Ok(());
        }
        let address = stream.peer_addr()?;
        let Some(path) = self.config.secret_file.clone().filter(|_| address.ip().is_loopback()) else {
            return Err(JoinError::NoSecret { action: "connect to", address: address.to_string() });
        };
        let failed = |reason| JoinError::SecretFile { path: path.clone(), reason };
        let record = RendezvousRecord::read(&path)
            .map_err(|error| failed(error.to_string()))?
            .ok_or_else(|| failed(format!("the process that listens on {address} did not write it")))?;
        self.config.secret = record.secret(&self.config.secret);
        Ok(())
    }

    /// Connects repeatedly until the deadline: the other side may not listen yet.
    fn connect_with_retry(
        &self,
        target: &str,
        address: &str,
        check: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<TcpStream, JoinError> {
        let start = self.env.now();
        loop {
            let left = self.deadline - self.env.now();
            match connect(address, left.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(stream),
                Err(error) if left.is_zero() => {
                    return Err(JoinError::Unreachable {
                        rank: self.config.rank,
                        target: target.to_owned(),
                        address: address.to_owned(),
                        waited: self.env.now() - start,
                        reason: error.to_string(),
                    });
                }
                Err(_) => self.env.sleep(RETRY_INTERVAL.min(left)),
            }
            check()?;
        }
    }

    fn authenticate(
        &self,
        stream: TcpStream,
        address: &str,
        intent: ConnectionIntent,
    ) -> Result<HandshakeStream, JoinError> {
        let failed = |error| JoinError::Handshake { address: address.to_owned(), error };
        let refused = |refusal| JoinError::Refused { rank: self.config.rank, address: address.to_owned(), refusal };
        let tls = self.config.tls.as_ref().map(TlsConfig::dial).transpose()?;
        let mut stream = HandshakeStream::new(PeerStream::new(stream, tls)?, self.pool.clone(), self.env.clone());
        let mut nonce = [0; 32];
        self.env.fill_random(&mut nonce);
        let (mut client, hello) = ClientHandshake::start(self.config.secret.clone(), self.config.job, intent, nonce);
        stream.send(&hello, self.deadline).map_err(failed)?;
        let challenge: HandshakeMessage = stream.receive(self.deadline).map_err(failed)?;
        let binding = stream.channel_binding().map_err(failed)?;
        let claim = client.answer_challenge(&challenge, binding).map_err(refused)?;
        stream.send(&claim, self.deadline).map_err(failed)?;
        let verdict: HandshakeMessage = stream.receive(self.deadline).map_err(failed)?;
        let keys = client.verify_welcome(&verdict).map_err(refused)?;
        stream.authenticate_as_dialer(keys);
        Ok(stream)
    }

    fn acceptor_config(&self) -> AcceptorConfig {
        let JoinConfig { job, secret, tls, deadlines, .. } = self.config.clone();
        AcceptorConfig { job, secret, tls, pool: self.pool.clone(), handshake_timeout: deadlines.handshake }
    }

    /// Returns the address at which others reach a listener; `near` replaces an unspecified
    /// address.
    fn advertised(&self, listening: SocketAddr, near: Option<IpAddr>) -> String {
        match &self.config.advertise {
            Some(address) if address.parse::<IpAddr>().is_err() && address.rsplit_once(':').is_some() => {
                address.clone()
            }
            Some(host) => match host.parse() {
                Ok(ip) => SocketAddr::new(ip, listening.port()).to_string(),
                Err(_) => format!("{host}:{}", listening.port()),
            },
            None if listening.ip().is_unspecified() => {
                SocketAddr::new(near.unwrap_or(listening.ip()), listening.port()).to_string()
            }
            None => listening.to_string(),
        }
    }

    /// Returns the deadline of one small step.
    fn step_deadline(&self) -> Moment {
        self.env.now() + self.config.deadlines.handshake
    }
}

fn resolve(address: &str) -> Result<SocketAddr, JoinError> {
    let fail = |reason: String| JoinError::Resolve { address: address.to_owned(), reason };
    let mut found = address.to_socket_addrs().map_err(|error| fail(error.to_string()))?;
    found.next().ok_or_else(|| fail("the name has no address".into()))
}

/// Refuses a root that cannot be on this host. A name that cannot be resolved yet is left to the
/// attempts to connect.
fn refuse_public(address: &str) -> Result<(), JoinError> {
    let Ok(mut found) = address.to_socket_addrs() else { return Ok(()) };
    if found.any(|address| address.ip().is_loopback()) {
        return Ok(());
    }
    Err(JoinError::NoSecret { action: "connect to", address: address.to_owned() })
}

fn connect(address: &str, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            // While no process listens, a port in the ephemeral range can be connected to itself.
            Ok(stream) if stream.local_addr()? == stream.peer_addr()? => {
                last = std::io::ErrorKind::ConnectionRefused.into();
            }
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Returns an error if a joined peer has disappeared or aborted.
fn check_joined(joined: &mut [(Rank, HandshakeStream)], roster: &Roster) -> Result<(), JoinError> {
    for (rank, stream) in joined {
        let reason = match stream.poll::<JoinMessage>() {
            Ok(Some(JoinMessage::Abort(reason))) => reason,
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        let address = roster.address(*rank);
        return Err(JoinError::Gone { rank: *rank, address, reason });
    }
    Ok(())
}

fn peer_gone(rank: Rank, members: &[Member], reason: &dyn std::fmt::Display) -> JoinError {
    JoinError::Gone { rank, address: members[rank.index()].address.clone(), reason: reason.to_string() }
}

fn receive_message(root: &mut HandshakeStream, address: &str, deadline: Moment) -> Result<JoinMessage, JoinError> {
    match root.receive(deadline) {
        Ok(JoinMessage::Abort(reason)) => Err(JoinError::Aborted { reason }),
        Ok(message) => Ok(message),
        Err(error) => Err(JoinError::Handshake { address: address.to_owned(), error }),
    }
}

fn unexpected_message(address: &str, message: &JoinMessage) -> JoinError {
    let reason = std::io::Error::new(std::io::ErrorKind::InvalidData, format!("unexpected {message:?}"));
    JoinError::Handshake { address: address.to_owned(), error: HandshakeError::Io(reason) }
}
