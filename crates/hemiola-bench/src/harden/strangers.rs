//! Attempts to join a job on this host without its secret.
//!
//! A root waits for its second peer on loopback. Strangers that know everything but the secret (the
//! address, the name of the job, its size) try to be that peer. The real one comes last.

use anyhow::Context as _;
use hemiola_cluster::{Cluster, ClusterBuilder, Result};
use hemiola_core::rng::SplitMix64;
use hemiola_core::{ClusterEvent, Deadlines, Observer};
use hemiola_net::{Rendezvous, Secret};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

/// Observer that prints no refusals.
#[derive(Debug)]
struct SilentObserver;

impl Observer for SilentObserver {
    fn observe(&self, _: &ClusterEvent) {}
}

/// Lets `strangers` try to join. Returns the number of those that got in.
pub(super) fn measure(strangers: usize, seed: u64) -> anyhow::Result<usize> {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).context("no free port")?.port();
    let mut random = SplitMix64::new(seed);
    let mut secret = || Secret::new(format!("{:016x}{:016x}", random.next_u64(), random.next_u64()));
    let own = secret();
    let guesses: Vec<Secret> = (0..strangers).map(|_| secret()).collect();
    let peer = |rank: usize, secret: &Secret, patience: u64| -> ClusterBuilder {
        let mut deadlines = Deadlines::default();
        deadlines.join = Duration::from_secs(patience);
        Cluster::builder()
            .peer(rank, 2)
            .workers(1)
            .job("harden")
            .rendezvous(Rendezvous::Address(format!("127.0.0.1:{port}")))
            .secret(secret.clone())
            .deadlines(deadlines)
            .observer(Arc::new(SilentObserver))
    };
    let meet = |builder: ClusterBuilder| builder.run(|cluster: &Cluster| -> Result<()> { cluster.barrier() });
    std::thread::scope(|scope| {
        let root = scope.spawn(|| meet(peer(0, &own, 60)));
        let joined = guesses.iter().filter(|guess| meet(peer(1, guess, 2)).is_ok()).count();
        meet(peer(1, &own, 60)).context("the real peer was kept out")?;
        root.join().map_err(|_| anyhow::anyhow!("the root panicked"))?.context("the root did not start")?;
        Ok(joined)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_stranger_joins() {
        assert_eq!(super::measure(3, 1).unwrap(), 0);
    }
}
