//! Clusters that cannot be, and why.

use super::{Compute, Description, Fault};
use crate::units::Span;
use std::fmt;

/// More peers than this are not simulated.
pub const MOST_PEERS: usize = 1 << 16;

/// A description of a cluster that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this cluster cannot be: {what}: {why}")]
pub struct Impossible {
    what: String,
    why: String,
}

impl Impossible {
    pub(super) fn unreadable(format: &str, error: &dyn fmt::Display) -> Self {
        Self { what: format!("its description is not readable as {format}"), why: error.to_string() }
    }
}

fn refuse(what: impl fmt::Display, why: impl fmt::Display) -> Result<(), Impossible> {
    Err(Impossible { what: what.to_string(), why: why.to_string() })
}

impl Description {
    /// Refuses what cannot be, with the reason.
    pub fn check(&self) -> Result<(), Impossible> {
        if self.peers == 0 || self.peers > MOST_PEERS {
            return refuse(
                format_args!("it has {} peers", self.peers),
                format_args!("1 to {MOST_PEERS} can be simulated"),
            );
        }
        self.check_compute()?;
        self.check_link()?;
        if self.deadline == Span::ZERO {
            return refuse("its deadline is zero", "every peer would be lost before it has said anything");
        }
        for (number, fault) in self.faults.iter().enumerate() {
            self.check_fault(number, fault)?;
        }
        self.check_lives()
    }

    fn check_compute(&self) -> Result<(), Impossible> {
        for compute in &self.compute {
            let positive = |what: &str, value: f64| {
                if value.is_finite() && value > 0.0 {
                    return Ok(());
                }
                refuse(format_args!("{what} is {value}"), "it has to be above zero, and finite")
            };
            match *compute {
                Compute::Constant { speed } => positive("the speed of its peers", speed)?,
                Compute::Jitter { deviation } => {
                    if !(0.0..=5.0).contains(&deviation) {
                        return refuse(
                            format_args!("the deviation of its jitter is {deviation}"),
                            "between 0 and 5 is what logarithms of times can have",
                        );
                    }
                }
                Compute::Stragglers { chance, factor } => {
                    probability("the chance of a straggler", chance)?;
                    positive("the factor of stragglers", factor)?;
                }
                Compute::Markov { fast, slow, factor } => {
                    if fast == Span::ZERO || slow == Span::ZERO {
                        return refuse("its fast or slow times last no time at all", "each needs a length");
                    }
                    positive("the factor of slow times", factor)?;
                }
            }
        }
        for slower in &self.slower {
            slower.peers.iter().try_for_each(|peer| self.check_peer("a slower peer", *peer))?;
            if !(slower.factor.is_finite() && slower.factor > 0.0) {
                return refuse(
                    format_args!("a peer is slower by {}", slower.factor),
                    "it has to be above zero, and finite",
                );
            }
        }
        Ok(())
    }

    fn check_link(&self) -> Result<(), Impossible> {
        if self.link.bandwidth.bytes_per_second() == 0 {
            return refuse("its links have no bandwidth", "no message would ever arrive");
        }
        probability("the share of lost packets", self.link.loss)?;
        if self.link.loss > 0.5 {
            return refuse(
                format_args!("{} of its packets are lost", self.link.loss),
                "no transport gets through that",
            );
        }
        if let Some(hosts) = self.hosts {
            if hosts.peers == 0 {
                return refuse("its hosts hold no peers", "every peer is on one");
            }
            if hosts.cores == 0 {
                return refuse("its hosts have no cores", "nothing would ever be computed");
            }
            if !(0.0..=1e6).contains(&hosts.byte_nanos) {
                return refuse(
                    format_args!("a byte keeps a core busy for {} ns", hosts.byte_nanos),
                    "between nothing and a millisecond is what can be",
                );
            }
        }
        if let Some(racks) = self.racks {
            if racks.peers == 0 {
                return refuse("its racks hold no peers", "every peer is in one");
            }
            if racks.uplink.bytes_per_second() == 0 && racks.peers < self.peers {
                return refuse("its racks have uplinks without bandwidth", "peers of two racks could never talk");
            }
        }
        Ok(())
    }

    fn check_peer(&self, what: impl fmt::Display, peer: usize) -> Result<(), Impossible> {
        if peer < self.peers {
            return Ok(());
        }
        refuse(format_args!("{what} is peer {peer}"), format_args!("its peers are 0 to {}", self.peers - 1))
    }

    fn check_fault(&self, number: usize, fault: &Fault) -> Result<(), Impossible> {
        let what = format!("the peer of fault {number}");
        let lasts = |at: Span, until: Span| {
            if at < until {
                return Ok(());
            }
            refuse(format_args!("fault {number} lasts from {at} until {until}"), "it has to end after it has begun")
        };
        match fault {
            Fault::Crash { peer, .. } | Fault::Restart { peer, .. } => self.check_peer(what, *peer),
            Fault::Partition { peers, at, until } => {
                peers.iter().try_for_each(|peer| self.check_peer(&what, *peer))?;
                let mut side = peers.clone();
                side.sort_unstable();
                side.dedup();
                if side.is_empty() || side.len() == self.peers {
                    return refuse(
                        format_args!("fault {number} parts {} of {} peers from the others", side.len(), self.peers),
                        "both sides need somebody",
                    );
                }
                lasts(*at, *until)
            }
            Fault::Slow { peer, at, until, factor } => {
                self.check_peer(what, *peer)?;
                if !(factor.is_finite() && *factor > 0.0) {
                    return refuse(
                        format_args!("fault {number} slows a link down by {factor}"),
                        "it has to be above zero, and finite",
                    );
                }
                lasts(*at, *until)
            }
            Fault::Drift { peer, millionths } => {
                self.check_peer(what, *peer)?;
                if !(millionths.is_finite() && millionths.abs() < 1e6) {
                    return refuse(
                        format_args!("fault {number} lets a clock drift by {millionths} millionths"),
                        "a clock neither stands still nor goes back",
                    );
                }
                Ok(())
            }
        }
    }

