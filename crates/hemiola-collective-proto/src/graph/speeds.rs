//! Measured link speeds, and the time of a round over a graph.

use super::Graph;
use crate::{Error, Result};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Bytes per second from each peer to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkSpeeds {
    peers: usize,
    /// Row-major, one row per sender; the diagonal is ignored.
    speeds: Vec<f64>,
}

impl LinkSpeeds {
    /// Creates speeds from row-major values, one row per sender.
    pub fn new(peers: usize, speeds: Vec<f64>) -> Result<Self> {
        let bad = |problem: String| Err(Error::InvalidLinkSpeeds { peers, problem });
        if peers.checked_mul(peers) != Some(speeds.len()) || peers == 0 {
            return bad(format!("{} values were given, and there are {peers} × {peers} links", speeds.len()));
        }
        let wrong =
            |index: usize| index / peers != index % peers && !(speeds[index].is_finite() && speeds[index] > 0.0);
        if let Some(index) = (0..speeds.len()).find(|&index| wrong(index)) {
            return bad(format!(
                "from peer {} to peer {} it is `{}` bytes per second; measure again",
                index / peers,
                index % peers,
                speeds[index]
            ));
        }
        Ok(Self { peers, speeds })
    }

    /// Creates speeds from a function of sender and receiver.
    pub fn from_fn(peers: usize, mut speed: impl FnMut(Rank, Rank) -> f64) -> Result<Self> {
        let pairs = Rank::all(peers).flat_map(|from| Rank::all(peers).map(move |to| (from, to)));
        Self::new(peers, pairs.map(|(from, to)| speed(from, to)).collect())
    }

    /// Number of measured peers.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.peers
    }

    /// Bytes per second from one peer to another.
    #[must_use]
    pub fn between(&self, from: Rank, to: Rank) -> f64 {
        self.speeds[from.index() * self.peers + to.index()]
    }

    /// Seconds of a round in which each edge carries `message` bytes: a peer's messages leave one
    /// after the other and arrive one after the other, and the round lasts as long as the slowest
    /// of all these queues.
    #[must_use]
    pub fn step_seconds(&self, graph: &Graph, message: u64) -> f64 {
        let one = |from: Rank, to: Rank| message as f64 / self.between(from, to);
        let out = |peer: Rank| graph.receivers(peer).iter().map(|&to| one(peer, to)).sum::<f64>();
        let incoming = |peer: Rank| graph.senders(peer).iter().map(|&from| one(from, peer)).sum::<f64>();
        Rank::all(graph.peers()).map(|peer| out(peer).max(incoming(peer))).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    #[test]
    fn a_step_lasts_as_long_as_its_slowest_queue() {
        // Everything from peer 2 is ten times slower.
        let speeds = LinkSpeeds::from_fn(3, |from, _| if from.index() == 2 { 10.0 } else { 100.0 }).unwrap();
        let ring = Topology::Ring.graph(3).unwrap();
        assert!((speeds.step_seconds(&ring, 100) - 10.0).abs() < 1e-12);
        let complete = Topology::Complete.graph(3).unwrap();
        assert!((speeds.step_seconds(&complete, 100) - 20.0).abs() < 1e-12);
    }

    #[test]
    fn invalid_speeds_are_named() {
        assert!(LinkSpeeds::new(2, vec![1.0; 3]).is_err());
        let wrong = LinkSpeeds::new(2, vec![0.0, 1.0, f64::NAN, 0.0]).unwrap_err();
        assert!(wrong.to_string().contains("from peer 1 to peer 0"), "{wrong}");
        assert!(LinkSpeeds::new(2, vec![0.0, 1.0, 1.0, 0.0]).is_ok(), "the diagonal is not a link");
    }
}
