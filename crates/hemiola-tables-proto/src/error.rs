//! Errors of the table protocol, with the facts in fields.
//!
//! **Invariant:** recovery code asks [`Error::kind`] and never parses the text.

use crate::clock::{Clock, ClockRegression};
use crate::spec::{ClientId, ShardId};
use hemiola_core::{ErrorKind, WorkerId};

/// Result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a table operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The row is outside the table's key space.
    #[error(
        "table `{table}` has no row {row}: its keys are `0..{rows}`; enlarge the table, or omit `rows` for an unbounded key space"
    )]
    RowOutOfRange {
        /// Name of the table.
        table: String,
        /// Key of the requested row.
        row: u64,
        /// Number of rows of the table.
        rows: u64,
    },
    /// The number of values does not match the width of the row.
    #[error("row {row} of table `{table}` has {expected} columns, but {found} values were given")]
    WrongWidth {
        /// Name of the table.
        table: String,
        /// Key of the row.
        row: u64,
        /// Number of columns of the table.
        expected: usize,
        /// Number of values given.
        found: usize,
    },
    /// A column is out of range, or columns do not ascend.
    #[error(
        "column {column} of row {row} of table `{table}` is outside of its {width} columns, or columns do not ascend"
    )]
    BadColumn {
        /// Name of the table.
        table: String,
        /// Key of the row.
        row: u64,
        /// Index of the column.
        column: u32,
        /// Number of columns of the table.
        width: usize,
    },
    /// An update contains NaN or infinity.
    #[error(
        "worker {worker} of peer {client} added NaN or infinity to row {row}, column {column} of table `{table}`; lower the \
         learning rate, or drop such updates with `NonFinitePolicy::Drop`"
    )]
    NotFinite {
        /// Name of the table.
        table: String,
        /// Key of the row.
        row: u64,
        /// First column that is not finite.
        column: usize,
        /// Worker that sent the update.
        worker: WorkerId,
        /// Client (peer) of the worker.
        client: ClientId,
    },
    /// Finite updates of one peer add up to NaN or infinity.
    #[error(
        "updates of peer {client} to row {row}, column {column} of table `{table}` add up to NaN or infinity; lower the learning rate"
    )]
    SumNotFinite {
        /// Name of the table.
        table: String,
        /// Key of the row.
        row: u64,
        /// First column that is not finite.
        column: usize,
        /// Client (peer) of the updates.
        client: ClientId,
    },
    /// A worker used the table after it had finished.
    #[error("worker {worker} used table `{table}` after it had finished")]
    Finished {
        /// Name of the table.
        table: String,
        /// Worker that had finished.
        worker: WorkerId,
    },
    /// A client that was not part of the table when it was created.
    #[error(
        "peer {client} sent a message to shard {shard} of table `{table}`, which was built for {clients} peers; to add a \
         peer, restart the job from its last checkpoint"
    )]
    UnknownClient {
        /// Name of the table.
        table: String,
        /// Shard that received the message.
        shard: ShardId,
        /// Client that sent the message.
        client: ClientId,
        /// Number of clients that the table was created for.
        clients: usize,
    },
    /// An update names a version that is no longer kept.
    #[error("an update of row {row} of table `{table}` was computed from version {version}, which is no longer kept")]
    UnknownVersion {
        /// Name of the table.
        table: String,
        /// Key of the row.
        row: u64,
        /// Version named by the update.
        version: u64,
    },
    /// A snapshot was requested for a clock that has passed.
    #[error(
        "table `{table}` cannot be saved at clock {at}: updates of clock {applied} are already applied; request a later clock"
    )]
    SnapshotTooLate {
        /// Name of the table.
        table: String,
        /// Clock that was requested.
        at: Clock,
        /// Latest clock of which an update is applied.
        applied: Clock,
    },
    /// A snapshot was requested while another one is in progress.
    #[error("table `{table}` is already being saved at clock {at}; wait until that has finished")]
    SnapshotBusy {
        /// Name of the table.
        table: String,
        /// Clock of the snapshot in progress.
        at: Clock,
    },
    /// A snapshot does not fit the table.
    #[error("table `{table}` cannot be restored: {problem}")]
    BadSnapshot {
        /// Name of the table.
        table: String,
        /// Description of the mismatch.
        problem: String,
    },
    /// The settings of the table are inconsistent.
    #[error("table `{table}` cannot be built: {problem}")]
    BadSpec {
        /// Name of the table.
        table: String,
        /// Description of the problem.
        problem: String,
    },
    /// A message violates the protocol.
    #[error("table `{table}` received an invalid message: {problem}")]
    BadMessage {
        /// Name of the table.
        table: String,
        /// Description of the violation.
        problem: String,
    },
}

impl Error {
    /// Kind of the error: who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::BadMessage { .. } | Self::UnknownVersion { .. } => ErrorKind::Bug,
            Self::BadSnapshot { .. } => ErrorKind::External,
            _ => ErrorKind::Usage,
        }
    }

    pub(crate) fn backward(table: &str, backward: ClockRegression) -> Self {
        Self::BadMessage { table: table.to_owned(), problem: backward.to_string() }
    }
}
