//! How fast links are, measured once, so that an all-reduce can choose its way.
//!
//! Peers 0 and 1 send messages of three sizes there and back, and peer 0 adds up two vectors. What it found is told to all, so all choose
//! alike. Each figure is the best of a few, since a busy machine only ever adds time.

use crate::flight::Flight;
use hemiola_cluster::{Cluster, Reason, Result};
use hemiola_collective::cost::{Link, Links};
use hemiola_collective::protocol::{Operation, Tag};
use hemiola_core::{ChannelId, Lane, Outgoing, Payload, Purpose, Rank, Waiter};
use std::panic::Location;

/// Bytes of the messages, and how often each goes there and back.
const SIZES: [(usize, u32); 3] = [(64, 20), (1 << 14, 10), (1 << 18, 5)];
/// Elements that are added up.
const SUMMED: usize = 1 << 16;
/// What is assumed where there is nobody to measure with.
const ALONE: Link = Link { latency: 1e-5, per_byte: 1e-9 };

/// *Collective.* The links of this job, the same on all peers.
pub(crate) fn links(
    cluster: &Cluster,
    [channel, told]: [ChannelId; 2],
    site: &'static Location<'static>,
) -> Result<Links> {
    let mut samples = Vec::new();
    if cluster.size() > 1 && cluster.rank().index() < 2 {
        let mailbox = cluster.open(channel, Lane::Bulk);
        let other = Rank::new(1 - cluster.rank().number());
        let reason = Reason { what: "all-reduce, which measures links first,", number: None, site: Some(site) };
        let send = |bytes: usize| {
            let payload = Payload::from(vec![0; bytes]);
            cluster.send(other, Outgoing { lane: Lane::Bulk, channel, purpose: Purpose::Collective, payload })
        };
        for (bytes, rounds) in SIZES {
            let mut best = f64::INFINITY;
            for _ in 0..rounds {
                let start = cluster.env().now();
                if cluster.is_root() {
                    send(bytes)?;
                }
                let came = cluster.receive(&mailbox, other, Waiter::Driver, reason)?;
                if !cluster.is_root() {
                    send(came.payload.len())?;
                }
                best = best.min((cluster.env().now() - start).as_secs_f64() / 2.0);
            }
            samples.push((bytes as u64, best));
        }
    }
    let link = Link::fit(&samples).unwrap_or(ALONE);
    let mut found = [link.latency, link.per_byte, sum_per_byte(cluster)];
    let operation = Operation::Broadcast { root: Rank::ROOT, length: found.len() };
    Flight::begin::<f64>(cluster, told, Tag::new(1), &operation, site)?.run(&mut found)?;
    let [latency, per_byte, sum_per_byte] = found;
    Ok(Links::uniform(Link { latency, per_byte }, sum_per_byte))
}

fn sum_per_byte(cluster: &Cluster) -> f64 {
    let (mut sums, terms) = (vec![1.0_f32; SUMMED], vec![0.5_f32; SUMMED]);
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let start = cluster.env().now();
        sums.iter_mut().zip(&terms).for_each(|(sum, term)| *sum += term);
        best = best.min((cluster.env().now() - start).as_secs_f64());
        std::hint::black_box(&mut sums);
    }
    best / size_of_val(&terms[..]) as f64
}
