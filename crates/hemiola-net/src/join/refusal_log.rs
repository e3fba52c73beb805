//! Rate limit of reports about refused connections: pure, without a clock.
//!
//! Anybody may connect as often as they like, and every refused connection is worth a line only as
//! long as there are few. **Invariant:** after [`UNLIMITED`] reports there is at most one per
//! [`INTERVAL`]; the next report says how many were left out.

use hemiola_core::Moment;
use std::time::Duration;

/// Number of reports that are made at once.
const UNLIMITED: usize = 8;
/// Time between later reports.
const INTERVAL: Duration = Duration::from_secs(2);

/// Decides which refused connections are reported.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog {
    reported: usize,
    last: Option<Moment>,
    omitted: usize,
}

impl RefusalLog {
    /// Counts a refused connection. Returns the number of refusals that were left out before it, if
    /// it is to be reported.
    pub(crate) fn add(&mut self, now: Moment) -> Option<usize> {
        let due = self.last.is_none_or(|last| now - last >= INTERVAL);
        if self.reported >= UNLIMITED && !due {
            self.omitted += 1;
            return None;
        }
        self.reported += 1;
        self.last = Some(now);
        Some(std::mem::take(&mut self.omitted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_a_few_lines_that_count_the_rest() {
        let mut log = RefusalLog::default();
        let millis = |millis: u64| Moment::from_nanos(millis * 1_000_000);
        // Ten thousand refusals in ten seconds.
        let reports: Vec<usize> = (0..10_000).filter_map(|number| log.add(millis(number))).collect();
        assert!(reports.len() <= UNLIMITED + 5, "{reports:?}");
        assert_eq!(reports.len() + reports.iter().sum::<usize>() + log.omitted, 10_000);
    }
}
