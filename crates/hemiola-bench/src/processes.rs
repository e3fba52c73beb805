//! Jobs of two or more processes for benchmarks.
//!
//! The measuring process is peer 0. It starts its own executable again with the same arguments and
//! `--second FOLDER`, which makes that process peer 1; with more than two peers, `--rank N` names the
//! rank. All processes run the same function from top to bottom.

use anyhow::Context;
use hemiola_cluster::{Cluster, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Runs `program` on two processes. Returns its result on peer 0, and `None` on peer 1, which is this
/// process if `second` is given.
pub(crate) fn run<T>(
    second: Option<&Path>,
    arguments: &[String],
    program: impl FnOnce(&Cluster) -> Result<T>,
) -> anyhow::Result<Option<T>> {
    let job = |rank: usize, folder: &Path| {
        let rendezvous = hemiola_net::Rendezvous::File(folder.join("meet"));
        Cluster::builder().peer(rank, 2).workers(1).job("bench").rendezvous(rendezvous)
    };
    if let Some(folder) = second {
        job(1, folder).run(program)?;
        return Ok(None);
    }
    let folder = tempfile::tempdir().context("cannot make a folder to meet in")?;
    let _second = OtherProcess::start(folder.path(), arguments)?;
    Ok(Some(job(0, folder.path()).run(program)?))
}

/// Runs `program` on several processes. Returns its result on peer 0, and `None` on the others. This
/// process is one of those if `other` gives its folder and rank.
pub(crate) fn run_several<T>(
    peers: usize,
    other: Option<(&Path, usize)>,
    arguments: &[String],
    program: impl FnOnce(&Cluster) -> Result<T>,
) -> anyhow::Result<Option<T>> {
    let job = |rank: usize, folder: &Path| {
        let rendezvous = hemiola_net::Rendezvous::File(folder.join("meet"));
        Cluster::builder().peer(rank, peers).workers(1).job("bench").rendezvous(rendezvous)
    };
    if let Some((folder, rank)) = other {
        job(rank, folder).run(program)?;
        return Ok(None);
    }
    let folder = tempfile::tempdir().context("cannot make a folder to meet in")?;
    let others = (1..peers).map(|rank| {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--rank".to_owned(), rank.to_string()]);
        OtherProcess::start(folder.path(), &arguments)
    });
    let _others = others.collect::<anyhow::Result<Vec<OtherProcess>>>()?;
    Ok(Some(job(0, folder.path()).run(program)?))
}

/// Another process of the job. It ends by itself when it loses this one, or when this is dropped.
struct OtherProcess(Child);

impl OtherProcess {
    fn start(folder: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--second").arg(folder).stdin(Stdio::null());
        Ok(Self(command.spawn().context("cannot start the second process")?))
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        // After a successful run it has ended or is about to end; after a failure it is not needed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
