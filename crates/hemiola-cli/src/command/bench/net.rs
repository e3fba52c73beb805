//! `hemiola bench net`: throughput and latency of our transport between two processes, beside a raw `std::net` loop.
//!
//! Both are measured in the same run, in turn, several times; the best round of each counts, because on a shared machine
//! only the best says what the code can do. Both processes run [`measure`] from top to bottom; see `pair.rs`.
//!
//! - *Bulk*: messages of one size are sent back to back and acknowledged once at the end.
//! - *Round trip*: 64 bytes there and back on the control lane, median of many. A round trip between two cores is mostly
//!   the time a sleeping core takes to wake, and which cores two threads are on is otherwise left to chance; so both
//!   loops are measured with the two threads on one core, which shows what the code costs, and on two.
//! - *Under load*: the same, wherever the system puts the threads, while 64 MiB messages run on the bulk lane.

use crate::command::bench::pair;
use crate::report;
use bytes::Bytes;
use clap::Args;
use hemiola_cluster::{Cluster, Error, Result};
use hemiola_core::{ChannelId, Env, Lane, Outgoing, Purpose, Rank};
use hemiola_net::Mailbox;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const AFTER_HELP: &str = "\
Example:
  hemiola bench net --report net.json

The report holds \"bulk_gbps\" and \"raw_gbps\" (10^9 bits per second at 64 MiB), \"rtt_us\" and \"raw_rtt_us\" (median round \
trip, both threads on one core), \"apart_rtt_us\" and \"apart_raw_rtt_us\" (on two cores; absent if there is only one), \
\"loaded_rtt_us\" (behind a bulk transfer), and one line per message size in \"sizes\".";

/// Channels of this benchmark.
const OWNER: u8 = 0xbe;
const PING: ChannelId = ChannelId::of(OWNER, 1);
const BULK: ChannelId = ChannelId::of(OWNER, 2);
const ACK: ChannelId = ChannelId::of(OWNER, 3);
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
pub(crate) struct Net {
    /// Rounds; the best of each counts.
    #[arg(long, value_name = "N", default_value = "9", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// File for the results as JSON, or `-` for standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// The folder where the two processes meet: makes this process the second one.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,
}

