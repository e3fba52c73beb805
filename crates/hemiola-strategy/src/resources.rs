//! Resources of a job: its peers, their hosts, and the links between them (`AutoDist`'s resource
//! specification).
//!
//! Peers of one host share its link to the others: traffic between hosts is counted for the host as
//! a whole. A link between two peers may be listed on its own where it differs from the rest (a
//! peer in another rack, for example).

use crate::error::{Error, Result};
use hemiola_collective_proto::Route;
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Bandwidth and latency of a link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Bytes per second in one direction.
    pub bytes_per_second: f64,
    /// Seconds until the first byte arrives, and the fixed cost of a message.
    pub latency: f64,
}

impl LinkSpec {
    /// Creates a link from bits per second and seconds of latency.
    #[must_use]
    pub fn bits(bits_per_second: f64, latency: f64) -> Self {
        Self { bytes_per_second: bits_per_second / 8.0, latency }
    }

    fn check(self, name: &str) -> Result<()> {
        let good = self.bytes_per_second.is_finite() && self.bytes_per_second > 0.0;
        if !good || !self.latency.is_finite() || self.latency < 0.0 {
            let problem = format!(
                "{name} has {} bytes per second and {} s of latency; both must be finite, the first positive and the second not negative",
                self.bytes_per_second, self.latency
            );
            return Err(Error::Cluster(problem));
        }
        Ok(())
    }
}

/// Peer of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerSpec {
    /// Name of the host it runs on. Peers with the same host share its network link.
    pub host: String,
    /// Compute device, such as `cpu` or `cuda:0`.
    #[serde(default = "cpu")]
    pub device: String,
    /// Memory for shards of variables in bytes, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

impl PeerSpec {
    /// Creates a peer on a host, with the device `cpu`.
    #[must_use]
    pub fn on(host: impl Into<String>) -> Self {
        Self { host: host.into(), device: cpu(), memory: None }
    }

    /// Sets the compute device.
    #[must_use]
    pub fn device(mut self, device: impl Into<String>) -> Self {
        self.device = device.into();
        self
    }
}

fn cpu() -> String {
    "cpu".to_owned()
}

/// Link between two peers that differs from the default of its kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkOverride {
    /// First peer of the pair.
    pub one: Rank,
    /// Second peer of the pair.
    pub other: Rank,
    /// Properties of the link, the same in both directions.
    #[serde(flatten)]
    pub link: LinkSpec,
}

/// Peers and links of a cluster. `hemiola probe` measures one; it can also be written by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResourceSpec {
    /// Default link between peers of one host.
    pub within_host: LinkSpec,
    /// Default link between peers of different hosts.
    pub between_hosts: LinkSpec,
    /// Peers in the order of their ranks.
    pub peers: Vec<PeerSpec>,
    /// Links that differ from the defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<LinkOverride>,
}

impl ResourceSpec {
    /// Creates a cluster of `peers`, each on a host of its own, with equal links between all.
    #[must_use]
    pub fn uniform(peers: usize, link: LinkSpec) -> Self {
        let peer = |rank| PeerSpec::on(format!("host-{rank}"));
        Self { within_host: link, between_hosts: link, peers: (0..peers).map(peer).collect(), pairs: Vec::new() }
    }

    /// Creates a description from measurements, where `link` returns the link of every pair. The
    /// defaults within a host and between hosts are the medians; pairs that differ from them by
    /// more than a quarter are listed as overrides.
    #[must_use]
    pub fn measured(peers: Vec<PeerSpec>, link: impl Fn(Rank, Rank) -> LinkSpec) -> Self {
        let nothing = LinkSpec { bytes_per_second: 1e12, latency: 0.0 };
        let mut cluster = Self { within_host: nothing, between_hosts: nothing, peers, pairs: Vec::new() };
        let size = cluster.size();
        let all: Vec<LinkOverride> = Rank::all(size)
            .flat_map(|one| Rank::all(size).filter(move |other| one < *other).map(move |other| (one, other)))
            .map(|(one, other)| LinkOverride { one, other, link: link(one, other) })
            .collect();
        let (near, far): (Vec<LinkOverride>, Vec<LinkOverride>) =
            all.iter().partition(|pair| cluster.same_host(pair.one, pair.other));
        // Without a measurement of one kind of link, the other kind is the best guess.
        let usual = |first: &[LinkOverride], second: &[LinkOverride]| {
            median(first).or_else(|| median(second)).unwrap_or(nothing)
        };
        (cluster.within_host, cluster.between_hosts) = (usual(&near, &far), usual(&far, &near));
        cluster.pairs = all.into_iter().filter(|pair| differs(pair.link, cluster.link(pair.one, pair.other))).collect();
        cluster
    }

