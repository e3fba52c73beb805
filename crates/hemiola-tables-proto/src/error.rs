//! Everything that can go wrong in a table, with the facts in fields.
//!
//! **Invariant:** recovery code asks [`Error::kind`] and never reads the text.

use crate::clock::{Backward, Clock};
use crate::spec::{ClientId, ShardId};
use hemiola_core::{ErrorKind, WorkerId};

/// The result of everything fallible here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a table refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A row that the table does not have.
    #[error(
        "table `{table}` has no row {row}: its rows are 0 to {rows}, without the last; make the table larger, or let its ids grow"
    )]
    RowOutOfRange {
        /// The table.
        table: String,
        /// The row asked for.
        row: u64,
        /// How many there are.
        rows: u64,
    },
    /// A row of another length.
    #[error("row {row} of table `{table}` has {expected} columns, and {found} values were given for it")]
    WrongWidth {
        /// The table.
        table: String,
        /// The row.
        row: u64,
        /// Its columns.
        expected: usize,
        /// Values that came.
        found: usize,
    },
    /// A column that the row does not have, or columns that do not ascend.
    #[error(
        "column {column} of row {row} of table `{table}` is outside of its {width} columns, or not in ascending order"
    )]
    BadColumn {
        /// The table.
        table: String,
        /// The row.
        row: u64,
        /// The column.
        column: u32,
        /// How many columns there are.
        width: usize,
    },
    /// An update with NaN or infinity.
    #[error(
        "worker {worker} of peer {client} added NaN or infinity to row {row}, column {column} of table `{table}`; lower the step, or have such \
         updates dropped and counted"
    )]
    NotFinite {
        /// The table.
        table: String,
        /// The row.
        row: u64,
        /// The first such column.
        column: usize,
        /// The worker.
        worker: WorkerId,
        /// Its peer.
        client: ClientId,
    },
    /// Updates of one peer that are finite add up to infinity.
    #[error(
        "updates of peer {client} to row {row}, column {column} of table `{table}` add up to NaN or infinity; lower the step"
    )]
    SumNotFinite {
        /// The table.
        table: String,
        /// The row.
        row: u64,
        /// The first such column.
        column: usize,
        /// The peer.
        client: ClientId,
    },
    /// A worker that has ended called again.
    #[error("worker {worker} used table `{table}` after it had finished with it")]
    Finished {
        /// The table.
        table: String,
        /// The worker.
        worker: WorkerId,
    },
    /// Somebody who was not there when the table was made.
    #[error(
        "peer {client} spoke to shard {shard} of table `{table}`, which was made for {clients} peers; a peer joins by restarting the job from its \
         last checkpoint"
    )]
    UnknownClient {
        /// The table.
        table: String,
        /// The shard.
        shard: ShardId,
        /// Who spoke.
        client: ClientId,
        /// For how many it was made.
        clients: usize,
    },
    /// An update names a version that nobody holds.
    #[error(
        "an update of row {row} of table `{table}` was computed from version {version}, which is not held any more"
    )]
    UnknownVersion {
        /// The table.
        table: String,
        /// The row.
        row: u64,
        /// The version.
        version: u64,
    },
    /// A snapshot of a moment that is gone.
    #[error(
        "table `{table}` cannot be saved as it was at clock {at}: updates of clock {applied} are in already; ask for a later clock, or earlier"
    )]
    SnapshotTooLate {
        /// The table.
        table: String,
        /// The clock asked for.
        at: Clock,
        /// The latest clock of which something is applied.
        applied: Clock,
    },
    /// A snapshot while another is being taken.
    #[error("table `{table}` is being saved as of clock {at} already; wait until that has ended")]
    SnapshotBusy {
        /// The table.
        table: String,
        /// The clock of the one being taken.
        at: Clock,
    },
    /// What was saved does not fit.
    #[error("table `{table}` cannot be restored: {problem}")]
    BadSnapshot {
        /// The table.
        table: String,
        /// What does not fit.
        problem: String,
    },
    /// A table that cannot be.
    #[error("table `{table}` cannot be made: {problem}")]
    BadSpec {
        /// The table.
        table: String,
        /// Why.
        problem: String,
    },
    /// A message that nobody of ours would send.
    #[error("table `{table}` got a message that cannot be: {problem}")]
    BadMessage {
        /// The table.
        table: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Error {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadMessage { .. } | Self::UnknownVersion { .. } => ErrorKind::Bug,
            Self::BadSnapshot { .. } => ErrorKind::World,
            _ => ErrorKind::Usage,
        }
    }

    pub(crate) fn backward(table: &str, backward: Backward) -> Self {
        Self::BadMessage { table: table.to_owned(), problem: backward.to_string() }
    }
}
