//! Rate limiter of eager sending: a leaky bucket with feedback from acknowledgements.
//!
//! A [`RateLimiter`] covers one direction of one peer; its driver lends it to the clients and
//! shards of that peer in turn. Urgent traffic, for which a clock or a reader waits, is sent at
//! once and charged afterwards. Eager traffic asks for an allowance first. Acknowledgements close
//! the loop (Bösen, section 3.3.1): if an eager message is not acknowledged within the timeout, the
//! network counts as saturated, and eager sending stalls until the acknowledgement arrives.
//!
//! **Invariants:** over any interval of length *t*, eager traffic is at most `rate × t + burst`.
//! Whenever an eager message is sent, all traffic up to then, urgent included, is at most that.
//! Unacknowledged eager traffic is at most `rate × timeout + burst`. With a rate and burst of zero
//! nothing is sent eagerly, and everything still works.

use hemiola_core::{Bandwidth, Moment, TokenBucket};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Limits the eager traffic of one peer in one direction.
#[derive(Clone, Debug)]
pub struct RateLimiter {
    budget: TokenBucket,
    ack_timeout: Duration,
    /// By stream: number and time of unacknowledged eager messages.
    in_flight: BTreeMap<u64, VecDeque<(u64, Moment)>>,
    /// Eager and urgent bytes sent so far.
    eager_bytes: u64,
    urgent_bytes: u64,
    /// Number of stalls caused by late acknowledgements.
    stalls: u64,
    stalled: bool,
}

impl RateLimiter {
    /// Allows `bandwidth` on average and `burst` bytes at once. Stalls if an acknowledgement takes
    /// longer than `ack_timeout`.
    #[must_use]
    pub fn new(bandwidth: Bandwidth, burst: usize, ack_timeout: Duration, now: Moment) -> Self {
        Self {
            budget: TokenBucket::new(bandwidth, burst, now),
            ack_timeout,
            in_flight: BTreeMap::new(),
            eager_bytes: 0,
            urgent_bytes: 0,
            stalls: 0,
            stalled: false,
        }
    }

    /// Creates a limiter that allows no eager traffic.
    #[must_use]
    pub fn zero() -> Self {
        Self::new(Bandwidth::bytes_per_second(0), 0, Duration::MAX, Moment::ZERO)
    }

    /// Number of bytes that may be sent eagerly now.
    pub fn allowance(&mut self, now: Moment) -> usize {
        let late =
            self.in_flight.values().filter_map(VecDeque::front).any(|(_, sent)| now.since(*sent) > self.ack_timeout);
        self.stalls += u64::from(late && !self.stalled);
        self.stalled = late;
        if late { 0 } else { self.budget.available(now) }
    }

    /// Spends part of the allowance on message `number` of a stream.
    ///
    /// # Panics
    /// If they are more than the allowance.
    pub fn spend(&mut self, now: Moment, stream: u64, number: u64, bytes: usize) {
        assert!(self.budget.try_spend(now, bytes), "{bytes} bytes are more than the allowance");
        self.eager_bytes += bytes as u64;
        self.in_flight.entry(stream).or_default().push_back((number, now));
    }

    /// Charges urgent bytes, which are sent without asking.
    pub fn charge(&mut self, now: Moment, bytes: usize) {
        self.urgent_bytes += bytes as u64;
        self.budget.charge(now, bytes);
    }

    /// Records that a stream is acknowledged up to this message number.
    pub fn acknowledged(&mut self, stream: u64, number: u64) {
        if let Some(in_flight) = self.in_flight.get_mut(&stream) {
            while in_flight.front().is_some_and(|(sent, _)| *sent <= number) {
                in_flight.pop_front();
            }
            if in_flight.is_empty() {
                self.in_flight.remove(&stream);
            }
        }
    }

    /// Time at which `bytes` are available if acknowledgements arrive in time; the maximum moment
    /// if never.
    #[must_use]
    pub fn ready_at(&self, bytes: usize) -> Moment {
        self.budget.ready_at(bytes)
    }

