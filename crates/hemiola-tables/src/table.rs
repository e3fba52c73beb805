//! A table, as a peer holds it.

use crate::error::{Error, Failure};
use crate::hub::Hub;
use crate::orders::{self, Order};
use crate::parking::{Parking, Wait};
use crate::place::Place;
use crate::post::{self, Way};
use crate::worker::TableWorker;
use hemiola_cluster::{Cluster, Reason, Result, Worker};
use hemiola_core::{ChannelId, Rank, Waiter, WorkerId};
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::{Clock, Server, ShardId, Spec};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a table works here.
pub(crate) enum Engine<C: Cell> {
    /// By messages, even if there is only one peer.
    Hub(Arc<Hub<C>>),
    /// In place.
    Place(Arc<Place<C>>),
}

/// A table that the workers of all peers share. Dropping it finishes the workers of this peer that have not finished.
pub struct Table<C: Cell> {
    pub(crate) cluster: Cluster,
    pub(crate) engine: Engine<C>,
    /// Whether updates have to say what they were computed from.
    pub(crate) versioned: bool,
    /// By worker: whether it has a handle.
    pub(crate) in_use: Vec<AtomicBool>,
    pub(crate) start_at: Clock,
    /// Its channel, if dedicated servers hold it, which have to be told what is done with it.
    pub(crate) told: Option<ChannelId>,
}

impl<C: Cell> Table<C> {
    pub(crate) fn spec(&self) -> &Arc<Spec> {
        match &self.engine {
            Engine::Hub(hub) => &hub.spec,
            Engine::Place(place) => &place.spec,
        }
    }

    pub(crate) fn parking(&self) -> &Parking {
        match &self.engine {
            Engine::Hub(hub) => &hub.parking,
            Engine::Place(place) => &place.parking,
        }
    }

    /// The shards that are here.
    pub(crate) fn servers(&self) -> Vec<(usize, &Mutex<Server<C>>)> {
        match &self.engine {
            Engine::Hub(hub) => {
                hub.servers.iter().enumerate().filter_map(|(shard, server)| Some((shard, server.as_ref()?))).collect()
            }
            Engine::Place(place) => place.servers.iter().enumerate().collect(),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec().name
    }

    /// Columns of a row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.spec().width
    }

    /// The clock that workers began at: 0, or that of the checkpoint the table goes on from.
    #[must_use]
    pub fn started_at(&self) -> Clock {
        self.start_at
    }

    /// Bytes that this peer has sent for this table ahead of need, and bytes that could not wait. Nothing is counted without a
    /// [budget](crate::TableBuilder::budget).
    #[must_use]
    pub fn paced_bytes(&self) -> (u64, u64) {
        let Engine::Hub(hub) = &self.engine else { return (0, 0) };
        hub.pacers.as_ref().map_or((0, 0), |pacers| {
            let pacers = pacers.lock();
            let ((up, urgent_up), (down, urgent_down)) = (pacers.up.bytes(), pacers.down.bytes());
            (up + down, urgent_up + urgent_down)
        })
    }

    /// How many rows are leased to this peer at the moment, because it alone has said that it will use them.
    #[must_use]
    pub fn leased_rows(&self) -> usize {
        match &self.engine {
            Engine::Hub(hub) => hub.clients.iter().map(|client| client.lock().leases()).sum(),
            Engine::Place(_) => 0,
        }
    }

