//! `hemiola bench net`: throughput and latency of the transport between two processes, beside a raw
//! `std::net` loop.
//!
//! Both run in turn in the same process pair, and the best round of each counts. Both processes run
//! [`measure`] from top to bottom; see `processes.rs`.
//!
//! - *Bulk*: messages of one size, sent back to back and acknowledged once at the end.
//! - *Round trip*: 64 bytes there and back on the control lane, median of many. A round trip between
//!   two cores is mostly the time that a sleeping core takes to wake up. So both loops are measured
//!   with the two threads on one core, which shows the cost of the code, and on two.
//! - *Under load*: the same round trip, with threads on any core, while 64 MiB messages occupy the
//!   bulk lane.

use crate::benchmark::Benchmark;
use crate::processes;
use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::{ChannelId, ChannelOwner, Env, Lane, OutgoingMessage, Purpose, Rank};
use hemiola_net::ChannelReceiver;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const AFTER_HELP: &str = "\
Example:
  hemiola bench net --report net.json

The report holds \"bulk_gbps\" and \"raw_gbps\" (10^9 bits per second at 64 MiB), \"rtt_us\" and \"raw_rtt_us\" (median round \
trip, both threads on one core), \"apart_rtt_us\" and \"apart_raw_rtt_us\" (on two cores; absent if there is only one), \
\"loaded_rtt_us\" (behind a bulk transfer), and one line per message size in \"sizes\".";

const PING: ChannelId = ChannelId::of(ChannelOwner::TransportBenchmark, 1);
const BULK: ChannelId = ChannelId::of(ChannelOwner::TransportBenchmark, 2);
const ACK: ChannelId = ChannelId::of(ChannelOwner::TransportBenchmark, 3);
/// Message sizes, and how many of each make a round of 256 MiB.
const SIZES: [usize; 2] = [1 << 20, 64 << 20];
const ROUND_BYTES: usize = 256 << 20;
const PING_BYTES: usize = 64;
const PINGS: usize = 3_000;
const LOADED_PINGS: usize = 500;
const PATIENCE: Duration = Duration::from_mins(1);

/// The arguments of `hemiola bench net`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct NetBench {
    /// Number of rounds. The best round of each measurement counts.
    #[arg(long, value_name = "N", default_value = "9", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Rendezvous folder of the two processes. Makes this process the second one.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,
}

/// Throughput at one message size.
#[derive(Clone, Copy, Debug, Serialize)]
struct NetThroughput {
    bytes: usize,
    gbps: f64,
    raw_gbps: f64,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct NetMeasurement {
    bulk_gbps: f64,
    raw_gbps: f64,
    rtt_us: f64,
    raw_rtt_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    apart_rtt_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    apart_raw_rtt_us: Option<f64>,
    loaded_rtt_us: f64,
    sizes: Vec<NetThroughput>,
}

impl NetBench {
    /// Measures bulk throughput and round trip beside raw sockets, in a process pair of its own.
    pub(crate) fn ratios() -> anyhow::Result<(f64, f64)> {
        let bench = Self { rounds: 5, report: None, second: None };
        let measured = bench.measure()?.context("this process is the first of the pair")?;
        Ok((measured.bulk_gbps / measured.raw_gbps, measured.rtt_us / measured.raw_rtt_us))
    }
}

impl Benchmark for NetBench {
    type Measurement = NetMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let arguments = ["bench".to_owned(), "net".to_owned(), "--rounds".to_owned(), self.rounds.to_string()];
        let measured = processes::run(self.second.as_deref(), &arguments, |cluster| measure(cluster, self.rounds))?;
        let Some(measured) = measured.flatten() else { return Ok(None) };
        Ok(Some(measured))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{:<28} {:>12} {:>12} {:>8}", "", "hemiola", "raw sockets", "ratio")?;
        for NetThroughput { bytes, gbps, raw_gbps } in &measured.sizes {
            let name = format!("bulk, {} MiB messages", bytes >> 20);
            let (ours, raw) = (gbps / 8.0, raw_gbps / 8.0);
            writeln!(out, "{name:<28} {ours:>7.2} GB/s {raw:>7.2} GB/s {:>8.2}", ours / raw)?;
        }
        let NetMeasurement { rtt_us, raw_rtt_us, loaded_rtt_us, .. } = *measured;
        let mut trips = vec![("round trip, on one core", rtt_us, raw_rtt_us)];
        trips.extend(
            measured
                .apart_rtt_us
                .zip(measured.apart_raw_rtt_us)
                .map(|(ours, raw)| ("the same on two cores", ours, raw)),
        );
        for (name, ours, raw) in trips {
            writeln!(out, "{name:<28} {ours:>9.1} us {raw:>9.1} us {:>8.2}", ours / raw)?;
        }
        let name = "the same behind 64 MiB";
        writeln!(out, "{name:<28} {loaded_rtt_us:>9.1} us {:>12} {:>8.2}", "", loaded_rtt_us / rtt_us)?;
        writeln!(out, "(the last ratio is to our own idle round trip on one core)")?;
        Ok(())
    }
}

