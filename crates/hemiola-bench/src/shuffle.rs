//! Shuffles between two processes, for `hemiola bench data`.
//!
//! Every round measures each operation once, so that all see the same machine, and the best of each
//! counts. A rate is payload bytes from one peer to the other over the time between two barriers;
//! both peers send as much.
//!
//! - *Whole calls*: `repartition` of a sparse array and of a dense one, and `group_by`.
//! - *The shuffle alone*: the same entries, partitioned in advance, until they lie in builders on the
//!   other side.
//! - *A copy*: this peer's part of the sparse array copied to new memory, on both peers at once. A
//!   call that makes an array cannot be faster than writing it: with half of the entries moving, at
//!   most half of this rate.
//! - *The transport alone*: messages of the size a shuffle sends, one way as `bench net` does, and
//!   both ways at once as a shuffle does.

use bytes::Bytes;
use hemiola_array::dist::shuffle;
use hemiola_array::sparse::{KeyColumn, SparseBuilder};
use hemiola_array::{ArrayExt, DistArray, PartitionSpec};
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Purpose, Rank};
use hemiola_net::ChannelReceiver;
use serde::Serialize;
use std::time::Duration;

const BULK: ChannelId = ChannelId::of(ChannelOwner::ShuffleBenchmark, 1);
const ACK: ChannelId = ChannelId::of(ChannelOwner::ShuffleBenchmark, 2);
/// Rows and columns of the dense array.
const MARKS: usize = 1000;
const WIDTH: usize = 4000;
/// A chunk of a builder: 128 Ki entries of 12 bytes.
const MESSAGE_BYTES: usize = 3 << 19;
const BULK_MESSAGES: usize = 64;
/// Entries of the array that is shuffled: 96 MB in all.
const ENTRIES: u64 = 8_000_000;
const PATIENCE: Duration = Duration::from_mins(1);

/// 10⁹ bits per second from one peer to the other.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[expect(clippy::struct_field_names, reason = "the unit is part of each name in the report")]
pub(crate) struct ShuffleRates {
    pub(crate) repartition_gbps: f64,
    pub(crate) dense_gbps: f64,
    pub(crate) group_by_gbps: f64,
    pub(crate) exchange_gbps: f64,
    pub(crate) copy_gbps: f64,
    pub(crate) bulk_gbps: f64,
    pub(crate) bulk_both_gbps: f64,
}

/// Returns the best rate of several rounds for each operation.
pub(crate) fn measure(cluster: &Cluster, rounds: u32) -> Result<ShuffleRates> {
    let square = (ENTRIES as f64).sqrt() as usize;
    let array =
        cluster.from_fn([square, square], |[row, column]| (row * 7 + column) as f32)?.entries().materialize()?;
    let dense = lopsided(cluster)?;
    let transport = TransportProbe::new(cluster);
    let mut best = ShuffleRates::default();
    for _ in 0..rounds {
        // Along the other dimension: half of each peer's entries move.
        keep(&mut best.repartition_gbps, rate(cluster, || array.repartition(&PartitionSpec::along(1)))?);
        let equal = || dense.repartition(&PartitionSpec::along(0));
        keep(&mut best.dense_gbps, rate(cluster, equal)?);
        let by_column = || array.entries().group_by(|[_, column], value| (column, value));
        keep(&mut best.group_by_gbps, rate(cluster, by_column)?);
        let outgoing = Rank::all(2).map(|peer| vec![dealt(peer != cluster.rank())]).collect();
        keep(&mut best.exchange_gbps, rate(cluster, || shuffle(cluster, outgoing, 1))?);
        keep(&mut best.copy_gbps, copy(cluster, array.memory_bytes())?);
        keep(&mut best.bulk_gbps, transport.one_way()?);
        keep(&mut best.bulk_both_gbps, transport.both_ways()?);
    }
    Ok(best)
}

/// A dense array of 64 MB of which the root holds nearly all rows.
fn lopsided(cluster: &Cluster) -> Result<DistArray<f32, 2>> {
    let marks = cluster.from_fn([4 * MARKS, 1], |[row, _]| row as f32)?;
    // Cut so that both peers have as many entries: far in the rows.
    let sparse = marks.entries().filter(|[row, _], _| row >= 3 * MARKS).map_keys(|[row, _]| [row, WIDTH - 1]);
    sparse.materialize()?.to_dense(0.0)
}

