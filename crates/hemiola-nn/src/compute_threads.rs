//! Threads of a peer that compute its forward and backward passes.
//!
//! Burn's CPU backend and `hemiola-kernels` divide their work over the rayon pool that the calling
//! thread belongs to. **Decision:** the training thread of a peer becomes a member of a pool of its
//! own, with as many threads as the peer has workers. The alternative, rayon's global pool, has a
//! thread for every core in every process and would be shared by peers that are threads: all peers
//! of a machine would compete for all cores.
//!
//! **Limits, which are rayon's.** A thread belongs to one pool for the rest of its life, so the
//! pool is a thread-local value, and a thread that trains on several clusters keeps the number of
//! threads of the first. A thread outside of a pool that calls operations of Burn on large tensors
//! starts the global pool; this crate's own kernels never do.
//!
//! **Invariant:** results do not depend on the number of threads. One operation of Burn is an
//! exception: the sum over all elements of a tensor of more than four million, which no layer or
//! model here computes.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::cell::RefCell;

thread_local! {
    /// Pool that this thread is a member of. It ends with the thread.
    static POOL: RefCell<Option<ThreadPool>> = const { RefCell::new(None) };
}

/// Lets the calling thread compute with `threads` threads, itself included. Has no effect if the
/// thread is a member of a pool already. [`TrainerBuilder::build`](crate::TrainerBuilder::build)
/// does this with the number of workers of the cluster; other programs call it before they use a
/// net. Returns the number of threads.
#[expect(clippy::must_use_candidate, reason = "called for its effect")]
pub fn use_compute_threads(threads: usize) -> usize {
    if rayon::current_thread_index().is_none() {
        let builder = ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|index| format!("hemiola-compute-{index}"))
            .use_current_thread();
        // Without more threads, the calling thread computes alone.
        if let Ok(pool) = builder.build() {
            POOL.with(|own| *own.borrow_mut() = Some(pool));
        }
    }
    hemiola_kernels::parallel::threads()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_a_pool_of_its_own() {
        let counts = std::thread::scope(|scope| {
            let running = [1, 3, 2].map(|threads| scope.spawn(move || use_compute_threads(threads)));
            running.map(|thread| thread.join().unwrap())
        });
        assert_eq!(counts, [1, 3, 2]);
    }

    #[test]
    fn the_first_number_of_threads_stays() {
        let counts = std::thread::scope(|scope| {
            scope.spawn(|| [use_compute_threads(2), use_compute_threads(5)]).join().unwrap()
        });
        assert_eq!(counts, [2, 2]);
    }
}
