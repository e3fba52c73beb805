//! How many bytes may be sent now: a leaky bucket.
//!
//! Credit grows with time at the given bandwidth and is capped at the burst. A sender asks what is available, sends at
//! most that, and spends it. **Invariant:** over any interval of length *t* at most `rate × t + burst` bytes are spent;
//! a sender that always has something to send spends no less than `rate × t`. What cannot wait is [charged](Budget::charge)
//! without asking and leaves a debt that what can wait has to earn first. Time is an argument; arithmetic is in
//! integers, so nothing drifts over a long run.

use hemiola_core::Moment;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// This many bytes per second.
    #[must_use]
    pub const fn bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// This many megabits (10⁶ bits) per second.
    #[must_use]
    pub const fn mbps(megabits: u64) -> Self {
        Self(megabits * 1_000_000 / 8)
    }

    /// How many bytes that is in so much time.
    #[must_use]
    pub fn bytes_in(self, time: Duration) -> usize {
        usize::try_from(u128::from(self.0) * time.as_nanos() / 1_000_000_000).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.1} Mbit/s", self.0 as f64 * 8e-6)
    }
}

/// Credit in byte-nanoseconds: one byte is worth a second's nanoseconds.
const BYTE: i128 = 1_000_000_000;

/// A leaky bucket.
///
/// ```
/// use hemiola_core::Moment;
/// use hemiola_net::{Bandwidth, Budget};
/// let mut budget = Budget::new(Bandwidth::bytes_per_second(1000), 500, Moment::ZERO);
/// assert_eq!(budget.available(Moment::ZERO), 500); // starts with a full burst
/// assert!(budget.try_spend(Moment::ZERO, 500));
/// assert!(!budget.try_spend(Moment::ZERO, 1));
/// assert_eq!(budget.ready_at(100), Moment::from_nanos(100_000_000));
/// assert_eq!(budget.available(Moment::from_nanos(100_000_000)), 100);
/// ```
#[derive(Clone, Debug)]
pub struct Budget {
    rate: u64,
    burst: i128,
    /// Below zero while more was charged than earned.
    credit: i128,
    updated: Moment,
}

impl Budget {
    /// A budget that allows `bandwidth` on average and `burst` bytes at once, and starts with a full burst.
    #[must_use]
    pub fn new(bandwidth: Bandwidth, burst: usize, now: Moment) -> Self {
        let burst = burst as i128 * BYTE;
        Self { rate: bandwidth.0, burst, credit: burst, updated: now }
    }

    /// How many bytes may be sent now.
    pub fn available(&mut self, now: Moment) -> usize {
        self.refill(now);
        (self.credit.max(0) / BYTE) as usize
    }

    /// Spends `bytes` if they are available.
    #[must_use = "nothing may be sent if this is false"]
    pub fn try_spend(&mut self, now: Moment, bytes: usize) -> bool {
        self.refill(now);
        let cost = bytes as i128 * BYTE;
        let enough = cost <= self.credit;
        if enough {
            self.credit -= cost;
        }
        enough
    }

    /// Spends `bytes` that had to be sent, whether they are available or not.
    pub fn charge(&mut self, now: Moment, bytes: usize) {
        self.refill(now);
        self.credit -= bytes as i128 * BYTE;
    }

    /// When `bytes` will be available if nothing else is spent; the end of time if they are more than the burst or
    /// the bandwidth is zero.
    #[must_use]
    pub fn ready_at(&self, bytes: usize) -> Moment {
        let cost = bytes as i128 * BYTE;
        if cost <= self.credit {
            return self.updated;
        }
        if cost > self.burst || self.rate == 0 {
            return Moment::from_nanos(u64::MAX);
        }
        let nanos = ((cost - self.credit) as u128).div_ceil(u128::from(self.rate));
        Moment::from_nanos(self.updated.as_nanos().saturating_add(nanos.min(u128::from(u64::MAX)) as u64))
    }

    /// Changes the bandwidth from now on, for closed-loop control.
    pub fn set_bandwidth(&mut self, bandwidth: Bandwidth, now: Moment) {
        self.refill(now);
        self.rate = bandwidth.0;
    }

    fn refill(&mut self, now: Moment) {
        let nanos = now.since(self.updated).as_nanos();
        self.credit = self.credit.saturating_add_unsigned(nanos * u128::from(self.rate)).min(self.burst);
        self.updated = self.updated.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn never_spends_more_than_rate_and_burst_allow(
            rate in 1..10_000_000_u64,
            burst in 1..100_000_usize,
            steps in prop::collection::vec((0..50_000_000_u64, 1..100_000_usize), 1..200),
        ) {
            let mut budget = Budget::new(Bandwidth::bytes_per_second(rate), burst, Moment::ZERO);
            let mut now = 0_u64;
            let mut spent = 0_u128;
            for (pass, wish) in steps {
                now += pass;
                let available = budget.available(Moment::from_nanos(now));
                let bytes = wish.min(available);
                prop_assert!(budget.try_spend(Moment::from_nanos(now), bytes));
                spent += bytes as u128;
                let earned = burst as u128 + u128::from(now) * u128::from(rate) / 1_000_000_000;
                prop_assert!(spent <= earned);
            }
        }

        #[test]
        fn greedy_sender_uses_all_of_it(rate in 1_000..10_000_000_u64, ticks in 10..500_u64) {
            let burst = (rate / 100).max(10) as usize; // 10 ms
            let mut budget = Budget::new(Bandwidth::bytes_per_second(rate), burst, Moment::ZERO);
            let mut spent = 0_u64;
            for tick in 1..=ticks {
                let now = Moment::from_nanos(tick * 5_000_000); // looks every 5 ms
                let available = budget.available(now);
                prop_assert!(budget.try_spend(now, available));
                spent += available as u64;
            }
            let due = rate * ticks * 5 / 1000;
            prop_assert!(spent + 1 >= due, "spent {} of {}", spent, due);
            prop_assert!(spent <= due + burst as u64);
        }

        #[test]
        fn ready_at_is_the_first_moment_it_works(rate in 1..1_000_000_u64, burst in 1..10_000_usize, wish in 1..10_000_usize) {
            let mut budget = Budget::new(Bandwidth::bytes_per_second(rate), burst, Moment::ZERO);
            prop_assert!(budget.try_spend(Moment::ZERO, burst));
            let ready = budget.ready_at(wish);
            if wish > burst {
                prop_assert_eq!(ready, Moment::from_nanos(u64::MAX));
            } else {
                let mut early = budget.clone();
                prop_assert!(!early.try_spend(Moment::from_nanos(ready.as_nanos() - 1), wish));
                prop_assert!(budget.try_spend(ready, wish));
            }
        }
    }

    #[test]
    fn debts_are_earned_back_first() {
        let mut budget = Budget::new(Bandwidth::bytes_per_second(1000), 100, Moment::ZERO);
        budget.charge(Moment::ZERO, 600);
        assert_eq!(budget.available(Moment::from_nanos(500_000_000)), 0);
        assert_eq!(budget.ready_at(50), Moment::from_nanos(550_000_000));
        assert_eq!(budget.available(Moment::from_nanos(550_000_000)), 50);
    }

    #[test]
    fn zero_bandwidth_never_earns() {
        let mut budget = Budget::new(Bandwidth::bytes_per_second(0), 10, Moment::ZERO);
        assert!(budget.try_spend(Moment::ZERO, 10));
        assert_eq!(budget.available(Moment::from_nanos(u64::MAX)), 0);
        assert_eq!(budget.ready_at(1), Moment::from_nanos(u64::MAX));
    }
}
