//! Checkpoint of a table at a clock, in a folder that appears atomically.
//!
//! The shards take a copy-on-write snapshot while workers continue; a service reads it out chunk by
//! chunk and writes it. The folder is a save of `hemiola-array`: one array of bytes for each peer
//! that wrote, in parts with checksums, and one manifest, made visible by one rename. A header in
//! the manifest's notes describes the table and holds the summaries of the shards. The folder must
//! be on storage that all peers share.
//!
//! A part is a sequence of chunks: the length of one in 8 bytes, and then its rows as
//! `hemiola_tables_proto::wire` encodes them, with versions and rule state. A chunk does not depend
//! on its shard, so any number of peers and shards can restore it.

use crate::backend::TableBackend;
use crate::commands::{self, ServerCommand};
use crate::error::Error;
use crate::table::Table;
use bytes::Bytes;
use hemiola_array::save::{Manifest, PartReader, PartRecord, PartWriter};
use hemiola_array::{DenseArray, Shape};
use hemiola_cluster::{Cluster, PeerHandle, Result, ServiceHandle, ShutdownToken, WaitContext, WaitReason};
use hemiola_core::{ChannelId, Rank, Waiter};
use hemiola_tables_proto::batch::RowBatch;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::server::snapshot::{SnapshotChunk, SnapshotSummary};
use hemiola_tables_proto::{Clock, ShardId, ShardServer, TableSpec, wire};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Chunk size in bytes; a shard is locked while one chunk is copied.
const CHUNK_BYTES: usize = 256 << 10;
/// Approximate size of a file in bytes.
const PART_BYTES: usize = 16 << 20;
/// Interval at which a shard with outstanding leases is polled.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Description of the saved table in the manifest.
#[derive(Debug, Serialize, Deserialize)]
struct CheckpointHeader {
    table: String,
    width: usize,
    sparse: bool,
    /// Name of the storage type.
    cells: String,
    at: Clock,
    /// Summaries, indexed by shard number.
    shards: Vec<SnapshotSummary>,
}

const HEADER_KEY: &str = "table";

/// Parts and summaries that one peer has written.
#[derive(Debug, Serialize, Deserialize)]
struct WrittenParts {
    parts: Vec<PartRecord>,
    summaries: Vec<(u32, SnapshotSummary)>,
}

/// Result slot of the writer service.
#[derive(Debug, Default)]
struct WriterOutcome {
    done: Mutex<Option<Result<WrittenParts, String>>>,
    wake: Condvar,
}

/// Checkpoint in progress. Workers may continue while it is written; it is invisible before
/// [`TableCheckpoint::finish`].
#[must_use = "nothing is visible before `finish`"]
pub struct TableCheckpoint {
    header: CheckpointHeader,
    /// Declared before `saving`, so that the writer has ended when that is dropped.
    writer: WriterService,
    outcome: Arc<WriterOutcome>,
    /// The instance that began the save is the root's.
    saving: Arc<PartWriter>,
    abandon_guard: AbandonGuard,
}

/// Tells dedicated servers that hold the table when a checkpoint is abandoned.
struct AbandonGuard {
    cluster: Cluster,
    /// Channel of the table, while servers must be told.
    table: Option<ChannelId>,
}

impl Drop for AbandonGuard {
    fn drop(&mut self) {
        if let Some(table) = self.table {
            // If this fails, the job fails, and the servers learn it from that.
            let _ = commands::broadcast_command(&self.cluster, &ServerCommand::AbandonCheckpoint(table));
        }
    }
}

/// Writer service. It is ended on drop, because the next save uses the same temporary folder.
struct WriterService(ServiceHandle);

impl Drop for WriterService {
    fn drop(&mut self) {
        self.0.shutdown();
    }
}

