//! Hello world: every peer introduces itself, and the root prints the list.
//!
//! On one machine, as four peers that the program spawns:
//! ```text
//! cargo run --release --example hello -- --peers 4
//! ```
//! Under a launcher (`hemiola run`, torchrun, `mpirun`, `srun`, Kubernetes) omit `--peers`.
//! Expected output, with other process ids:
//! ```text
//! [0] hello from peer 0 of 4 (process 4711, 1 worker)
//! [0] hello from peer 1 of 4 (process 4712, 1 worker)
//! [0] hello from peer 2 of 4 (process 4713, 1 worker)
//! [0] hello from peer 3 of 4 (process 4714, 1 worker)
//! [0] 4 workers agree that the sum of all ranks is 6
//! ```

use hemiola::prelude::*;
use std::process::ExitCode;

fn hello(cluster: &Cluster) -> hemiola::Result<()> {
    let workers = cluster.workers();
    let plural = if workers == 1 { "" } else { "s" };
    let line = format!(
        "hello from peer {} of {} (process {}, {workers} worker{plural})",
        cluster.rank(),
        cluster.size(),
        std::process::id()
    );
    for line in cluster.all_gather(line)? {
        cluster.println(format_args!("{line}"));
    }

    // Every worker of every peer computes a value. The driver gathers the values of its workers,
    // and then those of all peers.
    let local = cluster.each_worker(|_worker| cluster.rank().index())?;
    let everywhere: Vec<Vec<usize>> = cluster.all_gather(local)?;
    let workers: usize = everywhere.iter().map(Vec::len).sum();
    let sum: usize = everywhere.iter().map(|ranks| ranks[0]).sum();
    cluster.println(format_args!("{workers} workers agree that the sum of all ranks is {sum}"));
    Ok(())
}

fn main() -> hemiola::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, peers] = arguments.as_slice()
        && flag == "--peers"
    {
        let peers = peers.parse().map_err(|_| format!("`{peers}` is not a number of peers"))?;
        if let Some(code) = hemiola::launch::respawn(peers)? {
            return Ok(code); // this process was the launcher
        }
    }
    hemiola::run(hello)?;
    Ok(ExitCode::SUCCESS)
}