    /// Number of peers of the cluster.
    #[must_use]
    pub fn size(&self) -> usize {
        self.peers.len()
    }

    /// Iterates over all ranks.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        Rank::all(self.size())
    }

    /// Returns the link between two peers.
    #[must_use]
    pub fn link(&self, one: Rank, other: Rank) -> LinkSpec {
        let pair = self
            .pairs
            .iter()
            .find(|pair| (pair.one, pair.other) == (one, other) || (pair.other, pair.one) == (one, other));
        match pair {
            Some(pair) => pair.link,
            None if self.same_host(one, other) => self.within_host,
            None => self.between_hosts,
        }
    }

    /// Returns true if two peers share a host.
    #[must_use]
    pub fn same_host(&self, one: Rank, other: Rank) -> bool {
        self.peers[one.index()].host == self.peers[other.index()].host
    }

    /// Peers of each host, in the order in which hosts occur first.
    #[must_use]
    pub fn hosts(&self) -> Vec<Vec<Rank>> {
        let mut hosts: Vec<(&str, Vec<Rank>)> = Vec::new();
        for (rank, peer) in self.ranks().zip(&self.peers) {
            match hosts.iter_mut().find(|(host, _)| *host == peer.host) {
                Some((_, ranks)) => ranks.push(rank),
                None => hosts.push((&peer.host, vec![rank])),
            }
        }
        hosts.into_iter().map(|(_, ranks)| ranks).collect()
    }

    /// Route of these peers by host: the first peer of each host is its station. `None` if the hosts
    /// have one peer each, or if there is one host only: then a second level gains nothing.
    #[must_use]
    pub fn host_route(&self, among: &[Rank]) -> Option<Route> {
        let on_host = |host: Vec<Rank>| host.into_iter().filter(|rank| among.contains(rank)).collect::<Vec<Rank>>();
        let groups: Vec<Vec<Rank>> = self.hosts().into_iter().map(on_host).filter(|group| !group.is_empty()).collect();
        let two_level = groups.len() > 1 && groups.iter().any(|group| group.len() > 1);
        two_level.then(|| Route::new(groups))
    }

    /// Order of these peers for a ring: from the first one always to the nearest peer that is left,
    /// by the time of a megabyte; among equals to the lowest rank. Peers of a host are neighbours.
    #[must_use]
    pub fn ring_order(&self, among: &[Rank]) -> Vec<Rank> {
        let time = |one: Rank, other: Rank| {
            let link = self.link(one, other);
            (!self.same_host(one, other), link.latency + RING_BYTES / link.bytes_per_second)
        };
        let mut left = among.to_vec();
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let next = order.last().map_or(0, |last: &Rank| {
                let times = left.iter().map(|rank| time(*last, *rank)).enumerate();
                let nearer =
                    |one: &(bool, f64), other: &(bool, f64)| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1));
                times.min_by(|(_, one), (_, other)| nearer(one, other)).map_or(0, |(index, _)| index)
            });
            order.push(left.remove(next));
        }
        order
    }

    /// Bytes per second at which a peer can serve the others: the mean over its links, where peers
    /// of one host share the links to other hosts.
    #[must_use]
    pub fn serving_bandwidth(&self, peer: Rank) -> f64 {
        let sharing = self.ranks().filter(|other| self.same_host(peer, *other)).count() as f64;
        let links = self.ranks().filter(|other| *other != peer).map(|other| {
            let bandwidth = self.link(peer, other).bytes_per_second;
            if self.same_host(peer, other) { bandwidth } else { bandwidth / sharing }
        });
        let (sum, count) = links.fold((0.0, 0.0), |(sum, count), bandwidth| (sum + bandwidth, count + 1.0));
        if count > 0.0 { sum / count } else { self.within_host.bytes_per_second }
    }

    /// Worst bandwidth and worst latency of the links between any two of these peers.
    #[must_use]
    pub fn slowest(&self, among: &[Rank]) -> LinkSpec {
        let fastest = LinkSpec { bytes_per_second: f64::INFINITY, latency: 0.0 };
        let pairs = among
            .iter()
            .enumerate()
            .flat_map(|(index, one)| among[index + 1..].iter().map(move |other| (*one, *other)));
        pairs.fold(fastest, |slowest, (one, other)| {
            let link = self.link(one, other);
            LinkSpec {
                bytes_per_second: slowest.bytes_per_second.min(link.bytes_per_second),
                latency: slowest.latency.max(link.latency),
            }
        })
    }

    /// Checks that the description has peers and valid links.
    pub fn check(&self) -> Result<()> {
        if self.peers.is_empty() {
            return Err(Error::Cluster("it lists no peers".into()));
        }
        self.within_host.check("the link within a host")?;
        self.between_hosts.check("the link between hosts")?;
        for (index, LinkOverride { one, other, link }) in self.pairs.iter().enumerate() {
            if one == other || one.index() >= self.size() || other.index() >= self.size() {
                let problem = format!("a link between peers {one} and {other}, and there are {} peers", self.size());
                return Err(Error::Cluster(problem));
            }
            let same = |pair: &LinkOverride| {
                (pair.one, pair.other) == (*one, *other) || (pair.other, pair.one) == (*one, *other)
            };
            if self.pairs[..index].iter().any(same) {
                return Err(Error::Cluster(format!("two links between peers {one} and {other}")));
            }
            link.check(&format!("the link between peers {one} and {other}"))?;
        }
        Ok(())
    }

    /// Parses a description in TOML or, if the text begins with a brace, in JSON.
    pub fn parse(text: &str) -> Result<Self> {
        let problem = |problem: String| Error::File { what: "the description of a cluster", problem };
        let cluster: Self = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| problem(error.to_string()))?
        } else {
            toml::from_str(text).map_err(|error| problem(error.to_string()))?
        };
        cluster.check()?;
        Ok(cluster)
    }

    /// Serializes the description as TOML, as [`ResourceSpec::parse`] reads it.
    ///
    /// # Panics
    /// Never: these are tables of strings and numbers.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("plain data always serializes")
    }
}

