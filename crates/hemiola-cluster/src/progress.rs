//! Progress of all peers, as their heartbeats report it: the clock of deadlines.
//!
//! A deadline counts silence, not honest work. A peer *progresses* if one of its waits has ended
//! since its last heartbeat, or if its process *computes*: it used CPU time or moved file data
//! ([`WorkMeter`]). A process that is alive but stuck does neither, whatever its threads are called,
//! so no thread has to declare that it computes. **Invariant:** the time of a wait counts from the
//! last progress of the peers that the wait depends on: the awaited peer, the peers that this one
//! waits for, and so on. A wait for no peer in particular depends on all.
//!
//! Pure: times and heartbeats are arguments. [`Monitor`](crate::monitor::Monitor) owns the table.
//! The section Waits of `shutdown.md` argues for the rule.

use hemiola_core::{LastHeartbeat, Moment, ProcessWork, Rank, WaitSummary};
use serde::{Deserialize, Serialize};

/// Content of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Heartbeat {
    /// Current waits, longest first.
    pub(crate) waits: Vec<WaitSummary>,
    /// Number of waits that have ended so far.
    pub(crate) ended_waits: u64,
    /// The process worked since its last heartbeat.
    pub(crate) computing: bool,
}

/// Smallest share of one core that counts as computing. Heartbeats and polling threads of an idle
/// peer use less.
const BUSY_SHARE: f64 = 0.02;
/// Smallest amount of file data between two heartbeats that counts as work.
const BUSY_IO_BYTES: u64 = 4 << 10;

/// Decides whether this process works, from its CPU time and file traffic.
#[derive(Debug)]
pub(crate) struct WorkMeter {
    at: Moment,
    work: Option<ProcessWork>,
}

impl WorkMeter {
    pub(crate) fn new(now: Moment, work: Option<ProcessWork>) -> Self {
        Self { at: now, work }
    }

    /// Returns true if the process worked since the last call. A system that does not tell is
    /// assumed to work.
    pub(crate) fn has_worked(&mut self, now: Moment, work: Option<ProcessWork>) -> bool {
        let (since, before) = (std::mem::replace(&mut self.at, now), std::mem::replace(&mut self.work, work));
        let (Some(before), Some(work)) = (before, work) else { return true };
        let cpu = work.cpu.saturating_sub(before.cpu).as_secs_f64();
        cpu >= BUSY_SHARE * (now - since).as_secs_f64() && cpu > 0.0
            || work.io_bytes.saturating_sub(before.io_bytes) >= BUSY_IO_BYTES
    }
}

/// Latest heartbeat of a peer.
#[derive(Debug)]
struct PeerProgress {
    heartbeat: Option<Heartbeat>,
    /// Time of arrival.
    when: Moment,
    /// Last time at which a heartbeat showed progress.
    progressed: Moment,
}

/// Latest heartbeats of all peers, this one included.
#[derive(Debug)]
pub(crate) struct ProgressTable {
    peers: Vec<PeerProgress>,
}

impl ProgressTable {
    pub(crate) fn new(size: usize, now: Moment) -> Self {
        let peer = |_| PeerProgress { heartbeat: None, when: now, progressed: now };
        Self { peers: (0..size).map(peer).collect() }
    }

    /// Records a heartbeat of a peer.
    pub(crate) fn record(&mut self, rank: Rank, heartbeat: Heartbeat, now: Moment) {
        let peer = &mut self.peers[rank.index()];
        let moved = peer.heartbeat.as_ref().is_none_or(|before| before.ended_waits != heartbeat.ended_waits);
        if moved || heartbeat.computing {
            peer.progressed = now;
        }
        (peer.heartbeat, peer.when) = (Some(heartbeat), now);
    }

    /// Last progress of the peers that a wait for `peer` depends on.
    pub(crate) fn last_progress(&self, peer: Option<Rank>) -> Moment {
        let everyone = || Rank::all(self.peers.len());
        let mut reached = vec![false; self.peers.len()];
        let mut next: Vec<Rank> = peer.map_or_else(|| everyone().collect(), |peer| vec![peer]);
        let mut latest = Moment::ZERO;
        while let Some(rank) = next.pop() {
            if std::mem::replace(&mut reached[rank.index()], true) {
                continue;
            }
            let PeerProgress { heartbeat, progressed, .. } = &self.peers[rank.index()];
            latest = latest.max(*progressed);
            for wait in heartbeat.iter().flat_map(|heartbeat| &heartbeat.waits) {
                match wait.peer {
                    Some(other) if other.index() < reached.len() => next.push(other),
                    Some(_) => {}
                    None => next.extend(everyone()),
                }
            }
        }
        latest
    }

    /// Last progress of one peer.
    pub(crate) fn progress_of(&self, rank: Rank) -> Moment {
        self.peers[rank.index()].progressed
    }