impl<C: StorageType> Table<C> {
    /// *Collective.* Begins to save the table at the common clock of all workers, which must not
    /// use the table during this call. They may continue as soon as it returns;
    /// [`TableCheckpoint::finish`] waits for the rest.
    ///
    /// ```
    /// use hemiola_tables::TableExt;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("model");
    /// hemiola_cluster::standalone(2).run(|cluster| {
    ///     let table = cluster.table::<f32>("w").build()?;
    ///     table.each_worker(|worker| worker.inc(7, &[1.0]).and_then(|()| worker.clock()))?;
    ///     let saving = table.checkpoint(&path)?;
    ///     table.each_worker(|worker| worker.inc(7, &[1.0]).and_then(|()| worker.clock()))?; // not in it
    ///     saving.finish()
    /// })?;
    /// hemiola_cluster::standalone(3).run(|cluster| {
    ///     let table = cluster.table::<f32>("w").restore(&path).build()?;
    ///     assert_eq!((table.start_clock().units(), &table.collect()?[&7][..]), (1, &[2.0][..]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn checkpoint(&self, folder: &Path) -> Result<TableCheckpoint> {
        let whole = std::path::absolute(folder)?;
        self.command(|table| ServerCommand::BeginCheckpoint(table, whole))?;
        let at = self.await_common_clock()?;
        if at == Clock::INFINITE {
            return Err(Error::AllFinished { table: self.name().to_owned() }.into());
        }
        let cluster = &self.cluster;
        let begun = if cluster.is_root() { PartWriter::begin(folder).map(Some) } else { Ok(None) };
        let begun = agree(cluster, self.name(), begun.map_err(|error| error.to_string()))?;
        let generation = cluster.broadcast(begun.as_ref().map_or(0, PartWriter::generation))?;
        let saving = match begun {
            Some(saving) => Ok(saving),
            None => PartWriter::join(folder, generation).map_err(|error| error.to_string()),
        };
        let saving = saving.and_then(|saving| self.begin(at).map(|()| Arc::new(saving)));
        // No peer continues before all shards have begun their snapshots.
        let saving = agree(cluster, self.name(), saving).inspect_err(|_| abandon(&self.servers()))?;
        let backend = self.backend.clone();
        let outcome = Arc::new(WriterOutcome::default());
        let (inside, shared, peer_handle, rank) =
            (saving.clone(), outcome.clone(), cluster.peer_handle(), cluster.rank());
        let body = move |shutdown: &ShutdownToken| {
            let written =
                write(&backend, &inside, &peer_handle, rank, shutdown).inspect_err(|_| abandon(&backend.servers()));
            // The root commits with the last reference.
            drop(inside);
            *shared.done.lock() = Some(written);
            shared.wake.notify_all();
            Ok(())
        };
        let service = cluster.service(&format!("table-{}-save", self.name()), || (), body)?;
        let (table, cells) = (self.name().to_owned(), std::any::type_name::<C>().to_owned());
        let header =
            CheckpointHeader { table, width: self.width(), sparse: self.spec().sparse, cells, at, shards: Vec::new() };
        let writer = WriterService(service);
        let abandon_guard = AbandonGuard { cluster: cluster.clone(), table: self.server_channel };
        Ok(TableCheckpoint { header, writer, outcome, saving, abandon_guard })
    }

    fn begin(&self, at: Clock) -> Result<(), String> {
        for (shard, _) in self.servers() {
            // A shard of several peers recalls leases.
            let begun = self.backend.with_server(shard, |server| server.begin_snapshot(at));
            begun.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// *Collective.* Saves the table and waits until it is written.
    #[track_caller]
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.checkpoint(folder)?.finish()
    }
}

/// Ends abandoned snapshots, so that new ones can begin.
fn abandon<C: StorageType>(servers: &[(usize, &Mutex<ShardServer<C>>)]) {
    for (_, server) in servers {
        let mut server = server.lock();
        while server.next_chunk(PART_BYTES).is_some_and(|chunk| !chunk.batch.is_empty()) {}
        server.end_snapshot();
    }
}

