//! What dedicated servers are told to do.
//!
//! A server runs no program, so it does not know which collective call comes next. The root tells all of them before each that
//! concerns a table they hold; they then make the same call as everybody else. **Invariant:** orders come from the root alone, in the order of the program's
//! calls, and only after all peers have agreed on what the call is to be.

use crate::servers::Homes;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{ChannelId, Lane, Outgoing, Purpose};
use hemiola_net::Bandwidth;
use hemiola_tables_proto::Spec;
use hemiola_tables_proto::procedure::Provided;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Top byte of the channels that belong to tables.
pub(crate) const OWNER: u8 = 6;
/// Where servers are told what to do: behind all channels of tables.
pub(crate) const ORDERS: ChannelId = ChannelId::of(OWNER, (1 << 56) - 1);

/// A table as all who hold a part of it make it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) spec: Spec,
    pub(crate) homes: Homes,
    pub(crate) budget: Option<Bandwidth>,
    pub(crate) seed: u64,
    /// A checkpoint to go on from, and whether there must be one.
    pub(crate) restore: Option<(PathBuf, bool)>,
}

/// What a server has to do. Tables are named by their channels.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Make a table.
    Build {
        /// The type of its cells.
        cells: String,
        procedure: Provided,
        plan: Box<Plan>,
    },
    /// Send its rows.
    Collect(ChannelId),
    /// Begin a checkpoint.
    Checkpoint(ChannelId, PathBuf),
    /// End it.
    Finish(ChannelId),
    /// Give it up.
    Forget(ChannelId),
    /// The root uses the table no more.
    Drop(ChannelId),
}

/// On the root: tells all servers what to do.
pub(crate) fn announce(cluster: &Cluster, order: &Order) -> Result<()> {
    if !cluster.is_root() {
        return Ok(());
    }
    let bytes = postcard::to_stdvec(order).map_err(hemiola_cluster::Error::program)?;
    for server in cluster.servers() {
        let (lane, channel, purpose) = (Lane::Control, ORDERS, Purpose::Tables);
        cluster.send(server, Outgoing { lane, channel, purpose, payload: bytes.clone().into() })?;
    }
    Ok(())
}
