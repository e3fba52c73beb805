//! Who has joined, who is missing, who was refused: the root's book, without a socket.

use crate::join::handshake::{Candidate, Refusal};
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};

/// Refusals that are remembered: strangers may knock for as long as the job waits.
const REMEMBERED: usize = 32;

/// A peer that has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Where it listens.
    pub address: String,
    /// Its process.
    pub process: u32,
}

/// The root's book of a job that is coming together. **Invariant:** a rank is given out once.
#[derive(Debug)]
pub(crate) struct Roster {
    members: Vec<Option<Member>>,
    /// How many of them, the last ones, are dedicated servers.
    servers: usize,
    /// Who was refused and why, for the error if the job does not come together.
    refused: Vec<(String, Refusal)>,
}

impl Roster {
    /// A job of `size`, `servers` of them dedicated servers, in which the root has joined.
    pub(crate) fn new(size: usize, servers: usize, root: Member) -> Self {
        let mut members = vec![None; size];
        members[0] = Some(root);
        Self { members, servers, refused: Vec::new() }
    }

    /// Whether `candidate` may join.
    pub(crate) fn check(&self, candidate: &Candidate) -> Result<(), Refusal> {
        let size = self.members.len();
        let rank = candidate.rank;
        if candidate.size != size {
            return Err(Refusal::WrongSize { ours: size, theirs: candidate.size });
        }
        if candidate.servers != self.servers {
            return Err(Refusal::WrongServers { ours: self.servers, theirs: candidate.servers });
        }
        match self.members.get(rank.index()) {
            None => Err(Refusal::NoSuchRank { rank, size }),
            Some(Some(Member { process, address })) => {
                Err(Refusal::RankTaken { rank, process: *process, address: address.clone() })
            }
            Some(None) => Ok(()),
        }
    }

    /// Writes a candidate down that has passed [`check`](Self::check).
    pub(crate) fn admit(&mut self, candidate: Candidate) {
        self.members[candidate.rank.index()] = Some(Member { address: candidate.address, process: candidate.process });
    }

    /// Writes down that someone was refused.
    pub(crate) fn refuse(&mut self, from: String, refusal: Refusal) {
        if self.refused.len() < REMEMBERED {
            self.refused.push((from, refusal));
        }
    }

    /// All members in rank order, once nobody is missing.
    pub(crate) fn complete(&self) -> Option<Vec<Member>> {
        self.members.iter().cloned().collect()
    }

    /// Where a member listens, for people.
    pub(crate) fn address(&self, rank: Rank) -> String {
        self.members[rank.index()].as_ref().map_or_else(|| "unknown".to_owned(), |member| member.address.clone())
    }

    /// Ranks nobody has claimed.
    pub(crate) fn missing(&self) -> Vec<Rank> {
        Rank::all(self.members.len()).filter(|rank| self.members[rank.index()].is_none()).collect()
    }

    /// Who was refused and why.
    pub(crate) fn refusals(&self) -> &[(String, Refusal)] {
        &self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(rank: u32, size: usize) -> Candidate {
        Candidate { rank: Rank::new(rank), size, servers: 0, address: format!("host:{rank}"), process: 100 + rank }
    }

    #[test]
    fn each_rank_is_given_out_once() {
        let mut roster = Roster::new(3, 0, Member { address: "root:1".into(), process: 1 });
        for rank in [2, 1] {
            assert!(roster.complete().is_none());
            roster.check(&candidate(rank, 3)).unwrap();
            roster.admit(candidate(rank, 3));
        }
        assert_eq!(roster.complete().unwrap().len(), 3);
        let taken = Refusal::RankTaken { rank: Rank::new(2), process: 102, address: "host:2".into() };
        assert_eq!(roster.check(&candidate(2, 3)), Err(taken));
        let root = Refusal::RankTaken { rank: Rank::ROOT, process: 1, address: "root:1".into() };
        assert_eq!(roster.check(&candidate(0, 3)), Err(root));
    }

    #[test]
    fn wrong_sizes_and_ranks_are_refused() {
        let roster = Roster::new(2, 0, Member { address: String::new(), process: 1 });
        assert_eq!(roster.check(&candidate(1, 3)), Err(Refusal::WrongSize { ours: 2, theirs: 3 }));
        assert_eq!(roster.check(&candidate(2, 2)), Err(Refusal::NoSuchRank { rank: Rank::new(2), size: 2 }));
        let other = Candidate { servers: 1, ..candidate(1, 2) };
        assert_eq!(roster.check(&other), Err(Refusal::WrongServers { ours: 0, theirs: 1 }));
        assert_eq!(roster.missing(), [Rank::new(1)]);
    }
}
