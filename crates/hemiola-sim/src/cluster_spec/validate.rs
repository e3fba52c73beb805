//! Validation of a cluster spec.

use super::{ClusterSpec, ComputeModel, Fault};
use crate::units::SimDuration;
use std::fmt;

/// Maximum number of simulated peers.
pub const MAX_PEERS: usize = 1 << 16;

/// A cluster spec with invalid values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid cluster: {what}; {why}")]
pub struct InvalidClusterSpec {
    what: String,
    why: String,
}

impl InvalidClusterSpec {
    pub(super) fn unreadable(format: &str, error: &dyn fmt::Display) -> Self {
        Self { what: format!("its description is not valid {format}"), why: error.to_string() }
    }
}

fn invalid(what: impl fmt::Display, why: impl fmt::Display) -> Result<(), InvalidClusterSpec> {
    Err(InvalidClusterSpec { what: what.to_string(), why: why.to_string() })
}

impl ClusterSpec {
    /// Checks all values; the error names the first invalid one and the allowed range.
    pub fn validate(&self) -> Result<(), InvalidClusterSpec> {
        if self.peers == 0 || self.peers > MAX_PEERS {
            return invalid(format_args!("`peers` is {}", self.peers), format_args!("use 1 to {MAX_PEERS}"));
        }
        self.check_compute()?;
        self.check_link()?;
        if self.deadline == SimDuration::ZERO {
            return invalid("`deadline` is zero", "every peer would count as lost at once; use more than zero");
        }
        for (number, fault) in self.faults.iter().enumerate() {
            self.check_fault(number, fault)?;
        }
        self.check_lives()
    }

    fn check_compute(&self) -> Result<(), InvalidClusterSpec> {
        for compute in &self.compute {
            let positive = |what: &str, value: f64| {
                if value.is_finite() && value > 0.0 {
                    return Ok(());
                }
                invalid(format_args!("{what} is {value}"), "use a finite number above zero")
            };
            match *compute {
                ComputeModel::Constant { speed } => positive("the speed of a peer", speed)?,
                ComputeModel::Jitter { deviation } => {
                    if !(0.0..=5.0).contains(&deviation) {
                        return invalid(format_args!("the deviation of jitter is {deviation}"), "use 0 to 5");
                    }
                }
                ComputeModel::Stragglers { probability, factor } => {
                    check_probability("the probability of a straggler", probability)?;
                    positive("the factor of stragglers", factor)?;
                }
                ComputeModel::Markov { fast, slow, factor } => {
                    if fast == SimDuration::ZERO || slow == SimDuration::ZERO {
                        return invalid("a fast or slow phase has no duration", "use more than zero");
                    }
                    positive("the factor of slow phases", factor)?;
                }
            }
        }
        for slower in &self.slow_peers {
            slower.peers.iter().try_for_each(|peer| self.check_peer("a slow peer", *peer))?;
            if !(slower.factor.is_finite() && slower.factor > 0.0) {
                return invalid(
                    format_args!("the factor of slow peers is {}", slower.factor),
                    "use a finite number above zero",
                );
            }
        }
        Ok(())
    }

    fn check_link(&self) -> Result<(), InvalidClusterSpec> {
        if self.link.bandwidth.bytes_per_second() == 0 {
            return invalid("links have no bandwidth", "no message would arrive; use more than zero");
        }
        check_probability("the share of lost packets", self.link.loss)?;
        if self.link.loss > 0.5 {
            return invalid(
                format_args!("the share of lost packets is {}", self.link.loss),
                "no transport works with that; use at most 0.5",
            );
        }
        if let Some(hosts) = self.hosts {
            if hosts.peers == 0 {
                return invalid("hosts have no peers", "use at least one peer per host");
            }
            if hosts.cores == 0 {
                return invalid("hosts have no cores", "no computation would end; use at least one core");
            }
            if !(0.0..=1e6).contains(&hosts.nanos_per_byte) {
                return invalid(format_args!("`nanos_per_byte` is {}", hosts.nanos_per_byte), "use 0 to 1000000");
            }
        }
        if let Some(racks) = self.racks {
            if racks.peers == 0 {
                return invalid("racks have no peers", "use at least one peer per rack");
            }
            if racks.uplink.bytes_per_second() == 0 && racks.peers < self.peers {
                return invalid("uplinks have no bandwidth", "racks could not communicate; use more than zero");
            }
        }
        Ok(())
    }

