//! Many runs of a scenario, each from a seed; of one that fails, the smallest that still does, and the line that replays it.
//!
//! **Invariant:** what is found does not depend on the number of threads: it is always the lowest seed that fails, and shrinking tries the same things in the same order. Threads are
//! used here alone; a run itself has none.

use crate::scenario::Scenario;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Smaller scenarios that are tried at most.
const TRIES: usize = 2000;

/// A scenario that fails.
#[derive(Clone, Debug)]
pub struct Failure<S> {
    /// Its seed.
    pub seed: u64,
    /// What is wrong with the scenario of the seed.
    pub problem: String,
    /// The smallest that was found to fail, too.
    pub smallest: S,
    /// What is wrong with that.
    pub smallest_problem: String,
    /// How many steps smaller it is.
    pub steps: usize,
}

impl<S: Scenario> fmt::Display for Failure<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, problem, smallest, smallest_problem, steps } = self;
        write!(formatter, "seed {seed}: {problem}")?;
        write!(formatter, "\nthe smallest of {steps} steps: {smallest_problem}")?;
        write!(formatter, "\nreplay: {}", smallest.replay())
    }
}

/// Runs the scenarios of many seeds on all processors until one breaks the invariant, and makes that one smaller: fewer peers, fewer steps, fewer faults, less jitter. Without a
/// failure, how many were run.
///
/// ```
/// use hemiola_sim::explore::explore;
/// use hemiola_sim::scenario::{RingScenario, Scenario as _};
///
/// let found = explore(0..20, RingScenario::from_seed, |scenario| scenario.check().map(drop));
/// assert_eq!(found.unwrap(), 20);
/// ```
///
/// The failure is boxed: it is rare, and large.
///
/// # Panics
/// If the invariant panics.
pub fn explore<S: Scenario>(
    seeds: Range<u64>,
    scenario: impl Fn(u64) -> S + Sync,
    invariant: impl Fn(&S) -> Result<(), String> + Sync,
) -> Result<u64, Box<Failure<S>>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let lowest = AtomicU64::new(u64::MAX);
    let found: Mutex<Option<(u64, String)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Those below a seed that failed may fail, too.
                    if seed >= seeds.end || seed > lowest.load(Ordering::Relaxed) {
                        return;
                    }
                    let Err(problem) = invariant(&scenario(seed)) else { continue };
                    lowest.fetch_min(seed, Ordering::Relaxed);
                    let mut found = found.lock().expect("no thread panics while it holds this");
                    if found.as_ref().is_none_or(|(known, _)| seed < *known) {
                        *found = Some((seed, problem));
                    }
                }
            });
        }
    });
    match found.into_inner().expect("no thread panics while it holds this") {
        None => Ok(seeds.end.saturating_sub(seeds.start)),
        Some((seed, problem)) => {
            let (smallest, smallest_problem, steps) = shrink(scenario(seed), problem.clone(), &invariant);
            Err(Box::new(Failure { seed, problem, smallest, smallest_problem, steps }))
        }
    }
}

/// Takes the first smaller scenario that fails, again and again.
fn shrink<S: Scenario>(
    mut smallest: S,
    mut problem: String,
    invariant: &impl Fn(&S) -> Result<(), String>,
) -> (S, String, usize) {
    let (mut tries, mut steps) = (0, 0);
    'smaller: loop {
        for candidate in smallest.smaller() {
            tries += 1;
            if tries > TRIES {
                return (smallest, problem, steps);
            }
            if let Err(found) = invariant(&candidate) {
                (smallest, problem) = (candidate, found);
                steps += 1;
                continue 'smaller;
            }
        }
        return (smallest, problem, steps);
    }
}
