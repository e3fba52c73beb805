//! Division of work over the threads of a pool.
//!
//! Kernels use the rayon pool that the calling thread belongs to, and no thread otherwise: a
//! process with several peers has one pool for each, and none starts rayon's global pool here.
//!
//! **Invariant:** the division into blocks is a function of the sizes alone.

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

/// Elements below which a kernel runs on the calling thread: the handover of a task takes about as
/// long as a pass over a few thousand elements.
pub(crate) const PARALLEL_ELEMENTS: usize = 16 * 1024;

/// Number of threads that kernels called from this thread use.
#[must_use]
pub fn threads() -> usize {
    if rayon::current_thread_index().is_some() { rayon::current_num_threads() } else { 1 }
}

/// Runs `body` on each block of `block` elements, with its index.
pub(crate) fn for_blocks(data: &mut [f32], block: usize, body: impl Fn(usize, &mut [f32]) + Sync) {
    if data.is_empty() {
        return;
    }
    if data.len() < PARALLEL_ELEMENTS || threads() == 1 {
        data.chunks_mut(block).enumerate().for_each(|(index, part)| body(index, part));
    } else {
        data.par_chunks_mut(block).enumerate().for_each(|(index, part)| body(index, part));
    }
}

/// Runs `body` for each of `count` blocks and returns the results in their order. `work` is the
/// number of elements of all blocks.
pub(crate) fn map_blocks<T: Send>(count: usize, work: usize, body: impl Fn(usize) -> T + Sync) -> Vec<T> {
    if work < PARALLEL_ELEMENTS || threads() == 1 {
        (0..count).map(body).collect()
    } else {
        (0..count).into_par_iter().map(&body).collect()
    }
}

/// Runs `body` on the parts of several slices that belong to one block: `parts[i]` has as many
/// elements in a block as `widths[i]` says.
pub(crate) fn zip_blocks<const N: usize>(
    slices: [&mut [f32]; N],
    widths: [usize; N],
    body: impl Fn(usize, [&mut [f32]; N]) + Sync,
) {
    let work = slices.iter().map(|slice| slice.len()).sum::<usize>();
    let mut chunks: Vec<_> = slices.into_iter().zip(widths).map(|(slice, width)| slice.chunks_mut(width)).collect();
    let mut blocks: Vec<[&mut [f32]; N]> = Vec::new();
    loop {
        let parts: Vec<&mut [f32]> = chunks.iter_mut().filter_map(Iterator::next).collect();
        match <[&mut [f32]; N]>::try_from(parts) {
            Ok(parts) => blocks.push(parts),
            Err(_) => break,
        }
    }
    if work < PARALLEL_ELEMENTS || threads() == 1 {
        blocks.into_iter().enumerate().for_each(|(index, parts)| body(index, parts));
    } else {
        blocks.into_par_iter().enumerate().for_each(|(index, parts)| body(index, parts));
    }
}

/// Returns the results of `body` on a pool of this many threads: for tests of the invariant.
#[cfg(test)]
pub(crate) fn on_threads<T: Send>(count: usize, body: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(count).build().unwrap().install(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_outside_of_pools_works_alone() {
        assert_eq!(threads(), 1);
        assert_eq!(on_threads(3, threads), 3);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "these values are exact")]
    fn blocks_cover_all_elements_in_order() {
        let run = || {
            let (mut left, mut right) = (vec![0.0; 5 * 7_000], vec![0.0; 5 * 3]);
            zip_blocks([&mut left, &mut right], [7_000, 3], |index, [left, right]| {
                left.fill(index as f32);
                right.fill(index as f32 + 0.5);
            });
            (left, right, map_blocks(4, usize::MAX, |index| index * index))
        };
        let (left, right, squares) = run();
        assert!((0..5).all(|index| left[index * 7_000] == index as f32 && right[index * 3] == index as f32 + 0.5));
        assert_eq!(squares, [0, 1, 4, 9]);
        assert_eq!(on_threads(3, run), (left, right, squares));
    }
}
