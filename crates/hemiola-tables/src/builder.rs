//! Builder of tables, and the extension trait of the cluster that creates it.

use crate::backend::TableBackend;
use crate::checkpoint::{self, RestoredShards};
use crate::commands::{self, ServerCommand, TableConfig};
use crate::endpoint::{self, TableEndpoint, row_bytes_limit};
use crate::error::{Error, table_error};
use crate::local_table::LocalTable;
use crate::runtime::TableRuntime;
use crate::servers::Servers;
use crate::sharded_rwlock::ShardedRwLock;
use crate::table::Table;
use crate::waiters::Waiters;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::Bandwidth;
use hemiola_core::{ChannelOwner, Lane, Rank};
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::update_rule::{Addition, UpdateRule};
use hemiola_tables_proto::{
    Clock, Consistency, KeySpace, NodeLimiters, NonFinitePolicy, PriorityPolicy, RowDelivery, RowInitializer,
    RowSelection, SelectionRng, ShardClient, ShardId, ShardServer, TableNode, TableSpec,
};
use parking_lot::Mutex;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Extension trait of [`Cluster`] that creates tables.
pub trait TableExt {
    /// Creates the builder of a table that the workers of all peers share. `C` is the storage type:
    /// `f32`, `f64`, `i32` or `bf16`.
    fn table<C: StorageType>(&self, name: &str) -> TableBuilder<C>;
}

impl TableExt for Cluster {
    fn table<C: StorageType>(&self, name: &str) -> TableBuilder<C> {
        TableBuilder {
            cluster: self.clone(),
            spec: TableSpec::new(name, KeySpace::Growing, 1),
            rule: Box::new(|| Box::new(Addition)),
            shards_per_peer: None,
            budget: None,
            seed: 0,
            restore: None,
            servers: Servers::default(),
        }
    }
}

/// Settings of a table. Every peer must use the same.
#[must_use = "nothing happens until `build`"]
pub struct TableBuilder<C: StorageType> {
    cluster: Cluster,
    spec: TableSpec,
    rule: Box<dyn Fn() -> Box<dyn UpdateRule<C::Compute>>>,
    shards_per_peer: Option<usize>,
    budget: Option<Bandwidth>,
    seed: u64,
    restore: Option<(PathBuf, bool)>,
    servers: Servers,
}

impl<C: StorageType> TableBuilder<C> {
    /// Sets the key space to `0..rows`. Without this, any 64-bit key is a row, created when it is
    /// first named.
    pub fn rows(mut self, rows: u64) -> Self {
        self.spec.key_space = KeySpace::Fixed(rows);
        self
    }

    /// Sets the number of columns. Default: 1.
    pub fn width(mut self, width: usize) -> Self {
        self.spec.width = width;
        self
    }

    /// Stores only the columns that are not zero.
    pub fn sparse(mut self) -> Self {
        self.spec.sparse = true;
        self
    }

    /// Sets the staleness bound in clocks. 0, the default, is BSP, with bit-identical results.
    pub fn staleness(self, clocks: u64) -> Self {
        self.consistency(if clocks == 0 { Consistency::Bsp } else { Consistency::Ssp(clocks) })
    }