/// Link with the median bandwidth and the median latency.
fn median(pairs: &[LinkOverride]) -> Option<LinkSpec> {
    let of = |figure: fn(&LinkOverride) -> f64| {
        let mut figures: Vec<f64> = pairs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied()
    };
    Some(LinkSpec { bytes_per_second: of(|pair| pair.link.bytes_per_second)?, latency: of(|pair| pair.link.latency)? })
}

/// Bytes of a message by whose time the order of a ring is chosen.
const RING_BYTES: f64 = 1e6;
/// Measurements vary; links differ if their ratio exceeds this.
const DIFFERENCE_RATIO: f64 = 1.25;
/// Latency differences up to this many seconds are ignored.
const NEGLIGIBLE_SECONDS: f64 = 1e-4;

fn differs(link: LinkSpec, usual: LinkSpec) -> bool {
    let apart = |one: f64, other: f64| one.max(other) > DIFFERENCE_RATIO * one.min(other);
    let late = (link.latency - usual.latency).abs() > NEGLIGIBLE_SECONDS && apart(link.latency, usual.latency);
    apart(link.bytes_per_second, usual.bytes_per_second) || late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unusual_links_are_listed() {
        let peers = ["a", "a", "b", "b", "c", "c"].map(PeerSpec::on).to_vec();
        let near = LinkSpec { bytes_per_second: 3e9, latency: 1e-5 };
        let far = LinkSpec { bytes_per_second: 1.2e8, latency: 2e-4 };
        let slow = LinkSpec { bytes_per_second: 1e7, latency: 2e-4 };
        let link = |one: Rank, other: Rank| match (one.index(), other.index()) {
            (0, 1) | (2, 3) | (4, 5) => near,
            // A fifth is within the tolerance.
            (0, 4) => LinkSpec { bytes_per_second: 1e8, ..far },
            (1, 5) => slow,
            _ => far,
        };
        let cluster = ResourceSpec::measured(peers, link);
        assert_eq!((cluster.within_host, cluster.between_hosts), (near, far));
        assert_eq!(cluster.pairs, [LinkOverride { one: Rank::new(1), other: Rank::new(5), link: slow }]);
        cluster.check().unwrap();
        let one = ResourceSpec::measured(vec![PeerSpec::on("a")], link);
        one.check().unwrap();
        let two = ResourceSpec::measured(vec![PeerSpec::on("a"); 2], link);
        assert_eq!((two.within_host, two.between_hosts), (near, near));
    }

    fn two_hosts() -> ResourceSpec {
        ResourceSpec {
            within_host: LinkSpec::bits(80e9, 5e-6),
            between_hosts: LinkSpec::bits(1e9, 1e-4),
            peers: ["a", "a", "b", "b"].map(PeerSpec::on).to_vec(),
            pairs: vec![LinkOverride { one: Rank::new(0), other: Rank::new(3), link: LinkSpec::bits(1e8, 1e-3) }],
        }
    }

    #[test]
    fn links_are_found_by_host_and_by_pair() {
        let cluster = two_hosts();
        let link = |one, other| cluster.link(Rank::new(one), Rank::new(other));
        assert_eq!(link(0, 1), cluster.within_host);
        assert_eq!(link(2, 1), cluster.between_hosts);
        assert_eq!(link(3, 0), LinkSpec::bits(1e8, 1e-3));
        assert_eq!(cluster.hosts(), [[Rank::new(0), Rank::new(1)], [Rank::new(2), Rank::new(3)]]);
        let all: Vec<Rank> = cluster.ranks().collect();
        assert_eq!(cluster.slowest(&all), LinkSpec::bits(1e8, 1e-3));
        assert_eq!(cluster.slowest(&all[..2]), cluster.within_host);
    }

    #[test]
    fn routes_and_rings_follow_hosts_and_links() {
        let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank::new).collect::<Vec<_>>();
        let cluster = two_hosts();
        assert_eq!(cluster.host_route(&ranks(&[0, 1, 2, 3])).unwrap().to_string(), "0 1 | 2 3");
        assert_eq!(cluster.host_route(&ranks(&[0, 2, 3])).unwrap().to_string(), "0 | 2 3");
        assert_eq!(cluster.host_route(&ranks(&[0, 2])), None, "one peer of each host");
        assert_eq!(cluster.host_route(&ranks(&[2, 3])), None, "one host");
        let mut cluster = two_hosts();
        cluster.peers = ["a", "b", "a", "b"].map(PeerSpec::on).to_vec();
        cluster.pairs = vec![LinkOverride { one: Rank::new(2), other: Rank::new(1), link: LinkSpec::bits(1e7, 1e-2) }];
        // The slow link of peers 1 and 2 is avoided.
        assert_eq!(cluster.ring_order(&ranks(&[0, 1, 2, 3])), ranks(&[0, 2, 3, 1]));
        // 80 Gbit/s to the peer of its host, and half of the gigabit to each of the two others.
        assert!((cluster.serving_bandwidth(Rank::new(0)) - (1e10 + 2.0 * 0.0625e9) / 3.0).abs() < 1.0);
    }

    #[test]
    fn files_round_trip() {
        let cluster = two_hosts();
        let text = cluster.to_toml();
        assert_eq!(ResourceSpec::parse(&text).unwrap(), cluster, "{text}");
        assert_eq!(ResourceSpec::parse(&serde_json::to_string(&cluster).unwrap()).unwrap(), cluster);
    }

    #[test]
    fn invalid_descriptions_are_rejected_with_the_reason() {
        for (change, expected) in [
            (
                Box::new(|cluster: &mut ResourceSpec| cluster.peers.clear()) as Box<dyn Fn(&mut ResourceSpec)>,
                "lists no peers",
            ),
            (Box::new(|cluster| cluster.between_hosts.bytes_per_second = 0.0), "the link between hosts has 0 bytes"),
            (Box::new(|cluster| cluster.within_host.latency = f64::NAN), "the link within a host"),
            (Box::new(|cluster| cluster.pairs[0].other = Rank::new(9)), "peers 0 and 9, and there are 4 peers"),
            (Box::new(|cluster| cluster.pairs.push(cluster.pairs[0])), "two links between peers 0 and 3"),
        ] {
            let mut cluster = two_hosts();
            change(&mut cluster);
            let error = cluster.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        let error = ResourceSpec::parse("[within_host]\nbytes_per_second = 1.0\nlatncy = 2.0").unwrap_err().to_string();
        assert!(error.contains("latncy"), "{error}");
    }
}
