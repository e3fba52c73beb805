//! Clocks of workers, and what waits for them.
//!
//! A worker at clock `c` has finished the work units `0..c`. What everybody has finished is the minimum; a worker that has
//! ended counts as infinitely far, so uneven data blocks nobody. Tables, rotation and notify-ack use the same two parts:
//! [`Clocks`] knows the minimum, [`Parked`] keeps what waits for it.
//!
//! **Invariants:** a clock never goes back. The minimum may jump over many clocks at once, and everything that waits for any of
//! the clocks passed is released, in the order of clocks and, within one, of arrival.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// How many work units a worker has finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Clock(u64);

impl Clock {
    /// Nothing is finished.
    pub const ZERO: Self = Self(0);
    /// The clock of a worker that has ended.
    pub const INFINITE: Self = Self(u64::MAX);

    /// The clock after this many work units.
    #[must_use]
    pub const fn new(units: u64) -> Self {
        Self(units)
    }

    /// The number of finished work units.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.0
    }

    /// One unit later. The end stays the end.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// This many units earlier; zero if there are not so many.
    #[must_use]
    pub const fn back(self, units: u64) -> Self {
        Self(self.0.saturating_sub(units))
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::INFINITE { formatter.write_str("the end") } else { self.0.fmt(formatter) }
    }
}

/// A clock was set to where it has been already, or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("clock of participant {who} was set to {to} when it stood at {at}; clocks only go forward")]
pub struct Backward {
    /// Whose clock.
    pub who: usize,
    /// Where it stands.
    pub at: Clock,
    /// Where it was sent.
    pub to: Clock,
}

/// The clocks of all participants, and their minimum.
///
/// ```
/// use hemiola_tables_proto::{Clock, Clocks};
/// let mut clocks = Clocks::new(2, Clock::ZERO);
/// assert_eq!(clocks.advance(0, Clock::new(3))?, None);
/// assert_eq!(clocks.advance(1, Clock::INFINITE)?, Some(Clock::new(3))); // the minimum moved
/// # Ok::<(), hemiola_tables_proto::clock::Backward>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clocks {
    at: Vec<Clock>,
    min: Clock,
    /// How many stand at the minimum.
    at_min: usize,
}

impl Clocks {
    /// `count` participants at the same clock. Nobody at all has finished everything.
    #[must_use]
    pub fn new(count: usize, start: Clock) -> Self {
        let min = if count == 0 { Clock::INFINITE } else { start };
        Self { at: vec![start; count], min, at_min: count }
    }

    /// Sets the clock of a participant forward. Returns the minimum if it moved.
    ///
    /// # Panics
    /// If there is no such participant.
    pub fn advance(&mut self, who: usize, to: Clock) -> Result<Option<Clock>, Backward> {
        let at = self.at[who];
        if to <= at {
            return Err(Backward { who, at, to });
        }
        self.at[who] = to;
        if at > self.min || self.at_min > 1 {
            self.at_min -= usize::from(at == self.min);
            return Ok(None);
        }
        self.min = self.at.iter().copied().min().unwrap_or(Clock::INFINITE);
        self.at_min = self.at.iter().filter(|clock| **clock == self.min).count();
        Ok(Some(self.min))
    }

    /// What everybody has finished.
    #[must_use]
    pub fn min(&self) -> Clock {
        self.min
    }

    /// The clock of a participant.
    ///
    /// # Panics
    /// If there is no such participant.
    #[must_use]
    pub fn of(&self, who: usize) -> Clock {
        self.at[who]
    }

    /// Number of participants.
    #[must_use]
    pub fn count(&self) -> usize {
        self.at.len()
    }

    /// All clocks.
    #[must_use]
    pub fn all(&self) -> &[Clock] {
        &self.at
    }
}

/// What waits until the minimum has reached a clock.
#[derive(Clone, Debug)]
pub struct Parked<T> {
    waiting: BTreeMap<Clock, Vec<T>>,
}

impl<T> Default for Parked<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new() }
    }
}

impl<T> Parked<T> {
    /// Keeps something until the minimum is at `until` or later.
    pub fn park(&mut self, until: Clock, what: T) {
        self.waiting.entry(until).or_default().push(what);
    }

    /// Everything that waited for any clock up to `min`.
    #[must_use]
    pub fn release(&mut self, min: Clock) -> Vec<T> {
        let mut released = Vec::new();
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() <= min) {
            released.extend(entry.remove());
        }
        released
    }

    /// What waits, with the clock it waits for.
    pub fn iter(&self) -> impl Iterator<Item = (Clock, &T)> {
        self.waiting.iter().flat_map(|(until, parked)| parked.iter().map(|what| (*until, what)))
    }

    /// Whether nothing waits.
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
        fn the_minimum_is_that_of_all_clocks(steps in prop::collection::vec((0..5_usize, 1..4_u64), 0..100)) {
            let mut clocks = Clocks::new(5, Clock::new(7));
            let mut plain = [7_u64; 5];
            for (who, by) in steps {
                let before = clocks.min();
                plain[who] += by;
                let moved = clocks.advance(who, Clock::new(plain[who])).unwrap();
                let min = Clock::new(*plain.iter().min().unwrap());
                prop_assert_eq!(clocks.min(), min);
                prop_assert_eq!(moved, (min != before).then_some(min));
            }
        }
    }

    #[test]
    fn a_finished_worker_holds_nobody_back() {
        let mut clocks = Clocks::new(2, Clock::ZERO);
        assert_eq!(clocks.advance(0, Clock::INFINITE), Ok(None));
        assert_eq!(clocks.advance(1, Clock::new(5000)), Ok(Some(Clock::new(5000))));
        assert_eq!(clocks.advance(1, Clock::INFINITE), Ok(Some(Clock::INFINITE)));
        let error = clocks.advance(1, Clock::INFINITE).unwrap_err();
        assert_eq!(
            error.to_string(),
            "clock of participant 1 was set to the end when it stood at the end; clocks only go forward"
        );
    }

    #[test]
    fn a_jump_releases_the_whole_range() {
        let mut parked = Parked::default();
        for until in [4, 2, 9, 2] {
            parked.park(Clock::new(until), until);
        }
        assert_eq!(parked.release(Clock::new(1)), Vec::<u64>::new());
        assert_eq!(parked.release(Clock::new(8)), [2, 2, 4]);
        assert_eq!(parked.iter().collect::<Vec<_>>(), [(Clock::new(9), &9)]);
        assert_eq!(parked.release(Clock::INFINITE), [9]);
        assert!(parked.is_empty());
    }
}
