//! Workers that stand by, for work that comes in small pieces.
//!
//! [`Cluster::each_worker`](crate::Cluster::each_worker) wakes sleeping threads, which is right for passes of milliseconds. A schedule hands out work for some
//! microseconds at a time. A crew is held for all of it: the calling thread leads and works as worker 0, the others stay awake for a moment
//! after each piece, waiting for the next, and only then sleep.
//!
//! **Invariant:** [`Crew::each`] does not return, not even by a panic, before every worker is done with the piece. A piece may therefore
//! borrow from whoever leads.
//!
//! The protocol is three numbers. The leader sets `left` to the number of helpers, writes the piece and raises `turn`; a helper that sees
//! `turn` raised reads the piece, runs it and lowers `left`; the leader goes on at zero. Who sleeps says so in `asleep` and looks once more; who
//! changes a number looks at `asleep` after that; so one of both sees the other.

#![expect(unsafe_code, reason = "a piece borrows from its caller and is run by threads that live longer")]

use crate::error::{Error, Result};
use crate::workers::panic_message;
use hemiola_core::{Rank, WorkerId};
use parking_lot::{Condvar, Mutex};
use std::cell::UnsafeCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Looks at a number before yielding to other threads, and yields before sleeping: some ten microseconds each.
const LOOKS: u32 = 200;
const YIELDS: u32 = 20;
/// The turn at which helpers go home.
const END: usize = usize::MAX;

type Piece<'a> = dyn Fn(usize) + Sync + 'a;

/// The workers of this peer, standing by: see [`Cluster::crew`](crate::Cluster::crew).
pub struct Crew<'a> {
    muster: &'a Muster,
    rank: Rank,
}

impl Crew<'_> {
    /// How many workers there are, with the leader.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.muster.helpers + 1
    }

    /// Runs `piece` once for every worker, with its number, and waits for all. The leader is worker 0.
    ///
    /// If one panics, the others are waited for, and the error names the lowest that did.
    pub fn each(&mut self, piece: impl Fn(usize) + Sync) -> Result<()> {
        self.muster.run(&piece);
        match self.muster.panicked.lock().take() {
            None => Ok(()),
            Some((worker, message)) => {
                Err(Error::WorkerPanicked { rank: self.rank, worker: WorkerId::new(worker as u32), message })
            }
        }
    }

    /// The same with something of its own for each worker, in their order.
    ///
    /// # Panics
    /// If there are not as many as workers.
    pub fn each_with<T: Send>(&mut self, own: &mut [T], piece: impl Fn(usize, &mut T) + Sync) -> Result<()> {
        assert_eq!(own.len(), self.workers(), "a crew needs something for each of its workers");
        let own = Own(own.as_mut_ptr());
        self.each(|worker| {
            // SAFETY: `worker` is below the number of elements, checked above, and `each` runs the piece once for each number, so that nobody
            // else has this element; the borrow of the slice lasts until `each` returns.
            piece(worker, unsafe { &mut *own.at(worker) });
        })
    }
}

impl fmt::Debug for Crew<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crew").field("workers", &self.workers()).finish_non_exhaustive()
    }
}

/// Where the elements of [`Crew::each_with`] lie.
struct Own<T>(*mut T);

impl<T> Own<T> {
    /// The address of an element. In bounds: a promise of the caller's.
    fn at(&self, place: usize) -> *mut T {
        self.0.wrapping_add(place)
    }
}

// SAFETY: threads get distinct elements through it, which may be sent to them.
unsafe impl<T: Send> Sync for Own<T> {}

/// What leader and helpers share.
pub(crate) struct Muster {
    helpers: usize,
    turn: AtomicUsize,
    left: AtomicUsize,
    /// Threads that sleep, or are about to.
    asleep: AtomicUsize,
    piece: UnsafeCell<Option<*const Piece<'static>>>,
    panicked: Mutex<Option<(usize, String)>>,
    sleep: Mutex<()>,
    wake: Condvar,
}

// SAFETY: `piece` is written by the leader only while `left` is zero, when no helper reads it, and read by helpers only after they
// have seen the `turn` that the leader raised after writing. What it points to is `Sync`.
unsafe impl Sync for Muster {}