/// The whole measurement, on both peers; the result on peer 0.
fn measure(cluster: &Cluster, rounds: u32) -> Result<Option<NetMeasurement>> {
    let side = NetPeer::new(cluster)?;
    let mut sizes: Vec<NetThroughput> =
        SIZES.iter().map(|bytes| NetThroughput { bytes: *bytes, gbps: 0.0, raw_gbps: 0.0 }).collect();
    let cores = AvailableCores::available()?;
    let placements = if cores.count() > 1 {
        vec![ThreadPlacement::Together, ThreadPlacement::Apart]
    } else {
        vec![ThreadPlacement::Together]
    };
    let mut trips = vec![(f64::INFINITY, f64::INFINITY); placements.len()];
    let mut loaded = f64::INFINITY;
    for _ in 0..rounds {
        for (placed, (ours, raw)) in placements.iter().zip(&mut trips) {
            cores.place(*placed, cluster.rank())?;
            *raw = raw.min(side.raw_round_trip(PINGS)?);
            *ours = ours.min(side.round_trip(PINGS)?);
        }
        cores.place(ThreadPlacement::Anywhere, cluster.rank())?;
        for size in &mut sizes {
            size.raw_gbps = size.raw_gbps.max(side.raw_bulk(size.bytes)?);
            size.gbps = size.gbps.max(side.bulk(size.bytes)?);
        }
        loaded = loaded.min(side.loaded_round_trip()?);
    }
    let largest = sizes[sizes.len() - 1];
    let result = NetMeasurement {
        bulk_gbps: largest.gbps,
        raw_gbps: largest.raw_gbps,
        rtt_us: trips[0].0,
        raw_rtt_us: trips[0].1,
        apart_rtt_us: trips.get(1).map(|trip| trip.0),
        apart_raw_rtt_us: trips.get(1).map(|trip| trip.1),
        loaded_rtt_us: loaded,
        sizes,
    };
    Ok(cluster.is_root().then_some(result))
}

/// Cores on which the measuring threads of the two processes run.
#[derive(Clone, Copy, Debug)]
enum ThreadPlacement {
    Together,
    Apart,
    Anywhere,
}

/// The cores this process may use.
struct AvailableCores(CpuSet);

impl AvailableCores {
    fn available() -> Result<Self> {
        Ok(Self(sched_getaffinity(None).map_err(std::io::Error::from)?))
    }

    fn count(&self) -> u32 {
        self.0.count()
    }

    /// Binds the calling thread, which is the one that measures. The I/O loops stay free.
    fn place(&self, placed: ThreadPlacement, rank: Rank) -> Result<()> {
        let mut own = (0..CpuSet::MAX_CPU).filter(|core| self.0.is_set(*core));
        let core = match placed {
            ThreadPlacement::Anywhere => None,
            ThreadPlacement::Together => own.next(),
            ThreadPlacement::Apart => own.nth(rank.index()),
        };
        let mut set = self.0;
        if let Some(core) = core {
            set = CpuSet::new();
            set.set(core);
        }
        Ok(sched_setaffinity(None, &set).map_err(std::io::Error::from)?)
    }
}

/// One process of the two.
struct NetPeer<'a> {
    cluster: &'a Cluster,
    other: Rank,
    pings: ChannelReceiver,
    bulk: ChannelReceiver,
    acks: ChannelReceiver,
    raw: TcpStream,
}

impl<'a> NetPeer<'a> {
    fn new(cluster: &'a Cluster) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = cluster.broadcast(listener.local_addr()?)?;
        let raw = if cluster.is_root() { listener.accept()?.0 } else { TcpStream::connect(address)? };
        raw.set_nodelay(true)?;
        Ok(Self {
            cluster,
            other: Rank::new(1 - cluster.rank().number()),
            pings: cluster.open_channel(PING, Lane::Control),
            bulk: cluster.open_channel(BULK, Lane::Bulk),
            acks: cluster.open_channel(ACK, Lane::Control),
            raw,
        })
    }

    fn measures(&self) -> bool {
        self.cluster.is_root()
    }

    fn env(&self) -> &dyn Env {
        &**self.cluster.env()
    }

    fn send(&self, lane: Lane, channel: ChannelId, payload: Bytes) -> Result<()> {
        self.cluster
            .send(self.other, OutgoingMessage { lane, channel, purpose: Purpose::Custom, payload: payload.into() })
    }

    fn receive(&self, mailbox: &ChannelReceiver) -> Result<Bytes> {
        Ok(mailbox.receive_from(self.other, PATIENCE).map_err(Error::program)?.payload)
    }

