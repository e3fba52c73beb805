//! The machines of a peer, and messages between them.
//!
//! Every shard has its client here, behind a lock of its own; some shards are here themselves. A call locks one machine, takes out what
//! that says and whom it wakes, unlocks it, and only then hands the messages on: to a machine of this peer as values, to other peers as bytes.

use crate::error::Failure;
use crate::parking::{Parking, Wait};
use crate::post::{self, Outbox, Parcel, Post, Way};
use crate::readers::Readers;
use crate::servers::Homes;
use hemiola_cluster::{Ending, Error, Mailbox, Reason, Result};
use hemiola_core::{Message, Rank, Waiter, WorkerId};
use hemiola_tables_proto::client::{FromClient, Reading};
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::server::FromShard;
use hemiola_tables_proto::{Cells, Client, ClientId, Clock, Pacer, Random, Server, ShardId, Spec};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the service that takes messages in looks around when none come; it is woken for what it needs to know.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// How often something is sent ahead of need, at most.
const TICK: Duration = Duration::from_millis(2);

/// What may be sent ahead of need, in both directions.
#[derive(Debug)]
pub(crate) struct Pacers {
    /// From clients here to shards.
    pub(crate) up: Pacer,
    /// From shards here to clients.
    pub(crate) down: Pacer,
    /// Between machines of this peer: whatever there is.
    pub(crate) here: Pacer,
    pub(crate) random: Random,
}

/// A peer's part of a table.
pub(crate) struct Hub<C: Cell> {
    pub(crate) spec: Arc<Spec>,
    pub(crate) rank: Rank,
    /// Where shards are.
    pub(crate) homes: Homes,
    /// By shard; none on a dedicated server. Each worker is a reader.
    pub(crate) clients: Vec<Readers<Client<C>>>,
    /// By shard: those that are here.
    pub(crate) servers: Vec<Option<Mutex<Server<C>>>>,
    pub(crate) parking: Parking,
    /// Nothing if there is no other peer.
    pub(crate) post: Option<Post>,
    pub(crate) pacers: Option<Mutex<Pacers>>,
    /// Messages whose machine was locked when they were read, and what went wrong with others.
    pub(crate) deferred: Mutex<Deferred<C>>,
    /// Nobody here uses the table any more.
    pub(crate) released: AtomicBool,
    /// Peers with shards that have said that nobody uses those any more.
    pub(crate) over: AtomicUsize,
}

/// What threads that read from the network leave to the service.
pub(crate) struct Deferred<C: Cell> {
    parcels: Vec<Parcel<C>>,
    error: Option<Error>,
}

impl<C: Cell> Default for Deferred<C> {
    fn default() -> Self {
        Self { parcels: Vec::new(), error: None }
    }
}

