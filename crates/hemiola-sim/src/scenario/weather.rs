//! Clusters for scenarios: uneven, jittery, lossy, with faults that a job outlives; and simpler ones.

use crate::chance;
use crate::describe::{Compute, Description, Fault, Racks, Sharing, Slower};
use crate::units::{Rate, Span};
use hemiola_collective_proto::Random;

/// A cluster in which much may happen, and nothing that ends a job.
pub(super) fn draw(peers: usize, random: &mut Random) -> Description {
    let mut cluster = Description::new(peers);
    let percent = |random: &mut Random, percent: usize| random.below(100) < percent;
    if percent(random, 60) {
        cluster.compute.push(Compute::Jitter { deviation: [0.1, 0.5, 1.5][random.below(3)] });
    }
    if percent(random, 30) {
        cluster.compute.push(Compute::Stragglers { chance: 0.1, factor: 20.0 });
    }
    if percent(random, 20) {
        let (fast, slow) = (Span::from_micros(2000), Span::from_micros(1000));
        cluster.compute.push(Compute::Markov { fast, slow, factor: 10.0 });
    }
    if percent(random, 30) {
        cluster.slower.push(Slower { peers: vec![random.below(peers)], factor: 8.0 });
    }
    cluster.link.bandwidth = Rate::from_bits([100_000_000, 1_000_000_000, 40_000_000_000][random.below(3)]);
    cluster.link.latency = Span::from_micros([1, 20, 500][random.below(3)]);
    if percent(random, 60) {
        cluster.link.jitter = Span::from_micros([10, 2000][random.below(2)]);
    }
    if percent(random, 20) {
        cluster.link.loss = [0.001, 0.05][random.below(2)];
    }
    if percent(random, 25) {
        cluster.link.sharing = Sharing::Fair;
    }
    if peers > 2 && percent(random, 20) {
        let uplink = Rate::from_bits(50_000_000);
        cluster.racks = Some(Racks { peers: 1 + random.below(peers - 1), uplink, latency: Span::from_micros(30) });
    }
    for _ in 0..[0, 0, 1, 2][random.below(4)] {
        let at = Span::from_micros(random.below(5000) as u64);
        let until = Span::from_nanos(at.nanos() + 1000 * (1 + random.below(4000) as u64));
        let peer = random.below(peers);
        cluster.faults.push(match random.below(3) {
            0 if peers > 1 => Fault::Partition { peers: vec![peer], at, until },
            1 => Fault::Drift { peer, millionths: 200.0 * random.symmetric() },
            _ => Fault::Slow { peer, at, until, factor: 2.0 + 30.0 * chance::unit(random) },
        });
    }
    cluster
}

/// Lets a peer crash for good.
pub(super) fn crash(cluster: &mut Description, random: &mut Random) {
    let (peer, at) = (random.below(cluster.peers), Span::from_nanos(random.below(3_000_000) as u64));
    cluster.faults.push(Fault::Crash { peer, at, silent: random.below(3) == 0 });
}

/// The same cluster with one thing less.
pub(super) fn calmer(cluster: &Description) -> Vec<Description> {
    let mut all = Vec::new();
    let mut without = |change: &dyn Fn(&mut Description)| {
        let mut calm = cluster.clone();
        change(&mut calm);
        if calm != *cluster {
            all.push(calm);
        }
    };
    without(&|calm| calm.faults.clear());
    without(&|calm| calm.compute.clear());
    without(&|calm| calm.slower.clear());
    without(&|calm| calm.racks = None);
    without(&|calm| calm.link.loss = 0.0);
    without(&|calm| calm.link.jitter = Span::ZERO);
    without(&|calm| calm.link.sharing = Sharing::Queue);
    without(&|calm| calm.link = Description::new(1).link);
    for number in 0..cluster.faults.len() {
        without(&|calm| drop(calm.faults.remove(number)));
    }
    for number in 0..cluster.compute.len() {
        without(&|calm| {
            calm.compute.remove(number);
        });
    }
    without(&|calm| calm.link.jitter = Span::from_nanos(calm.link.jitter.nanos() / 2));
    all
}

/// The same cluster with fewer peers.
pub(super) fn fewer(cluster: &Description, peers: usize) -> Description {
    let mut less = cluster.clone();
    less.peers = peers;
    less.slower.retain(|slower| slower.peers.iter().all(|peer| *peer < peers));
    less.faults.retain(|fault| match fault {
        Fault::Crash { peer, .. }
        | Fault::Restart { peer, .. }
        | Fault::Slow { peer, .. }
        | Fault::Drift { peer, .. } => *peer < peers,
        Fault::Partition { peers: side, .. } => side.iter().all(|peer| *peer < peers) && side.len() < peers,
    });
    less
}

/// Scenarios with fewer peers, then with fewer rounds, then in better weather; `with` makes one.
pub(super) fn simpler<S>(cluster: &Description, rounds: u64, with: impl Fn(Description, u64) -> S) -> Vec<S> {
    let peers = less(cluster.peers, 1).into_iter().map(|peers| with(fewer(cluster, peers), rounds));
    let shorter = less(rounds as usize, 1).into_iter().map(|rounds| with(cluster.clone(), rounds as u64));
    let calm = calmer(cluster).into_iter().map(|cluster| with(cluster, rounds));
    peers.chain(shorter).chain(calm).collect()
}

/// Smaller numbers than this, the smallest first, down to `least`.
pub(super) fn less(number: usize, least: usize) -> Vec<usize> {
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
    fn what_is_drawn_and_made_smaller_can_be() {
        for seed in 0..500 {
            let mut random = Random::new(seed);
            let peers = 1 + random.below(9);
            let cluster = draw(peers, &mut random);
            cluster.check().unwrap();
            for calm in calmer(&cluster) {
                calm.check().unwrap();
            }
            for peers in less(peers, 1) {
                fewer(&cluster, peers).check().unwrap();
            }
        }
    }

    #[test]
    fn numbers_get_smaller_down_to_the_least() {
        assert_eq!(less(9, 2), [2, 4, 8]);
        assert_eq!(less(3, 2), [2]);
        assert_eq!(less(2, 2), [] as [usize; 0]);
    }
}
