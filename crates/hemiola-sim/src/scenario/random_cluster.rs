//! Random clusters for scenarios: uneven, with jitter, packet loss and faults that a job survives;
//! and simpler variants.

use crate::cluster_spec::{ClusterSpec, ComputeModel, Fault, LinkSharing, RackSpec, SlowPeers};
use crate::sampling;
use crate::units::{DataRate, SimDuration};
use hemiola_core::rng::SplitMix64;

/// Draws a cluster with disturbances, none of which ends a job.
pub(super) fn draw(peers: usize, random: &mut SplitMix64) -> ClusterSpec {
    let mut cluster = ClusterSpec::new(peers);
    let percent = |random: &mut SplitMix64, percent: usize| random.below(100) < percent;
    if percent(random, 60) {
        cluster.compute.push(ComputeModel::Jitter { deviation: [0.1, 0.5, 1.5][random.below(3)] });
    }
    if percent(random, 30) {
        cluster.compute.push(ComputeModel::Stragglers { probability: 0.1, factor: 20.0 });
    }
    if percent(random, 20) {
        let (fast, slow) = (SimDuration::from_micros(2000), SimDuration::from_micros(1000));
        cluster.compute.push(ComputeModel::Markov { fast, slow, factor: 10.0 });
    }
    if percent(random, 30) {
        cluster.slow_peers.push(SlowPeers { peers: vec![random.below(peers)], factor: 8.0 });
    }
    cluster.link.bandwidth = DataRate::from_bits([100_000_000, 1_000_000_000, 40_000_000_000][random.below(3)]);
    cluster.link.latency = SimDuration::from_micros([1, 20, 500][random.below(3)]);
    if percent(random, 60) {
        cluster.link.jitter = SimDuration::from_micros([10, 2000][random.below(2)]);
    }
    if percent(random, 20) {
        cluster.link.loss = [0.001, 0.05][random.below(2)];
    }
    if percent(random, 25) {
        cluster.link.sharing = LinkSharing::Fair;
    }
    if peers > 2 && percent(random, 20) {
        let uplink = DataRate::from_bits(50_000_000);
        cluster.racks =
            Some(RackSpec { peers: 1 + random.below(peers - 1), uplink, latency: SimDuration::from_micros(30) });
    }
    for _ in 0..[0, 0, 1, 2][random.below(4)] {
        let at = SimDuration::from_micros(random.below(5000) as u64);
        let until = SimDuration::from_nanos(at.nanos() + 1000 * (1 + random.below(4000) as u64));
        let peer = random.below(peers);
        cluster.faults.push(match random.below(3) {
            0 if peers > 1 => Fault::Partition { peers: vec![peer], at, until },
            1 => Fault::Drift { peer, ppm: 200.0 * random.symmetric() },
            _ => Fault::Slow { peer, at, until, factor: 2.0 + 30.0 * sampling::uniform(random) },
        });
    }
    cluster
}

/// Adds a crash of a random peer.
pub(super) fn add_crash(cluster: &mut ClusterSpec, random: &mut SplitMix64) {
    let (peer, at) = (random.below(cluster.peers), SimDuration::from_nanos(random.below(3_000_000) as u64));
    cluster.faults.push(Fault::Crash { peer, at, silent: random.below(3) == 0 });
}

/// Returns variants of a cluster, each with one disturbance less.
pub(super) fn calmer(cluster: &ClusterSpec) -> Vec<ClusterSpec> {
    let mut all = Vec::new();
    let mut without = |change: &dyn Fn(&mut ClusterSpec)| {
        let mut calm = cluster.clone();
        change(&mut calm);
        if calm != *cluster {
            all.push(calm);
        }
    };
    without(&|calm| calm.faults.clear());
    without(&|calm| calm.compute.clear());
    without(&|calm| calm.slow_peers.clear());
    without(&|calm| calm.racks = None);
    without(&|calm| calm.link.loss = 0.0);
    without(&|calm| calm.link.jitter = SimDuration::ZERO);
    without(&|calm| calm.link.sharing = LinkSharing::Queue);
    without(&|calm| calm.link = ClusterSpec::new(1).link);
    for number in 0..cluster.faults.len() {
        without(&|calm| drop(calm.faults.remove(number)));
    }
    for number in 0..cluster.compute.len() {
        without(&|calm| {
            calm.compute.remove(number);
        });
    }
    without(&|calm| calm.link.jitter = SimDuration::from_nanos(calm.link.jitter.nanos() / 2));
    all
}

/// Returns the cluster with fewer peers.
pub(super) fn with_fewer_peers(cluster: &ClusterSpec, peers: usize) -> ClusterSpec {
    let mut less = cluster.clone();
    less.peers = peers;
    less.slow_peers.retain(|slower| slower.peers.iter().all(|peer| *peer < peers));
    less.faults.retain(|fault| match fault {
        Fault::Crash { peer, .. }
        | Fault::Restart { peer, .. }
        | Fault::Slow { peer, .. }
        | Fault::Drift { peer, .. } => *peer < peers,
        Fault::Partition { peers: side, .. } => side.iter().all(|peer| *peer < peers) && side.len() < peers,
    });
    less
}

/// Returns scenarios with fewer peers, then with fewer rounds, then with fewer disturbances; `with`
/// creates one.
pub(super) fn simpler<S>(cluster: &ClusterSpec, rounds: u64, with: impl Fn(ClusterSpec, u64) -> S) -> Vec<S> {
    let peers =
        smaller_numbers(cluster.peers, 1).into_iter().map(|peers| with(with_fewer_peers(cluster, peers), rounds));
    let shorter = smaller_numbers(rounds as usize, 1).into_iter().map(|rounds| with(cluster.clone(), rounds as u64));
    let calm = calmer(cluster).into_iter().map(|cluster| with(cluster, rounds));
    peers.chain(shorter).chain(calm).collect()
}

/// Returns smaller numbers down to `least`, the smallest first.
pub(super) fn smaller_numbers(number: usize, least: usize) -> Vec<usize> {
    let mut all = Vec::new();
    for smaller in [least, number / 2, number.saturating_sub(1)] {
        if smaller >= least && smaller < number && !all.contains(&smaller) {
            all.push(smaller);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_clusters_and_their_variants_are_valid() {
        for seed in 0..500 {
            let mut random = SplitMix64::new(seed);
            let peers = 1 + random.below(9);
            let cluster = draw(peers, &mut random);
            cluster.validate().unwrap();
            for calm in calmer(&cluster) {
                calm.validate().unwrap();
            }
            for peers in smaller_numbers(peers, 1) {
                with_fewer_peers(&cluster, peers).validate().unwrap();
            }
        }
    }

    #[test]
    fn smaller_numbers_end_at_the_least() {
        assert_eq!(smaller_numbers(9, 2), [2, 4, 8]);
        assert_eq!(smaller_numbers(3, 2), [2]);
        assert_eq!(smaller_numbers(2, 2), [] as [usize; 0]);
    }
}
