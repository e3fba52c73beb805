//! Checkpoint pauses and bandwidth utilization, for `hemiola bench tables`.

use hemiola::core::Rank;
use hemiola::tables::{Bandwidth, Servers, TableExt as _};
use hemiola_cluster::{Result, standalone};
use std::time::Duration;

const ROWS: u64 = 100_000;
const WIDTH: usize = 64;
/// Bandwidth budget in bytes per second.
const RATE: u64 = 4_000_000;
/// Duration of the measurement of the budget.
const WATCHED: Duration = Duration::from_secs(2);

/// Seconds for which `checkpoint` blocks workers, and seconds of one clock without a checkpoint.
///
/// Two peers of one process hold 25.6 MB; a worker of each reads and increments all of it per clock.
/// The best of several rounds counts.
pub(crate) fn checkpoint(rounds: u32) -> Result<(f64, f64)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("table");
    let figures = standalone(2).run(|cluster| {
        let table = cluster.table::<f32>("bench").rows(ROWS).width(WIDTH).staleness(1).build()?;
        let (keys, values) = ((0..ROWS).collect::<Vec<u64>>(), vec![1.0; ROWS as usize * WIDTH]);
        let clock = || {
            cluster.barrier()?;
            let start = cluster.env().now();
            table.each_worker(|worker| {
                let mut sum = 0.0;
                worker.get_many(&keys, |_, row| sum += row[0])?;
                worker.inc_many(&keys, &values)?;
                worker.clock()?;
                Ok(sum)
            })?;
            cluster.barrier()?;
            Ok::<_, hemiola_cluster::Error>((cluster.env().now() - start).as_secs_f64())
        };
        clock()?; // rows begin to exist
        let (mut pause, mut whole) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..rounds {
            whole = whole.min(clock()?);
            let start = cluster.env().now();
            let saving = table.checkpoint(&path)?;
            pause = pause.min((cluster.env().now() - start).as_secs_f64());
            clock()?;
            saving.finish()?;
        }
        Ok((pause, whole))
    })?;
    Ok(figures.into_iter().fold((0.0, 0.0), |most, figure| (f64::max(most.0, figure.0), f64::max(most.1, figure.1))))
}

/// Fraction of the bandwidth budget that a peer uses while it has more to send.
pub(crate) fn budget_used() -> Result<f64> {
    let shares = standalone(2).run(|cluster| {
        let table = cluster.table::<f32>("bench").rows(ROWS).width(WIDTH).staleness(1 << 40);
        let table = table.servers(Servers::On(vec![Rank::new(1)])).budget(Bandwidth::bytes_per_second(RATE)).build()?;
        let keys: Vec<u64> = (0..20_000).collect();
        let values = vec![1.0; keys.len() * WIDTH];
        let shares = table.each_worker(|worker| {
            if !cluster.is_root() {
                return Ok(0.0);
            }
            let (start, (ahead, urgent)) = (cluster.env().now(), table.eager_and_urgent_bytes());
            while cluster.env().now() - start < WATCHED {
                worker.inc_many(&keys, &values)?;
                cluster.env().sleep(Duration::from_millis(5));
            }
            let (elapsed, (ahead_then, urgent_then)) = (cluster.env().now() - start, table.eager_and_urgent_bytes());
            let sent = (ahead_then - ahead) + (urgent_then - urgent);
            Ok(sent as f64 / (RATE as f64 * elapsed.as_secs_f64()))
        })?;
        Ok(shares[0])
    })?;
    Ok(shares[0])
}