/// Writes the shards of this peer.
fn write<C: StorageType>(
    backend: &TableBackend<C>,
    saving: &PartWriter,
    peer_handle: &PeerHandle,
    rank: Rank,
    shutdown: &ShutdownToken,
) -> Result<WrittenParts, String> {
    let mut written = WrittenParts { parts: Vec::new(), summaries: Vec::new() };
    let (mut bytes, mut first) = (Vec::new(), 0);
    for (shard, server) in backend.servers() {
        loop {
            if shutdown.is_shutdown_requested() {
                return Err("the job ended while the table was being saved".to_owned());
            }
            let chunk = server.lock().next_chunk(CHUNK_BYTES);
            let Some(SnapshotChunk { batch, state }) = chunk else {
                peer_handle.env().sleep(RETRY_INTERVAL);
                continue;
            };
            if batch.is_empty() {
                break;
            }
            let rows = wire::encode_rows::<C>(batch, &state);
            bytes.extend_from_slice(&(rows.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&rows);
            if bytes.len() >= PART_BYTES {
                write_part(saving, rank, &mut bytes, &mut first, &mut written.parts)?;
            }
        }
        let summary = server.lock().end_snapshot();
        written.summaries.push((shard as u32, summary.ok_or("a shard did not finish its snapshot")?));
    }
    if !bytes.is_empty() {
        write_part(saving, rank, &mut bytes, &mut first, &mut written.parts)?;
    }
    Ok(written)
}

fn write_part(
    saving: &PartWriter,
    rank: Rank,
    bytes: &mut Vec<u8>,
    first: &mut usize,
    parts: &mut Vec<PartRecord>,
) -> Result<(), String> {
    let length = bytes.len();
    let part = DenseArray::from_cells(Shape::new([length]), bytes)
        .and_then(|cells| saving.write_dense(&name(rank), parts.len(), *first, &cells));
    parts.push(part.map_err(|error| error.to_string())?);
    *first += length;
    bytes.clear();
    Ok(())
}

/// Name of the array that a peer writes.
fn name(rank: Rank) -> String {
    format!("peer-{:05}", rank.number())
}

impl TableCheckpoint {
    /// Clock of the checkpoint.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.header.at
    }

    /// *Collective.* Waits until all peers have written their parts, and makes the checkpoint
    /// visible atomically.
    ///
    /// # Panics
    /// Never: the header is plain data.
    #[track_caller]
    pub fn finish(self) -> Result<()> {
        let Self { mut header, writer, outcome, saving, mut abandon_guard } = self;
        let cluster = abandon_guard.cluster.clone();
        if let Some(table) = abandon_guard.table.take() {
            commands::broadcast_command(&cluster, &ServerCommand::FinishCheckpoint(table))?;
        }
        let reason = WaitReason { operation: "a checkpoint of a table to be written", number: None, site: None };
        let wait = WaitContext::new(Waiter::Driver, reason, None);
        let mut done = outcome.done.lock();
        cluster.wait_while(&outcome.wake, &mut done, wait, |done| Ok(done.is_none() && !writer.0.is_finished()))?;
        let written = done.take().unwrap_or_else(|| Err("the writer service has ended".to_owned()));
        drop(done);
        let all = cluster.all_gather(agree(&cluster, &header.table, written)?)?;
        let mut manifest = Manifest::default();
        let mut summaries = BTreeMap::new();
        for (rank, WrittenParts { parts, summaries: of_peer }) in Rank::all(cluster.size()).zip(all) {
            let length = parts.iter().map(|part| part.length).sum();
            if !parts.is_empty() {
                manifest.add_dense::<u8, 1>(&name(rank), Shape::new([length]), parts);
            }
            summaries.extend(of_peer);
        }
        header.shards = summaries.into_values().collect();
        manifest
            .metadata
            .insert(HEADER_KEY.to_owned(), serde_json::to_value(&header).expect("the header is plain data"));
        let committed = if cluster.is_root() {
            match Arc::try_unwrap(saving) {
                Ok(saving) => saving.commit(&manifest).map_err(|error| error.to_string()),
                Err(_) => unreachable!("the writer drops its reference before it reports the result"),
            }
        } else {
            Ok(())
        };
        agree(&cluster, &header.table, committed)
    }
}

impl fmt::Debug for TableCheckpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TableCheckpoint").field("header", &self.header).finish_non_exhaustive()
    }
}

/// *Collective.* Returns the local value if all peers have one; otherwise every peer returns the
/// problem of the lowest failed rank.
pub(crate) fn agree<T>(cluster: &Cluster, table: &str, local: Result<T, String>) -> Result<T> {
    let (value, problem) = match local {
        Ok(value) => (Some(value), None),
        Err(problem) => (None, Some(problem)),
    };
    let problems = cluster.all_gather(problem)?;
    let first = Rank::all(cluster.size()).zip(problems).find_map(|(rank, problem)| Some((rank, problem?)));
    match (value, first) {
        (Some(value), None) => Ok(value),
        (_, Some((rank, problem))) => Err(Error::Checkpoint { table: table.to_owned(), rank, problem }.into()),
        (None, None) => unreachable!("a peer without a value reports a problem"),
    }
}

/// Restored data of the shards on this peer.
pub(crate) struct RestoredShards<C: StorageType> {
    header: CheckpointHeader,
    /// Saved chunks of each shard.
    chunks: BTreeMap<ShardId, Vec<SnapshotChunk<C>>>,
}

impl<C: StorageType> RestoredShards<C> {
    pub(crate) fn clock(&self) -> Clock {
        self.header.at
    }

    /// Summary and chunks of one shard. If the number of shards has changed, the summary is that of
    /// some former shard.
    pub(crate) fn take(&mut self, shard: ShardId) -> (SnapshotSummary, Vec<SnapshotChunk<C>>) {
        let summary = self.header.shards[shard.index() % self.header.shards.len()].clone();
        (summary, self.chunks.remove(&shard).unwrap_or_default())
    }
}