    fn check_peer(&self, what: impl fmt::Display, peer: usize) -> Result<(), InvalidClusterSpec> {
        if peer < self.peers {
            return Ok(());
        }
        invalid(format_args!("{what} is {peer}"), format_args!("use 0 to {}", self.peers - 1))
    }

    fn check_fault(&self, number: usize, fault: &Fault) -> Result<(), InvalidClusterSpec> {
        let what = format!("the peer of fault {number}");
        let lasts = |at: SimDuration, until: SimDuration| {
            if at < until {
                return Ok(());
            }
            invalid(format_args!("fault {number} lasts from {at} until {until}"), "let it end after it begins")
        };
        match fault {
            Fault::Crash { peer, .. } | Fault::Restart { peer, .. } => self.check_peer(what, *peer),
            Fault::Partition { peers, at, until } => {
                peers.iter().try_for_each(|peer| self.check_peer(&what, *peer))?;
                let mut side = peers.clone();
                side.sort_unstable();
                side.dedup();
                if side.is_empty() || side.len() == self.peers {
                    return invalid(
                        format_args!("fault {number} separates {} of {} peers", side.len(), self.peers),
                        "leave at least one peer on each side",
                    );
                }
                lasts(*at, *until)
            }
            Fault::Slow { peer, at, until, factor } => {
                self.check_peer(what, *peer)?;
                if !(factor.is_finite() && *factor > 0.0) {
                    return invalid(
                        format_args!("fault {number} slows a link by {factor}"),
                        "use a finite number above zero",
                    );
                }
                lasts(*at, *until)
            }
            Fault::Drift { peer, ppm } => {
                self.check_peer(what, *peer)?;
                if !(ppm.is_finite() && ppm.abs() < 1e6) {
                    return invalid(
                        format_args!("fault {number} lets a clock drift by {ppm} ppm"),
                        "use less than a million",
                    );
                }
                Ok(())
            }
        }
    }

    /// Checks that a peer crashes only while it runs, and restarts only after a crash.
    fn check_lives(&self) -> Result<(), InvalidClusterSpec> {
        for peer in 0..self.peers {
            let mut life: Vec<(SimDuration, bool)> = self
                .faults
                .iter()
                .filter_map(|fault| match fault {
                    Fault::Crash { peer: of, at, .. } if *of == peer => Some((*at, false)),
                    Fault::Restart { peer: of, at } if *of == peer => Some((*at, true)),
                    _ => None,
                })
                .collect();
            life.sort_unstable();
            let mut runs = true;
            for (at, begins) in life {
                match (runs, begins) {
                    (true, true) => {
                        return invalid(format_args!("peer {peer} restarts at {at}"), "it has not crashed before");
                    }
                    (false, false) => {
                        return invalid(
                            format_args!("peer {peer} crashes at {at}"),
                            "it has not restarted since its last crash",
                        );
                    }
                    _ => runs = begins,
                }
            }
        }
        Ok(())
    }
}

fn check_probability(what: &str, value: f64) -> Result<(), InvalidClusterSpec> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    invalid(format_args!("{what} is {value}"), "use 0 to 1")
}

#[cfg(test)]
mod tests {
    use super::super::HostSpec;
    use super::*;

    fn reason(text: &str) -> String {
        ClusterSpec::from_toml(text).expect_err(text).to_string()
    }

