//! Randomized testing: runs a scenario for many seeds, shrinks the first failure and prints the
//! command that replays it.
//!
//! **Invariant:** the result does not depend on the number of threads. It is always the lowest seed
//! that fails, and shrinking tries the same candidates in the same order. Only this module uses
//! threads; a run has none.

use crate::scenario::Scenario;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of candidates during shrinking.
const MAX_SHRINK_ATTEMPTS: usize = 2000;

/// A scenario that violates its invariant.
#[derive(Clone, Debug)]
pub struct ScenarioFailure<S> {
    /// Seed of the scenario.
    pub seed: u64,
    /// Violation of the original scenario.
    pub problem: String,
    /// Smallest scenario found that fails, too.
    pub shrunk: S,
    /// Violation of the smallest scenario.
    pub shrunk_problem: String,
    /// Number of successful shrinking steps.
    pub steps: usize,
}

impl<S: Scenario> fmt::Display for ScenarioFailure<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, problem, shrunk, shrunk_problem, steps } = self;
        write!(formatter, "seed {seed}: {problem}")?;
        write!(formatter, "\nshrunk in {steps} steps: {shrunk_problem}")?;
        write!(formatter, "\nreplay: {}", shrunk.replay())
    }
}

/// Runs the scenarios of many seeds on all cores until one violates the invariant, and shrinks that
/// one: fewer peers, fewer steps, fewer faults, less jitter. Returns the number of runs if none
/// fails.
///
/// ```
/// use hemiola_sim::explore::explore;
/// use hemiola_sim::scenario::{RotationScenario, Scenario as _};
///
/// let found = explore(0..20, RotationScenario::from_seed, |scenario| scenario.check().map(drop));
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
) -> Result<u64, Box<ScenarioFailure<S>>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(seeds.start);
    let lowest = AtomicU64::new(u64::MAX);
    let found: Mutex<Option<(u64, String)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Lower seeds are still checked, since they may fail, too.
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
            let (shrunk, shrunk_problem, steps) = shrink(scenario(seed), problem.clone(), &invariant);
            Err(Box::new(ScenarioFailure { seed, problem, shrunk, shrunk_problem, steps }))
        }
    }
}

/// Replaces the scenario by its first smaller variant that fails, until none does.
fn shrink<S: Scenario>(
    mut shrunk: S,
    mut problem: String,
    invariant: &impl Fn(&S) -> Result<(), String>,
) -> (S, String, usize) {
    let (mut tries, mut steps) = (0, 0);
    'smaller: loop {
        for candidate in shrunk.shrink() {
            tries += 1;
            if tries > MAX_SHRINK_ATTEMPTS {
                return (shrunk, problem, steps);
            }
            if let Err(found) = invariant(&candidate) {
                (shrunk, problem) = (candidate, found);
                steps += 1;
                continue 'smaller;
            }
        }
        return (shrunk, problem, steps);
    }
}
