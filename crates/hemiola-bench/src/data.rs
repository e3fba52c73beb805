//! `hemiola bench data`: throughput of file readers, and of entries that move between two peers.
//!
//! The files are MovieLens-1M (`movielens-1m/ratings.tsv.zst`) and the IMDB reviews
//! (`imdb/train.libsvm.zst`) below the folder that `HEMIOLA_DATA` names, decompressed first. Without
//! that folder they are synthetic files of the same form. The best of several rounds counts.
//!
//! - *Parse*: text to entries in memory, on one worker and on two.
//! - *Array*: text to a partitioned and sorted array, the result of `materialize`.
//! - *Shuffle*: entries that move between two processes; see [`shuffle`].

use crate::benchmark::Benchmark;
use crate::{processes, shuffle};
use anyhow::Context;
use clap::Args;
use hemiola_array::read::{ByteRange, Csv, InputFile, Libsvm};
use hemiola_array::sparse::SparseBuilder;
use hemiola_array::{PartitionSpec, ReadExt};
use hemiola_cluster::environment::{self, ProcessEnvironment, VariableSource};
use hemiola_cluster::{Cluster, Error, Result};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const AFTER_HELP: &str = "\
Example:
  HEMIOLA_DATA=~/data hemiola bench data --report data.json

The report holds \"csv_mbps\" and \"libsvm_mbps\" (10^6 bytes of text per second, parsed by one worker and by two), \
\"csv_array_mbps\" (into a sorted array), \"memory_ratio\" (peak while loading over the final array, one worker), and under \
\"shuffle\", in 10^9 bits per second from one of two processes to the other: \"repartition_gbps\", \"dense_gbps\" and \"group_by_gbps\" \
(moved bytes over the whole call), \"exchange_gbps\" (sending alone), \"copy_gbps\" (an array of that size copied in memory), \"bulk_gbps\" and \"bulk_both_gbps\" (the transport alone, one way \
and both ways at once).";

/// Ratings that are loaded to see how much memory that takes: 48 MB as an array, so that small change does not count.
const MANY: u64 = 4_000_000;

/// The arguments of `hemiola bench data`.
#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct DataBench {
    /// Number of rounds. The best round of each measurement counts.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Write the results as JSON to FILE (`-`: standard output).
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Leave the files out: only what moves between two peers.
    #[arg(long)]
    shuffle_only: bool,

    /// Rendezvous folder of the two processes. Makes this process the second one.
    #[arg(long, hide = true)]
    second: Option<PathBuf>,
}

/// Results in the units of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DataMeasurement {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    reading: Option<ReadMeasurement>,
    shuffle: shuffle::ShuffleRates,
}

/// Results of reading files.
#[derive(Clone, Debug, Serialize)]
struct ReadMeasurement {
    /// Origin of the files: a data set or synthetic.
    data: &'static str,
    csv_mbps: [f64; 2],
    libsvm_mbps: [f64; 2],
    csv_array_mbps: [f64; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_ratio: Option<f64>,
}

impl Benchmark for DataBench {
    type Measurement = DataMeasurement;

    fn report(&self) -> Option<&Path> {
        self.report.as_deref()
    }

    fn measure(&self) -> anyhow::Result<Option<Self::Measurement>> {
        let arguments = ["bench".to_owned(), "data".to_owned(), "--rounds".to_owned(), self.rounds.to_string()];
        if self.second.is_some() {
            processes::run(self.second.as_deref(), &arguments, |cluster| shuffle::measure(cluster, self.rounds))?;
            return Ok(None);
        }
        let reading = if self.shuffle_only { None } else { Some(self.read_files()?) };
        let moved = processes::run(None, &arguments, |cluster| shuffle::measure(cluster, self.rounds))?;
        let measured = DataMeasurement { reading, shuffle: moved.expect("this is peer 0") };
        Ok(Some(measured))
    }

