//! Who takes part, and how fast they can talk to each other.
//!
//! Peers of one host share its link to the others: what crosses hosts is counted for the host as a whole. A link between two peers may be given by itself where it differs from
//! the rest (a peer in another rack, say).

use crate::error::{Error, Result};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Bytes that go one way in a second.
    pub bytes_per_second: f64,
    /// Seconds until the first byte is there, and what a message costs however short it is.
    pub latency: f64,
}

impl Link {
    /// A link of so many bits per second and seconds of latency.
    #[must_use]
    pub fn bits(bits_per_second: f64, latency: f64) -> Self {
        Self { bytes_per_second: bits_per_second / 8.0, latency }
    }

    fn check(self, name: &str) -> Result<()> {
        let good = self.bytes_per_second.is_finite() && self.bytes_per_second > 0.0;
        if !good || !self.latency.is_finite() || self.latency < 0.0 {
            let problem = format!(
                "{name} has {} bytes per second and {} s of latency; both must be finite, the first more than zero and the second not less",
                self.bytes_per_second, self.latency
            );
            return Err(Error::Cluster(problem));
        }
        Ok(())
    }
}

/// One who takes part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The machine it runs on. Peers with the same one share its network link.
    pub host: String,
    /// What it computes with, such as `cpu` or `cuda:0`.
    #[serde(default = "cpu")]
    pub device: String,
}

fn cpu() -> String {
    "cpu".to_owned()
}

/// A link between two peers that is not like the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// One of them.
    pub one: Rank,
    /// The other.
    pub other: Rank,
    /// What their link does, either way.
    #[serde(flatten)]
    pub link: Link,
}

/// Peers and links. `hemiola probe` measures one; it can be written by hand, too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Between peers of one host.
    pub within_host: Link,
    /// Between hosts.
    pub between_hosts: Link,
    /// In the order of their ranks.
    pub peers: Vec<Peer>,
    /// Links that are not like the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
}

impl Cluster {
    /// So many peers, each on a host of its own, with equal links between all.
    #[must_use]
    pub fn uniform(peers: usize, link: Link) -> Self {
        let peer = |rank| Peer { host: format!("host-{rank}"), device: cpu() };
        Self { within_host: link, between_hosts: link, peers: (0..peers).map(peer).collect(), pairs: Vec::new() }
    }

    /// A description of measured links, of which `link` knows the one of every pair. What is usual within a host and between hosts is the median; pairs that differ from it by more than a
    /// quarter are listed by themselves.
    #[must_use]
    pub fn measured(peers: Vec<Peer>, link: impl Fn(Rank, Rank) -> Link) -> Self {
        let nothing = Link { bytes_per_second: 1e12, latency: 0.0 };
        let mut cluster = Self { within_host: nothing, between_hosts: nothing, peers, pairs: Vec::new() };
        let size = cluster.size();
        let all: Vec<Pair> = Rank::all(size)
            .flat_map(|one| Rank::all(size).filter(move |other| one < *other).map(move |other| (one, other)))
            .map(|(one, other)| Pair { one, other, link: link(one, other) })
            .collect();
        let (near, far): (Vec<Pair>, Vec<Pair>) = all.iter().partition(|pair| cluster.same_host(pair.one, pair.other));
        // Where nothing was measured, what is known of the others is the best guess.
        let usual = |first: &[Pair], second: &[Pair]| median(first).or_else(|| median(second)).unwrap_or(nothing);
        (cluster.within_host, cluster.between_hosts) = (usual(&near, &far), usual(&far, &near));
        cluster.pairs = all.into_iter().filter(|pair| differs(pair.link, cluster.link(pair.one, pair.other))).collect();
        cluster
    }

    /// How many peers there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.peers.len()
    }

    /// All ranks.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        Rank::all(self.size())
    }

    /// The link between two peers.
    #[must_use]
    pub fn link(&self, one: Rank, other: Rank) -> Link {
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

    /// Whether two peers share a host.
    #[must_use]
    pub fn same_host(&self, one: Rank, other: Rank) -> bool {
        self.peers[one.index()].host == self.peers[other.index()].host
    }

    /// Peers of each host, in the order in which hosts are named first.
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

    /// The slowest link between any two of these peers, by bandwidth and by latency.
    #[must_use]
    pub fn slowest(&self, among: &[Rank]) -> Link {
        let fastest = Link { bytes_per_second: f64::INFINITY, latency: 0.0 };
        let pairs =
            among.iter().enumerate().flat_map(|(at, one)| among[at + 1..].iter().map(move |other| (*one, *other)));
        pairs.fold(fastest, |slowest, (one, other)| {
            let link = self.link(one, other);
            Link {
                bytes_per_second: slowest.bytes_per_second.min(link.bytes_per_second),
                latency: slowest.latency.max(link.latency),
            }
        })
    }

    /// Refuses a description that cannot be.
    pub fn check(&self) -> Result<()> {
        if self.peers.is_empty() {
            return Err(Error::Cluster("it names no peers".into()));
        }
        self.within_host.check("the link within a host")?;
        self.between_hosts.check("the link between hosts")?;
        for (at, Pair { one, other, link }) in self.pairs.iter().enumerate() {
            if one == other || one.index() >= self.size() || other.index() >= self.size() {
                let problem = format!("a link between peers {one} and {other}, and there are {} peers", self.size());
                return Err(Error::Cluster(problem));
            }
            let same =
                |pair: &Pair| (pair.one, pair.other) == (*one, *other) || (pair.other, pair.one) == (*one, *other);
            if self.pairs[..at].iter().any(same) {
                return Err(Error::Cluster(format!("two links between peers {one} and {other}")));
            }
            link.check(&format!("the link between peers {one} and {other}"))?;
        }
        Ok(())
    }

    /// Reads a description in TOML or, if it begins with a brace, in JSON.
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

    /// The description in TOML, as [`Cluster::parse`] reads it.
    ///
    /// # Panics
    /// Never: these are tables of strings and numbers.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("plain data")
    }
}

