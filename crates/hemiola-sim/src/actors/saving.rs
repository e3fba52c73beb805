//! Snapshots of a peer's shards, taken while workers go on: what `hemiola-tables` writes to a folder is kept here.
//!
//! Shards begin to keep their rows when they are told, and are read out a piece at a time between other messages, as soon as all workers have reached the clock. **Invariant:** a shard is asked for its next piece only
//! after a message or a piece, so nothing spins while it waits.

use crate::units::Span;
use hemiola_tables_proto::batch::Batch;
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::server::snapshot::{Piece, Summary};
use hemiola_tables_proto::{Clock, Error, Server};
use std::collections::BTreeMap;

/// A snapshot that is to be taken.
#[derive(Clone, Copy, Debug)]
pub struct Save {
    /// The table as it is when all clocks before this one have ended.
    pub at: Clock,
    /// When shards are told.
    pub begin: Span,
    /// Bytes of rows in a piece.
    pub piece: usize,
    /// Writes rows down as they are when they are read out: a fault to be found.
    pub live: bool,
}

/// What a peer has saved.
#[derive(Clone, Debug)]
pub struct Saved<C: Cell> {
    /// Rows, in the order they were read out.
    pub pieces: Vec<Piece<C>>,
    /// Of each shard that was read out to the end.
    pub summaries: BTreeMap<usize, Summary>,
    /// Shards that were told too late.
    pub refused: usize,
}

/// Takes a snapshot of the shards of a peer.
#[derive(Debug)]
pub(super) struct Saver<C: Cell> {
    pub(super) save: Save,
    pub(super) saved: Saved<C>,
    begun: bool,
    /// Somebody will call again.
    pub(super) due: bool,
}

impl<C: Cell> Saver<C> {
    pub(super) fn new(save: Save) -> Self {
        let saved = Saved { pieces: Vec::new(), summaries: BTreeMap::new(), refused: 0 };
        Self { save, saved, begun: false, due: false }
    }

    /// Tells the shards.
    pub(super) fn begin(&mut self, servers: &mut [(usize, Server<C>)]) -> Result<(), String> {
        self.begun = true;
        for (_, server) in servers {
            match server.begin_snapshot(self.save.at) {
                Err(Error::SnapshotTooLate { .. }) => self.saved.refused += 1,
                other => other.map_err(|error| error.to_string())?,
            }
        }
        Ok(())
    }

    /// Takes the next piece of each shard that has one; whether there may be more.
    pub(super) fn read(&mut self, servers: &mut [(usize, Server<C>)]) -> bool {
        let mut more = false;
        for (shard, server) in servers.iter_mut().filter(|_| self.begun) {
            let Some(mut piece) = server.next_piece(self.save.piece) else { continue };
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

/// The same rows as they are now.
fn live<C: Cell>(batch: &Batch<C>, server: &Server<C>) -> Batch<C> {
    let mut now = Batch::new();
    for row in batch.iter() {
        if let Some(slot) = server.rows().find(row.key) {
            now.push(row.key, row.version, &server.rows().cells(slot));
        }
    }
    now
}