    fn print(measured: &Self::Measurement, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(reading) = &measured.reading {
            writeln!(out, "files: {}", reading.data)?;
            writeln!(out, "{:<28} {:>14} {:>14}", "", "1 worker", "2 workers")?;
            let rows = [
                ("csv to entries", reading.csv_mbps),
                ("LIBSVM to entries", reading.libsvm_mbps),
                ("csv to a sorted array", reading.csv_array_mbps),
            ];
            for (name, [one, two]) in rows {
                writeln!(out, "{name:<28} {one:>9.0} MB/s {two:>9.0} MB/s")?;
            }
            if let Some(ratio) = reading.memory_ratio {
                writeln!(out, "{:<28} {ratio:>14.2}", "peak memory / array")?;
            }
        }
        let rates = measured.shuffle;
        writeln!(out, "{:<28} {:>14} {:>14}", "two peers, each way", "", "of transport")?;
        let rows = [
            ("repartition, sparse", rates.repartition_gbps),
            ("repartition, dense", rates.dense_gbps),
            ("group_by", rates.group_by_gbps),
            ("exchange alone", rates.exchange_gbps),
            ("transport, both ways", rates.bulk_both_gbps),
            ("transport, one way", rates.bulk_gbps),
            ("copy to new memory", rates.copy_gbps),
        ];
        for (name, gbps) in rows {
            writeln!(out, "{name:<28} {:>9.2} GB/s {:>14.2}", gbps / 8.0, gbps / rates.bulk_gbps)?;
        }
        Ok(())
    }
}

impl DataBench {
    fn read_files(&self) -> anyhow::Result<ReadMeasurement> {
        let folder = tempfile::tempdir().context("cannot make a folder for the files")?;
        let many = folder.path().join("many.tsv");
        make_ratings(&many, MANY)?;
        // First of all, while this process has held nothing else.
        let memory_ratio = memory_ratio(&many)?;
        let files = BenchFiles::prepare(folder.path())?;
        let [csv, libsvm, array] = [parse_csv, parse_libsvm, make_array].map(|read| self.on_one_and_two(&files, read));
        Ok(ReadMeasurement {
            data: files.origin,
            csv_mbps: csv?,
            libsvm_mbps: libsvm?,
            csv_array_mbps: array?,
            memory_ratio,
        })
    }

    /// Megabytes per second with one worker and with two.
    fn on_one_and_two(&self, files: &BenchFiles, read: fn(&Cluster, &BenchFiles) -> Result<u64>) -> Result<[f64; 2]> {
        let mut rates = [0.0_f64; 2];
        // In turn, so that both see the same machine.
        for _ in 0..self.rounds {
            for (workers, rate) in (1..).zip(&mut rates) {
                let once = Cluster::builder().workers(workers).run(|cluster| {
                    let start = cluster.env().now();
                    let bytes = read(cluster, files)?;
                    Ok::<_, Error>(bytes as f64 / 1e6 / (cluster.env().now() - start).as_secs_f64())
                })?;
                *rate = rate.max(once);
            }
        }
        Ok(rates)
    }
}

/// Plain files to read.
struct BenchFiles {
    origin: &'static str,
    csv: PathBuf,
    libsvm: PathBuf,
}

impl BenchFiles {
    fn prepare(folder: &Path) -> anyhow::Result<Self> {
        let (csv, libsvm) = (folder.join("ratings.tsv"), folder.join("train.libsvm"));
        let given = ProcessEnvironment.get_set(environment::DATA.name).map(PathBuf::from);
        let real = given.map(|data| [data.join("movielens-1m/ratings.tsv.zst"), data.join("imdb/train.libsvm.zst")]);
        if let Some([ratings, reviews]) = real.filter(|files| files.iter().all(|file| file.exists())) {
            unpack(&ratings, &csv)?;
            unpack(&reviews, &libsvm)?;
            return Ok(Self { origin: "MovieLens-1M and IMDB", csv, libsvm });
        }
        make_ratings(&csv, 1_000_000)?;
        let mut text = String::new();
        for number in 0..25_000_u64 {
            text.push_str(if number % 2 == 0 { "+1" } else { "-1" });
            for place in 0..130 {
                let mixed = (number * 131 + place).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let _ = write!(text, " {}:{}", place * 680 + mixed % 680 + 1, mixed % 3 + 1);
            }
            text.push('\n');
        }
        std::fs::write(&libsvm, &text).context("cannot write the examples")?;
        Ok(Self { origin: "synthetic (HEMIOLA_DATA is unset)", csv, libsvm })
    }
}

/// Writes this many synthetic ratings.
fn make_ratings(file: &Path, count: u64) -> anyhow::Result<()> {
    // Line by line: a large text in memory would leave room that the measurement of memory would not see.
    let mut out = std::io::BufWriter::new(std::fs::File::create(file).context("cannot write the ratings")?);
    for number in 0..count {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
        writeln!(out, "{}\t{}\t{}", mixed % 6040 + 1, number % 3706 + 1, mixed % 5 + 1)
            .context("cannot write the ratings")?;
    }
    out.flush().context("cannot write the ratings")
}

fn unpack(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut reader = InputFile::open(from)?.reader()?;
    let mut file = std::fs::File::create(to).with_context(|| format!("cannot write `{}`", to.display()))?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = reader.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        file.write_all(&buffer[..count]).with_context(|| format!("cannot write `{}`", to.display()))?;
    }
}

