//! What a table is to be.

use crate::checkpoint::{self, Restored};
use crate::error::{Error, refused};
use crate::hub::{Hub, Pacers};
use crate::orders::{self, OWNER, Order, Plan};
use crate::parking::Parking;
use crate::place::Place;
use crate::post::{self, Post};
use crate::readers::Readers;
use crate::servers::Servers;
use crate::table::{Engine, Table};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{Lane, Rank};
use hemiola_net::Bandwidth;
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::procedure::{Add, Procedure};
use hemiola_tables_proto::{
    Choice, Client, ClientId, Clock, Consistency, Defaults, Delivery, Ids, NonFinite, Pacer, Priority, Random, Server,
    ShardId, Spec,
};
use parking_lot::Mutex;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

/// Acknowledgements of what is sent ahead of need that take longer mean that the network has enough.
const PATIENCE: Duration = Duration::from_millis(200);
/// A burst is what the budget allows in this time, and a message at least.
const BURST: Duration = Duration::from_millis(20);
const LEAST_BURST: usize = 16 << 10;

/// Makes tables.
pub trait Tables {
    /// A table that the workers of all peers share. `C` is how its numbers are stored: `f32`, `f64`, `i32` or `bf16`.
    fn table<C: Cell>(&self, name: &str) -> TableBuilder<C>;
}

impl Tables for Cluster {
    fn table<C: Cell>(&self, name: &str) -> TableBuilder<C> {
        TableBuilder {
            cluster: self.clone(),
            spec: Spec::new(name, Ids::Growing, 1),
            procedure: Box::new(|| Box::new(Add)),
            shards_per_peer: None,
            budget: None,
            seed: 0,
            restore: None,
            servers: Servers::default(),
        }
    }
}

/// Settings of a table. Every peer must make the same.
#[must_use = "nothing happens until `build`"]
pub struct TableBuilder<C: Cell> {
    cluster: Cluster,
    spec: Spec,
    procedure: Box<dyn Fn() -> Box<dyn Procedure<C::Wide>>>,
    shards_per_peer: Option<usize>,
    budget: Option<Bandwidth>,
    seed: u64,
    restore: Option<(PathBuf, bool)>,
    servers: Servers,
}

impl<C: Cell> TableBuilder<C> {
    /// Rows `0..rows`. Without this, any 64-bit key is a row, which begins to exist when it is first named.
    pub fn rows(mut self, rows: u64) -> Self {
        self.spec.ids = Ids::Fixed(rows);
        self
    }

    /// Columns of a row. Default: 1.
    pub fn width(mut self, width: usize) -> Self {
        self.spec.width = width;
        self
    }

    /// Rows hold only columns that are not zero.
    pub fn sparse(mut self) -> Self {
        self.spec.sparse = true;
        self
    }

    /// How many clocks a read may lag. 0, the default, is BSP: the same job gives the same bits.
    pub fn staleness(self, clocks: u64) -> Self {
        self.consistency(if clocks == 0 { Consistency::Bsp } else { Consistency::Ssp(clocks) })
    }

