//! Commands to dedicated servers.
//!
//! A server runs no user program, so it does not know which collective call comes next. Before each
//! call that concerns a table of theirs, the root sends all servers a command; they then make the
//! same call as the peers. **Invariant:** commands come from the root alone, in the order of the
//! program's calls, and only after all peers have agreed on the call.

use hemiola_cluster::{Cluster, Result};
use hemiola_core::Bandwidth;
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Purpose};
use hemiola_tables_proto::update_rule::BuiltInRule;
use hemiola_tables_proto::{TablePlacement, TableSpec};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Channel of the commands: the last one of the tables.
pub(crate) const COMMAND_CHANNEL: ChannelId = ChannelId::of(ChannelOwner::Tables, (1 << 56) - 1);

/// Configuration of a table, identical on all peers and servers that hold a part of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableConfig {
    pub(crate) spec: TableSpec,
    pub(crate) placement: TablePlacement,
    pub(crate) budget: Option<Bandwidth>,
    pub(crate) seed: u64,
    /// Checkpoint to restore, and true if it must exist.
    pub(crate) restore: Option<(PathBuf, bool)>,
}

/// Command to a dedicated server. Tables are named by their channels.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ServerCommand {
    /// Builds the server's part of a table.
    Build {
        /// Name of the storage type.
        cells: String,
        rule: BuiltInRule,
        config: Box<TableConfig>,
    },
    /// Sends the rows of the table.
    Collect(ChannelId),
    /// Begins a checkpoint in this folder.
    BeginCheckpoint(ChannelId, PathBuf),
    /// Finishes the checkpoint in progress.
    FinishCheckpoint(ChannelId),
    /// Abandons the checkpoint in progress.
    AbandonCheckpoint(ChannelId),
    /// Drops the table, because the root has dropped it.
    DropTable(ChannelId),
}

/// Sends a command from the root to all servers. Does nothing on other peers.
pub(crate) fn broadcast_command(cluster: &Cluster, command: &ServerCommand) -> Result<()> {
    if !cluster.is_root() {
        return Ok(());
    }
    let bytes = postcard::to_stdvec(command).map_err(hemiola_cluster::Error::program)?;
    for server in cluster.servers() {
        let (lane, channel, purpose) = (Lane::Control, COMMAND_CHANNEL, Purpose::Tables);
        cluster.send(server, OutgoingMessage { lane, channel, purpose, payload: bytes.clone().into() })?;
    }
    Ok(())
}