/// Has all workers read the byte ranges of a file; the bytes of the file.
fn on_all_workers(
    cluster: &Cluster,
    file: &Path,
    read: impl Fn(&ByteRange) -> hemiola_array::Result<()> + Sync,
) -> Result<u64> {
    let source = InputFile::open(file)?;
    let ranges = ByteRange::split(std::slice::from_ref(&source), source.bytes() / (4 * cluster.workers() as u64));
    let next = AtomicUsize::new(0);
    let outcomes = cluster.each_worker(|_| {
        while let Some(range) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
            read(range)?;
        }
        Ok::<_, hemiola_array::Error>(())
    })?;
    outcomes.into_iter().collect::<hemiola_array::Result<()>>()?;
    Ok(source.bytes())
}

fn parse_csv(cluster: &Cluster, files: &BenchFiles) -> Result<u64> {
    let csv = Csv::new().separator("\t");
    on_all_workers(cluster, &files.csv, |range| {
        let mut entries = SparseBuilder::new();
        csv.read(range, |(user, item, rating): (u32, u32, f32)| {
            entries.push([user as usize, item as usize], rating);
            Ok(())
        })?;
        std::hint::black_box(entries.len());
        Ok(())
    })
}

fn parse_libsvm(cluster: &Cluster, files: &BenchFiles) -> Result<u64> {
    let libsvm = Libsvm::new();
    on_all_workers(cluster, &files.libsvm, |range| {
        let mut entries = SparseBuilder::new();
        libsvm.read(range, |example| {
            entries.push_row(example.row, example.columns, example.values);
            Ok(())
        })?;
        std::hint::black_box(entries.len());
        Ok(())
    })
}

fn make_array(cluster: &Cluster, files: &BenchFiles) -> Result<u64> {
    let (_, bytes) = load(cluster, &files.csv)?;
    Ok(bytes)
}

/// Bytes of the array, and of the file.
fn load(cluster: &Cluster, file: &Path) -> Result<(usize, u64)> {
    let name = file.to_str().ok_or("the path is not UTF-8")?;
    let csv = Csv::new().separator("\t");
    let lazy = cluster.read_csv_with(csv, name, |(user, item, rating): (usize, usize, f32)| ([user, item], rating))?;
    let array = lazy.materialize_as(&PartitionSpec::default(), hemiola_array::sparse::DuplicatePolicy::Last)?;
    Ok((array.memory_bytes(), InputFile::open(file)?.bytes()))
}

/// Peak memory of loading over the size of the array, on one worker. `None` if the system does not
/// report memory.
fn memory_ratio(file: &Path) -> Result<Option<f64>> {
    Cluster::builder().workers(1).run(|cluster| {
        let before = memory("VmRSS:");
        let (array, _) = load(cluster, file)?;
        Ok(before.zip(memory("VmHWM:")).map(|(before, peak)| peak.saturating_sub(before) as f64 / array as f64))
    })
}

/// A line of the process's status, in bytes.
fn memory(field: &str) -> Option<u64> {
    let mut status = String::new();
    std::fs::File::open("/proc/self/status").ok()?.read_to_string(&mut status).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}
