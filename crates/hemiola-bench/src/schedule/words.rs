//! Words with Zipf frequencies: load balance of round-robin and heaviest-first assignment.

use hemiola::core::rng::PhiloxRng;
use hemiola::schedule::{JobAssignment, pool};
use rustix::time::{ClockId, clock_gettime};

const WORKERS: usize = 8;
/// Occurrences of the most frequent word.
const MOST: u64 = 4_000_000;

/// CPU time of the busiest worker with round-robin assignment over that with heaviest first. The best
/// of several rounds of each counts.
pub(super) fn heavy_first(words: usize, rounds: u32) -> anyhow::Result<f64> {
    let values = PhiloxRng::new(7);
    let mut order: Vec<u64> = (1..=words as u64).collect();
    order.sort_by_key(|rank| values.random_u64(*rank, 0));
    let counts: Vec<u64> = order.into_iter().map(|rank| (MOST / rank).max(1)).collect();
    let found = hemiola_cluster::standalone(1).workers(WORKERS).run(|cluster| {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..rounds {
            for (best, how) in best.iter_mut().zip([JobAssignment::RoundRobin, JobAssignment::HeaviestFirst]) {
                let mut jobs = counts.clone();
                let mut spent = vec![0.0; WORKERS];
                pool::run(cluster, &mut jobs, &counts, how, &mut spent, |count, spent| {
                    let start = processor_seconds();
                    *count = occurrences(*count);
                    *spent += processor_seconds() - start;
                })?;
                std::hint::black_box(&jobs);
                *best = best.min(spent.into_iter().fold(0.0, f64::max));
            }
        }
        Ok(best)
    })?;
    let [by_turns, heavy_first] = found[0];
    Ok(by_turns / heavy_first)
}

/// Does a constant amount of work per occurrence.
fn occurrences(count: u64) -> u64 {
    (0..count).fold(count, |state, token| (state ^ token).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
}

/// CPU time of the calling thread in seconds.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
