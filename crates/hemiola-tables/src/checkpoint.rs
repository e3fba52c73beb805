//! A table as it was at a clock, in a folder that appears whole or not at all.
//!
//! The shards keep the rows as they are at the clock while workers go on; a service reads them out piece by piece and writes them
//! down. The folder is a save of `hemiola-array`: one array of bytes for each peer that wrote, in parts with checksums, and one manifest, made visible by
//! one rename. Notes hold what the table was and what each shard keeps besides rows. It must be on storage that all peers see.
//!
//! A part is a sequence of pieces: the length of one, 8 bytes, and then its rows as `hemiola_tables_proto::wire` writes them, with versions and the state
//! of the procedure. Which shard they came from does not matter, so any number of peers and shards can go on from them.

use crate::error::Error;
use crate::hub::Hub;
use crate::orders::{self, Order};
use crate::place::Place;
use crate::table::{Engine, Table};
use bytes::Bytes;
use hemiola_array::save::{Loading, Manifest, PartRecord, Saving};
use hemiola_array::{Dense, Shape};
use hemiola_cluster::{Cluster, Ending, Link, Reason, Result, Service};
use hemiola_core::{ChannelId, Rank, Waiter};
use hemiola_tables_proto::batch::Batch;
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::server::snapshot::{Piece, Summary};
use hemiola_tables_proto::{Clock, Server, ShardId, Spec, wire};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A shard is locked for as long as it takes to copy this many bytes.
const PIECE_BYTES: usize = 256 << 10;
/// A file is about this large.
const PART_BYTES: usize = 16 << 20;
/// How often a shard is asked again whose leases are on their way back.
const AGAIN: Duration = Duration::from_millis(1);

/// What is written down of a table, besides its rows.
#[derive(Debug, Serialize, Deserialize)]
struct Notes {
    table: String,
    width: usize,
    sparse: bool,
    /// The type of cells.
    cells: String,
    at: Clock,
    /// By shard.
    shards: Vec<Summary>,
}

const NOTES: &str = "table";

/// What a peer has written.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    parts: Vec<PartRecord>,
    summaries: Vec<(u32, Summary)>,
}

/// Where the service leaves what it has done.
#[derive(Debug, Default)]
struct Outcome {
    done: Mutex<Option<Result<Written, String>>>,
    wake: Condvar,
}

/// A checkpoint in the making: workers may go on while it is written. Nothing is to be seen of it before [`Checkpoint::finish`].
#[must_use = "nothing is visible before `finish`"]
pub struct Checkpoint {
    notes: Notes,
    /// Above `saving`, so that nothing is being written any more when that goes.
    writing: Writing,
    outcome: Arc<Outcome>,
    /// The one that began it is the root's.
    saving: Arc<Saving>,
    told: Told,
}

/// Tells dedicated servers, if they hold the table, when a checkpoint is given up.
struct Told {
    cluster: Cluster,
    /// The table, while they have to be told.
    table: Option<ChannelId>,
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(table) = self.table {
            // If the job fails, they learn it in another way.
            let _ = orders::announce(&self.cluster, &Order::Forget(table));
        }
    }
}

/// The service that writes. Nobody writes on after this is gone: the next save has the same temporary folder.
struct Writing(Service);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The shards that are here, for a thread of its own.
enum Shards<C: Cell> {
    Hub(Arc<Hub<C>>),
    Place(Arc<Place<C>>),
}

impl<C: Cell> Shards<C> {
    fn each(&self) -> Vec<(u32, &Mutex<Server<C>>)> {
        match self {
            Self::Hub(hub) => {
                hub.servers.iter().zip(0..).filter_map(|(server, shard)| Some((shard, server.as_ref()?))).collect()
            }
            Self::Place(place) => place.servers.iter().zip(0..).map(|(server, shard)| (shard, server)).collect(),
        }
    }
}

