//! What can go wrong with a table on a cluster, with the facts in fields.

use hemiola_core::{ErrorKind, PeerLost, Rank, WorkerId};

/// Why a table could not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The table refused.
    #[error(transparent)]
    Table(#[from] hemiola_tables_proto::Error),
    /// Somebody failed, so nobody can go on.
    #[error("table `{table}` has stopped: {reason}")]
    Stopped {
        /// The table.
        table: String,
        /// What happened.
        reason: String,
    },
    /// Two handles of one worker.
    #[error("worker {worker} has a handle to table `{table}` already; drop that one first, or pass it on")]
    InUse {
        /// The table.
        table: String,
        /// The worker.
        worker: WorkerId,
    },
    /// Peers that do not agree.
    #[error(
        "peer {rank} made table `{table}` with other settings than peer 0: {there} there, {here} at peer 0; every peer must build the same tables \
         in the same order"
    )]
    Differs {
        /// The table.
        table: String,
        /// The peer.
        rank: Rank,
        /// Settings of peer 0.
        here: String,
        /// Settings of that peer.
        there: String,
    },
    /// Peers that cannot hold it.
    #[error("table `{table}`: {problem}")]
    Servers {
        /// The table.
        table: String,
        /// What is wrong.
        problem: String,
    },
    /// A procedure that is in the program alone.
    #[error(
        "dedicated servers are to hold table `{table}`, and do not know the procedure `{procedure}`: they do not run this program; use one of the \
         provided procedures, or have the peers hold the table with `servers(Servers::Peers)`"
    )]
    UnknownProcedure {
        /// The table.
        table: String,
        /// The procedure.
        procedure: String,
    },
    /// A table that everybody has done with.
    #[error("table `{table}` cannot be saved: all workers have finished; save it before they do")]
    AllFinished {
        /// The table.
        table: String,
    },
    /// A checkpoint that could not be made or read, told by the peer that failed.
    #[error("table `{table}`, on peer {rank}: {problem}")]
    Checkpoint {
        /// The table.
        table: String,
        /// The peer.
        rank: Rank,
        /// What went wrong.
        problem: String,
    },
    /// Rows that are read or saved together while workers have come differently far.
    #[error(
        "table `{table}` cannot be read as a whole: worker {worker} of peer {rank} is at clock {at}, and others are at {expected}; have all end the \
         same number of clocks first, or finish"
    )]
    Uneven {
        /// The table.
        table: String,
        /// The peer.
        rank: Rank,
        /// Its worker.
        worker: WorkerId,
        /// Its clock.
        at: hemiola_tables_proto::Clock,
        /// Those of others.
        expected: hemiola_tables_proto::Clock,
    },
}

impl Error {
    /// Who has to act.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Table(error) => error.kind(),
            Self::Stopped { .. } | Self::Checkpoint { .. } => ErrorKind::World,
            Self::InUse { .. }
            | Self::AllFinished { .. }
            | Self::Differs { .. }
            | Self::Servers { .. }
            | Self::UnknownProcedure { .. }
            | Self::Uneven { .. } => ErrorKind::Usage,
        }
    }
}

impl From<Error> for hemiola_cluster::Error {
    fn from(error: Error) -> Self {
        Self::Layer { kind: error.kind(), source: Box::new(error) }
    }
}

/// An error of the machines, as an error of the cluster.
pub(crate) fn refused(error: hemiola_tables_proto::Error) -> hemiola_cluster::Error {
    Error::Table(error).into()
}

/// Why nobody can go on: told to everybody who waits.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Lost(PeerLost),
    Table(hemiola_tables_proto::Error),
    Stopped(String),
}

impl Failure {
    pub(crate) fn of(error: &hemiola_cluster::Error) -> Self {
        match error.lost_peer() {
            Some(loss) => Self::Lost(loss.clone()),
            None => Self::Stopped(error.to_string()),
        }
    }

    pub(crate) fn error(&self, table: &str) -> hemiola_cluster::Error {
        match self.clone() {
            Self::Lost(loss) => loss.into(),
            Self::Table(error) => refused(error),
            Self::Stopped(reason) => Error::Stopped { table: table.to_owned(), reason }.into(),
        }
    }
}

impl From<hemiola_tables_proto::Error> for Failure {
    fn from(error: hemiola_tables_proto::Error) -> Self {
        Self::Table(error)
    }
}
