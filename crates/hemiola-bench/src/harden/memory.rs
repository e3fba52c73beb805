//! Peak memory of the peers of a large job on a small data set.

use crate::processes;
use anyhow::Context as _;
use hemiola::Cluster;
use hemiola_array::synthetic::SyntheticMf;
use hemiola_models::mf;
use hemiola_models::prelude::*;
use std::path::Path;

/// Entries of the data set: 2 MB of ratings as text.
const RATINGS: usize = 100_000;

/// Trains a factorization on `peers` processes. Returns the largest peak memory of a peer in MB;
/// `None` on all processes but the first.
pub(super) fn measure(peers: usize, other: Option<(&Path, usize)>) -> anyhow::Result<Option<f64>> {
    let arguments = ["bench", "harden", "--peers", &peers.to_string()].map(str::to_owned);
    let peaks = processes::run_several(peers, other, &arguments, |cluster| {
        train(cluster)?;
        let peak = peak_megabytes().map_err(|error| std::io::Error::other(format!("{error:#}")))?;
        cluster.all_gather(peak)
    })?;
    Ok(peaks.map(|peaks| peaks.into_iter().fold(0.0, f64::max)))
}

fn train(cluster: &Cluster) -> hemiola_cluster::Result<()> {
    let set = SyntheticMf { users: 943, items: 1682, entries: RATINGS, rank: 8, seed: 1, ..SyntheticMf::default() };
    let ratings = mf::data::synthetic(cluster, &set.generator())?;
    MatrixFactorization::builder().rank(16).epochs(2).build()?.fit(cluster, &ratings)?;
    Ok(())
}

/// Peak resident memory of this process.
fn peak_megabytes() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read the memory of this process")?;
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the system reports no peak memory")?;
    let kilobytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes / 1e3)
}