    /// Eager and urgent bytes sent so far.
    #[must_use]
    pub fn bytes(&self) -> (u64, u64) {
        (self.eager_bytes, self.urgent_bytes)
    }

    /// Number of stalls caused by late acknowledgements.
    #[must_use]
    pub fn stalls(&self) -> u64 {
        self.stalls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MILLISECOND: u64 = 1_000_000;

    proptest! {
        /// A sender with rows of 300 bytes wakes when the limiter allows; urgent clock traffic
        /// comes in between.
        #[test]
        fn traffic_uses_the_budget_and_stays_within_it(
            rate in 100_000..10_000_000_u64,
            clocks in prop::collection::vec((1..20_u64, 0..20_000_usize), 10..100),
        ) {
            const ROW: usize = 300;
            let burst = 4 * ROW + rate as usize / 1000;
            let mut limiter = RateLimiter::new(Bandwidth::bytes_per_second(rate), burst, Duration::from_secs(1), Moment::ZERO);
            let (mut now, mut number, mut urgent) = (0_u64, 0, 0_u64);
            let earned = |now: u64| u128::from(now) * u128::from(rate) / 1_000_000_000;
            for (wait, bytes) in clocks {
                let end = now + wait * MILLISECOND;
                while now < end {
                    let moment = Moment::from_nanos(now);
                    let rows = limiter.allowance(moment) / ROW;
                    if rows > 0 {
                        number += 1;
                        limiter.spend(moment, 0, number, rows * ROW);
                        limiter.acknowledged(0, number);
                        let (ahead, counted) = limiter.bytes();
                        prop_assert_eq!(counted, urgent);
                        prop_assert!(u128::from(ahead + urgent) <= earned(now) + burst as u128);
                    }
                    now = limiter.ready_at(ROW).as_nanos().clamp(now + 1, end);
                }
                limiter.charge(Moment::from_nanos(now), bytes);
                urgent += bytes as u64;
            }
            let (ahead, _) = limiter.bytes();
            let earned = earned(now);
            prop_assert!(u128::from(ahead + urgent) + ROW as u128 >= earned * 95 / 100, "{} and {} of {}", ahead, urgent, earned);
        }
    }

    #[test]
    fn late_acknowledgements_stall_eager_sending() {
        // 10 MB/s are allowed, but the network carries 1 MB/s.
        let ack_timeout = Duration::from_millis(20);
        let mut limiter = RateLimiter::new(Bandwidth::bytes_per_second(10_000_000), 10_000, ack_timeout, Moment::ZERO);
        let (mut sent, mut arrived, mut number) = (VecDeque::new(), 0, 0);
        for millisecond in 0..10_000_u64 {
            let now = Moment::from_nanos(millisecond * MILLISECOND);
            let bytes = limiter.allowance(now);
            if bytes > 0 {
                number += 1;
                limiter.spend(now, 3, number, bytes);
                sent.push_back((number, bytes));
            }
            let mut room = 1000;
            while let Some((number, bytes)) = sent.front_mut() {
                let part = room.min(*bytes);
                (*bytes, room, arrived) = (*bytes - part, room - part, arrived + part);
                if *bytes > 0 {
                    break;
                }
                limiter.acknowledged(3, *number);
                sent.pop_front();
            }
        }
        let backlog: usize = sent.iter().map(|(_, bytes)| bytes).sum();
        assert!(limiter.stalls() > 10 && backlog <= 10_000_000 / 50 + 20_000, "backlog {backlog}");
        assert!(arrived > 9_500_000, "the network was busy: {arrived}");
    }

    #[test]
    fn a_zero_limiter_allows_no_eager_traffic() {
        let mut limiter = RateLimiter::zero();
        limiter.charge(Moment::ZERO, 1_000_000);
        assert_eq!(limiter.allowance(Moment::from_nanos(u64::MAX)), 0);
        assert_eq!(limiter.ready_at(1), Moment::from_nanos(u64::MAX));
    }
}
