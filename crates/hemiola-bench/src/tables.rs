//! `hemiola bench tables`: parameter-server tables between two processes beside a raw `std::net`
//! loop, and within one process.
//!
//! The best of several rounds counts. Tables are in the state of a training after its first epoch:
//! rows exist, and memory has been touched. Between processes:
//!
//! - *Dense*: the worker of peer 0 reads 64 MB of rows of 4 KiB that peer 1 owns with one call, and
//!   increments them with one call. The increment ends when a row arrives that was requested after it.
//! - *Sparse*: the workers of both peers at once. Each reads random rows of 64 `f32` that the other
//!   peer owns, 1000 at a time, and increments them while the next batch is prefetched. Caches are
//!   smaller than the table, so rows are evicted before they are read again.
//! - *Single*: peer 0 reads one uncached row, then the next.
//!
//! Within one process: reads of cached rows by one worker and by two, updates in place likewise.

use crate::benchmark::Benchmark;
use crate::{processes, table_checkpoint};
use clap::Args;
use hemiola::tables::{Consistency, RowDelivery, Table, TableExt as _, TableWorker};
use hemiola_cluster::{Cluster, Result, standalone};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Example:
  hemiola bench tables --report tables.json

The report holds \"dense_ratio\" (of raw TCP, 64 MB pulled and pushed), \"sparse_rows_per_second\" (fetched and added to) and \"sparse_ratio\" (payload, of raw TCP), \
\"single_row_us\" and \"raw_rtt_us\", \"hit_ns\" and \"hit_scaling\" (a row of 64 floats in the cache, and two workers beside one), \"local_updates_per_second\" (of a worker \
in one process), \"local_updates_per_second_of_two\" (of each of two) and \"overhead_bytes_per_row\"; \"checkpoint_pause_ms\" and \"checkpoint_pause_share\" (of a clock in which two workers \
read and add to 25.6 MB) and \"budget_used\" (the share of a budget of 4 MB/s that is used while there is more to send).";

/// Bytes of a dense round, in each direction.
const DENSE_BYTES: usize = 64_000_000;
const DENSE_WIDTH: usize = 1024;
const WIDTH: usize = 64;
const BATCH: usize = 1000;
const BATCHES: usize = 100;
const SINGLES: usize = 1000;
const PING_BYTES: usize = 64;
const SHARDS: u64 = 2;
const HIT_ROWS: u64 = 1000;
const HITS: u64 = 500_000;
const LOCAL_ROWS: u64 = 1 << 20;
const LOCAL_BATCHES: u64 = 1000;

/// The arguments of `hemiola bench tables`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct TableBench {
    /// Number of rounds. The best round of each measurement counts.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Rendezvous folder of the two processes. Makes this process the second one.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TableMeasurement {
    dense_ratio: f64,
    dense_pull_ratio: f64,
    dense_push_ratio: f64,
    sparse_rows_per_second: f64,
    sparse_ratio: f64,
    single_row_us: f64,
    raw_rtt_us: f64,
    raw_gbps: f64,
    hit_ns: f64,
    hit_scaling: f64,
    local_updates_per_second: f64,
    local_updates_per_second_of_two: f64,
    overhead_bytes_per_row: f64,
    checkpoint_pause_ms: f64,
    checkpoint_pause_share: f64,
    budget_used: f64,
}

/// Seconds, the best so far.
struct TwoProcessSeconds {
    raw: f64,
    ping: f64,
    pull: f64,
    push: f64,
    sparse: f64,
    single: f64,
}

