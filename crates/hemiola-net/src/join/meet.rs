//! The conversation by which peers become a job, as drawn in the module's [documentation](super).
//!
//! Runs on the thread that builds the cluster; every step keeps to the join deadline.

use crate::buffer::BufferPool;
use crate::error::JoinError;
use crate::join::handshake::{Candidate, Dialer, Handshake, Intent, Refusal};
use crate::join::listener::{Door, Listener};
use crate::join::rendezvous::{Meeting, Rendezvous};
use crate::join::roster::{Member, Roster};
use crate::join::wire::{Wire, WireError};
use crate::secret::Secret;
use crate::tcp::io_loop::IoLoop;
use crate::tcp::stream::Stream;
use crate::tcp::transport::{Link, TcpLimits, TcpTransport};
use crate::tls::Tls;
use hemiola_core::{Deadlines, Env, Event, Inbox, JobId, Lane, Moment, Observer, Rank};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Time between two attempts to reach a peer that is not there yet.
const RETRY: Duration = Duration::from_millis(25);
/// How often a waiting side looks at its other connections.
const GLANCE: Duration = Duration::from_millis(100);
/// How often the root looks whether all are ready.
const READY_GLANCE: Duration = Duration::from_millis(1);
/// How long the reason for calling a job off may take to be written to one peer.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What a peer needs to know to join.
#[derive(Clone, Debug)]
pub struct JoinConfig {
    /// This peer.
    pub rank: Rank,
    /// Number of peers.
    pub size: usize,
    /// How many of them do not run the program but serve the others. Peers that disagree about it are refused.
    pub servers: usize,
    /// Which job.
    pub job: JobId,
    /// What the peers of the job share.
    pub secret: Secret,
    /// Where they meet.
    pub rendezvous: Rendezvous,
    /// The interface to listen on. Default: the one that leads to the meeting point; loopback if that is here.
    pub bind: Option<IpAddr>,
    /// The `host:port` (or host) others should use to reach this peer, where it is not the one it listens on.
    pub advertise: Option<String>,
    /// Certificates, if the peers talk under TLS.
    pub tls: Option<Tls>,
    /// Time limits.
    pub deadlines: Deadlines,
    /// Sizes.
    pub limits: TcpLimits,
}

/// Messages between the root and a peer after the handshake.
#[derive(Debug, Serialize, Deserialize)]
enum JoinMessage {
    Roster(Vec<Member>),
    Ready,
    Go,
    CallOff(String),
}

/// A peer that has joined, before it talks.
#[derive(Debug)]
pub struct Joined {
    config: JoinConfig,
    members: Vec<Member>,
    links: Vec<Link>,
    env: Arc<dyn Env>,
}

impl Joined {
    /// The peers in rank order.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Turns the links into a transport that delivers to `inbox`. Run each returned loop on a thread of its own.
    pub fn start(self, inbox: Arc<dyn Inbox>) -> Result<(Arc<TcpTransport>, Vec<IoLoop>), JoinError> {
        let addresses = self.members.into_iter().map(|member| member.address).collect();
        let JoinConfig { rank, job, limits, .. } = self.config;
        Ok(TcpTransport::new(rank, job, addresses, self.links, &limits, inbox, &self.env)?)
    }
}

/// Meets the other peers of a job.
pub fn join(config: JoinConfig, env: &Arc<dyn Env>, observer: &dyn Observer) -> Result<Joined, JoinError> {
    let start = env.now();
    let deadline = start + config.deadlines.join;
    let pool = TcpTransport::pool(&config.limits);
    let mut meeting = Meet { config, env: env.clone(), observer, start, deadline, pool };
    let (members, links) = if meeting.config.rank == Rank::ROOT { meeting.as_root()? } else { meeting.as_peer()? };
    let Meet { config, .. } = meeting;
    observer.observe(&Event::Joined { rank: config.rank, size: config.size, took: env.now() - start });
    Ok(Joined { config, members, links, env: env.clone() })
}

