//! Peers of one host share its cores.
//!
//! Everything that computes on a host gets an equal share of what its cores can do, and no more than one core, as a fluid: two workers on two cores run at full speed, four at half. What computes are the workers of the host's peers, and
//! the threads that send and receive for them, where a description says what messages cost them.
//!
//! **Invariants:** no more than all cores are used, and all of them while there is enough to do. Shares change only when something begins or ends.

use crate::describe::{Description, Hosts};

/// Something that computes.
#[derive(Clone, Copy, Debug)]
struct Task {
    /// Whom it is for.
    peer: u32,
    /// Whom to call when it is over; nobody, for what goes on beside.
    alarm: Option<u32>,
    /// Nanoseconds of a core that are left.
    left: f64,
}

/// One host.
#[derive(Clone, Debug, Default)]
struct Host {
    tasks: Vec<Task>,
    /// Up to when they have run.
    until: u64,
    /// How often tasks have begun and ended.
    version: u32,
}

/// The cores of all hosts.
#[derive(Debug)]
pub(crate) struct Cores {
    hosts: Vec<Host>,
    described: Hosts,
}

impl Cores {
    /// Of a description that has hosts.
    pub(crate) fn new(description: &Description) -> Option<Self> {
        let described = description.hosts?;
        Some(Self { hosts: vec![Host::default(); description.peers.div_ceil(described.peers)], described })
    }

    pub(crate) fn host_of(&self, peer: u32) -> usize {
        peer as usize / self.described.peers
    }

    /// What a message keeps the threads of an end of it busy with.
    pub(crate) fn handling(&self, bytes: u64) -> u64 {
        self.described.message.nanos() + (bytes as f64 * self.described.byte_nanos) as u64
    }

    fn share(&self, host: usize) -> f64 {
        (self.described.cores as f64 / self.hosts[host].tasks.len().max(1) as f64).min(1.0)
    }

    fn run_until(&mut self, host: usize, now: u64) {
        let share = self.share(host);
        let host = &mut self.hosts[host];
        let done = (now - host.until) as f64 * share;
        host.tasks.iter_mut().for_each(|task| task.left -= done);
        host.until = now;
    }

    /// Something has so many nanoseconds to compute from now on.
    pub(crate) fn begin(&mut self, now: u64, peer: u32, work: u64, alarm: Option<u32>) {
        let host = self.host_of(peer);
        self.run_until(host, now);
        self.hosts[host].tasks.push(Task { peer, alarm, left: work as f64 });
        self.hosts[host].version += 1;
    }

    /// When something of a host ends next, and the version to ask with then.
    pub(crate) fn next(&self, host: usize) -> Option<(u64, u32)> {
        let least = self.hosts[host].tasks.iter().map(|task| task.left).min_by(f64::total_cmp)?;
        let takes = (least / self.share(host)).ceil().max(0.0) as u64;
        Some((self.hosts[host].until + takes, self.hosts[host].version))
    }

    /// Whom to call, of what has ended by now; nothing if the version is not that of now.
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
            called.extend(task.alarm.filter(|_| over));
            !over
        });
        Some(called)
    }

    /// A peer has crashed: what it computed ends unheard. Whom nobody has to call any more.
    pub(crate) fn forget(&mut self, now: u64, peer: u32) -> Vec<u32> {
        let host = self.host_of(peer);
        self.run_until(host, now);
        let host = &mut self.hosts[host];
        host.version += 1;
        let dropped = host.tasks.iter().filter(|task| task.peer == peer).filter_map(|task| task.alarm).collect();
        host.tasks.retain(|task| task.peer != peer);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    fn cores(cores: usize) -> Cores {
        let mut description = Description::new(4);
        description.hosts = Some(Hosts { peers: 4, cores, message: Span::ZERO, byte_nanos: 0.0 });
        Cores::new(&description).unwrap()
    }

    /// When each of some tasks ends.
    fn ends(mut cores: Cores, begin: &[(u64, u64)]) -> Vec<(u32, u64)> {
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
    fn as_many_as_there_are_cores_run_at_full_speed_and_more_share_them() {
        assert_eq!(ends(cores(2), &[(0, 100), (10, 100)]), [(0, 100), (1, 110)]);
        assert_eq!(ends(cores(2), &[(0, 100), (0, 100), (0, 100), (0, 100)]), [(0, 200), (1, 200), (2, 200), (3, 200)]);
        // 60 alone; then two share, until 140; then the second has 60 left.
        assert_eq!(ends(cores(1), &[(0, 100), (60, 100)]), [(0, 140), (1, 200)]);
    }

    #[test]
    fn what_a_crashed_peer_computed_is_not_waited_for() {
        let mut cores = cores(1);
        cores.begin(0, 1, 100, Some(7));
        cores.begin(0, 2, 100, Some(8));
        let (_, before) = cores.next(0).unwrap();
        assert_eq!(cores.forget(50, 1), [7]);
        assert_eq!(cores.ended(100, 0, before), None, "shares have changed since");
        assert_eq!(cores.next(0), Some((125, before + 1)), "25 of 100 are done");
    }
}