    /// Times `once` many times; the median in microseconds.
    fn median(&self, times: usize, mut once: impl FnMut() -> Result<()>) -> Result<f64> {
        let mut nanos = Vec::with_capacity(times);
        for _ in 0..times {
            let start = self.env().now();
            once()?;
            nanos.push((self.env().now() - start).as_nanos() as f64);
        }
        nanos.sort_by(f64::total_cmp);
        Ok(nanos[times / 2] / 1e3)
    }

    /// Gigabits per second of `send`, which returns when all has arrived.
    fn rate(&self, send: impl FnOnce() -> Result<()>) -> Result<f64> {
        let start = self.env().now();
        send()?;
        Ok(ROUND_BYTES as f64 * 8.0 / (self.env().now() - start).as_nanos() as f64)
    }

    fn raw_round_trip(&self, times: usize) -> Result<f64> {
        self.cluster.barrier()?;
        let mut raw = &self.raw;
        let mut buffer = [7; PING_BYTES];
        if self.measures() {
            return self.median(times, || {
                raw.write_all(&buffer)?;
                Ok(raw.read_exact(&mut buffer)?)
            });
        }
        for _ in 0..times {
            raw.read_exact(&mut buffer)?;
            raw.write_all(&buffer)?;
        }
        Ok(0.0)
    }

    fn round_trip(&self, times: usize) -> Result<f64> {
        self.cluster.barrier()?;
        let payload = Bytes::from_static(&[7; PING_BYTES]);
        if self.measures() {
            return self.median(times, || {
                self.send(Lane::Control, PING, payload.clone())?;
                self.receive(&self.pings).map(drop)
            });
        }
        for _ in 0..times {
            let payload = self.receive(&self.pings)?;
            self.send(Lane::Control, PING, payload)?;
        }
        Ok(0.0)
    }

    fn raw_bulk(&self, bytes: usize) -> Result<f64> {
        self.cluster.barrier()?;
        let mut raw = &self.raw;
        let mut buffer = vec![1; bytes];
        if self.measures() {
            return self.rate(|| {
                for _ in 0..ROUND_BYTES / bytes {
                    raw.write_all(&buffer)?;
                }
                Ok(raw.read_exact(&mut [0])?)
            });
        }
        for _ in 0..ROUND_BYTES / bytes {
            raw.read_exact(&mut buffer)?;
        }
        raw.write_all(&[0])?;
        Ok(0.0)
    }

    fn bulk(&self, bytes: usize) -> Result<f64> {
        self.cluster.barrier()?;
        if self.measures() {
            let payload = Bytes::from(vec![1; bytes]);
            return self.rate(|| {
                for _ in 0..ROUND_BYTES / bytes {
                    self.send(Lane::Bulk, BULK, payload.clone())?;
                }
                self.receive(&self.acks).map(drop)
            });
        }
        for _ in 0..ROUND_BYTES / bytes {
            self.receive(&self.bulk)?;
        }
        self.send(Lane::Control, ACK, Bytes::new())?;
        Ok(0.0)
    }

    /// Round trips on the control lane while the bulk lane is busy.
    fn loaded_round_trip(&self) -> Result<f64> {
        self.cluster.barrier()?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let load = scope.spawn(|| if self.measures() { self.carry(&stop) } else { self.swallow() });
            let echoed = if self.measures() {
                let payload = Bytes::from_static(&[7; PING_BYTES]);
                // The load is on before the first round trip that counts.
                self.receive(&self.acks)?;
                let median = self.median(LOADED_PINGS, || {
                    self.send(Lane::Control, PING, payload.clone())?;
                    self.receive(&self.pings).map(drop)
                });
                stop.store(true, Ordering::Relaxed);
                median
            } else {
                (0..LOADED_PINGS)
                    .try_for_each(|_| {
                        let payload = self.receive(&self.pings)?;
                        self.send(Lane::Control, PING, payload)
                    })
                    .map(|()| 0.0)
            };
            match load.join() {
                Ok(carried) => carried.and(echoed),
                Err(_) => Err("the thread that carries the load panicked".into()),
            }
        })
    }

    /// Sends 64 MiB messages until `stop` is set, then an empty one.
    fn carry(&self, stop: &AtomicBool) -> Result<()> {
        let payload = Bytes::from(vec![1; 64 << 20]);
        while !stop.load(Ordering::Relaxed) {
            self.send(Lane::Bulk, BULK, payload.clone())?;
        }
        self.send(Lane::Bulk, BULK, Bytes::new())
    }

    /// Takes messages until an empty one comes; acknowledges the first.
    fn swallow(&self) -> Result<()> {
        let mut first = true;
        while !self.receive(&self.bulk)?.is_empty() {
            if std::mem::take(&mut first) {
                self.send(Lane::Control, ACK, Bytes::new())?;
            }
        }
        Ok(())
    }
}