fn keep(best: &mut f64, rate: f64) {
    *best = best.max(rate);
}

/// The rate of shuffled bytes during a collective call.
fn rate<T>(cluster: &Cluster, call: impl FnOnce() -> Result<T>) -> Result<f64> {
    let sent = || {
        let lines = cluster.traffic().lines;
        lines.iter().filter(|line| line.purpose == Purpose::Shuffle).map(|line| line.bytes_sent).sum::<u64>()
    };
    cluster.barrier()?;
    let (start, before) = (cluster.env().now(), sent());
    let result = call()?;
    cluster.barrier()?;
    let nanos = (cluster.env().now() - start).as_nanos() as f64;
    drop(result);
    Ok((sent() - before) as f64 * 8.0 / nanos)
}

/// Rate of copying `bytes` to new memory.
fn copy(cluster: &Cluster, bytes: usize) -> Result<f64> {
    let original = vec![1_u8; bytes];
    cluster.barrier()?;
    let start = cluster.env().now();
    std::hint::black_box(original.clone());
    cluster.barrier()?;
    Ok(bytes as f64 * 8.0 / (cluster.env().now() - start).as_nanos() as f64)
}

/// Entries that one peer sends to the other when the array is repartitioned, in the chunks that
/// partitioning produces; empty if not `any`.
fn dealt(any: bool) -> SparseBuilder<f32, 2> {
    let mut builder = SparseBuilder::new();
    for chunk in (0..if any { ENTRIES as u32 / 4 } else { 0 }).collect::<Vec<_>>().chunks(128 << 10) {
        let keys = || KeyColumn::Narrow(chunk.to_vec());
        builder.push_columns([keys(), keys()], vec![1.0; chunk.len()]);
    }
    builder
}

struct TransportProbe<'a> {
    cluster: &'a Cluster,
    other: Rank,
    mailbox: ChannelReceiver,
    acks: ChannelReceiver,
    payload: Bytes,
}

impl<'a> TransportProbe<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        Self {
            cluster,
            other: Rank::new(1 - cluster.rank().number()),
            mailbox: cluster.open_channel(BULK, Lane::Bulk),
            acks: cluster.open_channel(ACK, Lane::Control),
            payload: Bytes::from(vec![1; MESSAGE_BYTES]),
        }
    }

    fn send(&self, lane: Lane, channel: ChannelId, payload: Bytes) -> Result<()> {
        let payload = payload.into();
        self.cluster.send(self.other, OutgoingMessage { lane, channel, purpose: Purpose::Custom, payload })
    }

    fn take(mailbox: &ChannelReceiver, from: Rank) -> Result<()> {
        mailbox.receive_from(from, PATIENCE).map(drop).map_err(Error::program)
    }

    /// Sends from the root to the other peer until that acknowledges all of it.
    fn one_way(&self) -> Result<f64> {
        self.rate(|| {
            if self.cluster.is_root() {
                for _ in 0..BULK_MESSAGES {
                    self.send(Lane::Bulk, BULK, self.payload.clone())?;
                }
                return Self::take(&self.acks, self.other);
            }
            for _ in 0..BULK_MESSAGES {
                Self::take(&self.mailbox, self.other)?;
            }
            self.send(Lane::Control, ACK, Bytes::new())
        })
    }

    /// Alternates a message there and one back, as a shuffle does.
    fn both_ways(&self) -> Result<f64> {
        self.rate(|| {
            for _ in 0..BULK_MESSAGES {
                self.send(Lane::Bulk, BULK, self.payload.clone())?;
                Self::take(&self.mailbox, self.other)?;
            }
            self.cluster.barrier()
        })
    }

    fn rate(&self, transfer: impl FnOnce() -> Result<()>) -> Result<f64> {
        self.cluster.barrier()?;
        let start = self.cluster.env().now();
        transfer()?;
        let nanos = (self.cluster.env().now() - start).as_nanos() as f64;
        Ok((MESSAGE_BYTES * BULK_MESSAGES) as f64 * 8.0 / nanos)
    }
}