    /// How fresh reads are.
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.spec.consistency = consistency;
        self
    }

    /// How changed rows come to those who read them.
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.spec.delivery = delivery;
        self
    }

    /// What a row is before anybody has touched it.
    pub fn defaults(mut self, defaults: Defaults) -> Self {
        self.spec.defaults = defaults;
        self
    }

    /// What happens to updates with NaN or infinity.
    pub fn non_finite(mut self, non_finite: NonFinite) -> Self {
        self.spec.non_finite = non_finite;
        self
    }

    /// What shards do with updates. Default: they add them.
    pub fn procedure(mut self, procedure: impl Procedure<C::Wide> + Clone + 'static) -> Self {
        self.procedure = Box::new(move || Box::new(procedure.clone()));
        self
    }

    /// Rows and sums are sent ahead of need, as far as this allows for each peer and direction. What a clock or a reader
    /// waits for is sent at once and counted. BSP sends nothing ahead.
    pub fn budget(mut self, bandwidth: Bandwidth) -> Self {
        self.budget = Some(bandwidth);
        self.spec.managed.get_or_insert_default();
        self
    }

    /// Which rows go first, of those that are sent ahead of need. Means nothing without a [`budget`](Self::budget).
    pub fn priority(mut self, priority: Priority) -> Self {
        self.spec.managed.get_or_insert_default().priority = priority;
        self
    }

    /// How the most important rows are found.
    pub fn choice(mut self, choice: Choice) -> Self {
        self.spec.managed.get_or_insert_default().choice = choice;
        self
    }

    /// How many rows a peer keeps copies of, about. More are kept while they are needed.
    pub fn cache_rows(mut self, rows: usize) -> Self {
        self.spec.cache_rows = rows;
        self
    }

    /// How many shards each peer has that [holds rows](Self::servers). Each has a lock of its own. Default: twice the workers of the peer that has most.
    pub fn shards_per_peer(mut self, shards: usize) -> Self {
        self.shards_per_peer = Some(shards);
        self
    }

    /// The seed of what is random: which rows are looked at when the most important are wanted. Defaults of rows have their own.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The table goes on from a [checkpoint](Table::checkpoint), which may be of another number of peers, workers and shards. Settings that say
    /// what a row is must be those of the saved table; others may differ.
    pub fn restore(mut self, folder: impl Into<PathBuf>) -> Self {
        self.restore = Some((folder.into(), true));
        self
    }

    /// The same if there is a checkpoint in the folder; otherwise the table begins anew.
    pub fn resume(mut self, folder: impl Into<PathBuf>) -> Self {
        self.restore = Some((folder.into(), false));
        self
    }

    /// Who holds the rows. Default: the job's dedicated servers if it has any, else every peer.
    ///
    /// ```
    /// use hemiola_core::Rank;
    /// use hemiola_tables::{Servers, Tables};
    /// hemiola_cluster::standalone(3).run(|cluster| {
    ///     let table = cluster.table::<f32>("w").servers(Servers::On(vec![Rank::new(1)])).build()?;
    ///     table.each_worker(|worker| worker.inc(7, &[1.0]).and_then(|()| worker.clock()))?;
    ///     assert_eq!(table.collect()?[&7], [3.0]);
    ///     assert_eq!(table.memory_bytes() > 0, cluster.rank() == Rank::new(1));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    pub fn servers(mut self, servers: Servers) -> Self {
        self.servers = servers;
        self
    }

    /// *Collective.* Makes the table.
    pub fn build(self) -> Result<Table<C>> {
        let Self { cluster, mut spec, procedure, shards_per_peer, budget, seed, restore, servers } = self;
        if budget.is_none() {
            spec.managed = None;
        }
        let (peers, settings) = (
            cluster.size(),
            format!("{spec:?}, {:?}, seed {seed}, {shards_per_peer:?} shards, {budget:?}, {servers:?}", procedure()),
        );
        let all = cluster.all_gather((settings, cluster.workers()))?;
        if let Some((rank, (there, _))) = all.iter().enumerate().find(|(_, (there, _))| *there != all[0].0) {
            let (rank, table) = (Rank::new(rank as u32), spec.name);
            return Err(Error::Differs { table, rank, here: all[0].0.clone(), there: there.clone() }.into());
        }
        let homes = servers.homes(&spec.name, &cluster)?;
        let most = all.iter().map(|(_, workers)| *workers).max().unwrap_or(1);
        spec.shards = shards_per_peer.unwrap_or(2 * most) * homes.len();
        spec.cache_rows = spec.cache_rows.div_ceil(spec.shards.max(1));
        spec.clients = peers;
        let dedicated = cluster.servers().any(|server| homes.contains(server));
        if !dedicated {
            return make(&cluster, Plan { spec, homes, budget, seed, restore }, &*procedure);
        }
        let example = procedure();
        let Some(provided) = example.provided() else {
            return Err(Error::UnknownProcedure { table: spec.name, procedure: format!("{example:?}") }.into());
        };
        // What servers would refuse, all peers refuse.
        let random = Random::new(0);
        Server::<C>::new(Arc::new(spec.clone()), ShardId::new(0), example, Clock::ZERO, random).map_err(refused)?;
        let restore = restore.map(|(folder, needed)| Ok::<_, std::io::Error>((std::path::absolute(folder)?, needed)));
        let plan = Plan { spec, homes, budget, seed, restore: restore.transpose()? };
        let cells = std::any::type_name::<C>().to_owned();
        orders::announce(&cluster, &Order::Build { cells, procedure: provided, plan: Box::new(plan.clone()) })?;
        make(&cluster.with_servers(), plan, &*procedure)
    }
}

