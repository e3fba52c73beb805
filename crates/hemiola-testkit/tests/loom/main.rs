//! Small concurrent protocols under loom, which runs every interleaving of a few threads and every
//! value that the memory model lets a load return.
//!
//! The source files are included as they are; their module `crate::sync` is the one of this test,
//! with loom's primitives. Each protocol is checked with two or three threads: loom's cost grows
//! exponentially.

#![allow(dead_code, reason = "the included files offer more than the tests use")]
#![allow(clippy::range_plus_one, reason = "a constant of the included files is 1 here")]

mod sync;

#[path = "../../../hemiola-cluster/src/fork_join.rs"]
mod fork_join;
#[path = "../../../hemiola-net/src/tcp/lease.rs"]
mod lease;
#[path = "../../../hemiola-tables/src/sharded_rwlock.rs"]
mod sharded_rwlock;

use fork_join::ForkJoinState;
use hemiola_core::Moment;
use lease::{AssistState, LEASE_DURATION, LEASE_THRESHOLD, LeaseCount};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use sharded_rwlock::ShardedRwLock;
use std::time::Duration;

/// Explores a model with a bound on preemptions, which finds nearly all bugs in a fraction of the
/// time of a full search.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

#[test]
fn readers_of_the_sharded_lock_see_whole_writes() {
    explore(3, || {
        let lock = Arc::new(ShardedRwLock::new(2, (0_u32, 0_u32)));
        let reader = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let seen = lock.read(1);
                assert_eq!(seen.0, seen.1);
            })
        };
        let writer = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                let mut value = lock.write();
                value.0 += 1;
                value.1 += 1;
            })
        };
        {
            let mut value = lock.write();
            value.0 += 1;
            value.1 += 1;
        }
        reader.join().unwrap();
        writer.join().unwrap();
        assert_eq!(*lock.read(0), (2, 2));
    });
}

#[test]
fn a_failed_try_of_the_sharded_lock_leaves_it_free() {
    explore(3, || {
        let lock = Arc::new(ShardedRwLock::new(2, 0_u32));
        let other = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || match lock.try_write() {
                Some(mut value) => {
                    *value += 1;
                    1
                }
                None => 0,
            })
        };
        let seen = *lock.read(1);
        assert!(seen <= 1);
        let added = other.join().unwrap();
        *lock.write() += 1;
        assert_eq!(*lock.read(0), added + 1);
    });
}

#[test]
#[expect(unsafe_code, reason = "the test leads the team")]
fn a_team_runs_each_task_once_on_every_worker_and_ends() {
    for helpers in [1, 2] {
        explore(2, move || {
            let state = Arc::new(ForkJoinState::new(helpers + 1));
            let threads: Vec<_> = (1..=helpers)
                .map(|index| {
                    let state = Arc::clone(&state);
                    thread::spawn(move || state.run_worker(index))
                })
                .collect();
            state.lead(|| {
                for round in 1..=2 {
                    // A borrow of the leader's stack: loom reports a worker that runs late as a
                    // data race on the task, and the count below as wrong.
                    let runs = AtomicUsize::new(0);
                    let task = |_| {
                        runs.fetch_add(1, Ordering::Relaxed);
                    };
                    // SAFETY: inside `lead`, one call after the other.
                    let panic = unsafe { state.run(&task) };
                    assert!(panic.is_none());
                    assert_eq!(runs.load(Ordering::Relaxed), helpers + 1, "round {round}");
                    if helpers > 1 {
                        break;
                    }
                }
            });
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }
}

/// Poller of a lane, as far as leases need it: a wake-up that is remembered until the next wait.
struct Wakeups {
    pending: sync::Mutex<bool>,
    arrived: sync::Condvar,
}

#[test]
fn an_io_loop_never_sleeps_for_long_while_a_connection_is_leased() {
    explore(3, || {
        let count = Arc::new(LeaseCount::default());
        let state = Arc::new(sync::Mutex::new(AssistState::default()));
        let wakeups = Arc::new(Wakeups { pending: sync::Mutex::new(false), arrived: sync::Condvar::new() });
        let assisting = {
            let (count, state, wakeups) = (Arc::clone(&count), Arc::clone(&state), Arc::clone(&wakeups));
            thread::spawn(move || {
                for _ in 0..LEASE_THRESHOLD {
                    state.lock().begin_assist(Moment::ZERO);
                    let begins = state.lock().end_assist(Moment::ZERO);
                    if begins && count.begin() {
                        *wakeups.pending.lock() = true;
                        wakeups.arrived.notify_all();
                    }
                }
            })
        };
        // The I/O loop. A wait without a lease has no timeout here, so a lost wake-up is a
        // deadlock, which loom reports.
        let mut ended = false;
        while !ended {
            if !count.any() {
                let mut pending = wakeups.pending.lock();
                while !*pending {
                    wakeups.arrived.wait(&mut pending);
                }
                *pending = false;
            }
            ended = state.lock().end_lease(Moment::ZERO + LEASE_DURATION + Duration::from_millis(1));
            if ended {
                count.end();
            }
        }
        assisting.join().unwrap();
        assert!(!count.any());
        assert!(state.lock().loop_reads());
    });
}

/// A check that cannot fail checks nothing: two writers without a lock are found.
#[test]
#[expect(unsafe_code, reason = "the race is the point")]
fn loom_finds_a_data_race() {
    let race = std::panic::catch_unwind(|| {
        loom::model(|| {
            let cell = Arc::new(sync::UnsafeCell::new(0_u32));
            let other = Arc::clone(&cell);
            // SAFETY: loom stops the model at the second of two unordered accesses, before it
            // happens.
            let write = |cell: &sync::UnsafeCell<u32>| cell.with_mut(|value| unsafe { *value += 1 });
            let thread = thread::spawn(move || write(&other));
            write(&cell);
            thread.join().unwrap();
        });
    });
    assert!(race.is_err());
}