impl<C: Cell> Table<C> {
    /// *Collective.* Begins to save the table as it is at the clock that all workers are at, which must not use the table during this call. They can
    /// go on as soon as it returns; [`Checkpoint::finish`] waits for the rest.
    ///
    /// ```
    /// use hemiola_tables::Tables;
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
    ///     assert_eq!((table.started_at().units(), &table.collect()?[&7][..]), (1, &[2.0][..]));
    ///     Ok(())
    /// })?;
    /// # Ok::<(), hemiola_cluster::Error>(())
    /// ```
    #[track_caller]
    pub fn checkpoint(&self, folder: &Path) -> Result<Checkpoint> {
        let whole = std::path::absolute(folder)?;
        self.tell(|table| Order::Checkpoint(table, whole))?;
        let at = self.settled()?;
        if at == Clock::INFINITE {
            return Err(Error::AllFinished { table: self.name().to_owned() }.into());
        }
        let cluster = &self.cluster;
        let begun = if cluster.is_root() { Saving::begin(folder).map(Some) } else { Ok(None) };
        let begun = agree(cluster, self.name(), begun.map_err(|error| error.to_string()))?;
        let saving = match begun {
            Some(saving) => Ok(saving),
            None => Saving::join(folder).map_err(|error| error.to_string()),
        };
        let saving = saving.and_then(|saving| self.begin(at).map(|()| Arc::new(saving)));
        // Nobody goes on before all shards keep their rows.
        let saving = agree(cluster, self.name(), saving).inspect_err(|_| forget(&self.servers()))?;
        let shards = match &self.engine {
            Engine::Hub(hub) => Shards::Hub(hub.clone()),
            Engine::Place(place) => Shards::Place(place.clone()),
        };
        let outcome = Arc::new(Outcome::default());
        let (inside, told, link, rank) = (saving.clone(), outcome.clone(), cluster.link(), cluster.rank());
        let body = move |ending: &Ending| {
            let written = write(&shards, &inside, &link, rank, ending).inspect_err(|_| forget(&shards.each()));
            // The one that commits must be the last that holds it.
            drop(inside);
            *told.done.lock() = Some(written);
            told.wake.notify_all();
            Ok(())
        };
        let service = cluster.service(&format!("table-{}-save", self.name()), || (), body)?;
        let (table, cells) = (self.name().to_owned(), std::any::type_name::<C>().to_owned());
        let notes = Notes { table, width: self.width(), sparse: self.spec().sparse, cells, at, shards: Vec::new() };
        let writing = Writing(service);
        let told = Told { cluster: cluster.clone(), table: self.told };
        Ok(Checkpoint { notes, writing, outcome, saving, told })
    }

