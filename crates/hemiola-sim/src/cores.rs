//! Cores of a host, shared by its peers.
//!
//! Each task on a host gets an equal share of the cores, and at most one core (processor sharing):
//! two workers on two cores run at full speed, four at half speed. Tasks are the computations of
//! the host's peers and, where the spec gives their cost, the handling of messages.
//!
//! **Invariants:** no more than all cores are used, and all of them while there are enough tasks.
//! Shares change only when a task starts or ends.

use crate::cluster_spec::{ClusterSpec, HostSpec};

/// A computation that occupies a core.
#[derive(Clone, Copy, Debug)]
struct CoreTask {
    peer: u32,
    /// Timer to fire at the end; `None` for message handling.
    timer: Option<u32>,
    /// Remaining core time in nanoseconds.
    left: f64,
}

/// Tasks of one host.
#[derive(Clone, Debug, Default)]
struct SimHost {
    tasks: Vec<CoreTask>,
    /// Time up to which the remaining work is computed.
    until: u64,
    /// Number of changes of the task list; outdated events carry an older version.
    version: u32,
}

/// Cores of all hosts.
#[derive(Debug)]
pub(crate) struct SharedCores {
    hosts: Vec<SimHost>,
    host_spec: HostSpec,
}

impl SharedCores {
    /// Creates the hosts of a cluster; `None` if the spec has none.
    pub(crate) fn new(spec: &ClusterSpec) -> Option<Self> {
        let host_spec = spec.hosts?;
        Some(Self { hosts: vec![SimHost::default(); spec.peers.div_ceil(host_spec.peers)], host_spec })
    }

    pub(crate) fn host_of(&self, peer: u32) -> usize {
        peer as usize / self.host_spec.peers
    }

    /// Core time of one end of a message, in nanoseconds.
    pub(crate) fn handling(&self, bytes: u64) -> u64 {
        self.host_spec.message_time.nanos() + (bytes as f64 * self.host_spec.nanos_per_byte) as u64
    }

    fn share(&self, host: usize) -> f64 {
        (self.host_spec.cores as f64 / self.hosts[host].tasks.len().max(1) as f64).min(1.0)
    }

    fn run_until(&mut self, host: usize, now: u64) {
        let share = self.share(host);
        let host = &mut self.hosts[host];
        let done = (now - host.until) as f64 * share;
        host.tasks.iter_mut().for_each(|task| task.left -= done);
        host.until = now;
    }

    /// Starts a task of `work` nanoseconds.
    pub(crate) fn begin(&mut self, now: u64, peer: u32, work: u64, timer: Option<u32>) {
        let host = self.host_of(peer);
        self.run_until(host, now);
        self.hosts[host].tasks.push(CoreTask { peer, timer, left: work as f64 });
        self.hosts[host].version += 1;
    }

    /// Returns the end of the next task of a host, and the current version.
    pub(crate) fn next(&self, host: usize) -> Option<(u64, u32)> {
        let least = self.hosts[host].tasks.iter().map(|task| task.left).min_by(f64::total_cmp)?;
        let takes = (least / self.share(host)).ceil().max(0.0) as u64;
        Some((self.hosts[host].until + takes, self.hosts[host].version))
    }

    /// Removes the tasks that have ended and returns their timers; `None` if `version` is outdated.
    pub(crate) fn ended(&mut self, now: u64, host: usize, version: u32) -> Option<Vec<u32>> {
        if self.hosts[host].version != version {
            return None;
        }
        self.run_until(host, now);
        let host = &mut self.hosts[host];
        host.version += 1;
        let mut called = Vec::new();
        host.tasks.retain(|task| {
            let over = task.left < 0.5;
            called.extend(task.timer.filter(|_| over));
            !over
        });
        Some(called)
    }

    /// Removes the tasks of a crashed peer and returns their timers.
    pub(crate) fn forget(&mut self, now: u64, peer: u32) -> Vec<u32> {
        let host = self.host_of(peer);
        self.run_until(host, now);
        let host = &mut self.hosts[host];
        host.version += 1;
        let dropped = host.tasks.iter().filter(|task| task.peer == peer).filter_map(|task| task.timer).collect();
        host.tasks.retain(|task| task.peer != peer);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SimDuration;

    fn cores(cores: usize) -> SharedCores {
        let mut spec = ClusterSpec::new(4);
        spec.hosts = Some(HostSpec { peers: 4, cores, message_time: SimDuration::ZERO, nanos_per_byte: 0.0 });
        SharedCores::new(&spec).unwrap()
    }

    /// Returns the end time of each task.
    fn ends(mut cores: SharedCores, begin: &[(u64, u64)]) -> Vec<(u32, u64)> {
        let mut ends = Vec::new();
        let mut begin = begin.iter().copied().zip(0_u32..).peekable();
        loop {
            let next = cores.next(0);
            if let Some(((at, work), number)) = begin.next_if(|((at, _), _)| next.is_none_or(|(end, _)| *at <= end)) {
                cores.begin(at, 0, work, Some(number));
            } else if let Some((at, version)) = next {
                ends.extend(cores.ended(at, 0, version).unwrap().into_iter().map(|number| (number, at)));
            } else {
                return ends;
            }
        }
    }

    #[test]
    fn tasks_share_the_cores() {
        assert_eq!(ends(cores(2), &[(0, 100), (10, 100)]), [(0, 100), (1, 110)]);
        assert_eq!(ends(cores(2), &[(0, 100), (0, 100), (0, 100), (0, 100)]), [(0, 200), (1, 200), (2, 200), (3, 200)]);
        // 60 ns alone, then two tasks share until 140, then the second has 60 ns left.
        assert_eq!(ends(cores(1), &[(0, 100), (60, 100)]), [(0, 140), (1, 200)]);
    }

    #[test]
    fn tasks_of_a_crashed_peer_are_removed() {
        let mut cores = cores(1);
        cores.begin(0, 1, 100, Some(7));
        cores.begin(0, 2, 100, Some(8));
        let (_, before) = cores.next(0).unwrap();
        assert_eq!(cores.forget(50, 1), [7]);
        assert_eq!(cores.ended(100, 0, before), None, "shares have changed since");
        assert_eq!(cores.next(0), Some((125, before + 1)), "25 of 100 are done");
    }
}
