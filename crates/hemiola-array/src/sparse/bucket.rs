//! Stable bucket pass (counting sort): entries move to the bucket of their digit, one column at a
//! time.
//!
//! The pass counts, then writes every entry to the next slot of its bucket. Columns are written one
//! after the other, and the old one is freed before the next is started. The pass therefore holds
//! one column twice and not the block. Indices that follow from the digit are not moved but written
//! anew, bucket by bucket.
//!
//! Values may be of any type, so their column cannot be initialized in advance. It is written into
//! reserved memory, and one line of unsafe code sets its length.
#![expect(unsafe_code, reason = "a vector that is filled out of order needs `set_len`")]

use super::KeyColumn;
use super::chunk::ColumnChunk;
use super::digits::{BATCH, KeyDigits};
use crate::Shape;
use std::ops::Range;

/// Columns grouped by bucket.
pub(super) struct BucketedColumns<T, const N: usize> {
    pub(super) keys: [KeyColumn; N],
    pub(super) values: Vec<T>,
    /// Ordinal of each entry in the order of arrival, if requested.
    pub(super) ordinals: Option<Vec<u32>>,
    /// Start of each bucket, and the end of the last.
    pub(super) starts: Vec<u32>,
}

/// Scatters the entries to the buckets of their digits, in stable order. There must be fewer than
/// 2³² entries.
pub(super) fn scatter_to_buckets<T, const N: usize>(
    mut chunks: Vec<ColumnChunk<T, N>>,
    digits: &KeyDigits<N>,
    shape: Shape<N>,
    number: bool,
) -> BucketedColumns<T, N> {
    let starts = bucket_starts(&chunks, digits);
    let length = starts[digits.buckets()] as usize;
    let mut values = Vec::with_capacity(length);
    {
        let mut slots = BucketSlots::new(digits, &starts);
        let room = &mut values.spare_capacity_mut()[..length];
        for chunk in &mut chunks {
            let mut moving = std::mem::take(&mut chunk.values).into_iter();
            slots.each(&chunk.keys, |slot, _| {
                room[slot].write(moving.next().expect("one value per key"));
            });
        }
        assert!(slots.are_filled(), "every counted entry was written");
    }
    // SAFETY: every slot that was handed out has been written. The slots of a bucket are handed out
    // upwards from its start, and the assertion says that each bucket got all of them, up to the
    // start of the next. Buckets are adjacent and cover `0..length`, so every element is written.
    unsafe { values.set_len(length) };
    let mut keys: [Option<KeyColumn>; N] = std::array::from_fn(|_| None);
    // A dimension that is partly in the digit comes last: its keys are needed to compute the
    // digits.
    for dimension in (0..N).filter(|dimension| !digits.covers(*dimension)).chain(digits.split_dimension()) {
        keys[dimension] = Some(scatter_column(&chunks, digits, &starts, dimension, shape.fits_u32(dimension)));
        if !digits.covers(dimension) {
            for chunk in &mut chunks {
                chunk.keys[dimension] = KeyColumn::with_capacity(true, 0);
            }
        }
    }
    let ordinals = number.then(|| {
        let mut ordinals = vec![0; length];
        let (mut slots, mut ordinal) = (BucketSlots::new(digits, &starts), 0);
        for chunk in &chunks {
            slots.each(&chunk.keys, |slot, _| {
                ordinals[slot] = ordinal;
                ordinal += 1;
            });
        }
        ordinals
    });
    drop(chunks);
    let keys = std::array::from_fn(|dimension| {
        keys[dimension]
            .take()
            .unwrap_or_else(|| column_from_digits(digits, &starts, dimension, shape.fits_u32(dimension)))
    });
    BucketedColumns { keys, values, ordinals, starts }
}

fn bucket_starts<T, const N: usize>(chunks: &[ColumnChunk<T, N>], digits: &KeyDigits<N>) -> Vec<u32> {
    let mut starts = vec![0_u32; digits.buckets() + 1];
    let mut batch = [0_u16; BATCH];
    for chunk in chunks {
        for positions in batches(digits.length(&chunk.keys)) {
            let batch = &mut batch[..positions.len()];
            digits.fill(&chunk.keys, positions, batch);
            for &digit in &*batch {
                starts[usize::from(digit) + 1] += 1;
            }
        }
    }
    for bucket in 1..starts.len() {
        starts[bucket] += starts[bucket - 1];
    }
    starts
}

fn batches(length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(BATCH).map(move |start| start..(start + BATCH).min(length))
}

/// Assignment of slots to entries in the order of arrival.
struct BucketSlots<'a, const N: usize> {
    digits: &'a KeyDigits<N>,
    starts: &'a [u32],
    /// Next free slot of each bucket.
    next: Vec<u32>,
}

impl<'a, const N: usize> BucketSlots<'a, N> {
    fn new(digits: &'a KeyDigits<N>, starts: &'a [u32]) -> Self {
        Self { digits, starts, next: starts[..digits.buckets()].to_vec() }
    }

    /// Calls `visit` with the slot and the position of every entry of the next chunk.
    #[inline]
    fn each(&mut self, keys: &[KeyColumn; N], mut visit: impl FnMut(usize, usize)) {
        let mut batch = [0_u16; BATCH];
        for positions in batches(self.digits.length(keys)) {
            let batch = &mut batch[..positions.len()];
            self.digits.fill(keys, positions.clone(), batch);
            for (&digit, position) in batch.iter().zip(positions) {
                let next = &mut self.next[usize::from(digit)];
                visit(*next as usize, position);
                *next += 1;
            }
        }
    }

    fn are_filled(&self) -> bool {
        self.next == self.starts[1..]
    }
}

/// Column of a dimension, grouped by bucket.
fn scatter_column<T, const N: usize>(
    chunks: &[ColumnChunk<T, N>],
    digits: &KeyDigits<N>,
    starts: &[u32],
    dimension: usize,
    narrow: bool,
) -> KeyColumn {
    let length = starts[digits.buckets()] as usize;
    let mut slots = BucketSlots::new(digits, starts);
    if narrow {
        let mut column = vec![0_u32; length];
        for chunk in chunks {
            match &chunk.keys[dimension] {
                KeyColumn::Narrow(keys) => slots.each(&chunk.keys, |slot, at| column[slot] = keys[at]),
                // A key inside the shape fits in 32 bits, although the column of another builder
                // was widened.
                KeyColumn::Wide(keys) => slots.each(&chunk.keys, |slot, at| column[slot] = keys[at] as u32),
            }
        }
        return KeyColumn::Narrow(column);
    }
    let mut column = vec![0_u64; length];
    for chunk in chunks {
        slots.each(&chunk.keys, |slot, at| column[slot] = chunk.keys[dimension].get(at));
    }
    KeyColumn::Wide(column)
}

/// Column of a dimension that the digits determine.
fn column_from_digits<const N: usize>(
    digits: &KeyDigits<N>,
    starts: &[u32],
    dimension: usize,
    narrow: bool,
) -> KeyColumn {
    let mut column = KeyColumn::with_capacity(narrow, starts[digits.buckets()] as usize);
    for (bucket, ends) in starts.windows(2).enumerate().filter(|(_, ends)| ends[0] < ends[1]) {
        column.push_repeated(digits.index(dimension, bucket), (ends[1] - ends[0]) as usize);
    }
    column
}
