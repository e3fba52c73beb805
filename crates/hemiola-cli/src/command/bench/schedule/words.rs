//! Words of very different frequencies, each as much work as it is frequent.

use hemiola::array::random::Values;
use hemiola::schedule::{Deal, pool};
use rustix::time::{ClockId, clock_gettime};

const WORKERS: usize = 8;
/// How often the most frequent word occurs.
const MOST: u64 = 4_000_000;

/// The time of the worker that has most, dealt by turns, over that with the heaviest first; the best of several rounds of each.
pub(super) fn heavy_first(words: usize, rounds: u32) -> anyhow::Result<f64> {
    let values = Values::new(7);
    let mut order: Vec<u64> = (1..=words as u64).collect();
    order.sort_by_key(|rank| values.bits(*rank, 0));
    let counts: Vec<u64> = order.into_iter().map(|rank| (MOST / rank).max(1)).collect();
    let found = hemiola::standalone(1).workers(WORKERS).run(|cluster| {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..rounds {
            for (best, how) in best.iter_mut().zip([Deal::ByTurns, Deal::HeavyFirst]) {
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

/// Some work for every occurrence of a word.
fn occurrences(count: u64) -> u64 {
    (0..count).fold(count, |state, token| (state ^ token).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23))
}

/// What this thread has used of a processor.
fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