/// Throughput at one message size.
#[derive(Clone, Copy, Debug, Serialize)]
struct Throughput {
    bytes: usize,
    gbps: f64,
    raw_gbps: f64,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
struct Measurement {
    bulk_gbps: f64,
    raw_gbps: f64,
    rtt_us: f64,
    raw_rtt_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    apart_rtt_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    apart_raw_rtt_us: Option<f64>,
    loaded_rtt_us: f64,
    sizes: Vec<Throughput>,
}

impl Net {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        self.report.as_deref().map_or(Ok(()), report::check)?;
        let arguments = ["bench".to_owned(), "net".to_owned(), "--rounds".to_owned(), self.rounds.to_string()];
        let measured = pair::run(self.second.as_deref(), &arguments, |cluster| measure(cluster, self.rounds))?;
        let Some(measured) = measured.flatten() else { return Ok(ExitCode::SUCCESS) };
        if self.report.as_deref() != Some(std::path::Path::new("-")) {
            print_table(&measured)?;
        }
        if let Some(target) = &self.report {
            report::write(target, &measured)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print_table(measured: &Measurement) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<28} {:>12} {:>12} {:>8}", "", "hemiola", "raw sockets", "ratio")?;
    for Throughput { bytes, gbps, raw_gbps } in &measured.sizes {
        let name = format!("bulk, {} MiB messages", bytes >> 20);
        let (ours, raw) = (gbps / 8.0, raw_gbps / 8.0);
        writeln!(out, "{name:<28} {ours:>7.2} GB/s {raw:>7.2} GB/s {:>8.2}", ours / raw)?;
    }
    let Measurement { rtt_us, raw_rtt_us, loaded_rtt_us, .. } = *measured;
    let mut trips = vec![("round trip, on one core", rtt_us, raw_rtt_us)];
    trips.extend(
        measured.apart_rtt_us.zip(measured.apart_raw_rtt_us).map(|(ours, raw)| ("the same on two cores", ours, raw)),
    );
    for (name, ours, raw) in trips {
        writeln!(out, "{name:<28} {ours:>9.1} us {raw:>9.1} us {:>8.2}", ours / raw)?;
    }
    let name = "the same behind 64 MiB";
    writeln!(out, "{name:<28} {loaded_rtt_us:>9.1} us {:>12} {:>8.2}", "", loaded_rtt_us / rtt_us)?;
    writeln!(out, "(the last ratio is to our own idle round trip on one core)")?;
    Ok(())
}

/// The whole measurement, on both peers; the result on peer 0.
fn measure(cluster: &Cluster, rounds: u32) -> Result<Option<Measurement>> {
    let side = Side::new(cluster)?;
    let mut sizes: Vec<Throughput> =
        SIZES.iter().map(|bytes| Throughput { bytes: *bytes, gbps: 0.0, raw_gbps: 0.0 }).collect();
    let cores = Cores::available()?;
    let placements = if cores.count() > 1 { vec![Placed::Together, Placed::Apart] } else { vec![Placed::Together] };
    let mut trips = vec![(f64::INFINITY, f64::INFINITY); placements.len()];
    let mut loaded = f64::INFINITY;
    for _ in 0..rounds {
        for (placed, (ours, raw)) in placements.iter().zip(&mut trips) {
            cores.place(*placed, cluster.rank())?;
            *raw = raw.min(side.raw_round_trip(PINGS)?);
            *ours = ours.min(side.round_trip(PINGS)?);
        }
        cores.place(Placed::Anywhere, cluster.rank())?;
        for size in &mut sizes {
            size.raw_gbps = size.raw_gbps.max(side.raw_bulk(size.bytes)?);
            size.gbps = size.gbps.max(side.bulk(size.bytes)?);
        }
        loaded = loaded.min(side.loaded_round_trip()?);
    }
    let largest = sizes[sizes.len() - 1];
    let result = Measurement {
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

/// Where the measuring threads of the two processes run.
#[derive(Clone, Copy, Debug)]
enum Placed {
    Together,
    Apart,
    Anywhere,
}

/// The cores this process may use.
struct Cores(CpuSet);

impl Cores {
    fn available() -> Result<Self> {
        Ok(Self(sched_getaffinity(None).map_err(std::io::Error::from)?))
    }

    fn count(&self) -> u32 {
        self.0.count()
    }

    /// Binds the calling thread, which is the one that measures. The I/O loops stay free.
    fn place(&self, placed: Placed, rank: Rank) -> Result<()> {
        let mut own = (0..CpuSet::MAX_CPU).filter(|core| self.0.is_set(*core));
        let core = match placed {
            Placed::Anywhere => None,
            Placed::Together => own.next(),
            Placed::Apart => own.nth(rank.index()),
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
struct Side<'a> {
    cluster: &'a Cluster,
    other: Rank,
    pings: Mailbox,
    bulk: Mailbox,
    acks: Mailbox,
    raw: TcpStream,
}

impl<'a> Side<'a> {
    fn new(cluster: &'a Cluster) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = cluster.broadcast(listener.local_addr()?)?;
        let raw = if cluster.is_root() { listener.accept()?.0 } else { TcpStream::connect(address)? };
        raw.set_nodelay(true)?;
        Ok(Self {
            cluster,
            other: Rank::new(1 - cluster.rank().number()),
            pings: cluster.open(PING, Lane::Control),
            bulk: cluster.open(BULK, Lane::Bulk),
            acks: cluster.open(ACK, Lane::Control),
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
        self.cluster.send(self.other, Outgoing { lane, channel, purpose: Purpose::Custom, payload: payload.into() })
    }

    fn receive(&self, mailbox: &Mailbox) -> Result<Bytes> {
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

    /// Sends 64 MiB messages until told to stop, then an empty one.
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