impl<C: Cell> Hub<C> {
    fn peers(&self) -> usize {
        self.spec.clients
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> + use<C> {
        (0..self.spec.shards as u32).map(ShardId::new)
    }

    /// Calls the client of a shard, and hands on what it has to say.
    fn with_client<T>(
        &self,
        way: Way,
        shard: ShardId,
        call: impl FnOnce(&mut Client<C>) -> hemiola_tables_proto::Result<T>,
    ) -> Result<T> {
        let mut client = self.clients[shard.index()].lock();
        let result = call(&mut client);
        let (out, woken) = (client.take_outgoing(), client.take_woken());
        drop(client);
        self.wake(woken);
        if !out.is_empty() {
            let mut work = VecDeque::new();
            self.route_up(way, shard, out, &mut work)?;
            self.forward(way, work)?;
        }
        result.map_err(crate::error::refused)
    }

    fn wake(&self, woken: Vec<WorkerId>) {
        for worker in woken {
            self.parking.wake(worker);
        }
    }

    /// Hands on what the client of a shard says.
    fn route_up(
        &self,
        way: Way,
        shard: ShardId,
        out: Vec<FromClient<C::Wide>>,
        work: &mut VecDeque<Parcel<C>>,
    ) -> Result<()> {
        let home = self.homes.of(shard);
        for FromClient { envelope, urgent } in out {
            match &self.post {
                Some(post) if home != self.rank => {
                    let bytes = post.to_shard::<C>(way, home, shard, envelope)?;
                    if let Some(pacers) = &self.pacers {
                        let bytes = if urgent { bytes } else { post::FRONT_BYTES };
                        pacers.lock().up.charge(post.link().env().now(), bytes);
                    }
                }
                _ => work.push_back(Parcel::ToShard(shard, self.rank, envelope)),
            }
        }
        Ok(())
    }

    /// Hands on what a shard says.
    fn route_down(
        &self,
        way: Way,
        shard: ShardId,
        out: Vec<FromShard<C>>,
        work: &mut VecDeque<Parcel<C>>,
    ) -> Result<()> {
        for FromShard { to, envelope, urgent } in out {
            let to = Rank::new(to.index() as u32);
            match &self.post {
                Some(post) if to != self.rank => {
                    let bytes = post.to_client::<C>(way, to, shard, envelope)?;
                    if let Some(pacers) = &self.pacers {
                        let bytes = if urgent { bytes } else { post::FRONT_BYTES };
                        pacers.lock().down.charge(post.link().env().now(), bytes);
                    }
                }
                _ => work.push_back(Parcel::ToClient(shard, envelope)),
            }
        }
        Ok(())
    }

    /// Handles messages for machines of this peer until there are none.
    fn forward(&self, way: Way, mut work: VecDeque<Parcel<C>>) -> Result<()> {
        while let Some(parcel) = work.pop_front() {
            match parcel {
                Parcel::Over => {}
                Parcel::ToShard(shard, from, envelope) => {
                    let Some(server) = &self.servers[shard.index()] else {
                        let problem = format!("shard {shard} is not on peer {}", self.rank);
                        return self
                            .ended(hemiola_tables_proto::Error::BadMessage { table: self.spec.name.clone(), problem });
                    };
                    let locked = if way == Way::Passing { server.try_lock() } else { Some(server.lock()) };
                    let Some(mut server) = locked else {
                        self.defer(Parcel::ToShard(shard, from, envelope));
                        continue;
                    };
                    let before = (server.min(), server.awaits_leases());
                    let received = server.receive(ClientId::new(from.number()), envelope);
                    let (out, now, awaits) = (server.take_outgoing(), server.min(), server.awaits_leases());
                    drop(server);
                    if let Err(error) = received {
                        return self.ended(error);
                    }
                    if (now, awaits) != before {
                        self.parking.move_on();
                    }
                    if now == Clock::INFINITE && way == Way::Passing {
                        // It may have been the last message.
                        self.wake_service();
                    }
                    self.route_down(way, shard, out, &mut work)?;
                }
                Parcel::ToClient(shard, envelope) => {
                    let Some(client) = self.clients.get(shard.index()) else {
                        let problem = format!("peer {} reads nothing, and was sent rows", self.rank);
                        return self
                            .ended(hemiola_tables_proto::Error::BadMessage { table: self.spec.name.clone(), problem });
                    };
                    let locked = if way == Way::Passing { client.try_lock() } else { Some(client.lock()) };
                    let Some(mut client) = locked else {
                        self.defer(Parcel::ToClient(shard, envelope));
                        continue;
                    };
                    let received = client.receive(envelope);
                    let (out, woken) = (client.take_outgoing(), client.take_woken());
                    drop(client);
                    if let Err(error) = received {
                        return self.ended(error);
                    }
                    self.wake(woken);
                    self.route_up(way, shard, out, &mut work)?;
                }
            }
        }
        Ok(())
    }

    fn defer(&self, parcel: Parcel<C>) {
        self.deferred.lock().parcels.push(parcel);
        self.wake_service();
    }

    fn wake_service(&self) {
        if let Some(post) = &self.post {
            post::wake_up(post.link(), post.channel());
        }
    }

    /// A machine refused a message: nobody can go on.
    fn ended<T>(&self, error: hemiola_tables_proto::Error) -> Result<T> {
        let failure = Failure::Table(error);
        self.parking.fail(failure.clone());
        Err(failure.error(&self.spec.name))
    }

    /// Hands on what a shard of this peer has to say without having been spoken to.
    pub(crate) fn speak(&self, shard: ShardId) -> Result<()> {
        let Some(server) = &self.servers[shard.index()] else { return Ok(()) };
        let out = server.lock().take_outgoing();
        let mut work = VecDeque::new();
        self.route_down(Way::Patient, shard, out, &mut work)?;
        self.forward(Way::Patient, work)
    }

    /// What is known of the table here, for the error at a deadline.
    pub(crate) fn details(&self) -> String {
        let mut text = String::new();
        for (shard, server) in self.servers.iter().enumerate() {
            let Some(server) = server else { continue };
            let server = server.lock();
            let clocks: Vec<String> = server.clocks().all().iter().map(ToString::to_string).collect();
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "  shard {shard} of table `{}`: peers are at clocks {}",
                self.spec.name,
                clocks.join(", ")
            );
            for (client, until) in server.waiting() {
                let _ = write!(text, "; peer {client} waits for {until}");
            }
            text.push('\n');
        }
        text
    }

