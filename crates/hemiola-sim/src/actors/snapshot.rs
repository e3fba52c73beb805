//! Snapshots of a peer's shards while its workers continue. `hemiola-tables` writes them to a
//! folder; here they stay in memory.
//!
//! On request, shards start to preserve their rows. They are read chunk by chunk between other
//! messages, as soon as all workers have reached the clock. **Invariant:** the next chunk of a
//! shard is requested only after an event of its peer, so nothing spins while it waits.

use crate::units::SimDuration;
use hemiola_tables_proto::batch::RowBatch;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::server::snapshot::{SnapshotChunk, SnapshotSummary};
use hemiola_tables_proto::{Clock, Error, ShardServer};
use std::collections::BTreeMap;

/// Plan of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPlan {
    /// The snapshot contains all updates of clocks before this one.
    pub at: Clock,
    /// Time at which shards are notified.
    pub begin: SimDuration,
    /// Bytes of rows in a chunk.
    pub piece: usize,
    /// Injected fault: rows are saved in their current state.
    pub live: bool,
}

/// Snapshot of the shards of one peer, or of all.
#[derive(Clone, Debug)]
pub struct TableSnapshot<C: StorageType> {
    /// Rows in the order of reading.
    pub pieces: Vec<SnapshotChunk<C>>,
    /// Summaries of the shards that were read completely.
    pub summaries: BTreeMap<usize, SnapshotSummary>,
    /// Number of shards that were notified too late.
    pub refused: usize,
}

/// Takes a snapshot of the shards of a peer.
#[derive(Debug)]
pub(super) struct SnapshotTaker<C: StorageType> {
    pub(super) save: SnapshotPlan,
    pub(super) saved: TableSnapshot<C>,
    begun: bool,
    /// A timer for the next chunk is set.
    pub(super) due: bool,
}

impl<C: StorageType> SnapshotTaker<C> {
    pub(super) fn new(save: SnapshotPlan) -> Self {
        let saved = TableSnapshot { pieces: Vec::new(), summaries: BTreeMap::new(), refused: 0 };
        Self { save, saved, begun: false, due: false }
    }

    /// Notifies the shards of the snapshot.
    pub(super) fn begin(&mut self, servers: &mut [(usize, ShardServer<C>)]) -> Result<(), String> {
        self.begun = true;
        for (_, server) in servers {
            match server.begin_snapshot(self.save.at) {
                Err(Error::SnapshotTooLate { .. }) => self.saved.refused += 1,
                other => other.map_err(|error| error.to_string())?,
            }
        }
        Ok(())
    }

    /// Reads the next chunk of each shard that has one; returns whether there may be more.
    pub(super) fn read(&mut self, servers: &mut [(usize, ShardServer<C>)]) -> bool {
        let mut more = false;
        for (shard, server) in servers.iter_mut().filter(|_| self.begun) {
            let Some(mut piece) = server.next_chunk(self.save.piece) else { continue };
            more = true;
            if piece.batch.is_empty() {
                self.saved.summaries.extend(server.end_snapshot().map(|summary| (*shard, summary)));
                continue;
            }
            if self.save.live {
                piece.batch = live(&piece.batch, server);
            }
            self.saved.pieces.push(piece);
        }
        more
    }
}

/// Replaces the rows of a chunk by their current state.
fn live<C: StorageType>(batch: &RowBatch<C>, server: &ShardServer<C>) -> RowBatch<C> {
    let mut now = RowBatch::new();
    for row in batch.iter() {
        if let Some(slot) = server.rows().find(row.key) {
            now.push(row.key, row.version, &server.rows().cells(slot));
        }
    }
    now
}