struct Meet<'a> {
    config: JoinConfig,
    env: Arc<dyn Env>,
    observer: &'a dyn Observer,
    start: Moment,
    deadline: Moment,
    pool: BufferPool,
}

/// Removes the rendezvous file when the job has come together or failed to.
struct FileGuard(Option<PathBuf>);

impl Drop for FileGuard {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // If it is gone already, so much the better.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Meet<'_> {
    fn as_root(&mut self) -> Result<(Vec<Member>, Vec<Link>), JoinError> {
        let (listener, _file) = self.open_meeting_point()?;
        let size = self.config.size;
        let myself = Member { address: self.advertised(listener.address, None), process: std::process::id() };
        let mut roster = Roster::new(size, self.config.servers, myself);
        let mut joined: Vec<(Rank, Wire)> = Vec::new();
        let outcome = self.gather(&listener, &mut roster, &mut joined);
        if let Err(error) = &outcome {
            let reason = error.to_string();
            for (_, wire) in &mut joined {
                // Whoever does not hear it will notice that the connection ends.
                let _ = wire.send(&JoinMessage::CallOff(reason.clone()), self.env.now() + LAST_WORDS);
            }
        }
        outcome
    }

    /// From the first arrival to the word "go".
    fn gather(
        &self,
        listener: &Listener,
        roster: &mut Roster,
        joined: &mut Vec<(Rank, Wire)>,
    ) -> Result<(Vec<Member>, Vec<Link>), JoinError> {
        let members = loop {
            if let Some(members) = roster.complete() {
                break members;
            }
            if self.env.now() >= self.deadline {
                let (missing, refused) = (roster.missing(), roster.refusals().to_vec());
                return Err(JoinError::Missing { missing, refused, waited: self.env.now() - self.start });
            }
            let arrival = listener.next(GLANCE)?;
            check_on(joined, roster)?;
            let visitor = match arrival {
                None => continue,
                Some(Ok(visitor)) => visitor,
                Some(Err(stranger)) => {
                    self.note_refusal(stranger.from, &stranger.refusal);
                    roster.refuse(stranger.from.to_string(), stranger.refusal);
                    continue;
                }
            };
            let (from, intent) = (visitor.from, visitor.intent.clone());
            let verdict = match &intent {
                Intent::Join(candidate) => roster.check(candidate),
                Intent::Link { .. } => {
                    Err(Refusal::Protocol { reason: "it asked for a link before the roster was out".into() })
                }
            };
            match (verdict, intent) {
                (Ok(()), Intent::Join(candidate)) => {
                    // If the answer does not get through, the rank stays free.
                    if let Ok(wire) = visitor.welcome(self.step()) {
                        joined.push((candidate.rank, wire));
                        roster.admit(candidate);
                    }
                }
                (Err(refusal), _) => {
                    self.note_refusal(from, &refusal);
                    roster.refuse(from.to_string(), refusal.clone());
                    visitor.refuse(refusal, self.step());
                }
                (Ok(()), Intent::Link { .. }) => unreachable!("links were refused above"),
            }
        };
        self.tell_all(joined, &members, &JoinMessage::Roster(members.clone()))?;
        let links = self.accept_links(listener, &members, &mut || check_on(joined, roster))?;
        self.await_ready(joined, &members)?;
        self.tell_all(joined, &members, &JoinMessage::Go)?;
        Ok((members, links))
    }

    /// Waits until all are ready, with an eye on each: the one that goes away is to blame, not the one waited for.
    fn await_ready(&self, joined: &mut [(Rank, Wire)], members: &[Member]) -> Result<(), JoinError> {
        let mut ready = vec![false; members.len()];
        loop {
            for (rank, wire) in joined.iter_mut() {
                match wire.poll() {
                    Ok(None) => {}
                    Ok(Some(JoinMessage::Ready)) => ready[rank.index()] = true,
                    Ok(Some(JoinMessage::CallOff(reason))) => return Err(gone(*rank, members, &reason)),
                    Ok(Some(other)) => {
                        return Err(gone(*rank, members, &format!("it sent {other:?} instead of being ready")));
                    }
                    Err(error) => return Err(gone(*rank, members, &error)),
                }
            }
            let Some((late, _)) = joined.iter().find(|(rank, _)| !ready[rank.index()]) else { return Ok(()) };
            if self.env.now() >= self.deadline {
                return Err(gone(*late, members, &"it was not ready in time"));
            }
            self.env.pause(READY_GLANCE);
        }
    }

