//! Peak memory while a block is built, measured by a counting allocator. It needs its own process.
#![expect(unsafe_code, reason = "an allocator needs unsafe code")]

use hemiola_array::read::{ByteRange, Csv, InputFile};
use hemiola_array::sparse::{DuplicatePolicy, SparseBuilder};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded unchanged to the system allocator; counting touches none of its
// memory. A reallocation uses the default method (allocate, copy, free), which counts both copies
// as allocated at once.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: the contract of the caller is that of the system allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the pointer came from `alloc` above, that is, from the system allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The only test of this binary: another one in this process would be counted too.
#[test]
fn peak_while_loading_is_at_most_1_6_times_the_block() {
    const ENTRIES: u64 = 2_000_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ratings.csv");
    {
        let mut text = String::new();
        let permutation = hemiola_core::rng::Permutation::new(1 << 22, hemiola_core::Seed(1));
        for index in 0..ENTRIES {
            let cell = permutation.apply(index);
            std::fmt::Write::write_fmt(&mut text, format_args!("{},{},3.5\n", cell >> 11, cell & 2047)).unwrap();
        }
        std::fs::write(&path, text).unwrap();
    }
    for order in [[0, 1], [1, 0]] {
        let before = HELD.load(Relaxed);
        PEAK.store(before, Relaxed);
        let mut all = SparseBuilder::new();
        for range in ByteRange::split(&[InputFile::open(&path).unwrap()], 4 << 20) {
            let mut builder = SparseBuilder::new();
            Csv::new()
                .read(&range, |(user, item, rating): (u32, u32, f32)| {
                    builder.push([user as usize, item as usize], rating);
                    Ok(())
                })
                .unwrap();
            all.append(builder);
        }
        let shape = all.shape();
        let block = all.finish(shape, order, DuplicatePolicy::Error).unwrap();
        assert_eq!(block.len() as u64, ENTRIES);
        let (held, peak) = (HELD.load(Relaxed) - before, PEAK.load(Relaxed) - before);
        let (per_entry, ratio) = (held as f64 / ENTRIES as f64, peak as f64 / held as f64);
        assert!(per_entry <= 12.6, "{per_entry} bytes per entry");
        assert!(ratio <= 1.6, "peak is {ratio} times the block");
    }
}
