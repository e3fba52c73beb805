//! The cluster as strategies see it: bandwidth and latency between peers.

use super::ClusterSpec;
use hemiola_strategy::{LinkSpec, PeerSpec, ResourceSpec};

impl ClusterSpec {
    /// Returns peers and links for a strategy builder. Every peer has an interface of its own, so
    /// each counts as a host; pairs in different racks have the uplink between them. Jitter, packet
    /// loss and faults are left out.
    #[must_use]
    pub fn resource_spec(&self) -> ResourceSpec {
        let secs = |nanos: u64| nanos as f64 / 1e9;
        let (bandwidth, latency) = (self.link.bandwidth, secs(self.link.latency.nanos() + self.link.overhead.nanos()));
        let near = LinkSpec { bytes_per_second: bandwidth.bytes_per_second() as f64, latency };
        let far = self.racks.map_or(near, |racks| LinkSpec {
            bytes_per_second: bandwidth.bytes_per_second().min(racks.uplink.bytes_per_second()) as f64,
            latency: latency + secs(racks.latency.nanos()),
        });
        let peer = |rank| PeerSpec::on(format!("host-{rank}"));
        ResourceSpec::measured((0..self.peers).map(peer).collect(), |one, other| {
            if self.rack(one.index()) == self.rack(other.index()) { near } else { far }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::ClusterSpec;
    use hemiola_core::Rank;

    #[test]
    fn racks_are_connected_by_their_uplinks() {
        let text = r#"
            peers = 5
            link = { bandwidth = "1gbit", latency = "100us", overhead = "0s" }
            racks = { peers = 3, uplink = "200mbit", latency = "20us" }
        "#;
        let resources = ClusterSpec::from_toml(text).unwrap().resource_spec();
        let link = |one: u32, other: u32| {
            let link = resources.link(Rank::new(one), Rank::new(other));
            (link.bytes_per_second / 1e6, (link.latency * 1e6).round())
        };
        assert_eq!((link(0, 2), link(3, 4)), ((125.0, 100.0), (125.0, 100.0)));
        assert_eq!((link(0, 3), link(4, 1)), ((25.0, 120.0), (25.0, 120.0)));
    }
}
