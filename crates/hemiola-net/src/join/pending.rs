//! Pending connections: accepted, not authenticated, and few. Pure, without a socket.
//!
//! Anybody who reaches the port can open connections and say nothing. They must neither keep the
//! peers of the job out nor take memory without bound. So their number has a limit, and a new
//! connection is always taken: when all places are taken, the oldest connection of the address with
//! the most connections is dropped. A flood from one address therefore displaces itself and not the
//! peers at other addresses. A fixed limit per address would be no help: on one host all peers and
//! all attackers have the same address. There the newest connections live longest, and a peer needs
//! a fraction of a millisecond.
//!
//! **Invariants:** at most `capacity` connections are kept; the connection just added is never the
//! one that is dropped.

use hemiola_core::Moment;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

#[derive(Debug)]
struct PendingConnection<T> {
    origin: IpAddr,
    since: Moment,
    connection: T,
}

/// Connections in the order of their arrival.
#[derive(Debug)]
pub(crate) struct PendingConnections<T> {
    capacity: usize,
    connections: VecDeque<PendingConnection<T>>,
}

impl<T> PendingConnections<T> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, connections: VecDeque::new() }
    }

    /// Adds a connection. Returns the one that has to go, if all places are taken.
    pub(crate) fn add(&mut self, from: IpAddr, since: Moment, connection: T) -> Option<T> {
        let dropped = if self.connections.len() >= self.capacity { self.drop_oldest() } else { None };
        self.connections.push_back(PendingConnection { origin: origin(from), since, connection });
        dropped
    }

    /// Removes the oldest connection of the address with the most connections.
    pub(crate) fn drop_oldest(&mut self) -> Option<T> {
        let oldest = self.oldest()?;
        self.connections.remove(oldest).map(|pending| pending.connection)
    }

    /// Returns true if there is room, or if the connection that would have to go has been here for
    /// `grace`: it has had its chance.
    pub(crate) fn has_room(&self, now: Moment, grace: Duration) -> bool {
        self.connections.len() < self.capacity
            || self.oldest().is_some_and(|oldest| now - self.connections[oldest].since >= grace)
    }

    fn oldest(&self) -> Option<usize> {
        let mut counts = BTreeMap::<IpAddr, usize>::new();
        for pending in &self.connections {
            *counts.entry(pending.origin).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        self.connections.iter().position(|pending| counts[&pending.origin] == most)
    }

    /// Removes the connections that `choose` returns true for, in order.
    pub(crate) fn take(&mut self, mut choose: impl FnMut(&T) -> bool) -> Vec<T> {
        self.take_pending(|pending| choose(&pending.connection))
    }

    /// Removes the connections that have waited for too long: `patience`, or an eighth of it when
    /// more than half of the places are taken.
    pub(crate) fn expire(&mut self, now: Moment, patience: Duration) -> Vec<T> {
        let patience = if self.connections.len() * 2 > self.capacity { patience / 8 } else { patience };
        self.take_pending(|pending| now - pending.since >= patience)
    }

    fn take_pending(&mut self, mut choose: impl FnMut(&PendingConnection<T>) -> bool) -> Vec<T> {
        let (taken, kept) = std::mem::take(&mut self.connections).into_iter().partition(|pending| choose(pending));
        self.connections = kept;
        let taken: VecDeque<PendingConnection<T>> = taken;
        taken.into_iter().map(|pending| pending.connection).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.connections.iter().map(|pending| &pending.connection)
    }
}

/// Returns the address that stands for all addresses of one party: a host has all of loopback, and
/// usually a whole /64 network of IPv6.
fn origin(ip: IpAddr) -> IpAddr {
    let ip = ip.to_canonical();
    if ip.is_loopback() {
        return IpAddr::V4(Ipv4Addr::LOCALHOST);
    }
    match ip {
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & (u128::MAX << 64))),
        IpAddr::V4(_) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(number: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
    }

    #[test]
    fn a_flood_from_one_address_displaces_itself() {
        let mut pending = PendingConnections::new(8);
        assert_eq!(pending.add(address(1), Moment::from_nanos(0), 1000), None);
        for number in 0..100 {
            let dropped = pending.add(address(2), Moment::from_nanos(0), number);
            assert_eq!(dropped, (number >= 7).then(|| number - 7));
        }
        assert!(pending.iter().any(|connection| *connection == 1000));
    }

    #[test]
    fn a_connection_is_given_a_moment_before_another_displaces_it() {
        let grace = Duration::from_nanos(100);
        let mut pending = PendingConnections::new(1);
        assert!(pending.has_room(Moment::from_nanos(0), grace));
        pending.add(address(1), Moment::from_nanos(0), 0);
        assert!(!pending.has_room(Moment::from_nanos(99), grace));
        assert!(pending.has_room(Moment::from_nanos(100), grace));
    }

    #[test]
    fn all_of_loopback_is_one_address() {
        let origins = ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.3"].map(|text| origin(text.parse().unwrap()));
        assert!(origins.iter().all(|found| *found == origins[0]));
        let network = ["2001:db8::1", "2001:db8::2"].map(|text| origin(text.parse().unwrap()));
        assert_eq!(network[0], network[1]);
    }

    #[test]
    fn patience_is_short_under_pressure() {
        let (patience, later) = (Duration::from_secs(8), Moment::from_nanos(2_000_000_000));
        let mut pending = PendingConnections::new(4);
        for number in 0..2 {
            pending.add(address(1), Moment::from_nanos(0), number);
        }
        assert!(pending.expire(later, patience).is_empty());
        pending.add(address(1), later, 2);
        assert_eq!(pending.expire(later, patience), [0, 1]);
    }

    proptest! {
        #[test]
        fn the_newest_is_kept_and_the_limit_holds(
            capacity in 1..10_usize,
            arrivals in prop::collection::vec(0..4_u8, 0..60),
        ) {
            let mut pending = PendingConnections::new(capacity);
            for (number, from) in arrivals.into_iter().enumerate() {
                let dropped = pending.add(address(from), Moment::from_nanos(0), number);
                prop_assert_ne!(dropped, Some(number));
                prop_assert!(pending.iter().count() <= capacity);
                prop_assert_eq!(pending.iter().last(), Some(&number));
            }
        }
    }
}