    /// The table in the hands of a worker. A worker has one handle at a time.
    pub fn worker(&self, worker: Worker) -> Result<TableWorker<'_, C>> {
        TableWorker::new(self, worker.id())
    }

    /// Runs `body` once on every worker of this peer and waits for all, as [`Cluster::each_worker`] does. If it fails on one worker, it ends on all:
    /// others would wait for a clock that never comes.
    ///
    /// With several tables, use [`Cluster::each_worker`], take a handle of each, and tell every table of an error with [`Table::stop`].
    #[track_caller]
    pub fn each_worker<T: Send>(&self, body: impl Fn(&mut TableWorker<'_, C>) -> Result<T> + Sync) -> Result<Vec<T>> {
        let first: Mutex<Option<hemiola_cluster::Error>> = Mutex::new(None);
        let done = self.cluster.each_worker(|worker| {
            let outcome = self.worker(worker).and_then(|mut handle| body(&mut handle));
            outcome.map_err(|error| {
                let mut first = first.lock();
                if first.is_none() {
                    self.stop(&format!("worker {} of peer {} failed: {error}", worker.id(), self.cluster.rank()));
                    *first = Some(error);
                }
            })
        })?;
        if let Some(error) = first.into_inner() {
            return Err(error);
        }
        Ok(done.into_iter().flatten().collect())
    }

    /// Ends all waits for this table on this peer with an error that says why. The job cannot go on with it.
    pub fn stop(&self, reason: &str) {
        self.fail(Failure::Stopped(reason.to_owned()));
    }

    pub(crate) fn fail(&self, failure: Failure) {
        self.parking().fail(failure);
    }

    /// An error if a worker has finished, or nobody can go on.
    pub(crate) fn must_go_on(&self, worker: WorkerId, at: Clock) -> Result<()> {
        if at == Clock::INFINITE {
            let table = self.name().to_owned();
            return Err(crate::error::refused(hemiola_tables_proto::Error::Finished { table, worker }));
        }
        Ok(())
    }

    pub(crate) fn finish(&self, worker: WorkerId, way: Way) -> Result<()> {
        match &self.engine {
            Engine::Hub(hub) => hub.advance(way, worker, true),
            Engine::Place(place) => {
                self.must_go_on(worker, place.clock_of(worker))?;
                place.advance(worker, Clock::INFINITE)
            }
        }
    }

    fn workers(&self) -> impl Iterator<Item = WorkerId> {
        (0..self.in_use.len() as u32).map(WorkerId::new)
    }

    pub(crate) fn clock_of(&self, worker: WorkerId) -> Clock {
        match &self.engine {
            Engine::Hub(hub) => hub.clock_of(worker),
            Engine::Place(place) => place.clock_of(worker),
        }
    }

    /// *Collective.* The clock that all workers of all peers are at, once everything before it is in the shards of this peer. Those who have finished
    /// are anywhere.
    #[track_caller]
    pub(crate) fn settled(&self) -> Result<Clock> {
        let site = Location::caller();
        self.parking().check()?;
        let mine: Vec<Clock> = self.workers().map(|worker| self.clock_of(worker)).collect();
        let all = self.cluster.all_gather(mine)?;
        let at = all.iter().flatten().copied().min().unwrap_or(Clock::INFINITE);
        for (rank, clocks) in all.iter().enumerate() {
            let uneven = clocks.iter().position(|clock| *clock != at && *clock != Clock::INFINITE);
            if let Some(worker) = uneven {
                let (rank, expected) = (Rank::new(rank as u32), at);
                let (table, worker, at) = (self.name().to_owned(), WorkerId::new(worker as u32), clocks[worker]);
                return Err(Error::Uneven { table, rank, worker, at, expected }.into());
            }
        }
        let servers = self.servers();
        let reason = Reason { what: "everything of a table before clock", number: Some(at.units()), site: Some(site) };
        let wait = Wait { waiter: Waiter::Driver, reason, peer: None, details: &|| self.details() };
        self.parking().wait_until(|| servers.iter().all(|(_, server)| server.lock().min() >= at), wait)?;
        Ok(at)
    }

    /// Waits until the shards of this peer have the sums of rows that were leased: until then they are with the rows' only users.
    #[track_caller]
    fn recall(&self) -> Result<()> {
        let site = Location::caller();
        let Engine::Hub(hub) = &self.engine else { return Ok(()) };
        let servers = self.servers();
        for (shard, server) in &servers {
            server.lock().recall_all();
            hub.speak(ShardId::new(*shard as u32))?;
        }
        let reason = Reason { what: "leased rows of a table", number: None, site: Some(site) };
        let wait = Wait { waiter: Waiter::Driver, reason, peer: None, details: &|| self.details() };
        self.parking().wait_until(|| servers.iter().all(|(_, server)| !server.lock().awaits_leases()), wait)
    }

    /// Tells dedicated servers what is to be done, if there are any that hold this table.
    pub(crate) fn tell(&self, order: impl FnOnce(ChannelId) -> Order) -> Result<()> {
        self.told.map_or(Ok(()), |table| orders::announce(&self.cluster, &order(table)))
    }

    fn details(&self) -> String {
        match &self.engine {
            Engine::Hub(hub) => hub.details(),
            Engine::Place(_) => String::new(),
        }
    }

    /// *Collective.* All rows that anybody has read or added to, with everything in them of clocks that have ended, on every peer. All workers must have
    /// come equally far, or have finished. Columns that a sparse row does not hold are zero.
    #[track_caller]
    pub fn collect(&self) -> Result<BTreeMap<u64, Vec<C::Wide>>>
    where
        C::Wide: Serialize + DeserializeOwned,
    {
        self.tell(Order::Collect)?;
        self.settled()?;
        self.recall()?;
        let mut mine = Vec::new();
        for (_, server) in self.servers() {
            let server = server.lock();
            let rows = server.rows();
            for slot in 0..rows.len() as u32 {
                let mut values = vec![C::Wide::default(); self.width()];
                rows.cells(slot).iter().for_each(|(column, cell)| values[column] = cell.widen());
                mine.push((rows.key(slot), values));
            }
        }
        Ok(self.cluster.all_gather(mine)?.into_iter().flatten().collect())
    }

    /// Bytes of memory that the shards of this peer take for rows, their state and finding them.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.servers().iter().map(|(_, server)| server.lock().rows().bytes()).sum()
    }

    /// How many updates of this peer were left out because they were not finite.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        match &self.engine {
            Engine::Hub(hub) => hub.clients.iter().map(|client| client.lock().dropped()).sum(),
            Engine::Place(place) => place.servers.iter().map(|server| server.lock().dropped()).sum(),
        }
    }
}

impl<C: Cell> Drop for Table<C> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.stop("the program of this peer panicked");
            return;
        }
        let Engine::Hub(hub) = &self.engine else { return };
        for worker in self.workers().filter(|worker| hub.clock_of(*worker) != Clock::INFINITE) {
            if hub.advance(Way::Hurried, worker, true).is_err() {
                // The job fails; everybody learns it in another way.
                break;
            }
        }
        // The same goes for this.
        let _ = self.tell(Order::Drop);
        hub.released.store(true, Ordering::Release);
        if let Some(post) = &hub.post {
            post::wake_up(post.link(), post.channel());
        }
    }
}

impl<C: Cell> fmt::Debug for Table<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if matches!(self.engine, Engine::Hub(_)) { "by messages" } else { "in place" };
        formatter.debug_struct("Table").field("name", &self.name()).field("how", &how).finish_non_exhaustive()
    }
}
