//! Clocks of workers, and queues of items that wait for them.
//!
//! A worker at clock `c` has finished the work units `0..c`. The minimum of all clocks is what
//! every worker has finished. A worker that has ended counts as infinitely far, so uneven data
//! blocks no other worker. Tables, rotation and NOTIFY-ACK use the same two types: [`VectorClock`]
//! maintains the minimum, [`ClockWaitQueue`] holds what waits for it.
//!
//! **Invariants:** a clock never goes back. The minimum may jump over many clocks at once;
//! everything that waits for any of the clocks passed is released, ordered by clock and then by
//! arrival.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Number of work units that a worker has finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Clock(u64);

impl Clock {
    /// The initial clock: no unit is finished.
    pub const ZERO: Self = Self(0);
    /// Clock of a worker that has ended.
    pub const INFINITE: Self = Self(u64::MAX);

    /// Creates the clock after `units` work units.
    #[must_use]
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// Number of finished work units.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.0
    }

    /// Next clock. The infinite clock stays infinite.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Clock `units` earlier, saturating at zero.
    #[must_use]
    pub const fn saturating_sub(self, units: u64) -> Self {
        Self(self.0.saturating_sub(units))
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::INFINITE { formatter.write_str("finished") } else { self.0.fmt(formatter) }
    }
}

/// Error: a clock was set to its current value or an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "clock of participant {participant} was set to {requested} but is already at {current}; a clock only moves forward"
)]
pub struct ClockRegression {
    /// Index of the participant.
    pub participant: usize,
    /// Current clock of the participant.
    pub current: Clock,
    /// Clock that was requested.
    pub requested: Clock,
}

/// Clocks of all participants, with their minimum.
///
/// ```
/// use hemiola_tables_proto::{Clock, VectorClock};
/// let mut clocks = VectorClock::new(2, Clock::ZERO);
/// assert_eq!(clocks.advance(0, Clock::new(3))?, None);
/// assert_eq!(clocks.advance(1, Clock::INFINITE)?, Some(Clock::new(3))); // the minimum moved
/// # Ok::<(), hemiola_tables_proto::clock::ClockRegression>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorClock {
    clocks: Vec<Clock>,
    min: Clock,
    /// Number of participants at the minimum.
    at_min: usize,
}

impl VectorClock {
    /// Creates `count` participants at the same clock. The minimum of no participants is infinite.
    #[must_use]
    pub fn new(count: usize, start: Clock) -> Self {
        let min = if count == 0 { Clock::INFINITE } else { start };
        Self { clocks: vec![start; count], min, at_min: count }
    }

    /// Advances the clock of a participant. Returns the new minimum if it moved.
    ///
    /// # Panics
    /// If there is no such participant.
    pub fn advance(&mut self, participant: usize, to: Clock) -> Result<Option<Clock>, ClockRegression> {
        let at = self.clocks[participant];
        if to <= at {
            return Err(ClockRegression { participant, current: at, requested: to });
        }
        self.clocks[participant] = to;
        if at > self.min || self.at_min > 1 {
            self.at_min -= usize::from(at == self.min);
            return Ok(None);
        }
        self.min = self.clocks.iter().copied().min().unwrap_or(Clock::INFINITE);
        self.at_min = self.clocks.iter().filter(|clock| **clock == self.min).count();
        Ok(Some(self.min))
    }

    /// Minimum of all clocks: the units that every participant has finished.
    #[must_use]
    pub fn min(&self) -> Clock {
        self.min
    }

    /// Clock of one participant.
    ///
    /// # Panics
    /// If there is no such participant.
    #[must_use]
    pub fn clock_of(&self, participant: usize) -> Clock {
        self.clocks[participant]
    }

    /// Number of participants of the clock.
    #[must_use]
    pub fn count(&self) -> usize {
        self.clocks.len()
    }

    /// Clocks of all participants, by index.
    #[must_use]
    pub fn as_slice(&self) -> &[Clock] {
        &self.clocks
    }
}

/// Items that wait until the minimum reaches a clock.
#[derive(Clone, Debug)]
pub struct ClockWaitQueue<T> {
    waiting: BTreeMap<Clock, Vec<T>>,
}

impl<T> Default for ClockWaitQueue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new() }
    }
}

impl<T> ClockWaitQueue<T> {
    /// Keeps an item until the minimum is at `until` or later.
    pub fn push(&mut self, until: Clock, item: T) {
        self.waiting.entry(until).or_default().push(item);
    }

    /// Removes and returns all items that waited for a clock up to `min`.
    #[must_use]
    pub fn release(&mut self, min: Clock) -> Vec<T> {
        let mut released = Vec::new();
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= min) {
            released.extend(entry.remove());
        }
        released
    }

    /// Iterates over the waiting items with the clock that each waits for.
    pub fn iter(&self) -> impl Iterator<Item = (Clock, &T)> {
        self.waiting.iter().flat_map(|(until, items)| items.iter().map(|item| (*until, item)))
    }

    /// Returns true if no item waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_minimum_covers_all_clocks(steps in prop::collection::vec((0..5_usize, 1..4_u64), 0..100)) {
            let mut clocks = VectorClock::new(5, Clock::new(7));
            let mut plain = [7_u64; 5];
            for (participant, by) in steps {
                let before = clocks.min();
                plain[participant] += by;
                let moved = clocks.advance(participant, Clock::new(plain[participant])).unwrap();
                let min = Clock::new(*plain.iter().min().unwrap());
                prop_assert_eq!(clocks.min(), min);
                prop_assert_eq!(moved, (min != before).then_some(min));
            }
        }
    }

    #[test]
    fn a_finished_worker_does_not_block_others() {
        let mut clocks = VectorClock::new(2, Clock::ZERO);
        assert_eq!(clocks.advance(0, Clock::INFINITE), Ok(None));
        assert_eq!(clocks.advance(1, Clock::new(5000)), Ok(Some(Clock::new(5000))));
        assert_eq!(clocks.advance(1, Clock::INFINITE), Ok(Some(Clock::INFINITE)));
        let error = clocks.advance(1, Clock::INFINITE).unwrap_err();
        assert_eq!(
            error.to_string(),
            "clock of participant 1 was set to finished but is already at finished; a clock only moves forward"
        );
    }

    #[test]
    fn a_jump_releases_the_whole_range() {
        let mut parked = ClockWaitQueue::default();
        for until in [4, 2, 9, 2] {
            parked.push(Clock::new(until), until);
        }
        assert_eq!(parked.release(Clock::new(1)), Vec::<u64>::new());
        assert_eq!(parked.release(Clock::new(8)), [2, 2, 4]);
        assert_eq!(parked.iter().collect::<Vec<_>>(), [(Clock::new(9), &9)]);
        assert_eq!(parked.release(Clock::INFINITE), [9]);
        assert!(parked.is_empty());
    }
}
