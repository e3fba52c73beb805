//! Roster of joined, missing and refused peers, kept by the root: pure, without a socket.

use crate::join::handshake::{JoinRefusal, JoinRequest};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Number of refusals that are recorded: unknown clients may connect for as long as the job waits.
const MAX_RECORDED_REFUSALS: usize = 32;

/// Peer that has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Address at which it listens.
    pub address: String,
    /// Process id on its host.
    pub process: u32,
}

/// Roster of a job that is joining. **Invariant:** a rank is assigned once.
#[derive(Debug)]
pub(crate) struct Roster {
    members: Vec<Option<Member>>,
    /// Number of dedicated servers, which have the highest ranks.
    servers: usize,
    /// Addresses of refused connections with the reasons, for the error if the job does not form.
    refused: Vec<(String, JoinRefusal)>,
}

impl Roster {
    /// Creates the roster of a job of `size` peers, `servers` of them dedicated servers, in which
    /// the root has joined.
    pub(crate) fn new(size: usize, servers: usize, root: Member) -> Self {
        let mut members = vec![None; size];
        members[0] = Some(root);
        Self { members, servers, refused: Vec::new() }
    }

    /// Checks whether the peer may join.
    pub(crate) fn check(&self, request: &JoinRequest) -> Result<(), JoinRefusal> {
        let size = self.members.len();
        let rank = request.rank;
        if request.size != size {
            return Err(JoinRefusal::WrongSize { ours: size, theirs: request.size });
        }
        if request.servers != self.servers {
            return Err(JoinRefusal::WrongServers { ours: self.servers, theirs: request.servers });
        }
        match self.members.get(rank.index()) {
            None => Err(JoinRefusal::NoSuchRank { rank, size }),
            Some(Some(Member { process, address })) => {
                Err(JoinRefusal::RankTaken { rank, process: *process, address: address.clone() })
            }
            Some(None) => Ok(()),
        }
    }

    /// Adds a peer that has passed [`check`](Self::check).
    pub(crate) fn admit(&mut self, request: JoinRequest) {
        self.members[request.rank.index()] = Some(Member { address: request.address, process: request.process });
    }

    /// Records a refused connection.
    pub(crate) fn refuse(&mut self, from: String, refusal: JoinRefusal) {
        if self.refused.len() < MAX_RECORDED_REFUSALS {
            self.refused.push((from, refusal));
        }
    }

    /// Returns all members in rank order, once none is missing.
    pub(crate) fn complete(&self) -> Option<Vec<Member>> {
        self.members.iter().cloned().collect()
    }

    /// Returns the printable address of a member.
    pub(crate) fn address(&self, rank: Rank) -> String {
        self.members[rank.index()].as_ref().map_or_else(|| "unknown".to_owned(), |member| member.address.clone())
    }

    /// Returns the ranks that have not joined.
    pub(crate) fn missing(&self) -> Vec<Rank> {
        Rank::all(self.members.len()).filter(|rank| self.members[rank.index()].is_none()).collect()
    }

    /// Returns the recorded refusals.
    pub(crate) fn refusals(&self) -> &[(String, JoinRefusal)] {
        &self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(rank: u32, size: usize) -> JoinRequest {
        JoinRequest { rank: Rank::new(rank), size, servers: 0, address: format!("host:{rank}"), process: 100 + rank }
    }

    #[test]
    fn each_rank_is_assigned_once() {
        let mut roster = Roster::new(3, 0, Member { address: "root:1".into(), process: 1 });
        for rank in [2, 1] {
            assert!(roster.complete().is_none());
            roster.check(&request(rank, 3)).unwrap();
            roster.admit(request(rank, 3));
        }
        assert_eq!(roster.complete().unwrap().len(), 3);
        let taken = JoinRefusal::RankTaken { rank: Rank::new(2), process: 102, address: "host:2".into() };
        assert_eq!(roster.check(&request(2, 3)), Err(taken));
        let root = JoinRefusal::RankTaken { rank: Rank::ROOT, process: 1, address: "root:1".into() };
        assert_eq!(roster.check(&request(0, 3)), Err(root));
    }

    #[test]
    fn wrong_sizes_and_ranks_are_refused() {
        let roster = Roster::new(2, 0, Member { address: String::new(), process: 1 });
        assert_eq!(roster.check(&request(1, 3)), Err(JoinRefusal::WrongSize { ours: 2, theirs: 3 }));
        assert_eq!(roster.check(&request(2, 2)), Err(JoinRefusal::NoSuchRank { rank: Rank::new(2), size: 2 }));
        let other = JoinRequest { servers: 1, ..request(1, 2) };
        assert_eq!(roster.check(&other), Err(JoinRefusal::WrongServers { ours: 0, theirs: 1 }));
        assert_eq!(roster.missing(), [Rank::new(1)]);
    }
}
