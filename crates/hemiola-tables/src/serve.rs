//! A peer that only holds tables.
//!
//! It has the shards that others read and update, makes the collective calls it is [told of](crate::orders), and ends when the root has.
//! Of the table code everything is the same as in a peer that runs the program, but that it has no workers and hence no caches.

use crate::builder::make;
use crate::checkpoint::Checkpoint;
use crate::error::Error;
use crate::orders::{ORDERS, Order, Plan};
use crate::table::Table;
use hemiola_cluster::{Cluster, Result};
use hemiola_core::{ChannelId, ErrorKind, Lane, LossCause, Message, Rank};
use hemiola_net::ReceiveError;
use hemiola_tables_proto::number::Cell;
use hemiola_tables_proto::procedure::Provided;
use hemiola_tables_proto::procedure::provided::Make;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// How often a server looks around when it is told nothing; it is woken for what it needs to know.
const LOOK_AROUND: Duration = Duration::from_secs(1);

/// A table that this server holds a part of, whatever its cells are.
trait Held {
    fn collect(&self) -> Result<()>;
    fn checkpoint(&mut self, folder: &Path) -> Result<()>;
    fn finish(&mut self) -> Result<()>;
    fn forget(&mut self);
}

struct Holding<C: Cell> {
    /// Above the table, so that it goes first.
    saving: Option<Checkpoint>,
    table: Table<C>,
}

impl<C: Cell> Held for Holding<C>
where
    C::Wide: Serialize + DeserializeOwned,
{
    fn collect(&self) -> Result<()> {
        self.table.collect().map(|_| ())
    }

    fn checkpoint(&mut self, folder: &Path) -> Result<()> {
        self.saving = Some(self.table.checkpoint(folder)?);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.saving.take().map_or(Ok(()), Checkpoint::finish)
    }

    fn forget(&mut self) {
        self.saving = None;
    }
}

/// Holds the tables of a job whose peers run a program. To be called on a dedicated server; returns when the program has ended.
///
/// ```
/// use hemiola_tables::{Tables, serve};
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
    let mailbox = cluster.open(ORDERS, Lane::Control);
    let mut tables = BTreeMap::new();
    loop {
        match mailbox.receive_from(Rank::ROOT, LOOK_AROUND) {
            Ok(message) => obey(cluster, &message, &mut tables).or_else(tolerate)?,
            Err(ReceiveError::TimedOut { .. }) => {}
            Err(ReceiveError::Lost(loss)) if loss.rank == Rank::ROOT && loss.cause == LossCause::Left => return Ok(()),
            Err(ReceiveError::Lost(loss)) => return Err(loss.into()),
            Err(error) => return Err(hemiola_cluster::Error::program(error)),
        }
    }
}

/// A call that failed in the same way on all peers is the program's affair, which may go on.
fn tolerate(error: hemiola_cluster::Error) -> Result<()> {
    let told_to_all = match &error {
        hemiola_cluster::Error::Layer { kind, source } => {
            *kind == ErrorKind::Usage || matches!(source.downcast_ref(), Some(Error::Checkpoint { .. }))
        }
        _ => false,
    };
    if told_to_all { Ok(()) } else { Err(error) }
}

fn obey(cluster: &Cluster, message: &Message, tables: &mut BTreeMap<ChannelId, Box<dyn Held>>) -> Result<()> {
    let order = postcard::from_bytes(&message.payload).map_err(hemiola_cluster::Error::program)?;
    let no_table = |channel: ChannelId| format!("told to use table {channel}, which this server does not hold");
    match order {
        Order::Build { cells, procedure, plan } => {
            let (channel, table) = build(cluster, &cells, procedure, *plan)?;
            tables.insert(channel, table);
            Ok(())
        }
        Order::Collect(table) => tables.get(&table).ok_or_else(|| no_table(table))?.collect(),
        Order::Checkpoint(table, folder) => tables.get_mut(&table).ok_or_else(|| no_table(table))?.checkpoint(&folder),
        Order::Finish(table) => tables.get_mut(&table).ok_or_else(|| no_table(table))?.finish(),
        Order::Forget(table) => {
            // A table that is gone took its checkpoint along.
            tables.get_mut(&table).into_iter().for_each(|table| table.forget());
            Ok(())
        }
        Order::Drop(table) => {
            tables.remove(&table);
            Ok(())
        }
    }
}

fn build(cluster: &Cluster, cells: &str, procedure: Provided, plan: Plan) -> Result<(ChannelId, Box<dyn Held>)> {
    let names = [
        std::any::type_name::<f32>(),
        std::any::type_name::<f64>(),
        std::any::type_name::<i32>(),
        std::any::type_name::<half::bf16>(),
    ];
    match names.iter().position(|name| *name == cells) {
        Some(0) => build_of::<f32>(cluster, procedure, plan),
        Some(1) => build_of::<f64>(cluster, procedure, plan),
        Some(2) => build_of::<i32>(cluster, procedure, plan),
        Some(3) => build_of::<half::bf16>(cluster, procedure, plan),
        _ => {
            Err(format!("this server knows no cells of type `{cells}`; is it of another version than the program?")
                .into())
        }
    }
}

fn build_of<C: Cell>(cluster: &Cluster, procedure: Provided, plan: Plan) -> Result<(ChannelId, Box<dyn Held>)>
where
    C::Wide: Make + Serialize + DeserializeOwned,
{
    if C::Wide::make(&procedure).is_none() {
        return Err(format!("{procedure:?} is no procedure for cells of type `{}`", std::any::type_name::<C>()).into());
    }
    let fresh = || C::Wide::make(&procedure).expect("it was made a moment ago");
    let table = make::<C>(cluster, plan, &fresh)?;
    let channel = table.told.expect("a server has only tables that it is told of");
    Ok((channel, Box::new(Holding { saving: None, table })))
}