    fn tell_all(
        &self,
        joined: &mut [(Rank, Wire)],
        members: &[Member],
        message: &JoinMessage,
    ) -> Result<(), JoinError> {
        for (rank, wire) in joined {
            wire.send(message, self.deadline).map_err(|error| gone(*rank, members, &error))?;
        }
        Ok(())
    }

    /// Binds the meeting point, and writes the rendezvous file if that is how peers find it.
    fn open_meeting_point(&mut self) -> Result<(Listener, FileGuard), JoinError> {
        match self.config.rendezvous.clone() {
            Rendezvous::Address(address) => {
                let resolved = resolve(&address)?;
                let ip = self.config.bind.unwrap_or(resolved.ip());
                let listener = Listener::open(ip, resolved.port(), self.door(), &self.env)?;
                Ok((listener, FileGuard(None)))
            }
            Rendezvous::File(path) => {
                let given = !self.config.secret.is_none();
                if !given {
                    let mut fresh = [0; 32];
                    self.env.fill_random(&mut fresh);
                    self.config.secret = Secret::from_random(fresh);
                }
                let ip = self.config.bind.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
                let listener = Listener::open(ip, 0, self.door(), &self.env)?;
                let secret = if given { String::new() } else { self.config.secret.expose() };
                let meeting = Meeting { address: self.advertised(listener.address, None), secret };
                meeting
                    .write(&path, &*self.env)
                    .map_err(|error| JoinError::RendezvousFile { path: path.clone(), reason: error.to_string() })?;
                Ok((listener, FileGuard(Some(path))))
            }
        }
    }

    fn as_peer(&mut self) -> Result<(Vec<Member>, Vec<Link>), JoinError> {
        let (root_address, stream) = self.reach_root()?;
        let near = stream.local_addr()?.ip();
        let ip = self.config.bind.unwrap_or(near);
        let listener = Listener::open(ip, 0, self.door(), &self.env)?;
        let candidate = Candidate {
            rank: self.config.rank,
            size: self.config.size,
            servers: self.config.servers,
            address: self.advertised(listener.address, Some(near)),
            process: std::process::id(),
        };
        let mut root = self.shake_hands(stream, &root_address, Intent::Join(candidate))?;
        let outcome = self.link_up(&listener, &mut root, &root_address);
        if let Err(error) = &outcome {
            // If the root is the one that is gone, this does no harm.
            let _ = root.send(&JoinMessage::CallOff(error.to_string()), self.env.now() + LAST_WORDS);
        }
        outcome
    }

    /// From the roster to the word "go".
    fn link_up(
        &self,
        listener: &Listener,
        root: &mut Wire,
        root_address: &str,
    ) -> Result<(Vec<Member>, Vec<Link>), JoinError> {
        // The root waits for stragglers until its own deadline, then says so: give it time to.
        let deadline = self.deadline + Duration::from_secs(5);
        let members = match hear(root, root_address, deadline)? {
            JoinMessage::Roster(members) if members.len() == self.config.size => members,
            other => return Err(confused(root_address, &other)),
        };
        let mut root_lives = || match root.poll::<JoinMessage>() {
            Ok(None) => Ok(()),
            Ok(Some(JoinMessage::CallOff(reason))) => Err(JoinError::CalledOff { reason }),
            Ok(Some(other)) => Err(confused(root_address, &other)),
            Err(error) => Err(JoinError::Wire { address: root_address.to_owned(), error }),
        };
        let mut links = Vec::new();
        for lower in Rank::all(self.config.rank.index()) {
            // The root is reached the way it was reached before: its advertised address may be a different one.
            let address = if lower == Rank::ROOT { root_address } else { &members[lower.index()].address };
            for lane in Lane::ALL {
                let stream = self.reach(&format!("peer {lower}"), address, &mut root_lives)?;
                let intent = Intent::Link { rank: self.config.rank, lane };
                links.push(self.shake_hands(stream, address, intent)?.into_link(lower, lane));
            }
        }
        links.extend(self.accept_links(listener, &members, &mut root_lives)?);
        root.send(&JoinMessage::Ready, self.deadline)
            .map_err(|error| JoinError::Wire { address: root_address.to_owned(), error })?;
        match hear(root, root_address, deadline)? {
            JoinMessage::Go => Ok((members, links)),
            other => Err(confused(root_address, &other)),
        }
    }