    /// Sets the consistency model. Default: BSP.
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.spec.consistency = consistency;
        self
    }

    /// Sets the delivery of changed rows. Default: push.
    pub fn delivery(mut self, delivery: RowDelivery) -> Self {
        self.spec.delivery = delivery;
        self
    }

    /// Sets the initial values of rows. Default: zeros.
    pub fn initializer(mut self, initializer: RowInitializer) -> Self {
        self.spec.initializer = initializer;
        self
    }

    /// Sets the policy for NaN and infinity in updates. Default: an error.
    pub fn non_finite(mut self, non_finite: NonFinitePolicy) -> Self {
        self.spec.non_finite = non_finite;
        self
    }

    /// Sets the update rule (server-side optimizer) of the shards. Default: [`Addition`].
    pub fn update_rule(mut self, rule: impl UpdateRule<C::Compute> + Clone + 'static) -> Self {
        self.rule = Box::new(move || Box::new(rule.clone()));
        self
    }

    /// Sets the bandwidth for eager sending of rows and sums, per peer and direction. Urgent
    /// messages are sent at once and counted. BSP tables send nothing eagerly.
    pub fn budget(mut self, bandwidth: Bandwidth) -> Self {
        self.budget = Some(bandwidth);
        self.spec.comm_policy.get_or_insert_default();
        self
    }

    /// Sets the prioritization policy of eager sending. Has no effect without a
    /// [`budget`](Self::budget).
    pub fn priority(mut self, priority: PriorityPolicy) -> Self {
        self.spec.comm_policy.get_or_insert_default().priority = priority;
        self
    }

    /// Sets the method that selects the most important rows. Default: a sample of 5 times the need.
    pub fn selection(mut self, selection: RowSelection) -> Self {
        self.spec.comm_policy.get_or_insert_default().selection = selection;
        self
    }

    /// Sets the cache capacity of a peer, in rows. It is exceeded while more are needed.
    pub fn cache_rows(mut self, rows: usize) -> Self {
        self.spec.cache_rows = rows;
        self
    }

    /// Sets the number of shards on each peer that [holds rows](Self::servers); each has its own
    /// lock. Default: twice the largest number of workers of a peer.
    pub fn shards_per_peer(mut self, shards: usize) -> Self {
        self.shards_per_peer = Some(shards);
        self
    }

    /// Sets the random seed of the row selection. Row initializers have their own seed. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Restores the table from a [checkpoint](Table::checkpoint), which may come from another
    /// number of peers, workers and shards. Width, sparsity and storage type must match; other
    /// settings may differ.
    pub fn restore(mut self, folder: impl Into<PathBuf>) -> Self {
        self.restore = Some((folder.into(), true));
        self
    }

    /// Restores the table if the folder holds a checkpoint; otherwise the table starts anew.
    pub fn resume(mut self, folder: impl Into<PathBuf>) -> Self {
        self.restore = Some((folder.into(), false));
        self
    }

    /// Sets the peers that hold the rows. Default: the job's dedicated servers if it has any, else
    /// every peer.
    ///
    /// ```
    /// use hemiola_core::Rank;
    /// use hemiola_tables::{Servers, TableExt};
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

    /// *Collective.* Builds the table.
    pub fn build(self) -> Result<Table<C>> {
        let Self { cluster, mut spec, rule, shards_per_peer, budget, seed, restore, servers } = self;
        if budget.is_none() {
            spec.comm_policy = None;
        }
        let (peers, settings) = (
            cluster.size(),
            format!("{spec:?}, {:?}, seed {seed}, {shards_per_peer:?} shards, {budget:?}, {servers:?}", rule()),
        );
        let all = cluster.all_gather((settings, cluster.workers()))?;
        if let Some((rank, (there, _))) = all.iter().enumerate().find(|(_, (there, _))| *there != all[0].0) {
            let (rank, table) = (Rank::new(rank as u32), spec.name);
            return Err(Error::SettingsMismatch { table, rank, here: all[0].0.clone(), there: there.clone() }.into());
        }
        let placement = servers.placement(&spec.name, &cluster)?;
        let most = all.iter().map(|(_, workers)| *workers).max().unwrap_or(1);
        spec.shards = shards_per_peer.unwrap_or(2 * most) * placement.peers();
        spec.cache_rows = spec.cache_rows.div_ceil(spec.shards.max(1));
        spec.clients = peers;
        let dedicated = cluster.servers().any(|server| placement.contains(server));
        if !dedicated {
            return build_table(&cluster, TableConfig { spec, placement, budget, seed, restore }, &*rule);
        }
        let example = rule();
        let Some(built_in) = example.built_in() else {
            return Err(Error::UnknownUpdateRule { table: spec.name, rule: format!("{example:?}") }.into());
        };
        // All peers reject what servers would reject.
        let random = SelectionRng::new(0);
        ShardServer::<C>::new(Arc::new(spec.clone()), ShardId::new(0), example, Clock::ZERO, random)
            .map_err(table_error)?;
        let restore =
            restore.map(|(folder, required)| Ok::<_, std::io::Error>((std::path::absolute(folder)?, required)));
        let config = TableConfig { spec, placement, budget, seed, restore: restore.transpose()? };
        let cells = std::any::type_name::<C>().to_owned();
        commands::broadcast_command(
            &cluster,
            &ServerCommand::Build { cells, rule: built_in, config: Box::new(config.clone()) },
        )?;
        build_table(&cluster.with_servers(), config, &*rule)
    }
}