impl Benchmark for TableBench {
    type Measurement = TableMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let arguments = ["bench".to_owned(), "tables".to_owned(), "--rounds".to_owned(), self.rounds.to_string()];
        let between = processes::run(self.second.as_deref(), &arguments, |cluster| between(cluster, self.rounds))?;
        let Some(TwoProcessSeconds { raw, ping, pull, push, sparse, single }) = between else { return Ok(None) };
        let (hit, scaling) = hits(self.rounds)?;
        let (local_updates_per_second, overhead_bytes_per_row) = local(self.rounds, 1)?;
        let (local_updates_per_second_of_two, _) = local(self.rounds, 2)?;
        let (pause, clock) = table_checkpoint::checkpoint(self.rounds)?;
        // Of both peers.
        let sparse_rows = (2 * BATCH * BATCHES) as f64;
        let raw_rate = DENSE_BYTES as f64 / raw;
        let measured = TableMeasurement {
            dense_ratio: 2.0 * raw / (pull + push),
            dense_pull_ratio: raw / pull,
            dense_push_ratio: raw / push,
            sparse_rows_per_second: sparse_rows / sparse,
            sparse_ratio: 2.0 * sparse_rows * (WIDTH * 4) as f64 / sparse / raw_rate,
            single_row_us: single * 1e6,
            raw_rtt_us: ping * 1e6,
            raw_gbps: raw_rate * 8e-9,
            hit_ns: hit * 1e9,
            hit_scaling: scaling,
            local_updates_per_second,
            local_updates_per_second_of_two,
            overhead_bytes_per_row,
            checkpoint_pause_ms: pause * 1e3,
            checkpoint_pause_share: pause / clock,
            budget_used: table_checkpoint::budget_used()?,
        };
        Ok(Some(measured))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        let TableMeasurement { dense_pull_ratio, dense_push_ratio, sparse_ratio, raw_gbps, .. } = measured;
        writeln!(out, "between two processes, of {:.2} GB/s over a raw socket:", raw_gbps / 8.0)?;
        writeln!(out, "  64 MB of rows fetched          {dense_pull_ratio:>10.2}")?;
        writeln!(out, "  64 MB of rows added to         {dense_push_ratio:>10.2}")?;
        writeln!(out, "  1000 rows of 256 bytes, both   {sparse_ratio:>10.2}")?;
        writeln!(out, "  rows fetched and added to      {:>10.0} per second", measured.sparse_rows_per_second)?;
        let (single, ping) = (measured.single_row_us, measured.raw_rtt_us);
        writeln!(out, "  one row                        {single:>10.1} us, a raw round trip {ping:.1} us")?;
        writeln!(out, "in one process:")?;
        writeln!(out, "  a row that is in the cache     {:>10.1} ns", measured.hit_ns)?;
        writeln!(out, "  two workers beside one         {:>10.2} times", measured.hit_scaling)?;
        writeln!(out, "  updates of a worker            {:>10.0} per second", measured.local_updates_per_second)?;
        let two = measured.local_updates_per_second_of_two;
        writeln!(out, "  updates of each of two workers {two:>10.0} per second")?;
        writeln!(out, "  memory of a row beside its data {:>9.1} bytes", measured.overhead_bytes_per_row)?;
        let (pause, share) = (measured.checkpoint_pause_ms, 100.0 * measured.checkpoint_pause_share);
        writeln!(out, "between two peers of one process:")?;
        writeln!(out, "  a checkpoint stops workers for {pause:>10.3} ms, {share:.2} % of a clock")?;
        writeln!(out, "  of a budget is used            {:>10.1} %", 100.0 * measured.budget_used)?;
        Ok(())
    }
}

/// Runs all measurements between two processes. Only the times of peer 0 are meaningful.
fn between(cluster: &Cluster, rounds: u32) -> Result<TwoProcessSeconds> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = cluster.broadcast(listener.local_addr()?)?;
    let raw = if cluster.is_root() { listener.accept()?.0 } else { TcpStream::connect(address)? };
    raw.set_nodelay(true)?;
    let far = f64::INFINITY;
    let mut best = TwoProcessSeconds { raw: far, ping: far, pull: far, push: far, sparse: far, single: far };
    for round in 0..rounds {
        cluster.barrier()?;
        best.raw = best.raw.min(raw_bulk(cluster, &raw)?);
        best.ping = best.ping.min(raw_round_trip(cluster, &raw)?);
        let (pull, push) = dense(cluster)?;
        (best.pull, best.push) = (best.pull.min(pull), best.push.min(push));
        best.sparse = best.sparse.min(sparse(cluster, u64::from(round))?);
        best.single = best.single.min(single(cluster)?);
    }
    Ok(best)
}