    #[test]
    fn invalid_clusters_are_refused_with_the_reason() {
        for (text, expected) in [
            ("peers = 0", "`peers` is 0; use 1 to 65536"),
            (
                "peers = 2\nlink = { bandwidth = \"0bit\" }",
                "links have no bandwidth; no message would arrive; use more than zero",
            ),
            ("peers = 2\nlink = { loss = 1.5 }", "the share of lost packets is 1.5; use 0 to 1"),
            (
                "peers = 2\nlink = { loss = 0.9 }",
                "the share of lost packets is 0.9; no transport works with that; use at most 0.5",
            ),
            ("peers = 2\nslow_peers = [{ peers = [2], factor = 2.0 }]", "a slow peer is 2; use 0 to 1"),
            (
                "peers = 2\ncompute = [{ kind = \"stragglers\", probability = 0.5, factor = 0.0 }]",
                "the factor of stragglers is 0; use a finite number above zero",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"partition\", peers = [0, 1, 1], at = \"1s\", until = \"2s\" }]",
                "fault 0 separates 2 of 2 peers; leave at least one peer on each side",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"slow\", peer = 1, at = \"2s\", until = \"2s\", factor = 2.0 }]",
                "fault 0 lasts from 2s until 2s; let it end after it begins",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"restart\", peer = 1, at = \"2s\" }]",
                "peer 1 restarts at 2s; it has not crashed before",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"crash\", peer = 1, at = \"2s\" }, { kind = \"crash\", peer = 1, at = \"3s\" }]",
                "peer 1 crashes at 3s; it has not restarted since its last crash",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"drift\", peer = 0, ppm = -2e6 }]",
                "fault 0 lets a clock drift by -2000000 ppm; use less than a million",
            ),
            (
                "peers = 9\nracks = { peers = 0, uplink = \"1gbit\" }",
                "racks have no peers; use at least one peer per rack",
            ),
            ("peers = 9\nhosts = { peers = 0, cores = 2 }", "hosts have no peers; use at least one peer per host"),
            (
                "peers = 9\nhosts = { peers = 3, cores = 0 }",
                "hosts have no cores; no computation would end; use at least one core",
            ),
            (
                "peers = 9\nhosts = { peers = 3, cores = 1, nanos_per_byte = -1.0 }",
                "`nanos_per_byte` is -1; use 0 to 1000000",
            ),
        ] {
            assert_eq!(reason(text), format!("invalid cluster: {expected}"), "{text}");
        }
        assert!(reason("peers = 2\ncolor = \"red\"").contains("unknown field `color`"));
        assert!(reason("peers = \"two\"").contains("not valid TOML"));
    }

    #[test]
    fn specs_round_trip_through_toml_and_json() {
        let mut cluster = ClusterSpec::new(40);
        cluster.compute = vec![
            ComputeModel::Constant { speed: 2.0 },
            ComputeModel::Jitter { deviation: 0.2 },
            ComputeModel::Markov { fast: SimDuration::from_secs(1), slow: SimDuration::from_millis(100), factor: 3.0 },
        ];
        cluster.faults = vec![
            Fault::Crash { peer: 3, at: SimDuration::from_secs(1), silent: true },
            Fault::Restart { peer: 3, at: SimDuration::from_secs(2) },
            Fault::Partition { peers: vec![1, 2], at: SimDuration::from_secs(3), until: SimDuration::from_secs(4) },
            Fault::Drift { peer: 1, ppm: 20.0 },
        ];
        cluster.hosts =
            Some(HostSpec { peers: 4, cores: 2, message_time: SimDuration::from_micros(5), nanos_per_byte: 0.5 });
        assert_eq!(ClusterSpec::from_toml(&cluster.to_toml()), Ok(cluster.clone()));
        assert_eq!(ClusterSpec::from_json(&serde_json::to_string(&cluster).unwrap()), Ok(cluster));
    }
}