/// *Collective*, of all peers and servers that hold a part of the table. Builds the local part.
pub(crate) fn build_table<C: StorageType>(
    cluster: &Cluster,
    config: TableConfig,
    rule: &dyn Fn() -> Box<dyn UpdateRule<C::Compute>>,
) -> Result<Table<C>> {
    let TableConfig { mut spec, placement, budget, seed, restore } = config;
    let (rank, size, workers) = (cluster.rank(), cluster.size(), cluster.workers());
    let channel = cluster.next_channel(ChannelOwner::Tables);
    let in_place = size == 1 && spec.consistency != Consistency::Bsp && !rule().tracks_copies();
    if in_place {
        spec.clients = workers;
    }
    spec.validate().map_err(table_error)?;
    let spec = Arc::new(spec);
    let example = rule();
    let state = vec![C::Compute::default(); example.state_width(spec.width)];
    let versioned = example.tracks_copies() || !example.attachment(&state).is_empty();
    let here = |shard: u32| in_place || placement.rank_of(ShardId::new(shard)) == rank;
    let restored = match restore {
        Some((folder, required)) => checkpoint::open::<C>(cluster, &folder, required, &spec, here)?,
        None => None,
    };
    let start_clock = restored.as_ref().map_or(Clock::ZERO, RestoredShards::clock);
    let (is_restored, restored) = (restored.is_some(), Mutex::new(restored));
    let server = |shard: u32| {
        let number = ShardId::new(shard);
        let server = if let Some(restored) = &mut *restored.lock() {
            let (summary, chunks) = restored.take(number);
            ShardServer::<C>::restore(&spec, number, rule(), summary, chunks)
        } else {
            let random = SelectionRng::new(seed.wrapping_add(u64::from(shard)));
            ShardServer::<C>::new(spec.clone(), number, rule(), Clock::ZERO, random)
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
    let servers = if is_restored {
        // The part of another peer may not fit.
        checkpoint::agree(cluster, &spec.name, servers.map_err(|error| error.to_string()))?
    } else {
        servers.map_err(table_error)?
    };
    let waiters = Waiters::new(&spec.name, cluster.peer_handle(), workers);
    let backend = if in_place {
        TableBackend::Local(Arc::new(LocalTable { spec, servers: servers.into_iter().flatten().collect(), waiters }))
    } else {
        // A dedicated server has no workers that read.
        let node = TableNode::new(spec.clone(), rank, placement, !cluster.is_server());
        let client = |shard| ShardClient::new(spec.clone(), node.client_id(), shard, &*example, workers, start_clock);
        let clients = node.shards().filter(|_| !cluster.is_server());
        let clients = clients.map(|shard| ShardedRwLock::new(workers, client(shard))).collect();
        let limit = row_bytes_limit::<C>(&spec, servers.iter().flatten().count());
        let endpoint = (size > 1).then(|| TableEndpoint::new(cluster.peer_handle(), channel, limit));
        let limiters = budget.filter(|_| size > 1);
        let limiters =
            limiters.map(|budget| Mutex::new(NodeLimiters::new(budget, &spec, rank, seed, cluster.env().now())));
        let (handle_dropped, finished_peers) = (AtomicBool::new(false), AtomicUsize::new(0));
        let deferred = Mutex::default();
        let runtime = TableRuntime {
            node,
            clients,
            servers,
            waiters,
            endpoint,
            limiters,
            deferred,
            handle_dropped,
            finished_peers,
        };
        let runtime = Arc::new(runtime);
        start(cluster, &runtime)?;
        TableBackend::Distributed(runtime)
    };
    let in_use = (0..workers).map(|_| AtomicBool::new(false)).collect();
    let placement = backend.runtime().map(|runtime| runtime.node.placement());
    let on_servers = placement.is_some_and(|placement| cluster.servers().any(|server| placement.contains(server)));
    let server_channel = on_servers.then_some(channel);
    let advised = AtomicBool::new(false);
    Ok(Table { cluster: cluster.clone(), backend, versioned, in_use, start_clock, advised, server_channel })
}

/// Starts the services of a table that has other peers.
fn start<C: StorageType>(cluster: &Cluster, runtime: &Arc<TableRuntime<C>>) -> Result<()> {
    let Some(endpoint) = &runtime.endpoint else { return Ok(()) };
    let (name, channel, peer_handle) = (&runtime.spec().name, endpoint.channel(), endpoint.peer_handle().clone());
    let receiver = cluster.open_channel(channel, Lane::Bulk);
    let (inline_handler, receiver_service) = (runtime.clone(), runtime.clone());
    receiver.set_handler(move |message| inline_handler.handle_inline(message));
    cluster.service(
        &format!("table-{name}"),
        move || endpoint::wake_receiver(&peer_handle, channel),
        move |shutdown| receiver_service.run_receiver(&receiver, shutdown),
    )?;
    let (sender_service, send_queue) = (runtime.clone(), endpoint.send_queue.clone());
    cluster.service(
        &format!("table-{name}-out"),
        move || send_queue.close(),
        move |shutdown| sender_service.run_sender(shutdown),
    )?;
    Ok(())
}

impl<C: StorageType> fmt::Debug for TableBuilder<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TableBuilder").field("spec", &self.spec).finish_non_exhaustive()
    }
}