fn timed(cluster: &Cluster, body: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = cluster.env().now();
    body()?;
    Ok((cluster.env().now() - start).as_secs_f64())
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

fn raw_bulk(cluster: &Cluster, mut raw: &TcpStream) -> Result<f64> {
    let mut buffer = vec![1; DENSE_BYTES];
    if cluster.is_root() {
        return timed(cluster, || {
            raw.write_all(&buffer)?;
            Ok(raw.read_exact(&mut [0])?)
        });
    }
    raw.read_exact(&mut buffer)?;
    raw.write_all(&[0])?;
    Ok(0.0)
}

fn raw_round_trip(cluster: &Cluster, mut raw: &TcpStream) -> Result<f64> {
    let mut buffer = [7; PING_BYTES];
    let mut seconds = Vec::new();
    for _ in 0..SINGLES {
        if cluster.is_root() {
            seconds.push(timed(cluster, || {
                raw.write_all(&buffer)?;
                Ok(raw.read_exact(&mut buffer)?)
            })?);
        } else {
            raw.read_exact(&mut buffer)?;
            raw.write_all(&buffer)?;
        }
    }
    Ok(if cluster.is_root() { median(seconds) } else { 0.0 })
}

/// A table whose odd rows are on peer 1. A worker fetches rows again in every clock; those of peer 1 have finished.
fn table(cluster: &Cluster, rows: u64, width: usize) -> Result<Table<f32>> {
    let table = cluster.table::<f32>("bench").rows(2 * rows).width(width).shards_per_peer(SHARDS as usize);
    let table = table.consistency(Consistency::Ssp(0)).delivery(RowDelivery::Pull).build()?;
    table.each_worker(|worker| if cluster.is_root() { Ok(()) } else { worker.finish() })?;
    Ok(table)
}

/// Runs `body` on the worker of peer 0 and returns its result there.
fn on_root<T: Send + Default>(
    cluster: &Cluster,
    table: &Table<f32>,
    body: impl Fn(&mut TableWorker<'_, f32>) -> Result<T> + Sync,
) -> Result<T> {
    let done = table.each_worker(|worker| if cluster.is_root() { body(worker) } else { Ok(T::default()) })?;
    cluster.barrier()?;
    Ok(done.into_iter().next().unwrap_or_default())
}

/// Returns when all updates sent to the shards of peer `to` have been applied: a request follows them.
/// `behind` is the first of some rows that are not read otherwise.
fn arrived(worker: &mut TableWorker<'_, f32>, behind: u64, to: u64) -> Result<()> {
    let fresh: Vec<u64> = (0..SHARDS).map(|shard| 2 * (behind + shard) + to).collect();
    worker.get_many(&fresh, |_, _| ())
}

fn dense(cluster: &Cluster) -> Result<(f64, f64)> {
    let rows = (DENSE_BYTES / DENSE_WIDTH / 4) as u64;
    let keys: Vec<u64> = (0..rows).map(|row| 2 * row + 1).collect();
    let values = vec![1.0; rows as usize * DENSE_WIDTH];
    let table = table(cluster, rows + SHARDS, DENSE_WIDTH)?;
    on_root(cluster, &table, |worker| {
        let mut pass = || {
            let pull = timed(cluster, || worker.get_many(&keys, |_, _| ()))?;
            let push = timed(cluster, || {
                worker.inc_many(&keys, &values)?;
                worker.clock()?;
                arrived(worker, rows, 1)
            })?;
            Ok((pull, push))
        };
        // Twice, so that neither side measures memory that is touched for the first time.
        pass().and_then(|_| pass())
    })
}

fn sparse(cluster: &Cluster, seed: u64) -> Result<f64> {
    let rows = (BATCH * BATCHES) as u64;
    let table = cluster.table::<f32>("bench").rows(2 * (rows + SHARDS)).width(WIDTH).shards_per_peer(SHARDS as usize);
    let table = table.consistency(Consistency::Async).delivery(RowDelivery::Pull).cache_rows(4 * BATCH).build()?;
    let (there, values) = (u64::from(cluster.is_root()), vec![1.0; BATCH * WIDTH]);
    let pass = |worker: &mut TableWorker<'_, f32>, seed: u64| {
        // Every row once, in a random order: an odd multiple of the place, modulo the number of rows.
        let mixed = |place: u64| 2 * ((place * (48_271 + 2 * seed) + seed) % rows) + there;
        let keys: Vec<u64> = (0..rows).map(mixed).collect();
        timed(cluster, || {
            let mut batches = keys.chunks(BATCH).peekable();
            while let Some(keys) = batches.next() {
                if let Some(next) = batches.peek() {
                    let soon = worker.current_clock().next();
                    worker.intend(next, soon, soon.next())?;
                }
                worker.get_many(keys, |_, _| ())?;
                worker.inc_many(keys, &values)?;
                worker.clock()?;
            }
            arrived(worker, rows, there)
        })
    };
    table.each_worker(|worker| pass(worker, seed))?;
    cluster.barrier()?;
    let seconds = table.each_worker(|worker| pass(worker, seed + 1))?[0];
    Ok(cluster.all_gather(seconds)?.into_iter().fold(0.0, f64::max))
}

fn single(cluster: &Cluster) -> Result<f64> {
    let table = table(cluster, SINGLES as u64, WIDTH)?;
    on_root(cluster, &table, |worker| {
        let mut rows = Vec::new();
        for _ in 0..2 {
            rows.clear();
            for row in 0..SINGLES as u64 {
                rows.push(timed(cluster, || worker.get(2 * row + 1, |_| ()))?);
            }
            worker.clock()?;
        }
        Ok(median(rows))
    })
}

/// Seconds of a cache hit, and throughput of two workers relative to one.
fn hits(rounds: u32) -> Result<(f64, f64)> {
    let measure = |workers: usize| {
        let best = standalone(2).workers(workers).run(|cluster| {
            let table = cluster.table::<f32>("bench").rows(HIT_ROWS).width(WIDTH).staleness(1).build()?;
            let mut best = f64::INFINITY;
            for _ in 0..rounds {
                cluster.barrier()?;
                if !cluster.is_root() {
                    continue;
                }
                let seconds = table.each_worker(|worker| {
                    worker.get_many(&(0..HIT_ROWS).collect::<Vec<_>>(), |_, _| ())?;
                    timed(cluster, || {
                        let mut sum = 0.0;
                        for at in 0..HITS {
                            sum += worker.get(at * 7 % HIT_ROWS, |row| row.iter().sum::<f32>())?;
                        }
                        std::hint::black_box(sum);
                        Ok(())
                    })
                })?;
                best = best.min(seconds.into_iter().fold(0.0, f64::max) / HITS as f64);
            }
            cluster.barrier()?;
            Ok(best)
        })?;
        Ok::<_, hemiola_cluster::Error>(best[0])
    };
    let (one, two) = (measure(1)?, measure(2)?);
    Ok((one, 2.0 * one / two))
}

/// Updates per second of each worker of one process, and bytes of a row besides its data.
fn local(rounds: u32, workers: usize) -> Result<(f64, f64)> {
    let figures = standalone(1).workers(workers).run(|cluster| {
        let table =
            cluster.table::<f32>("bench").rows(LOCAL_ROWS).width(WIDTH).consistency(Consistency::Async).build()?;
        let values = vec![1.0; BATCH * WIDTH];
        let mut best = 0.0_f64;
        for round in 0..=u64::from(rounds) {
            let rates = table.each_worker(|worker| {
                if round == 0 {
                    // All rows are there, once, before anything is measured.
                    let keys: Vec<u64> =
                        (0..LOCAL_ROWS).filter(|row| *row as usize % workers == worker.id().index()).collect();
                    for keys in keys.chunks(BATCH) {
                        worker.inc_many(keys, &values[..keys.len() * WIDTH])?;
                    }
                    return Ok(0.0);
                }
                let mut state = round * 2 + worker.id().index() as u64 + 1;
                let mut next = || {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (state >> 33) % LOCAL_ROWS
                };
                let mut keys = vec![0; BATCH];
                let seconds = timed(cluster, || {
                    for _ in 0..LOCAL_BATCHES {
                        for key in &mut keys {
                            *key = next();
                        }
                        worker.inc_many(&keys, &values)?;
                    }
                    Ok(())
                })?;
                Ok((LOCAL_BATCHES * BATCH as u64) as f64 / seconds)
            })?;
            best = best.max(rates.into_iter().fold(f64::INFINITY, f64::min));
        }
        Ok((best, table.memory_bytes() as f64 / LOCAL_ROWS as f64 - (WIDTH * 4) as f64))
    })?;
    Ok(figures[0])
}