impl Muster {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            helpers: workers - 1,
            turn: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            asleep: AtomicUsize::new(0),
            piece: UnsafeCell::new(None),
            panicked: Mutex::new(None),
            sleep: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Leads: helpers are sent home when `lead` is over, even by a panic.
    pub(crate) fn lead<T>(&self, rank: Rank, lead: impl FnOnce(&mut Crew<'_>) -> T) -> T {
        struct Home<'a>(&'a Muster);
        impl Drop for Home<'_> {
            fn drop(&mut self) {
                self.0.turn.store(END, Ordering::SeqCst);
                self.0.wake_sleepers();
            }
        }
        let _home = Home(self);
        lead(&mut Crew { muster: self, rank })
    }

    /// Runs pieces as worker `index`, which is not 0, until the leader is done.
    pub(crate) fn stand_by(&self, index: usize) {
        let mut seen = 0;
        loop {
            let turn = self.watch(&self.turn, |turn| turn != seen);
            if turn == END {
                return;
            }
            seen = turn;
            // SAFETY: the leader wrote the piece before it raised `turn`, and changes it only when `left` is zero, which takes this thread's word
            // below. It waits for that before the borrow behind the pointer ends.
            let piece = unsafe { (*self.piece.get()).map(|piece| &*piece) };
            if let Some(piece) = piece {
                self.guarded(index, piece);
            }
            if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
                self.wake_sleepers();
            }
        }
    }

    /// Runs a piece on all and waits. Only the leader calls it: it has the one [`Crew`], and has it mutably.
    fn run(&self, piece: &Piece<'_>) {
        if self.helpers > 0 {
            // SAFETY: only the lifetime changes. The reference is used by helpers until `left` comes to zero, and this function returns after that.
            let erased: *const Piece<'static> =
                unsafe { std::mem::transmute::<&Piece<'_>, &'static Piece<'static>>(piece) };
            // SAFETY: `left` is zero, so no helper reads it.
            unsafe { *self.piece.get() = Some(erased) };
            self.left.store(self.helpers, Ordering::SeqCst);
            self.turn.fetch_add(1, Ordering::SeqCst);
            self.wake_sleepers();
        }
        self.guarded(0, piece);
        self.watch(&self.left, |left| left == 0);
    }

    fn guarded(&self, worker: usize, piece: &Piece<'_>) {
        // Unwind safety: the error goes to the leader, who decides what of the half-done work is looked at.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| piece(worker))) {
            let mut first = self.panicked.lock();
            if first.as_ref().is_none_or(|(lowest, _)| worker < *lowest) {
                *first = Some((worker, panic_message(&*panic)));
            }
        }
    }

    /// Waits until `number` is as wanted.
    fn watch(&self, number: &AtomicUsize, wanted: impl Fn(usize) -> bool) -> usize {
        for look in 0..LOOKS + YIELDS {
            let found = number.load(Ordering::Acquire);
            if wanted(found) {
                return found;
            }
            if look < LOOKS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        let mut held = self.sleep.lock();
        self.asleep.fetch_add(1, Ordering::SeqCst);
        let found = loop {
            let found = number.load(Ordering::SeqCst);
            if wanted(found) {
                break found;
            }
            self.wake.wait(&mut held);
        };
        self.asleep.fetch_sub(1, Ordering::SeqCst);
        found
    }

    fn wake_sleepers(&self) {
        if self.asleep.load(Ordering::SeqCst) > 0 {
            // A sleeper that has said so but does not sleep yet holds the lock until it does.
            drop(self.sleep.lock());
            self.wake.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crew of threads of its own.
    fn with<T: Send>(workers: usize, lead: impl FnOnce(&mut Crew<'_>) -> T + Send) -> T {
        let muster = &Muster::new(workers);
        std::thread::scope(|scope| {
            for index in 1..workers {
                scope.spawn(move || muster.stand_by(index));
            }
            muster.lead(Rank::ROOT, lead)
        })
    }

    #[test]
    fn every_worker_runs_every_piece_once() {
        let pieces = if cfg!(miri) { 20 } else { 2000 };
        for workers in 1..=4 {
            let mut counts = vec![vec![0_u32; pieces]; workers];
            with(workers, |crew| {
                assert_eq!(crew.workers(), workers);
                for piece in 0..pieces {
                    crew.each_with(&mut counts, |_, counts| counts[piece] += 1).unwrap();
                    // From time to time all helpers fall asleep.
                    while piece % 500 == 7 && crew.muster.asleep.load(Ordering::SeqCst) < workers - 1 {
                        std::thread::yield_now();
                    }
                }
            });
            assert!(counts.iter().flatten().all(|count| *count == 1));
        }
    }

    #[test]
    fn pieces_borrow_and_see_what_came_before() {
        with(3, |crew| {
            let mut values = [1_u64; 3];
            for _ in 0..30 {
                let before = values;
                crew.each_with(&mut values, |worker, own| *own = (before[(worker + 1) % 3] + before[worker]) % 1009)
                    .unwrap();
            }
            let mut serial = [1_u64; 3];
            for _ in 0..30 {
                serial = std::array::from_fn(|worker| (serial[(worker + 1) % 3] + serial[worker]) % 1009);
            }
            assert_eq!(values, serial);
        });
    }

    #[test]
    fn a_panic_is_an_error_that_names_the_worker_and_the_crew_goes_on() {
        with(3, |crew| {
            for guilty in [0, 2] {
                let error =
                    crew.each(|worker| assert_ne!(worker, guilty, "job 17 has no data")).unwrap_err().to_string();
                assert!(error.contains(&format!("worker {guilty} of peer 0")) && error.contains("job 17"), "{error}");
            }
            crew.each(|_| ()).unwrap();
        });
    }

    #[test]
    fn a_leader_that_panics_sends_helpers_home() {
        let caught = catch_unwind(|| with(2, |_| panic!("the leader gives up")));
        assert!(caught.is_err());
    }

    #[test]
    #[should_panic(expected = "something for each")]
    fn too_few_things_for_workers_are_refused() {
        with(2, |crew| crew.each_with(&mut [1], |_, _| ()).unwrap());
    }
}
