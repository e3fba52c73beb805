//! How fast pairs of peers talk to each other, measured.
//!
//! Pairs take turns, so that none is measured while another talks: a pair plays ping-pong with short messages, whose median is twice the latency, and then one sends the other as much as takes
//! a while. The best of a few counts, since a busy machine only ever adds time.

use hemiola_cluster::{Cluster, Reason, Result};
use hemiola_core::{ChannelId, Lane, Outgoing, Purpose, Rank, Waiter};
use hemiola_net::Mailbox;
use std::panic::Location;

/// The top byte of channels that are opened here.
const OWNER: u8 = 9;
/// Exchanges of short messages.
const PINGS: usize = 41;
/// Bytes of a long message, how many are sent, and how often.
const LONG_BYTES: usize = 1 << 20;
const LONG: usize = 8;
const TRIES: usize = 3;

/// What the connection of two peers does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probed {
    /// The one with the lower rank.
    pub one: Rank,
    /// The other.
    pub other: Rank,
    /// Seconds from the one to the other, for the shortest of messages.
    pub latency: f64,
    /// Bytes that go one way in a second.
    pub bytes_per_second: f64,
}

/// *Collective.* Measures every pair of peers, one after the other; the same on all peers. `watch` is told how many of how many are done.
///
/// # Panics
/// If another peer does something else.
#[track_caller]
pub fn probe(cluster: &Cluster, mut watch: impl FnMut(usize, usize)) -> Result<Vec<Probed>> {
    let called_at = Location::caller();
    let (me, size) = (cluster.rank(), cluster.size());
    let (short, long) = (cluster.next_channel(OWNER), cluster.next_channel(OWNER));
    let boxes = Boxes {
        cluster,
        short,
        long,
        pings: cluster.open(short, Lane::Control),
        bulk: cluster.open(long, Lane::Bulk),
        site: called_at,
    };
    let pairs: Vec<(Rank, Rank)> = Rank::all(size)
        .flat_map(|one| Rank::all(size).filter(move |other| one < *other).map(move |other| (one, other)))
        .collect();
    let mut mine = Vec::new();
    for (done, (one, other)) in pairs.iter().enumerate() {
        watch(done, pairs.len());
        if me == *one {
            mine.push(boxes.lead(*other)?);
        } else if me == *other {
            boxes.follow(*one)?;
        }
        cluster.barrier()?;
    }
    watch(pairs.len(), pairs.len());
    let all = cluster.all_gather(mine)?;
    let mut found = all.into_iter().map(Vec::into_iter).collect::<Vec<_>>();
    let next = |(one, other): (Rank, Rank)| {
        let (latency, bytes_per_second) = found[one.index()].next().expect("every peer measured its pairs");
        Probed { one, other, latency, bytes_per_second }
    };
    Ok(pairs.into_iter().map(next).collect())
}

struct Boxes<'a> {
    cluster: &'a Cluster,
    short: ChannelId,
    long: ChannelId,
    pings: Mailbox,
    bulk: Mailbox,
    site: &'static Location<'static>,
}

impl Boxes<'_> {
    fn send(&self, to: Rank, lane: Lane, channel: ChannelId, bytes: usize) -> Result<()> {
        let payload = vec![0_u8; bytes].into();
        self.cluster.send(to, Outgoing { lane, channel, purpose: Purpose::Custom, payload })
    }

    fn receive(&self, from: Rank, mailbox: &Mailbox) -> Result<()> {
        let reason = Reason { what: "probe", number: None, site: Some(self.site) };
        self.cluster.receive(mailbox, from, Waiter::Driver, reason).map(drop)
    }

    /// Measures the connection to a peer that follows: seconds of latency and bytes per second.
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
        for _ in 0..TRIES {
            let start = env.now();
            for _ in 0..LONG {
                self.send(other, Lane::Bulk, self.long, LONG_BYTES)?;
            }
            self.receive(other, &self.pings)?;
            // What the answer takes is no part of it.
            let seconds = ((env.now() - start).as_secs_f64() - latency).max(f64::MIN_POSITIVE);
            best = best.max((LONG * LONG_BYTES) as f64 / seconds);
        }
        Ok((latency, best))
    }

    fn follow(&self, one: Rank) -> Result<()> {
        for _ in 0..PINGS {
            self.receive(one, &self.pings)?;
            self.send(one, Lane::Control, self.short, 1)?;
        }
        for _ in 0..TRIES {
            for _ in 0..LONG {
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
                let told = Mutex::new(Vec::new());
                let found = probe(cluster, |done, all| told.lock().unwrap().push((done, all)))?;
                assert_eq!(told.into_inner().unwrap(), (0..=6).map(|done| (done, 6)).collect::<Vec<_>>());
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