    /// Reads a row: calls `read` with it as soon as it is here and fresh enough.
    pub(crate) fn get<T>(
        &self,
        worker: WorkerId,
        key: u64,
        site: &'static Location<'static>,
        read: impl FnOnce(Reading<'_, C::Wide>) -> T,
    ) -> Result<T> {
        let shard = self.spec.shard_of(key);
        let client = &self.clients[shard.index()];
        // The hit path: nothing that another worker uses is written.
        if let Some(reading) = client.read(worker.index()).peek(worker, key).map_err(crate::error::refused)? {
            return Ok(read(reading));
        }
        loop {
            if let Some(reading) = client.lock().get(worker, key).map_err(crate::error::refused)? {
                return Ok(read(reading));
            }
            self.parking.check()?;
            if !self.with_client(Way::Patient, shard, |client| client.ask(worker, &[key]))? {
                self.park(worker, 1, shard, site)?;
            }
        }
    }

    /// Reads many rows, given by shard with their places among those asked for.
    pub(crate) fn get_many(
        &self,
        worker: WorkerId,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        site: &'static Location<'static>,
        mut read: impl FnMut(usize, u64, Reading<'_, C::Wide>),
    ) -> Result<()> {
        let (mut asked, mut last) = (0, None);
        for shard in self.shards() {
            let (keys, _) = &by_shard[shard.index()];
            if !keys.is_empty() && !self.with_client(Way::Patient, shard, |client| client.ask(worker, keys))? {
                (asked, last) = (asked + 1, Some(shard));
            }
        }
        if let Some(shard) = last {
            self.park(worker, asked, shard, site)?;
        }
        for shard in self.shards() {
            let (keys, places) = &by_shard[shard.index()];
            if keys.is_empty() {
                continue;
            }
            let client = &self.clients[shard.index()];
            let mut rest = keys.iter().zip(places).peekable();
            let seen = client.read(worker.index());
            while let Some((key, place)) = rest.peek() {
                let Some(reading) = seen.peek(worker, **key).map_err(crate::error::refused)? else { break };
                read(**place, **key, reading);
                rest.next();
            }
            drop(seen);
            if rest.peek().is_none() {
                continue;
            }
            let mut client = client.lock();
            for (key, place) in rest {
                let Some(reading) = client.get(worker, *key).map_err(crate::error::refused)? else {
                    // Rows that were asked for stay until the worker asks again.
                    unreachable!("row {key} was here a moment ago");
                };
                read(*place, *key, reading);
            }
        }
        Ok(())
    }

    fn park(&self, worker: WorkerId, asked: i64, shard: ShardId, site: &'static Location<'static>) -> Result<()> {
        let reason =
            Reason { what: "rows of a table, from shard", number: Some(shard.index() as u64), site: Some(site) };
        let (waiter, peer) = (Waiter::Worker(worker), Some(self.homes.of(shard)));
        self.parking.wait(worker, asked, Wait { waiter, reason, peer, details: &|| self.details() })
    }

    pub(crate) fn update(&self, worker: WorkerId, key: u64, cells: &Cells<'_, C::Wide>, seen: u64) -> Result<()> {
        // The hit path: an update says nothing.
        let client = &self.clients[self.spec.shard_of(key).index()];
        client.lock().update(worker, key, cells, seen).map_err(crate::error::refused)
    }

    /// Adds to many rows, given by shard with their places among those given.
    pub(crate) fn update_many(
        &self,
        worker: WorkerId,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        values: &[C::Wide],
        seen: impl Fn(u64) -> u64,
    ) -> Result<()> {
        let width = self.spec.width;
        for (client, (keys, places)) in self.clients.iter().zip(by_shard).filter(|(_, (keys, _))| !keys.is_empty()) {
            let mut client = client.lock();
            for (key, place) in keys.iter().zip(places) {
                let cells = Cells::Dense(&values[place * width..][..width]);
                client.update(worker, *key, &cells, seen(*key)).map_err(crate::error::refused)?;
            }
        }
        Ok(())
    }

    /// Ends a worker's clock, or its work.
    pub(crate) fn advance(&self, way: Way, worker: WorkerId, finish: bool) -> Result<()> {
        self.parking.check()?;
        for shard in self.shards() {
            let call = |client: &mut Client<C>| if finish { client.finish(worker) } else { client.clock(worker) };
            self.with_client(way, shard, call)?;
            // What is made is sent before the next message is made: it is still in the cache, and the lock is free in between.
            while self.with_client(way, shard, |client| Ok(client.close_some()))? {}
        }
        Ok(())
    }

    pub(crate) fn clock_of(&self, worker: WorkerId) -> Clock {
        self.clocks_of(worker).min().unwrap_or(Clock::INFINITE)
    }

    fn clocks_of(&self, worker: WorkerId) -> impl Iterator<Item = Clock> {
        self.clients.iter().map(move |client| client.lock().clock_at(worker))
    }

    pub(crate) fn intend(
        &self,
        worker: WorkerId,
        by_shard: &[(Vec<u64>, Vec<usize>)],
        from: Clock,
        to: Clock,
    ) -> Result<()> {
        for shard in self.shards() {
            let (keys, _) = &by_shard[shard.index()];
            if !keys.is_empty() {
                self.with_client(Way::Patient, shard, |client| client.intend(worker, keys, from, to))?;
            }
        }
        Ok(())
    }

    /// Whether nobody needs this peer's part of the table any more.
    fn is_over(&self) -> bool {
        if !self.released.load(Ordering::Acquire) {
            return false;
        }
        if !self.homes.contains(self.rank) {
            // Shards may call back what is leased to this peer.
            return self.over.load(Ordering::Acquire) >= self.homes.len();
        }
        self.servers.iter().flatten().all(|server| server.lock().min() == Clock::INFINITE)
    }

    /// Tells peers without shards that nobody uses those of this peer any more.
    fn say_over(&self, post: &Post) -> Result<()> {
        let peers =
            Rank::all(self.peers()).filter(|peer| self.homes.contains(self.rank) && !self.homes.contains(*peer));
        peers.into_iter().try_for_each(|peer| post.over(peer))
    }

    /// Handles a message on the thread that has read it. Gives back what is there to wake the service.
    pub(crate) fn pass(&self, message: Message) -> Option<Message> {
        if message.payload.is_empty() {
            return Some(message);
        }
        if let Err(error) = self.take(&message, Way::Passing) {
            self.parking.fail(Failure::of(&error));
            self.deferred.lock().error.get_or_insert(error);
            self.wake_service();
        }
        None
    }

    /// Handles what others had to leave, until nobody needs that any more.
    pub(crate) fn take_in(&self, mailbox: &Mailbox, ending: &Ending) -> Result<()> {
        let Some(post) = &self.post else { return Ok(()) };
        let _closing = Closing(&self.parking, &post.outbox);
        while !ending.has_come() && !self.is_over() {
            let received = post.link().receive_within(mailbox, LOOK_AROUND);
            let taken = received.and_then(|message| {
                let Deferred { parcels, error } = std::mem::take(&mut *self.deferred.lock());
                if let Some(error) = error {
                    return Err(error);
                }
                if let Some(message) = message {
                    self.take(&message, Way::Hurried)?;
                }
                self.forward(Way::Hurried, parcels.into())
            });
            if let Err(error) = taken {
                self.parking.fail(Failure::of(&error));
                return Err(error);
            }
        }
        if ending.has_come() { Ok(()) } else { self.say_over(post) }
    }

    fn take(&self, message: &Message, way: Way) -> Result<()> {
        match post::decode::<C>(message, &self.spec) {
            Ok(None) => Ok(()),
            Ok(Some(Parcel::Over)) => {
                self.over.fetch_add(1, Ordering::AcqRel); // pairs with the load in `is_over`
                self.wake_service();
                Ok(())
            }
            Ok(Some(parcel)) => self.forward(way, VecDeque::from([parcel])),
            Err(failure) => Err(failure.error(&self.spec.name)),
        }
    }

    /// Sends what had to wait for room, and ahead of need, until the other service has ended.
    pub(crate) fn send_out(&self, ending: &Ending) -> Result<()> {
        let Some(post) = &self.post else { return Ok(()) };
        let pause = if self.pacers.is_some() { TICK } else { LOOK_AROUND };
        loop {
            let (next, over) = post.outbox.next(pause);
            let sent = match next {
                Some((to, message)) => post.link().send(to, message),
                None if over || ending.has_come() => return Ok(()),
                None => self.send_ahead(post),
            };
            if let Err(error) = sent {
                self.parking.fail(Failure::of(&error));
                return Err(error);
            }
        }
    }

    /// Sends rows and sums that nobody waits for, as far as the budget allows, and says what has come.
    fn send_ahead(&self, post: &Post) -> Result<()> {
        let Some(pacers) = &self.pacers else { return Ok(()) };
        for shard in self.shards() {
            let now = post.link().env().now();
            let mut work = VecDeque::new();
            if let Some(client) = self.clients.get(shard.index()) {
                let mut client = client.lock();
                {
                    let Pacers { up, here, random, .. } = &mut *pacers.lock();
                    let pacer = if self.homes.of(shard) == self.rank { here } else { up };
                    client.send_ahead(now, pacer, shard.index() as u64, random);
                }
                client.acknowledge();
                let out = client.take_outgoing();
                drop(client);
                self.route_up(Way::Patient, shard, out, &mut work)?;
            }
            if let Some(server) = &self.servers[shard.index()] {
                // Streams down have numbers behind those of streams up.
                let number =
                    |client: ClientId| (self.spec.shards + shard.index() * self.peers() + client.index()) as u64;
                let is_here = |client: ClientId| client.index() == self.rank.index();
                let mut server = server.lock();
                {
                    let Pacers { down, here, .. } = &mut *pacers.lock();
                    server.send_ahead(now, down, |client| (!is_here(client)).then(|| number(client)));
                    server.send_ahead(now, here, |client| is_here(client).then(|| number(client)));
                }
                server.acknowledge();
                let out = server.take_outgoing();
                drop(server);
                self.route_down(Way::Patient, shard, out, &mut work)?;
            }
            self.forward(Way::Patient, work)?;
        }
        Ok(())
    }
}

/// Whatever ends the service that takes messages in ends the table here.
struct Closing<'a>(&'a Parking, &'a Arc<Outbox>);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.fail(Failure::Stopped("the service that takes its messages in has ended".to_owned()));
        self.1.close();
    }
}