/// *Collective.* Reads the rows of the shards on this peer. Returns `None` if there is no
/// checkpoint and `required` is false. If the newest checkpoint is damaged, the one before is read
/// with a warning.
pub(crate) fn open<C: StorageType>(
    cluster: &Cluster,
    folder: &Path,
    required: bool,
    spec: &TableSpec,
    here: impl Fn(u32) -> bool,
) -> Result<Option<RestoredShards<C>>> {
    if !required && !cluster.broadcast(PartReader::exists(folder))? {
        return Ok(None);
    }
    let opened = PartReader::open(folder).map_err(|error| error.to_string());
    let newest = opened.clone().and_then(|newest| read(&newest, spec, &here));
    let outcome = agree(cluster, &spec.name, newest);
    // Peer 0 checks for all: peers that read different checkpoints would disagree.
    let damage = |newest: &PartReader| newest.verify().err();
    let damage = if cluster.is_root() && outcome.is_err() { opened.as_ref().ok().and_then(damage) } else { None };
    let warning = opened.as_ref().ok().and_then(|newest| newest.warning().map(str::to_owned));
    match (outcome, cluster.broadcast(damage)?) {
        (Err(error), Some(damage)) => {
            let previous = opened.and_then(|newest| newest.previous(&damage).ok_or_else(|| damage.to_string()));
            let restored = previous.and_then(|previous| Ok((read(&previous, spec, &here)?, previous)));
            let (restored, previous) = agree(cluster, &spec.name, restored).map_err(|_| error)?;
            warn(cluster, previous.warning());
            Ok(Some(restored))
        }
        (outcome, _) => outcome.map(Some).inspect(|_| warn(cluster, warning.as_deref())),
    }
}

fn warn(cluster: &Cluster, warning: Option<&str>) {
    if let Some(warning) = warning.filter(|_| cluster.is_root()) {
        cluster.warn(warning);
    }
}

fn read<C: StorageType>(
    loading: &PartReader,
    spec: &TableSpec,
    here: &impl Fn(u32) -> bool,
) -> Result<RestoredShards<C>, String> {
    let plain = |error: hemiola_array::Error| error.to_string();
    let folder = loading.folder();
    let bad = |problem: &str| format!("`{}` is not a checkpoint of this table: {problem}", folder.display());
    let header = loading.manifest().metadata.get(HEADER_KEY).ok_or_else(|| bad("its manifest has no table header"))?;
    let header: CheckpointHeader = serde_json::from_value(header.clone()).map_err(|error| bad(&error.to_string()))?;
    if header.table != spec.name {
        return Err(bad(&format!("it is of table `{}`", header.table)));
    }
    let cells = std::any::type_name::<C>();
    if (header.width, header.sparse, &*header.cells) != (spec.width, spec.sparse, cells) {
        let form = |sparse| if sparse { "sparse" } else { "dense" };
        return Err(bad(&format!(
            "its rows are {} with {} columns of {}, but those of this table are {} with {} columns of {cells}",
            form(header.sparse),
            header.width,
            header.cells,
            form(spec.sparse),
            spec.width
        )));
    }
    if header.shards.is_empty() {
        return Err(bad("it has no shards"));
    }
    let mut chunks: BTreeMap<ShardId, Vec<SnapshotChunk<C>>> = BTreeMap::new();
    for (array, record) in &loading.manifest().arrays {
        for part in 0..record.parts.len() {
            let bytes = loading.read_dense::<u8, 1>(array, part).map_err(plain)?.1.to_cells();
            let bytes = Bytes::from(bytes);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let short = || bad("a chunk is cut off");
                let (length, after) = rest.split_first_chunk::<8>().ok_or_else(short)?;
                let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
                let (chunk, after) = after.split_at_checked(length).ok_or_else(short)?;
                rest = after;
                let (batch, state) =
                    wire::decode_rows::<C>(&bytes.slice_ref(chunk), spec).map_err(|error| error.to_string())?;
                split_chunk(&SnapshotChunk { batch, state }, spec, here, &mut chunks);
            }
        }
    }
    Ok(RestoredShards { header, chunks })
}

/// Splits a chunk by shard, and keeps the rows of the shards on this peer.
fn split_chunk<C: StorageType>(
    chunk: &SnapshotChunk<C>,
    spec: &TableSpec,
    here: &impl Fn(u32) -> bool,
    chunks: &mut BTreeMap<ShardId, Vec<SnapshotChunk<C>>>,
) {
    let state_width = if chunk.batch.is_empty() { 0 } else { chunk.state.len() / chunk.batch.len() };
    let mut dealt: BTreeMap<ShardId, SnapshotChunk<C>> = BTreeMap::new();
    for (at, row) in chunk.batch.iter().enumerate() {
        let shard = spec.shard_of(row.key);
        if here(shard.index() as u32) {
            let to = dealt.entry(shard).or_insert_with(|| SnapshotChunk { batch: RowBatch::new(), state: Vec::new() });
            to.batch.push(row.key, row.version, &row.cells);
            to.state.extend_from_slice(&chunk.state[at * state_width..][..state_width]);
        }
    }
    for (shard, chunk) in dealt {
        chunks.entry(shard).or_default().push(chunk);
    }
}
