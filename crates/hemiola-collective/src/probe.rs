//! Measurement of the links between pairs of peers.
//!
//! Pairs take turns, so that only one is active at a time. A pair plays ping-pong with short
//! messages, whose median round trip is twice the latency; then one sends the other a burst of
//! large messages. The best of a few bursts counts, since a busy machine only ever adds time.

use hemiola_cluster::{Cluster, Result, WaitReason};
use hemiola_core::{ChannelId, ChannelOwner, Lane, OutgoingMessage, Purpose, Rank, Waiter};
use hemiola_net::ChannelReceiver;
use std::panic::Location;

/// Number of round trips of short messages.
const PINGS: usize = 41;
/// Bytes of a large message, number of messages per burst, and number of bursts.
const LARGE_BYTES: usize = 1 << 20;
const BURST_MESSAGES: usize = 8;
const BURSTS: usize = 3;

/// Measured link between two peers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkMeasurement {
    /// Peer with the lower rank.
    pub one: Rank,
    /// Peer with the higher rank.
    pub other: Rank,
    /// One-way latency in seconds, for the shortest messages.
    pub latency: f64,
    /// Bandwidth of one direction in bytes per second.
    pub bytes_per_second: f64,
}

/// *Collective.* Measures every pair of peers, one after the other; the result is the same on all
/// peers. `on_progress` receives the number of measured pairs and the number of all pairs.
///
/// # Panics
/// If another peer makes a different call.
#[track_caller]
pub fn probe(cluster: &Cluster, mut on_progress: impl FnMut(usize, usize)) -> Result<Vec<LinkMeasurement>> {
    let called_at = Location::caller();
    let (me, size) = (cluster.rank(), cluster.size());
    let (short, long) = (cluster.next_channel(ChannelOwner::Probe), cluster.next_channel(ChannelOwner::Probe));
    let channels = ProbeChannels {
        cluster,
        short,
        long,
        pings: cluster.open_channel(short, Lane::Control),
        bulk: cluster.open_channel(long, Lane::Bulk),
        site: called_at,
    };
    let pairs: Vec<(Rank, Rank)> = Rank::all(size)
        .flat_map(|one| Rank::all(size).filter(move |other| one < *other).map(move |other| (one, other)))
        .collect();
    let mut mine = Vec::new();
    for (done, (one, other)) in pairs.iter().enumerate() {
        on_progress(done, pairs.len());
        if me == *one {
            mine.push(channels.lead(*other)?);
        } else if me == *other {
            channels.follow(*one)?;
        }
        cluster.barrier()?;
    }
    on_progress(pairs.len(), pairs.len());
    let all = cluster.all_gather(mine)?;
    let mut found = all.into_iter().map(Vec::into_iter).collect::<Vec<_>>();
    let next = |(one, other): (Rank, Rank)| {
        let (latency, bytes_per_second) = found[one.index()].next().expect("every peer measured its pairs");
        LinkMeasurement { one, other, latency, bytes_per_second }
    };
    Ok(pairs.into_iter().map(next).collect())
}

struct ProbeChannels<'a> {
    cluster: &'a Cluster,
    short: ChannelId,
    long: ChannelId,
    pings: ChannelReceiver,
    bulk: ChannelReceiver,
    site: &'static Location<'static>,
}

impl ProbeChannels<'_> {
    fn send(&self, to: Rank, lane: Lane, channel: ChannelId, bytes: usize) -> Result<()> {
        let payload = vec![0_u8; bytes].into();
        self.cluster.send(to, OutgoingMessage { lane, channel, purpose: Purpose::Custom, payload })
    }

    fn receive(&self, from: Rank, receiver: &ChannelReceiver) -> Result<()> {
        let reason = WaitReason { operation: "probe", number: None, site: Some(self.site) };
        self.cluster.receive(receiver, from, Waiter::Driver, reason).map(drop)
    }

    /// Measures the link to a peer that runs [`ProbeChannels::follow`]: seconds of latency and
    /// bytes per second.
    fn lead(&self, other: Rank) -> Result<(f64, f64)> {
        let env = self.cluster.env();
        let mut trips = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let start = env.now();
            self.send(other, Lane::Control, self.short, 1)?;
            self.receive(other, &self.pings)?;
            trips.push((env.now() - start).as_secs_f64());
        }
        trips.sort_by(f64::total_cmp);
        let latency = trips[PINGS / 2] / 2.0;
        let mut best = 0.0_f64;
        for _ in 0..BURSTS {
            let start = env.now();
            for _ in 0..BURST_MESSAGES {
                self.send(other, Lane::Bulk, self.long, LARGE_BYTES)?;
            }
            self.receive(other, &self.pings)?;
            // The latency of the acknowledgement does not count.
            let seconds = ((env.now() - start).as_secs_f64() - latency).max(f64::MIN_POSITIVE);
            best = best.max((BURST_MESSAGES * LARGE_BYTES) as f64 / seconds);
        }
        Ok((latency, best))
    }

    fn follow(&self, one: Rank) -> Result<()> {
        for _ in 0..PINGS {
            self.receive(one, &self.pings)?;
            self.send(one, Lane::Control, self.short, 1)?;
        }
        for _ in 0..BURSTS {
            for _ in 0..BURST_MESSAGES {
                self.receive(one, &self.bulk)?;
            }
            self.send(one, Lane::Control, self.short, 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_pair_is_measured_once_and_all_know_it() {
        let reports = hemiola_cluster::standalone(4)
            .run(|cluster| {
                let progress = Mutex::new(Vec::new());
                let found = probe(cluster, |done, all| progress.lock().unwrap().push((done, all)))?;
                assert_eq!(progress.into_inner().unwrap(), (0..=6).map(|done| (done, 6)).collect::<Vec<_>>());
                Ok(found)
            })
            .unwrap();
        let pairs: Vec<(usize, usize)> =
            reports[0].iter().map(|probed| (probed.one.index(), probed.other.index())).collect();
        assert_eq!(pairs, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
        assert!(reports.iter().all(|report| report == &reports[0]));
        assert!(reports[0].iter().all(|probed| probed.latency > 0.0
            && probed.bytes_per_second.is_finite()
            && probed.bytes_per_second > 0.0));
    }

    #[test]
    fn alone_there_is_nothing_to_measure() {
        assert_eq!(hemiola_cluster::standalone(1).run(|cluster| probe(cluster, |_, _| ())).unwrap(), [vec![]]);
    }
}
