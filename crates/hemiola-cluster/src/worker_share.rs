//! Default number of workers: the cores of a host, divided among the peers that run there.
//!
//! A launcher may bind each peer to cores of its own, give the job a part of the host, or do neither.
//! **Invariant:** peers of one host that are not bound do not have more workers together than the
//! host has cores, and a bound peer uses the cores it is bound to.

use std::fs;

/// Cores that the operating system grants to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostCores {
    /// Cores that are online on this host.
    online: usize,
    /// Cores on which this process may run.
    allowed: usize,
    /// Cores that it can keep busy: the allowed ones, or fewer with a quota of CPU time.
    usable: usize,
}

impl HostCores {
    /// Reads the cores of this host.
    pub(crate) fn read() -> Self {
        let usable = std::thread::available_parallelism().map_or(1, usize::from);
        let allowed = rustix::thread::sched_getaffinity(None).map_or(usable, |set| set.count() as usize);
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|list| count(&list));
        Self { online: online.unwrap_or(allowed).max(allowed), allowed, usable }
    }

    /// Returns the number of workers of one of `peers` peers on this host. `assigned` is the number of
    /// cores that the launcher gives to each peer, if it says so.
    pub(crate) fn workers(self, peers: usize, assigned: Option<usize>) -> usize {
        let peers = peers.max(1);
        if let Some(cores) = assigned {
            return cores.min(self.usable).max(1);
        }
        // The sets of allowed cores fit beside each other: each peer has its own.
        let bound = self.allowed < self.online && self.allowed.saturating_mul(peers) <= self.online;
        if bound { self.usable.max(1) } else { (self.usable / peers).max(1) }
    }
}

/// Returns the number of cores in a list such as `0-3,8`.
fn count(list: &str) -> Option<usize> {
    let size = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(last.checked_sub(first)? + 1)
    };
    list.trim().split(',').map(size).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(online: usize, allowed: usize, usable: usize, peers: usize, assigned: Option<usize>) -> usize {
        HostCores { online, allowed, usable }.workers(peers, assigned)
    }

    #[test]
    fn peers_that_share_all_cores_divide_them() {
        assert_eq!(workers(2, 2, 2, 1, None), 2);
        assert_eq!(workers(2, 2, 2, 2, None), 1);
        assert_eq!(workers(16, 16, 16, 3, None), 5);
        assert_eq!(workers(2, 2, 2, 8, None), 1, "every peer has a worker");
    }

    #[test]
    fn bound_peers_use_the_cores_they_are_bound_to() {
        assert_eq!(workers(64, 16, 16, 4, None), 16);
        assert_eq!(workers(64, 1, 1, 2, None), 1);
    }

    #[test]
    fn peers_in_a_part_of_the_host_divide_it() {
        assert_eq!(workers(16, 8, 8, 4, None), 2, "four sets of eight do not fit beside each other");
        assert_eq!(workers(64, 64, 4, 2, None), 2, "a quota of CPU time");
    }

    #[test]
    fn cores_that_the_launcher_assigns_count() {
        assert_eq!(workers(64, 64, 64, 4, Some(8)), 8);
        assert_eq!(workers(2, 2, 2, 2, Some(8)), 2, "but no more than there are");
        assert_eq!(workers(2, 2, 2, 2, Some(0)), 1);
    }

    #[test]
    fn lists_of_cores_are_counted() {
        assert_eq!(count("0-1\n"), Some(2));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count(""), None);
        assert_eq!(count("3-1"), None);
        let cores = HostCores::read();
        assert!(cores.usable >= 1 && cores.allowed <= cores.online, "{cores:?}");
    }
}
