//! Dedicated server: a peer that only holds tables.
//!
//! It owns shards that the peers read and update, makes the collective calls that the root
//! [commands](crate::commands), and ends when the root has ended. The table code is that of an
//! ordinary peer, but without workers and hence without caches.

use crate::builder::build_table;
use crate::checkpoint::TableCheckpoint;
use crate::commands::{COMMAND_CHANNEL, ServerCommand, TableConfig};
use crate::error::Error;
use crate::table::Table;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{ChannelId, ErrorKind, Lane, LossCause, Message, RECHECK_INTERVAL, Rank};
use hemiola_net::ReceiveError;
use hemiola_tables_proto::dtype::StorageType;
use hemiola_tables_proto::update_rule::BuiltInRule;
use hemiola_tables_proto::update_rule::built_in::RuleScalar;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;

/// Part of a table on this server, of any storage type.
trait HostedTable {
    fn collect(&self) -> Result<()>;
    fn checkpoint(&mut self, folder: &Path) -> Result<()>;
    fn finish(&mut self) -> Result<()>;
    fn abandon(&mut self);
}

struct TypedHostedTable<C: StorageType> {
    /// Declared before the table, so that it is dropped first.
    saving: Option<TableCheckpoint>,
    table: Table<C>,
}

impl<C: StorageType> HostedTable for TypedHostedTable<C>
where
    C::Compute: Serialize + DeserializeOwned,
{
    fn collect(&self) -> Result<()> {
        self.table.collect().map(|_| ())
    }

    fn checkpoint(&mut self, folder: &Path) -> Result<()> {
        self.saving = Some(self.table.checkpoint(folder)?);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.saving.take().map_or(Ok(()), TableCheckpoint::finish)
    }

    fn abandon(&mut self) {
        self.saving = None;
    }
}

/// Runs a dedicated server: holds tables of a job until its user program has ended.
///
/// ```
/// use hemiola_tables::{TableExt, serve};
///
/// hemiola_cluster::standalone(3).servers(2, serve).run(|cluster| {
///     assert_eq!(cluster.size(), 3); // servers are not counted
///     let table = cluster.table::<f32>("w").build()?;
///     table.each_worker(|worker| worker.inc(7, &[1.0]).and_then(|()| worker.clock()))?;
///     assert_eq!(table.collect()?[&7], [3.0]);
///     assert_eq!(table.memory_bytes(), 0); // nothing is held here
///     Ok(())
/// })?;
/// # Ok::<(), hemiola_cluster::Error>(())
/// ```
pub fn serve(cluster: &Cluster) -> Result<()> {
    let receiver = cluster.open_channel(COMMAND_CHANNEL, Lane::Control);
    let mut tables = BTreeMap::new();
    loop {
        match receiver.receive_from(Rank::ROOT, RECHECK_INTERVAL) {
            Ok(message) => execute(cluster, &message, &mut tables).or_else(ignore_collective_failure)?,
            Err(ReceiveError::TimedOut { .. }) => {}
            Err(ReceiveError::Lost(loss)) if loss.rank == Rank::ROOT && loss.cause == LossCause::Left => return Ok(()),
            Err(ReceiveError::Lost(loss)) => return Err(loss.into()),
            Err(error) => return Err(hemiola_cluster::Error::program(error)),
        }
    }
}

/// Ignores a failure that all peers report alike: the user program decides whether to continue.
fn ignore_collective_failure(error: hemiola_cluster::Error) -> Result<()> {
    let collective_failure = match &error {
        hemiola_cluster::Error::Layer { kind, source } => {
            *kind == ErrorKind::Usage || matches!(source.downcast_ref(), Some(Error::Checkpoint { .. }))
        }
        _ => false,
    };
    if collective_failure { Ok(()) } else { Err(error) }
}

fn execute(cluster: &Cluster, message: &Message, tables: &mut BTreeMap<ChannelId, Box<dyn HostedTable>>) -> Result<()> {
    let command = postcard::from_bytes(&message.payload).map_err(hemiola_cluster::Error::program)?;
    let no_table =
        |channel: ChannelId| format!("received a command for table {channel}, which this server does not hold");
    match command {
        ServerCommand::Build { cells, rule, config } => {
            let (channel, table) = build(cluster, &cells, rule, *config)?;
            tables.insert(channel, table);
            Ok(())
        }
        ServerCommand::Collect(table) => tables.get(&table).ok_or_else(|| no_table(table))?.collect(),
        ServerCommand::BeginCheckpoint(table, folder) => {
            tables.get_mut(&table).ok_or_else(|| no_table(table))?.checkpoint(&folder)
        }
        ServerCommand::FinishCheckpoint(table) => tables.get_mut(&table).ok_or_else(|| no_table(table))?.finish(),
        ServerCommand::AbandonCheckpoint(table) => {
            // A dropped table took its checkpoint along.
            tables.get_mut(&table).into_iter().for_each(|table| table.abandon());
            Ok(())
        }
        ServerCommand::DropTable(table) => {
            tables.remove(&table);
            Ok(())
        }
    }
}

fn build(
    cluster: &Cluster,
    cells: &str,
    rule: BuiltInRule,
    config: TableConfig,
) -> Result<(ChannelId, Box<dyn HostedTable>)> {
    let names = [
        std::any::type_name::<f32>(),
        std::any::type_name::<f64>(),
        std::any::type_name::<i32>(),
        std::any::type_name::<half::bf16>(),
    ];
    match names.iter().position(|name| *name == cells) {
        Some(0) => build_typed::<f32>(cluster, rule, config),
        Some(1) => build_typed::<f64>(cluster, rule, config),
        Some(2) => build_typed::<i32>(cluster, rule, config),
        Some(3) => build_typed::<half::bf16>(cluster, rule, config),
        _ => {
            Err(format!("this server does not support the storage type `{cells}`; run the same version as the program")
                .into())
        }
    }
}

fn build_typed<C: StorageType>(
    cluster: &Cluster,
    rule: BuiltInRule,
    config: TableConfig,
) -> Result<(ChannelId, Box<dyn HostedTable>)>
where
    C::Compute: RuleScalar + Serialize + DeserializeOwned,
{
    if C::Compute::instantiate(&rule).is_none() {
        return Err(format!(
            "update rule `{rule:?}` does not support the storage type `{}`",
            std::any::type_name::<C>()
        )
        .into());
    }
    let new_rule = || C::Compute::instantiate(&rule).expect("the rule was just instantiated");
    let table = build_table::<C>(cluster, config, &new_rule)?;
    let channel = table.server_channel.expect("a table on a server has a command channel");
    Ok((channel, Box::new(TypedHostedTable { saving: None, table })))
}
