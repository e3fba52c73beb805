//! Rate limiter: a token bucket with debt.
//!
//! Credit grows with time at the given bandwidth and is capped at the burst. A sender asks for the
//! available bytes, sends at most that many, and spends them. **Invariant:** over any interval of
//! length *t* at most `rate × t + burst` bytes are spent; a sender that always has data to send
//! spends no less than `rate × t`. Urgent bytes are [charged](TokenBucket::charge) without asking
//! and leave a debt, which must be earned back before other bytes are sent. Time is an argument;
//! arithmetic is in integers, so nothing drifts over a long run.

use crate::{Bandwidth, Moment};

/// Credit of one byte. Credit counts billionths of a byte (bytes per second times nanoseconds), so
/// that arithmetic is exact.
const BYTE: i128 = 1_000_000_000;

/// Token bucket that limits the rate of sending.
///
/// ```
/// use hemiola_core::{Bandwidth, Moment, TokenBucket};
/// let mut bucket = TokenBucket::new(Bandwidth::bytes_per_second(1000), 500, Moment::ZERO);
/// assert_eq!(bucket.available(Moment::ZERO), 500); // starts with a full burst
/// assert!(bucket.try_spend(Moment::ZERO, 500));
/// assert!(!bucket.try_spend(Moment::ZERO, 1));
/// assert_eq!(bucket.ready_at(100), Moment::from_nanos(100_000_000));
/// assert_eq!(bucket.available(Moment::from_nanos(100_000_000)), 100);
/// ```
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: u64,
    burst: i128,
    /// Negative while more was charged than earned.
    credit: i128,
    updated: Moment,
}

impl TokenBucket {
    /// Creates a bucket that allows `bandwidth` on average and `burst` bytes at once. It starts
    /// with a full burst.
    #[must_use]
    pub fn new(bandwidth: Bandwidth, burst: usize, now: Moment) -> Self {
        let burst = burst as i128 * BYTE;
        Self { rate: bandwidth.per_second(), burst, credit: burst, updated: now }
    }

    /// Returns the number of bytes that may be sent now.
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

    /// Spends `bytes` that had to be sent, even if they are not available.
    pub fn charge(&mut self, now: Moment, bytes: usize) {
        self.refill(now);
        self.credit -= bytes as i128 * BYTE;
    }

    /// Returns the time at which `bytes` become available if nothing else is spent. Returns the end
    /// of time if they exceed the burst or the bandwidth is zero.
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
        self.rate = bandwidth.per_second();
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
            let mut bucket = TokenBucket::new(Bandwidth::bytes_per_second(rate), burst, Moment::ZERO);
            let mut now = 0_u64;
            let mut spent = 0_u128;
            for (pass, wish) in steps {
                now += pass;
                let available = bucket.available(Moment::from_nanos(now));
                let bytes = wish.min(available);
                prop_assert!(bucket.try_spend(Moment::from_nanos(now), bytes));
                spent += bytes as u128;
                let earned = burst as u128 + u128::from(now) * u128::from(rate) / 1_000_000_000;
                prop_assert!(spent <= earned);
            }
        }

        #[test]
        fn greedy_sender_uses_all_of_it(rate in 1_000..10_000_000_u64, ticks in 10..500_u64) {
            let burst = (rate / 100).max(10) as usize; // 10 ms
            let mut bucket = TokenBucket::new(Bandwidth::bytes_per_second(rate), burst, Moment::ZERO);
            let mut spent = 0_u64;
            for tick in 1..=ticks {
                let now = Moment::from_nanos(tick * 5_000_000); // checked every 5 ms
                let available = bucket.available(now);
                prop_assert!(bucket.try_spend(now, available));
                spent += available as u64;
            }
            let due = rate * ticks * 5 / 1000;
            prop_assert!(spent + 1 >= due, "spent {} of {}", spent, due);
            prop_assert!(spent <= due + burst as u64);
        }

        #[test]
        fn ready_at_is_the_first_moment_it_works(rate in 1..1_000_000_u64, burst in 1..10_000_usize, wish in 1..10_000_usize) {
            let mut bucket = TokenBucket::new(Bandwidth::bytes_per_second(rate), burst, Moment::ZERO);
            prop_assert!(bucket.try_spend(Moment::ZERO, burst));
            let ready = bucket.ready_at(wish);
            if wish > burst {
                prop_assert_eq!(ready, Moment::from_nanos(u64::MAX));
            } else {
                let mut early = bucket.clone();
                prop_assert!(!early.try_spend(Moment::from_nanos(ready.as_nanos() - 1), wish));
                prop_assert!(bucket.try_spend(ready, wish));
            }
        }
    }

    #[test]
    fn debts_are_earned_back_first() {
        let mut bucket = TokenBucket::new(Bandwidth::bytes_per_second(1000), 100, Moment::ZERO);
        bucket.charge(Moment::ZERO, 600);
        assert_eq!(bucket.available(Moment::from_nanos(500_000_000)), 0);
        assert_eq!(bucket.ready_at(50), Moment::from_nanos(550_000_000));
        assert_eq!(bucket.available(Moment::from_nanos(550_000_000)), 50);
    }

    #[test]
    fn zero_bandwidth_never_earns() {
        let mut bucket = TokenBucket::new(Bandwidth::bytes_per_second(0), 10, Moment::ZERO);
        assert!(bucket.try_spend(Moment::ZERO, 10));
        assert_eq!(bucket.available(Moment::from_nanos(u64::MAX)), 0);
        assert_eq!(bucket.ready_at(1), Moment::from_nanos(u64::MAX));
    }
}
