//! Errors of a table on a cluster, with the facts in fields.

use hemiola_core::{ErrorKind, PeerLost, Rank, WorkerId};

/// Error of a table operation on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table protocol rejected the operation.
    #[error(transparent)]
    Table(#[from] hemiola_tables_proto::Error),
    /// The table has failed on this or another peer.
    #[error("table `{table}` has stopped: {reason}")]
    Stopped {
        /// Name of the table.
        table: String,
        /// Reason of the failure.
        reason: String,
    },
    /// A worker requested a second handle.
    #[error("worker {worker} has a handle to table `{table}` already; drop that handle first, or pass it on")]
    InUse {
        /// Name of the table.
        table: String,
        /// Worker that has the handle.
        worker: WorkerId,
    },
    /// Peers built the table with different settings.
    #[error(
        "peer {rank} built table `{table}` with other settings than peer 0: `{there}` instead of `{here}`; build the \
         same tables in the same order on every peer"
    )]
    SettingsMismatch {
        /// Name of the table.
        table: String,
        /// Peer that differs from peer 0.
        rank: Rank,
        /// Settings of peer 0.
        here: String,
        /// Settings of that peer.
        there: String,
    },
    /// The requested placement is impossible.
    #[error("table `{table}`: {problem}")]
    Servers {
        /// Name of the table.
        table: String,
        /// Description of the problem.
        problem: String,
    },
    /// Dedicated servers cannot run a user-defined update rule.
    #[error(
        "dedicated servers hold table `{table}`, but do not know the update rule `{rule}`, because they do not run this \
         program; use a built-in rule, or place the table on the peers with `servers(Servers::Peers)`"
    )]
    UnknownUpdateRule {
        /// Name of the table.
        table: String,
        /// Debug form of the update rule.
        rule: String,
    },
    /// The table cannot be saved because all workers have finished.
    #[error("table `{table}` cannot be saved: all workers have finished; save it before they do")]
    AllFinished {
        /// Name of the table.
        table: String,
    },
    /// A checkpoint could not be written or read; reported by the peer that failed.
    #[error("table `{table}`, on peer {rank}: {problem}")]
    Checkpoint {
        /// Name of the table.
        table: String,
        /// Peer that reported the problem.
        rank: Rank,
        /// Description of the problem.
        problem: String,
    },
    /// A shard sent more rows than its windows allow.
    #[error(
        "{queued} bytes of rows wait for room in the network, and {limit} are allowed; the last are for peer {rank}"
    )]
    SendQueueOverflow {
        /// Peer that the last message is for.
        rank: Rank,
        /// Size of the queued rows in bytes.
        queued: usize,
        /// Largest size in bytes.
        limit: usize,
    },
    /// Rows were collected or saved while workers were at different clocks.
    #[error(
        "table `{table}` cannot be read as a whole: worker {worker} of peer {rank} is at clock {at}, but others are at {expected}; end the same \
         number of clocks on all workers, or finish them"
    )]
    UnevenClocks {
        /// Name of the table.
        table: String,
        /// Peer of the worker.
        rank: Rank,
        /// Worker that is ahead.
        worker: WorkerId,
        /// Clock of the worker.
        at: hemiola_tables_proto::Clock,
        /// Clock of the slowest worker.
        expected: hemiola_tables_proto::Clock,
    },
}

impl Error {
    /// Kind of the error: who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Table(error) => error.kind(),
            Self::Stopped { .. } | Self::Checkpoint { .. } => ErrorKind::External,
            Self::SendQueueOverflow { .. } => ErrorKind::Bug,
            Self::InUse { .. }
            | Self::AllFinished { .. }
            | Self::SettingsMismatch { .. }
            | Self::Servers { .. }
            | Self::UnknownUpdateRule { .. }
            | Self::UnevenClocks { .. } => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}

/// Converts a protocol error into an error of the cluster.
pub(crate) fn table_error(error: hemiola_tables_proto::Error) -> hemiola_cluster::Error {
    Error::Table(error).into()
}

/// Failure of a table, reported to every waiter.
#[derive(Clone, Debug)]
pub(crate) enum TableFailure {
    Lost(PeerLost),
    Table(hemiola_tables_proto::Error),
    Stopped(String),
}

impl TableFailure {
    pub(crate) fn of(error: &hemiola_cluster::Error) -> Self {
        match error.lost_peer() {
            Some(loss) => Self::Lost(loss.clone()),
            None => Self::Stopped(error.to_string()),
        }
    }

    pub(crate) fn error(&self, table: &str) -> hemiola_cluster::Error {
        match self.clone() {
            Self::Lost(loss) => loss.into(),
            Self::Table(error) => table_error(error),
            Self::Stopped(reason) => Error::Stopped { table: table.to_owned(), reason }.into(),
        }
    }
}

impl From<hemiola_tables_proto::Error> for TableFailure {
    fn from(error: hemiola_tables_proto::Error) -> Self {
        Self::Table(error)
    }
}