/// The link with the median of both figures.
fn median(pairs: &[Pair]) -> Option<Link> {
    let of = |figure: fn(&Pair) -> f64| {
        let mut figures: Vec<f64> = pairs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied()
    };
    Some(Link { bytes_per_second: of(|pair| pair.link.bytes_per_second)?, latency: of(|pair| pair.link.latency)? })
}

/// Measurements vary; so much is a difference.
const QUARTER: f64 = 1.25;
/// Seconds that do not matter.
const NO_TIME: f64 = 1e-4;

fn differs(link: Link, usual: Link) -> bool {
    let apart = |one: f64, other: f64| one.max(other) > QUARTER * one.min(other);
    let late = (link.latency - usual.latency).abs() > NO_TIME && apart(link.latency, usual.latency);
    apart(link.bytes_per_second, usual.bytes_per_second) || late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_told_in_short() {
        let peers = ["a", "a", "b", "b", "c", "c"].map(|host| Peer { host: host.into(), device: cpu() }).to_vec();
        let near = Link { bytes_per_second: 3e9, latency: 1e-5 };
        let far = Link { bytes_per_second: 1.2e8, latency: 2e-4 };
        let slow = Link { bytes_per_second: 1e7, latency: 2e-4 };
        let link = |one: Rank, other: Rank| match (one.index(), other.index()) {
            (0, 1) | (2, 3) | (4, 5) => near,
            // A fifth is no difference.
            (0, 4) => Link { bytes_per_second: 1e8, ..far },
            (1, 5) => slow,
            _ => far,
        };
        let cluster = Cluster::measured(peers, link);
        assert_eq!((cluster.within_host, cluster.between_hosts), (near, far));
        assert_eq!(cluster.pairs, [Pair { one: Rank::new(1), other: Rank::new(5), link: slow }]);
        cluster.check().unwrap();
        let one = Cluster::measured(vec![Peer { host: "a".into(), device: cpu() }], link);
        one.check().unwrap();
        let two = Cluster::measured(vec![Peer { host: "a".into(), device: cpu() }; 2], link);
        assert_eq!((two.within_host, two.between_hosts), (near, near));
    }

    fn two_hosts() -> Cluster {
        let peer = |host: &str| Peer { host: host.into(), device: cpu() };
        Cluster {
            within_host: Link::bits(80e9, 5e-6),
            between_hosts: Link::bits(1e9, 1e-4),
            peers: ["a", "a", "b", "b"].map(peer).to_vec(),
            pairs: vec![Pair { one: Rank::new(0), other: Rank::new(3), link: Link::bits(1e8, 1e-3) }],
        }
    }

    #[test]
    fn links_are_found_by_host_and_by_pair() {
        let cluster = two_hosts();
        let link = |one, other| cluster.link(Rank::new(one), Rank::new(other));
        assert_eq!(link(0, 1), cluster.within_host);
        assert_eq!(link(2, 1), cluster.between_hosts);
        assert_eq!(link(3, 0), Link::bits(1e8, 1e-3));
        assert_eq!(cluster.hosts(), [[Rank::new(0), Rank::new(1)], [Rank::new(2), Rank::new(3)]]);
        let all: Vec<Rank> = cluster.ranks().collect();
        assert_eq!(cluster.slowest(&all), Link::bits(1e8, 1e-3));
        assert_eq!(cluster.slowest(&all[..2]), cluster.within_host);
    }

    #[test]
    fn files_come_back_as_they_were() {
        let cluster = two_hosts();
        let text = cluster.to_toml();
        assert_eq!(Cluster::parse(&text).unwrap(), cluster, "{text}");
        assert_eq!(Cluster::parse(&serde_json::to_string(&cluster).unwrap()).unwrap(), cluster);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        for (change, said) in [
            (Box::new(|cluster: &mut Cluster| cluster.peers.clear()) as Box<dyn Fn(&mut Cluster)>, "names no peers"),
            (Box::new(|cluster| cluster.between_hosts.bytes_per_second = 0.0), "the link between hosts has 0 bytes"),
            (Box::new(|cluster| cluster.within_host.latency = f64::NAN), "the link within a host"),
            (Box::new(|cluster| cluster.pairs[0].other = Rank::new(9)), "peers 0 and 9, and there are 4 peers"),
            (Box::new(|cluster| cluster.pairs.push(cluster.pairs[0])), "two links between peers 0 and 3"),
        ] {
            let mut cluster = two_hosts();
            change(&mut cluster);
            let error = cluster.check().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let error = Cluster::parse("[within_host]\nbytes_per_second = 1.0\nlatncy = 2.0").unwrap_err().to_string();
        assert!(error.contains("latncy"), "{error}");
    }
}