    /// A peer crashes while it runs and restarts after it has crashed.
    fn check_lives(&self) -> Result<(), Impossible> {
        for peer in 0..self.peers {
            let mut life: Vec<(Span, bool)> = self
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
                    (true, true) => return refuse(format_args!("peer {peer} restarts at {at}"), "it has not crashed"),
                    (false, false) => {
                        return refuse(
                            format_args!("peer {peer} crashes at {at}"),
                            "it has crashed before, and not restarted",
                        );
                    }
                    _ => runs = begins,
                }
            }
        }
        Ok(())
    }
}

fn probability(what: &str, value: f64) -> Result<(), Impossible> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    refuse(format_args!("{what} is {value}"), "shares and chances are between 0 and 1")
}

#[cfg(test)]
mod tests {
    use super::super::Hosts;
    use super::*;

    fn reason(text: &str) -> String {
        Description::from_toml(text).expect_err(text).to_string()
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_reason() {
        for (text, expected) in [
            ("peers = 0", "it has 0 peers: 1 to 65536 can be simulated"),
            ("peers = 2\nlink = { bandwidth = \"0bit\" }", "its links have no bandwidth: no message would ever arrive"),
            (
                "peers = 2\nlink = { loss = 1.5 }",
                "the share of lost packets is 1.5: shares and chances are between 0 and 1",
            ),
            ("peers = 2\nlink = { loss = 0.9 }", "0.9 of its packets are lost: no transport gets through that"),
            ("peers = 2\nslower = [{ peers = [2], factor = 2.0 }]", "a slower peer is peer 2: its peers are 0 to 1"),
            (
                "peers = 2\ncompute = [{ kind = \"stragglers\", chance = 0.5, factor = 0.0 }]",
                "the factor of stragglers is 0: it has to be above zero, and finite",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"partition\", peers = [0, 1, 1], at = \"1s\", until = \"2s\" }]",
                "fault 0 parts 2 of 2 peers from the others: both sides need somebody",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"slow\", peer = 1, at = \"2s\", until = \"2s\", factor = 2.0 }]",
                "fault 0 lasts from 2s until 2s: it has to end after it has begun",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"restart\", peer = 1, at = \"2s\" }]",
                "peer 1 restarts at 2s: it has not crashed",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"crash\", peer = 1, at = \"2s\" }, { kind = \"crash\", peer = 1, at = \"3s\" }]",
                "peer 1 crashes at 3s: it has crashed before, and not restarted",
            ),
            (
                "peers = 2\nfaults = [{ kind = \"drift\", peer = 0, millionths = -2e6 }]",
                "fault 0 lets a clock drift by -2000000 millionths: a clock neither stands still nor goes back",
            ),
            ("peers = 9\nracks = { peers = 0, uplink = \"1gbit\" }", "its racks hold no peers: every peer is in one"),
            ("peers = 9\nhosts = { peers = 0, cores = 2 }", "its hosts hold no peers: every peer is on one"),
            ("peers = 9\nhosts = { peers = 3, cores = 0 }", "its hosts have no cores: nothing would ever be computed"),
            (
                "peers = 9\nhosts = { peers = 3, cores = 1, byte_nanos = -1.0 }",
                "a byte keeps a core busy for -1 ns: between nothing and a millisecond is what can be",
            ),
        ] {
            assert_eq!(reason(text), format!("this cluster cannot be: {expected}"), "{text}");
        }
        assert!(reason("peers = 2\ncolour = \"red\"").contains("unknown field `colour`"));
        assert!(reason("peers = \"two\"").contains("not readable as TOML"));
    }

    #[test]
    fn descriptions_come_back_from_toml_and_json() {
        let mut cluster = Description::new(40);
        cluster.compute = vec![
            Compute::Constant { speed: 2.0 },
            Compute::Jitter { deviation: 0.2 },
            Compute::Markov { fast: Span::from_secs(1), slow: Span::from_millis(100), factor: 3.0 },
        ];
        cluster.faults = vec![
            Fault::Crash { peer: 3, at: Span::from_secs(1), silent: true },
            Fault::Restart { peer: 3, at: Span::from_secs(2) },
            Fault::Partition { peers: vec![1, 2], at: Span::from_secs(3), until: Span::from_secs(4) },
            Fault::Drift { peer: 1, millionths: 20.0 },
        ];
        cluster.hosts = Some(Hosts { peers: 4, cores: 2, message: Span::from_micros(5), byte_nanos: 0.5 });
        assert_eq!(Description::from_toml(&cluster.to_toml()), Ok(cluster.clone()));
        assert_eq!(Description::from_json(&serde_json::to_string(&cluster).unwrap()), Ok(cluster));
    }
}