    /// Latest heartbeats of all peers but `rank`, for a stall report.
    pub(crate) fn others(&self, rank: Rank, now: Moment) -> Vec<(Rank, Option<LastHeartbeat>)> {
        let last = |peer: &PeerProgress| {
            let Heartbeat { waits, computing, .. } = peer.heartbeat.clone()?;
            let age = now - peer.when;
            let aged = |wait: WaitSummary| WaitSummary { waited: wait.waited.saturating_add(age), ..wait };
            Some(LastHeartbeat { waits: waits.into_iter().map(aged).collect(), computing, age })
        };
        let all = Rank::all(self.peers.len()).zip(&self.peers);
        all.filter(|(other, _)| *other != rank).map(|(other, peer)| (other, last(peer))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_core::Waiter;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);
    const DEADLINE: Duration = Duration::from_mins(5);

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn wait_for(peer: Option<u32>) -> WaitSummary {
        let (waiter, reason) = (Waiter::Driver, "barrier #1".to_owned());
        WaitSummary { waiter, reason, peer: peer.map(Rank::new), waited: SECOND }
    }

    fn heartbeat(waits: &[Option<u32>], ended_waits: u64, computing: bool) -> Heartbeat {
        Heartbeat { waits: waits.iter().copied().map(wait_for).collect(), ended_waits, computing }
    }

    /// Plays heartbeats of all peers, one per second, and returns the second at which a wait of peer
    /// 0 for `awaited` that began at 0 reaches its deadline, if it does within two hours.
    fn deadline(awaited: Option<u32>, peers: usize, beat: impl Fn(usize, u64) -> Heartbeat) -> Option<u64> {
        let mut table = ProgressTable::new(peers, at(0));
        (0..7200).find(|second| {
            for rank in 0..peers {
                table.record(Rank::new(rank as u32), beat(rank, *second), at(*second));
            }
            at(*second) - table.last_progress(awaited.map(Rank::new)) >= DEADLINE
        })
    }

    #[test]
    fn a_peer_that_computes_longer_than_the_deadline_fails_nobody() {
        let ended = deadline(Some(1), 2, |rank, _| match rank {
            0 => heartbeat(&[Some(1)], 1, false),
            _ => heartbeat(&[], 1, true),
        });
        assert_eq!(ended, None);
    }

    #[test]
    fn a_thread_stuck_in_an_exchange_ends_the_wait_at_the_deadline() {
        // Peer 1 computes for 100 s. Then one of its threads is stuck outside of any wait.
        let ended = deadline(Some(1), 2, |rank, second| match rank {
            0 => heartbeat(&[Some(1)], 1, false),
            _ => heartbeat(&[], 1, second < 100),
        });
        assert_eq!(ended, Some(99 + 300));
    }

    #[test]
    fn two_peers_that_wait_for_each_other_reach_the_deadline() {
        let ended = deadline(Some(1), 2, |rank, _| heartbeat(&[Some(1 - rank as u32)], 7, false));
        assert_eq!(ended, Some(300));
    }

    #[test]
    fn a_wait_depends_on_the_peers_that_the_awaited_one_waits_for() {
        // 0 waits for 1, 1 for 2, and 2 computes.
        let chain = |rank: usize, _| match rank {
            0 => heartbeat(&[Some(1)], 1, false),
            1 => heartbeat(&[Some(2)], 1, false),
            _ => heartbeat(&[], 1, true),
        };
        assert_eq!(deadline(Some(1), 3, chain), None);
        // 2 waits for an event of its own thread, which needs any other peer.
        let open = |rank: usize, _| match rank {
            0 => heartbeat(&[Some(1)], 1, false),
            1 => heartbeat(&[None], 1, false),
            _ => heartbeat(&[], 1, true),
        };
        assert_eq!(deadline(Some(1), 3, open), None);
    }

    #[test]
    fn work_of_peers_that_nobody_waits_for_does_not_delay_the_deadline() {
        let ended = deadline(Some(1), 3, |rank, second| match rank {
            0 => heartbeat(&[Some(1)], 1, false),
            1 => heartbeat(&[], 1, false),
            _ => heartbeat(&[], second, true),
        });
        assert_eq!(ended, Some(300));
    }

    #[test]
    fn ended_waits_are_progress_without_cpu_time() {
        let ended = deadline(Some(1), 2, |rank, second| match rank {
            0 => heartbeat(&[Some(1)], 1, false),
            _ => heartbeat(&[Some(0)], second / 100, false),
        });
        assert_eq!(ended, None);
    }

    #[test]
    fn a_process_works_if_it_uses_its_core_or_moves_file_data() {
        let work = |millis, io_bytes| Some(ProcessWork { cpu: Duration::from_millis(millis), io_bytes });
        let mut meter = WorkMeter::new(at(0), work(0, 0));
        assert!(!meter.has_worked(at(1), work(3, 100)), "heartbeats are not work");
        assert!(meter.has_worked(at(2), work(30, 100)));
        assert!(meter.has_worked(at(3), work(31, 1 << 20)));
        assert!(!meter.has_worked(at(4), work(31, 1 << 20)));
        assert!(meter.has_worked(at(5), None), "unknown");
    }
}