/// *Collective*, of all who hold a part of the table. Makes what is to be here.
pub(crate) fn make<C: Cell>(
    cluster: &Cluster,
    plan: Plan,
    procedure: &dyn Fn() -> Box<dyn Procedure<C::Wide>>,
) -> Result<Table<C>> {
    let Plan { mut spec, homes, budget, seed, restore } = plan;
    let (rank, size, workers) = (cluster.rank(), cluster.size(), cluster.workers());
    let channel = cluster.next_channel(OWNER);
    let in_place = size == 1 && spec.consistency != Consistency::Bsp && !procedure().wants_releases();
    if in_place {
        spec.clients = workers;
    }
    spec.check().map_err(refused)?;
    let spec = Arc::new(spec);
    let example = procedure();
    let state = vec![C::Wide::default(); example.state_width(spec.width)];
    let versioned = example.wants_releases() || !example.carried(&state).is_empty();
    let here = |shard: u32| in_place || homes.of(ShardId::new(shard)) == rank;
    let restored = match restore {
        Some((folder, needed)) => checkpoint::open::<C>(cluster, &folder, needed, &spec, here)?,
        None => None,
    };
    let start_at = restored.as_ref().map_or(Clock::ZERO, Restored::at);
    let (goes_on, restored) = (restored.is_some(), Mutex::new(restored));
    let server = |shard: u32| {
        let number = ShardId::new(shard);
        let server = if let Some(restored) = &mut *restored.lock() {
            let (summary, pieces) = restored.take(number);
            Server::<C>::restore(&spec, number, procedure(), summary, pieces)
        } else {
            let random = Random::new(seed.wrapping_add(u64::from(shard)));
            Server::<C>::new(spec.clone(), number, procedure(), Clock::ZERO, random)
        };
        let server = server?;
        if in_place {
            server.check_in_place()?;
        }
        Ok(Mutex::new(server))
    };
    let shards = spec.shards as u32;
    let servers: hemiola_tables_proto::Result<Vec<Option<_>>> =
        (0..shards).map(|shard| here(shard).then(|| server(shard)).transpose()).collect();
    let servers = if goes_on {
        // Somebody else's part may not fit.
        checkpoint::agree(cluster, &spec.name, servers.map_err(|error| error.to_string()))?
    } else {
        servers.map_err(refused)?
    };
    let parking = Parking::new(&spec.name, cluster.link(), workers);
    let engine = if in_place {
        Engine::Place(Arc::new(Place { spec, servers: servers.into_iter().flatten().collect(), parking }))
    } else {
        let me = ClientId::new(rank.number());
        let client = |shard| Client::new(spec.clone(), me, ShardId::new(shard), &*example, workers, start_at);
        // A dedicated server reads nothing.
        let clients = if cluster.is_server() { 0..0 } else { 0..shards };
        let clients = clients.map(|shard| Readers::new(workers, client(shard))).collect();
        let post = (size > 1).then(|| Post::new(cluster.link(), channel));
        let pacer = |bandwidth: Bandwidth| {
            let burst = (bandwidth.bytes_in(BURST)).max(LEAST_BURST);
            if bandwidth == Bandwidth::bytes_per_second(0) {
                return Pacer::nothing();
            }
            Pacer::new(bandwidth, burst, PATIENCE, cluster.env().now())
        };
        let random = Random::new(seed.wrapping_add(u64::from(shards) + u64::from(rank.number())));
        let pacers = budget.filter(|_| size > 1).map(|budget| {
            let plenty = Bandwidth::bytes_per_second(1 << 40);
            let here = Pacer::new(plenty, 64 << 20, Duration::MAX, cluster.env().now());
            Mutex::new(Pacers { up: pacer(budget), down: pacer(budget), here, random })
        });
        let (released, over) = (AtomicBool::new(false), AtomicUsize::new(0));
        let deferred = Mutex::default();
        let hub = Hub { spec, rank, homes, clients, servers, parking, post, pacers, deferred, released, over };
        let hub = Arc::new(hub);
        start(cluster, &hub)?;
        Engine::Hub(hub)
    };
    let in_use = (0..workers).map(|_| AtomicBool::new(false)).collect();
    let told = matches!(&engine, Engine::Hub(hub) if cluster.servers().any(|server| hub.homes.contains(server)));
    let told = told.then_some(channel);
    Ok(Table { cluster: cluster.clone(), engine, versioned, in_use, start_at, told })
}

/// Starts the services of a table that has other peers.
fn start<C: Cell>(cluster: &Cluster, hub: &Arc<Hub<C>>) -> Result<()> {
    let Some(post) = &hub.post else { return Ok(()) };
    let (name, channel, link) = (&hub.spec.name, post.channel(), post.link().clone());
    let mailbox = cluster.open(channel, Lane::Bulk);
    let (passing, taking) = (hub.clone(), hub.clone());
    mailbox.attend(move |message| passing.pass(message));
    cluster.service(
        &format!("table-{name}"),
        move || post::wake_up(&link, channel),
        move |ending| taking.take_in(&mailbox, ending),
    )?;
    let (sending, outbox) = (hub.clone(), post.outbox.clone());
    cluster.service(&format!("table-{name}-out"), move || outbox.close(), move |ending| sending.send_out(ending))?;
    Ok(())
}

impl<C: Cell> fmt::Debug for TableBuilder<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TableBuilder").field("spec", &self.spec).finish_non_exhaustive()
    }
}
