//! A job of two or more processes for a benchmark: this one, and this program once or several times more.
//!
//! The measuring process is peer 0. It starts itself again with the same arguments and `--second FOLDER`, which makes that
//! process peer 1; where there are more, `--rank N` says which. All run the same function from top to bottom.

use anyhow::Context;
use hemiola_cluster::{Cluster, Result};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Runs `program` on both processes. Its result on peer 0; `None` on peer 1, which `second` makes this process.
pub(super) fn run<T>(
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
    let _second = Second::start(folder.path(), arguments)?;
    Ok(Some(job(0, folder.path()).run(program)?))
}

/// Runs `program` on several processes. Its result on peer 0; `None` on the others, which `other` makes this process: the folder and its rank.
pub(super) fn run_several<T>(
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
        Second::start(folder.path(), &arguments)
    });
    let _others = others.collect::<anyhow::Result<Vec<Second>>>()?;
    Ok(Some(job(0, folder.path()).run(program)?))
}

/// The other process. It ends with us: by itself when it loses us, or here.
struct Second(Child);

impl Second {
    fn start(folder: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut command = Command::new(program);
        command.args(arguments).arg("--second").arg(folder).stdin(Stdio::null());
        Ok(Self(command.spawn().context("cannot start the second process")?))
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        // After a good run it has ended or is about to; after a bad one it has no more to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
