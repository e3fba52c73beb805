//! How much may be sent now that nobody waits for: a leaky bucket with its loop closed.
//!
//! A [`Pacer`] belongs to one direction of one peer; its driver lends it to the machines of that peer in turn. Traffic that a
//! clock or a reader waits for goes at once and is charged afterwards; rows and updates sent ahead of need ask first.
//! Acknowledgements close the loop (Bösen, section 3.3.1): if something sent ahead has not been acknowledged within the patience,
//! the network is taken to be overused, and nothing more is sent ahead until the acknowledgement has come.
//!
//! **Invariants:** over any interval of length *t*, traffic sent ahead is at most `rate × t + burst`; and whenever something is sent
//! ahead, all traffic up to then, what could not wait included, is at most that. Unacknowledged traffic sent ahead is at most `rate × patience + burst`. With a rate and burst of zero
//! nothing is sent ahead, and everything still works.

use hemiola_core::Moment;
use hemiola_net::{Bandwidth, Budget};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Decides what one peer may send ahead of need, in one direction.
#[derive(Clone, Debug)]
pub struct Pacer {
    budget: Budget,
    patience: Duration,
    /// By stream: number and time of what was sent ahead and not acknowledged.
    flying: BTreeMap<u64, VecDeque<(u64, Moment)>>,
    /// Bytes sent ahead, and bytes that could not wait.
    ahead_bytes: u64,
    urgent_bytes: u64,
    /// How often it had to hold back for want of acknowledgements.
    held_back: u64,
    holding: bool,
}

impl Pacer {
    /// Allows `bandwidth` on average and `burst` bytes at once; holds back if an acknowledgement takes longer than `patience`.
    #[must_use]
    pub fn new(bandwidth: Bandwidth, burst: usize, patience: Duration, now: Moment) -> Self {
        Self {
            budget: Budget::new(bandwidth, burst, now),
            patience,
            flying: BTreeMap::new(),
            ahead_bytes: 0,
            urgent_bytes: 0,
            held_back: 0,
            holding: false,
        }
    }

    /// One that allows nothing ahead of need.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new(Bandwidth::bytes_per_second(0), 0, Duration::MAX, Moment::ZERO)
    }

    /// How many bytes may be sent ahead now.
    pub fn allowance(&mut self, now: Moment) -> usize {
        let late = self.flying.values().filter_map(VecDeque::front).any(|(_, sent)| now.since(*sent) > self.patience);
        self.held_back += u64::from(late && !self.holding);
        self.holding = late;
        if late { 0 } else { self.budget.available(now) }
    }

    /// Spends bytes of the allowance on message `number` of a stream.
    ///
    /// # Panics
    /// If they are more than the allowance.
    pub fn spend(&mut self, now: Moment, stream: u64, number: u64, bytes: usize) {
        assert!(self.budget.try_spend(now, bytes), "{bytes} bytes are more than the allowance");
        self.ahead_bytes += bytes as u64;
        self.flying.entry(stream).or_default().push_back((number, now));
    }

    /// Counts bytes that could not wait.
    pub fn charge(&mut self, now: Moment, bytes: usize) {
        self.urgent_bytes += bytes as u64;
        self.budget.charge(now, bytes);
    }

    /// Messages of a stream have arrived, up to this number.
    pub fn acknowledged(&mut self, stream: u64, number: u64) {
        if let Some(flying) = self.flying.get_mut(&stream) {
            while flying.front().is_some_and(|(sent, _)| *sent <= number) {
                flying.pop_front();
            }
            if flying.is_empty() {
                self.flying.remove(&stream);
            }
        }
    }

    /// When `bytes` will be available, if acknowledgements do not lag. The end of time if never.
    #[must_use]
    pub fn ready_at(&self, bytes: usize) -> Moment {
        self.budget.ready_at(bytes)
    }

    /// Bytes sent ahead of need, and bytes that could not wait.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.ahead_bytes, self.urgent_bytes)
    }

    /// How often it held back because acknowledgements lagged.
    #[must_use]
    pub fn held_back(&self) -> u64 {
        self.held_back
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLISECOND: u64 = 1_000_000;

    proptest! {
        /// A sender with rows of 300 bytes wakes when the pacer says; clock traffic comes in between.
        #[test]
        fn traffic_stays_in_the_budget_and_uses_it(
            rate in 100_000..10_000_000_u64,
            clocks in prop::collection::vec((1..20_u64, 0..20_000_usize), 10..100),
        ) {
            const ROW: usize = 300;
            let burst = 4 * ROW + rate as usize / 1000;
            let mut pacer = Pacer::new(Bandwidth::bytes_per_second(rate), burst, Duration::from_secs(1), Moment::ZERO);
            let (mut now, mut number, mut urgent) = (0_u64, 0, 0_u64);
            let earned = |now: u64| u128::from(now) * u128::from(rate) / 1_000_000_000;
            for (wait, bytes) in clocks {
                let end = now + wait * MILLISECOND;
                while now < end {
                    let moment = Moment::from_nanos(now);
                    let rows = pacer.allowance(moment) / ROW;
                    if rows > 0 {
                        number += 1;
                        pacer.spend(moment, 0, number, rows * ROW);
                        pacer.acknowledged(0, number);
                        let (ahead, counted) = pacer.bytes();
                        prop_assert_eq!(counted, urgent);
                        prop_assert!(u128::from(ahead + urgent) <= earned(now) + burst as u128);
                    }
                    now = pacer.ready_at(ROW).as_nanos().clamp(now + 1, end);
                }
                pacer.charge(Moment::from_nanos(now), bytes);
                urgent += bytes as u64;
            }
            let (ahead, _) = pacer.bytes();
            let earned = earned(now);
            prop_assert!(u128::from(ahead + urgent) + ROW as u128 >= earned * 95 / 100, "{} and {} of {}", ahead, urgent, earned);
        }
    }

    #[test]
    fn a_slower_network_sets_the_pace() {
        // 10 MB/s are allowed, the network takes 1 MB/s.
        let patience = Duration::from_millis(20);
        let mut pacer = Pacer::new(Bandwidth::bytes_per_second(10_000_000), 10_000, patience, Moment::ZERO);
        let (mut sent, mut arrived, mut number) = (VecDeque::new(), 0, 0);
        for millisecond in 0..10_000_u64 {
            let now = Moment::from_nanos(millisecond * MILLISECOND);
            let bytes = pacer.allowance(now);
            if bytes > 0 {
                number += 1;
                pacer.spend(now, 3, number, bytes);
                sent.push_back((number, bytes));
            }
            let mut room = 1000;
            while let Some((number, bytes)) = sent.front_mut() {
                let part = room.min(*bytes);
                (*bytes, room, arrived) = (*bytes - part, room - part, arrived + part);
                if *bytes > 0 {
                    break;
                }
                pacer.acknowledged(3, *number);
                sent.pop_front();
            }
        }
        let backlog: usize = sent.iter().map(|(_, bytes)| bytes).sum();
        assert!(pacer.held_back() > 10 && backlog <= 10_000_000 / 50 + 20_000, "backlog {backlog}");
        assert!(arrived > 9_500_000, "the network was busy: {arrived}");
    }

    #[test]
    fn nothing_ahead_of_need_without_a_budget() {
        let mut pacer = Pacer::nothing();
        pacer.charge(Moment::ZERO, 1_000_000);
        assert_eq!(pacer.allowance(Moment::from_nanos(u64::MAX)), 0);
        assert_eq!(pacer.ready_at(1), Moment::from_nanos(u64::MAX));
    }
}