    /// Lets all higher ranks link up on both lanes.
    fn accept_links(
        &self,
        listener: &Listener,
        members: &[Member],
        glance: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<Vec<Link>, JoinError> {
        let mut missing: Vec<(Rank, Lane)> = Rank::all(self.config.size)
            .skip(self.config.rank.index() + 1)
            .flat_map(|rank| Lane::ALL.map(|lane| (rank, lane)))
            .collect();
        let mut links = Vec::new();
        while let Some((first, _)) = missing.first() {
            if self.env.now() >= self.deadline {
                return Err(gone(*first, members, &"it did not link up in time"));
            }
            let arrival = listener.next(GLANCE)?;
            glance()?;
            let visitor = match arrival {
                None => continue,
                Some(Ok(visitor)) => visitor,
                Some(Err(stranger)) => {
                    self.note_refusal(stranger.from, &stranger.refusal);
                    continue;
                }
            };
            let place = match visitor.intent {
                Intent::Link { rank, lane } => missing.iter().position(|link| *link == (rank, lane)),
                Intent::Join(_) => None,
            };
            let Some(place) = place else {
                self.note_refusal(visitor.from, &Refusal::TooLate);
                visitor.refuse(Refusal::TooLate, self.step());
                continue;
            };
            let (rank, lane) = missing[place];
            match visitor.welcome(self.step()) {
                Ok(wire) => {
                    missing.remove(place);
                    links.push(wire.into_link(rank, lane));
                }
                Err(error) => return Err(gone(rank, members, &error)),
            }
        }
        Ok(links)
    }

    fn note_refusal(&self, from: SocketAddr, refusal: &Refusal) {
        self.observer.observe(&Event::Refused { address: from.to_string(), reason: refusal.to_string() });
    }

    /// Finds the root and connects to it.
    fn reach_root(&mut self) -> Result<(String, TcpStream), JoinError> {
        let path = match &self.config.rendezvous {
            Rendezvous::Address(address) => {
                let address = address.clone();
                let stream = self.reach("the root", &address, &mut || Ok(()))?;
                return Ok((address, stream));
            }
            Rendezvous::File(path) => path.clone(),
        };
        let mut reason = "the root has not written it".to_owned();
        loop {
            match Meeting::read(&path) {
                Ok(Some(meeting)) => match connect(&meeting.address, GLANCE * 10) {
                    Ok(stream) => {
                        self.config.secret = meeting.secret(&self.config.secret);
                        return Ok((meeting.address, stream));
                    }
                    // Perhaps the file of a run that ended badly, and ours is about to be written.
                    Err(error) => reason = format!("it names {}, which cannot be reached: {error}", meeting.address),
                },
                Ok(None) => {}
                Err(error) => reason = error.to_string(),
            }
            if self.env.now() >= self.deadline {
                return Err(JoinError::RendezvousFile { path, reason });
            }
            self.env.pause(RETRY);
        }
    }

    /// Connects, again and again until the deadline: the other side may not be there yet.
    fn reach(
        &self,
        whom: &str,
        address: &str,
        glance: &mut dyn FnMut() -> Result<(), JoinError>,
    ) -> Result<TcpStream, JoinError> {
        let start = self.env.now();
        loop {
            let left = self.deadline - self.env.now();
            match connect(address, left.max(Duration::from_millis(1))) {
                Ok(stream) => return Ok(stream),
                Err(error) if left.is_zero() => {
                    return Err(JoinError::Unreachable {
                        rank: self.config.rank,
                        whom: whom.to_owned(),
                        address: address.to_owned(),
                        waited: self.env.now() - start,
                        reason: error.to_string(),
                    });
                }
                Err(_) => self.env.pause(RETRY.min(left)),
            }
            glance()?;
        }
    }

    fn shake_hands(&self, stream: TcpStream, address: &str, intent: Intent) -> Result<Wire, JoinError> {
        let broken_off = |error| JoinError::Wire { address: address.to_owned(), error };
        let refused = |refusal| JoinError::Refused { rank: self.config.rank, address: address.to_owned(), refusal };
        let tls = self.config.tls.as_ref().map(Tls::dial).transpose()?;
        let mut wire = Wire::new(Stream::new(stream, tls)?, self.config.job, self.pool.clone(), self.env.clone());
        let mut nonce = [0; 32];
        self.env.fill_random(&mut nonce);
        let (mut dialer, hello) = Dialer::start(self.config.secret.clone(), self.config.job, intent, nonce);
        wire.send(&hello, self.deadline).map_err(broken_off)?;
        let challenge: Handshake = wire.receive(self.deadline).map_err(broken_off)?;
        let claim = dialer.challenged(&challenge).map_err(refused)?;
        wire.send(&claim, self.deadline).map_err(broken_off)?;
        let verdict: Handshake = wire.receive(self.deadline).map_err(broken_off)?;
        dialer.answered(&verdict).map_err(refused)?;
        Ok(wire)
    }

    fn door(&self) -> Door {
        let JoinConfig { job, secret, tls, deadlines, .. } = self.config.clone();
        Door { job, secret, tls, pool: self.pool.clone(), patience: deadlines.handshake }
    }

    /// The address others should use for a listener; `near` replaces an address that means "any interface".
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

    /// The deadline of one small step.
    fn step(&self) -> Moment {
        self.env.now() + self.config.deadlines.handshake
    }
}

fn resolve(address: &str) -> Result<SocketAddr, JoinError> {
    let fail = |reason: String| JoinError::Resolve { address: address.to_owned(), reason };
    let mut found = address.to_socket_addrs().map_err(|error| fail(error.to_string()))?;
    found.next().ok_or_else(|| fail("the name has no address".into()))
}

fn connect(address: &str, timeout: Duration) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            // While nobody listens, a port of the range that the system gives out can be connected to itself.
            Ok(stream) if stream.local_addr()? == stream.peer_addr()? => {
                last = std::io::ErrorKind::ConnectionRefused.into();
            }
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Fails if one of those who wait for the roster has gone away or called off.
fn check_on(joined: &mut [(Rank, Wire)], roster: &Roster) -> Result<(), JoinError> {
    for (rank, wire) in joined {
        let reason = match wire.poll::<JoinMessage>() {
            Ok(Some(JoinMessage::CallOff(reason))) => reason,
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        let address = roster.address(*rank);
        return Err(JoinError::Gone { rank: *rank, address, reason });
    }
    Ok(())
}

fn gone(rank: Rank, members: &[Member], reason: &dyn std::fmt::Display) -> JoinError {
    JoinError::Gone { rank, address: members[rank.index()].address.clone(), reason: reason.to_string() }
}

fn hear(root: &mut Wire, address: &str, deadline: Moment) -> Result<JoinMessage, JoinError> {
    match root.receive(deadline) {
        Ok(JoinMessage::CallOff(reason)) => Err(JoinError::CalledOff { reason }),
        Ok(message) => Ok(message),
        Err(error) => Err(JoinError::Wire { address: address.to_owned(), error }),
    }
}

fn confused(address: &str, message: &JoinMessage) -> JoinError {
    let reason = std::io::Error::new(std::io::ErrorKind::InvalidData, format!("unexpected {message:?}"));
    JoinError::Wire { address: address.to_owned(), error: WireError::Io(reason) }
}