    fn begin(&self, at: Clock) -> Result<(), String> {
        for (shard, server) in self.servers() {
            server.lock().begin_snapshot(at).map_err(|error| error.to_string())?;
            if let Engine::Hub(hub) = &self.engine {
                // Leases are called back.
                hub.speak(ShardId::new(shard as u32)).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// *Collective.* Saves the table and waits until that is done.
    #[track_caller]
    pub fn save(&self, folder: &Path) -> Result<()> {
        self.checkpoint(folder)?.finish()
    }
}

/// Ends snapshots that nobody wants any more, so that another can be taken.
fn forget<C: Cell, N>(servers: &[(N, &Mutex<Server<C>>)]) {
    for (_, server) in servers {
        let mut server = server.lock();
        while server.next_piece(PART_BYTES).is_some_and(|piece| !piece.batch.is_empty()) {}
        server.end_snapshot();
    }
}

/// Writes the shards of this peer down.
fn write<C: Cell>(
    shards: &Shards<C>,
    saving: &Saving,
    link: &Link,
    rank: Rank,
    ending: &Ending,
) -> Result<Written, String> {
    let mut written = Written { parts: Vec::new(), summaries: Vec::new() };
    let (mut bytes, mut first) = (Vec::new(), 0);
    for (shard, server) in shards.each() {
        loop {
            if ending.has_come() {
                return Err("the job ended while the table was being saved".to_owned());
            }
            let piece = server.lock().next_piece(PIECE_BYTES);
            let Some(Piece { batch, state }) = piece else {
                link.env().pause(AGAIN);
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
        written.summaries.push((shard, summary.ok_or("a shard did not end its snapshot")?));
    }
    if !bytes.is_empty() {
        write_part(saving, rank, &mut bytes, &mut first, &mut written.parts)?;
    }
    Ok(written)
}

fn write_part(
    saving: &Saving,
    rank: Rank,
    bytes: &mut Vec<u8>,
    first: &mut u64,
    parts: &mut Vec<PartRecord>,
) -> Result<(), String> {
    let length = bytes.len() as u64;
    let part = Dense::from_cells(Shape::new([length]), bytes)
        .and_then(|cells| saving.write_dense(&name(rank), parts.len(), *first, &cells));
    parts.push(part.map_err(|error| error.to_string())?);
    *first += length;
    bytes.clear();
    Ok(())
}

/// The array of what a peer wrote.
fn name(rank: Rank) -> String {
    format!("peer-{:05}", rank.number())
}

impl Checkpoint {
    /// The clock that it is of.
    #[must_use]
    pub fn at(&self) -> Clock {
        self.notes.at
    }

    /// *Collective.* Waits until everything is written, and makes it visible in one step.
    ///
    /// # Panics
    /// Never: notes are plain data.
    #[track_caller]
    pub fn finish(self) -> Result<()> {
        let Self { mut notes, writing, outcome, saving, mut told } = self;
        let cluster = told.cluster.clone();
        if let Some(table) = told.table.take() {
            orders::announce(&cluster, &Order::Finish(table))?;
        }
        let reason = Reason { what: "a checkpoint of a table to be written", number: None, site: None };
        let waiting = cluster.waiting(Waiter::Driver, reason, None);
        let mut done = outcome.done.lock();
        let deadline = cluster.env().now() + cluster.deadlines().wait;
        while done.is_none() && !writing.0.has_ended() {
            let left = deadline - cluster.env().now();
            if left.is_zero() {
                return Err(cluster.link().timed_out(&reason, ""));
            }
            outcome.wake.wait_for(&mut done, left.min(Duration::from_secs(1)));
        }
        drop(waiting);
        let written = done.take().unwrap_or_else(|| Err("the service that writes it has ended".to_owned()));
        drop(done);
        let all = cluster.all_gather(agree(&cluster, &notes.table, written)?)?;
        let mut manifest = Manifest::default();
        let mut summaries = BTreeMap::new();
        for (rank, Written { parts, summaries: of_peer }) in Rank::all(cluster.size()).zip(all) {
            let length = parts.iter().map(|part| part.length).sum();
            if !parts.is_empty() {
                manifest.add_dense::<u8, 1>(&name(rank), Shape::new([length]), parts);
            }
            summaries.extend(of_peer);
        }
        notes.shards = summaries.into_values().collect();
        manifest.notes.insert(NOTES.to_owned(), serde_json::to_value(&notes).expect("notes are plain data"));
        let committed = if cluster.is_root() {
            match Arc::try_unwrap(saving) {
                Ok(saving) => saving.commit(&manifest).map_err(|error| error.to_string()),
                Err(_) => unreachable!("the service let go of it before it said that it had done"),
            }
        } else {
            Ok(())
        };
        agree(&cluster, &notes.table, committed)
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Checkpoint").field("notes", &self.notes).finish_non_exhaustive()
    }
}

/// *Collective.* Every peer's value if all have one; otherwise, on every peer, what the lowest rank says that has none.
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
        (None, None) => unreachable!("a peer without a value has a problem"),
    }
}

/// What shards of this peer go on from.
pub(crate) struct Restored<C: Cell> {
    notes: Notes,
    /// By shard.
    pieces: BTreeMap<ShardId, Vec<Piece<C>>>,
}

impl<C: Cell> Restored<C> {
    pub(crate) fn at(&self) -> Clock {
        self.notes.at
    }

    /// What one shard goes on from. With another number of shards, what they keep besides rows is that of some old one.
    pub(crate) fn take(&mut self, shard: ShardId) -> (Summary, Vec<Piece<C>>) {
        let summary = self.notes.shards[shard.index() % self.notes.shards.len()].clone();
        (summary, self.pieces.remove(&shard).unwrap_or_default())
    }
}

/// *Collective.* Reads the rows of the shards that are here. Nothing if there is no checkpoint and there need not be one.
pub(crate) fn open<C: Cell>(
    cluster: &Cluster,
    folder: &Path,
    must: bool,
    spec: &Spec,
    here: impl Fn(u32) -> bool,
) -> Result<Option<Restored<C>>> {
    if !must && !cluster.broadcast(folder.exists())? {
        return Ok(None);
    }
    agree(cluster, &spec.name, read(folder, spec, here)).map(Some)
}

fn read<C: Cell>(folder: &Path, spec: &Spec, here: impl Fn(u32) -> bool) -> Result<Restored<C>, String> {
    let plain = |error: hemiola_array::Error| error.to_string();
    let bad = |problem: &str| format!("`{}` is no checkpoint of this table: {problem}", folder.display());
    let loading = Loading::open(folder).map_err(plain)?;
    let notes = loading.manifest().notes.get(NOTES).ok_or_else(|| bad("it says nothing of a table"))?;
    let notes: Notes = serde_json::from_value(notes.clone()).map_err(|error| bad(&error.to_string()))?;
    if notes.table != spec.name {
        return Err(bad(&format!("it is of table `{}`", notes.table)));
    }
    let cells = std::any::type_name::<C>();
    if (notes.width, notes.sparse, &*notes.cells) != (spec.width, spec.sparse, cells) {
        let form = |sparse| if sparse { "sparse" } else { "dense" };
        return Err(bad(&format!(
            "its rows are {} with {} columns of {}, and those of this table {} with {} columns of {cells}",
            form(notes.sparse),
            notes.width,
            notes.cells,
            form(spec.sparse),
            spec.width
        )));
    }
    if notes.shards.is_empty() {
        return Err(bad("it has no shards"));
    }
    let mut pieces: BTreeMap<ShardId, Vec<Piece<C>>> = BTreeMap::new();
    for (array, record) in &loading.manifest().arrays {
        for part in 0..record.parts.len() {
            let bytes = loading.read_dense::<u8, 1>(array, part).map_err(plain)?.1.to_cells();
            let bytes = Bytes::from(bytes);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let short = || bad("a piece is cut off");
                let (length, after) = rest.split_first_chunk::<8>().ok_or_else(short)?;
                let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| short())?;
                let (piece, after) = after.split_at_checked(length).ok_or_else(short)?;
                rest = after;
                let (batch, state) =
                    wire::decode_rows::<C>(&bytes.slice_ref(piece), spec).map_err(|error| error.to_string())?;
                deal(&Piece { batch, state }, spec, &here, &mut pieces);
            }
        }
    }
    Ok(Restored { notes, pieces })
}

/// Gives the rows of a piece to the shards that are here.
fn deal<C: Cell>(
    piece: &Piece<C>,
    spec: &Spec,
    here: &impl Fn(u32) -> bool,
    pieces: &mut BTreeMap<ShardId, Vec<Piece<C>>>,
) {
    let state_width = if piece.batch.is_empty() { 0 } else { piece.state.len() / piece.batch.len() };
    let mut dealt: BTreeMap<ShardId, Piece<C>> = BTreeMap::new();
    for (at, row) in piece.batch.iter().enumerate() {
        let shard = spec.shard_of(row.key);
        if here(shard.index() as u32) {
            let to = dealt.entry(shard).or_insert_with(|| Piece { batch: Batch::new(), state: Vec::new() });
            to.batch.push(row.key, row.version, &row.cells);
            to.state.extend_from_slice(&piece.state[at * state_width..][..state_width]);
        }
    }
    for (shard, piece) in dealt {
        pieces.entry(shard).or_default().push(piece);
    }
}
