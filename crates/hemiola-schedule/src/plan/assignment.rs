//! Assignment of jobs with known weights to workers: longest processing time first.
//!
//! Each job goes to the worker with the smallest load, the heaviest job first. The jobs that
//! balance the loads get ever lighter, so no worker ends later than 4/3 of the optimum (Graham
//! 1969). In the original order, a heavy job may be the last.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Order in which jobs are assigned to workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum JobAssignment {
    /// The heaviest job first, each to the worker with the smallest load.
    HeaviestFirst,
    /// Round robin in the original order, for comparison.
    RoundRobin,
}

/// Assigns jobs by their weights. Returns the job indices of each worker, in the order they should
/// run. Equal weights keep their order, so the result is deterministic.
///
/// ```
/// use hemiola_schedule::plan::assignment::{JobAssignment, assign_jobs};
/// let weights = [1, 7, 2, 4];
/// assert_eq!(assign_jobs(JobAssignment::HeaviestFirst, &weights, 2), [vec![1], vec![3, 2, 0]]);
/// assert_eq!(assign_jobs(JobAssignment::RoundRobin, &weights, 2), [vec![0, 2], vec![1, 3]]);
/// ```
///
/// # Panics
/// If there are no workers.
#[must_use]
pub fn assign_jobs(assignment: JobAssignment, weights: &[u64], workers: usize) -> Vec<Vec<usize>> {
    assert!(workers > 0, "jobs need at least one worker");
    let mut assigned = vec![Vec::new(); workers];
    match assignment {
        JobAssignment::RoundRobin => {
            for index in 0..weights.len() {
                assigned[index % workers].push(index);
            }
        }
        JobAssignment::HeaviestFirst => {
            let mut order: Vec<usize> = (0..weights.len()).collect();
            order.sort_by_key(|index| Reverse(weights[*index]));
            // The count breaks ties, so jobs without weight are spread, too.
            let mut loads: BinaryHeap<Reverse<(u64, usize, usize)>> =
                (0..workers).map(|worker| Reverse((0, 0, worker))).collect();
            for index in order {
                let Reverse((load, count, worker)) = loads.pop().expect("the heap holds every worker");
                assigned[worker].push(index);
                loads.push(Reverse((load.saturating_add(weights[index]), count + 1, worker)));
            }
        }
    }
    assigned
}

/// Largest load divided by the mean load; 1 is perfect.
#[must_use]
pub fn load_imbalance(weights: &[u64], assigned: &[Vec<usize>]) -> f64 {
    let loads = assigned.iter().map(|worker| worker.iter().map(|index| weights[*index]).sum::<u64>());
    let total: u64 = weights.iter().sum();
    let heaviest = loads.max().unwrap_or(0);
    if total == 0 { 1.0 } else { heaviest as f64 * assigned.len() as f64 / total as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_job_is_assigned_once_and_the_load_is_near_the_optimum(
            weights in prop::collection::vec(0..100_u64, 0..30),
            workers in 1..6_usize,
        ) {
            for assignment in [JobAssignment::HeaviestFirst, JobAssignment::RoundRobin] {
                let assigned = assign_jobs(assignment, &weights, workers);
                prop_assert_eq!(assigned.len(), workers);
                let mut all: Vec<usize> = assigned.iter().flatten().copied().collect();
                all.sort_unstable();
                prop_assert!(all.into_iter().eq(0..weights.len()));
            }
            let assigned = assign_jobs(JobAssignment::HeaviestFirst, &weights, workers);
            let load = |worker: &Vec<usize>| worker.iter().map(|index| weights[*index]).sum::<u64>();
            let longest = assigned.iter().map(load).max().unwrap();
            // Lower bounds of every assignment.
            let at_best = weights.iter().copied().max().unwrap_or(0).max(weights.iter().sum::<u64>().div_ceil(workers as u64));
            prop_assert!(3 * longest <= 4 * best(&weights, workers, at_best) || weights.len() > 7);
            for worker in &assigned {
                prop_assert!(worker.windows(2).all(|pair| weights[pair[0]] >= weights[pair[1]]));
            }
        }
    }

    /// Optimum by exhaustive search; `at_best` if there are too many assignments.
    fn best(weights: &[u64], workers: usize, at_best: u64) -> u64 {
        if weights.len() > 7 {
            return at_best;
        }
        let ways = workers.pow(weights.len() as u32);
        let of = |way: usize| {
            let mut loads = vec![0; workers];
            let mut rest = way;
            for weight in weights {
                loads[rest % workers] += weight;
                rest /= workers;
            }
            loads.into_iter().max().unwrap()
        };
        (0..ways).map(of).min().unwrap()
    }

    #[test]
    fn zipf_words_are_balanced_only_with_the_heaviest_first() {
        let weights: Vec<u64> = (1..2000_u64).map(|rank| 1_000_000 / rank).collect();
        let mixed: Vec<u64> = (0..weights.len()).map(|index| weights[index * 1103 % weights.len()]).collect();
        let of = |assignment| load_imbalance(&mixed, &assign_jobs(assignment, &mixed, 8));
        assert!(
            of(JobAssignment::HeaviestFirst) < 1.03 && of(JobAssignment::RoundRobin) > 1.2,
            "{} {}",
            of(JobAssignment::HeaviestFirst),
            of(JobAssignment::RoundRobin)
        );
    }
}
