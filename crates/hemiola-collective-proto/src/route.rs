//! Route of a reduction or broadcast: the peers that take part, in groups.
//!
//! The first peer of each group is its *station*. Vectors of a group are summed at the station and
//! travel on from there, so only one vector per group crosses between groups (two-level
//! aggregation: the groups are hosts). A route of one group is direct; the order of its members is
//! the order of a ring. Peers that a route does not name take no part.
//!
//! **Invariant:** steps depend on the route and the rank only, so sums have the same bits in every
//! run.

use crate::protocol::digest;
use hemiola_core::Rank;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// Peers that take part in a collective, in groups whose first members are their stations.
///
/// ```
/// use hemiola_collective_proto::Route;
/// use hemiola_core::Rank;
///
/// let hosts = Route::new(vec![vec![Rank::new(0), Rank::new(1)], vec![Rank::new(3), Rank::new(2)]]);
/// assert_eq!(hosts.problem(4), None);
/// assert_eq!(hosts.to_string(), "0 1 | 3 2");
/// assert_eq!(hosts.problem(3).unwrap(), "its route names peer 3, and there are 3 peers");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Route(Vec<Vec<Rank>>);

impl Route {
    /// Creates a route of these groups.
    #[must_use]
    pub const fn new(groups: Vec<Vec<Rank>>) -> Self {
        Self(groups)
    }

    /// Creates a route of one group, whose members communicate in this order.
    #[must_use]
    pub fn direct(members: Vec<Rank>) -> Self {
        Self(vec![members])
    }

    /// Groups of the route.
    #[must_use]
    pub fn groups(&self) -> &[Vec<Rank>] {
        &self.0
    }

    /// All members, group by group.
    pub fn members(&self) -> impl Iterator<Item = Rank> {
        self.0.iter().flatten().copied()
    }

    /// Returns true if the peer takes part.
    #[must_use]
    pub fn contains(&self, peer: Rank) -> bool {
        self.members().any(|member| member == peer)
    }

    /// Returns the reason why a cluster of `peers` cannot use the route, if any.
    #[must_use]
    pub fn problem(&self, peers: usize) -> Option<String> {
        if self.0.is_empty() || self.0.iter().any(Vec::is_empty) {
            return Some("its route has no group, or an empty one".into());
        }
        let mut seen = BTreeSet::new();
        for member in self.members() {
            if member.index() >= peers {
                return Some(format!("its route names peer {member}, and there are {peers} peers"));
            }
            if !seen.insert(member) {
                return Some(format!("its route names peer {member} twice"));
            }
        }
        None
    }

    /// Hash of the groups, by which peers detect different routes.
    pub(crate) fn digest(&self) -> u64 {
        let group = |group: &Vec<Rank>| {
            let length = group.len() as u64;
            std::iter::once(length).chain(group.iter().map(|rank| u64::from(rank.number()))).collect::<Vec<u64>>()
        };
        digest(self.0.iter().flat_map(group))
    }
}

impl fmt::Display for Route {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, group) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(" | ")?;
            }
            for (index, rank) in group.iter().enumerate() {
                write!(formatter, "{}{rank}", if index > 0 { " " } else { "" })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusable_routes_are_reported() {
        let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank::new).collect::<Vec<_>>();
        for (groups, expected) in [
            (vec![], "has no group"),
            (vec![ranks(&[0]), ranks(&[])], "an empty one"),
            (vec![ranks(&[0, 4])], "names peer 4, and there are 4 peers"),
            (vec![ranks(&[0, 1]), ranks(&[1])], "names peer 1 twice"),
        ] {
            let problem = Route::new(groups).problem(4).unwrap();
            assert!(problem.contains(expected), "{problem}");
        }
        let one = Route::new(vec![ranks(&[0, 1]), ranks(&[2])]);
        assert_ne!(one.digest(), Route::new(vec![ranks(&[0]), ranks(&[1, 2])]).digest());
        assert_ne!(one.digest(), Route::new(vec![ranks(&[1, 0]), ranks(&[2])]).digest());
    }
}
