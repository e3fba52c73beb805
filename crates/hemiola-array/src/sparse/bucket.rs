//! A stable pass: entries move to the bucket of their digit, one column at a time.
//!
//! Count, then write every entry to the next place of its bucket. Columns are written one after the other and the old one is
//! freed before the next is begun, so the pass holds one column twice and not the block. Indices that the digit tells are
//! not moved at all but written anew, bucket by bucket.
//!
//! The values may be of any type, so their column cannot be made in advance: it is written into reserved memory, and one
//! line of unsafe code says that it is full.
#![expect(unsafe_code, reason = "a vector that is filled in any order has to be told its length")]

use super::KeyColumn;
use super::chunk::Chunk;
use super::digits::{Digits, STRETCH};
use crate::Shape;
use std::ops::Range;

/// Columns that lie bucket by bucket.
pub(super) struct Bucketed<T, const N: usize> {
    pub(super) keys: [KeyColumn; N],
    pub(super) values: Vec<T>,
    /// The number of each entry in the order of arrival, where that was asked for.
    pub(super) ordinals: Option<Vec<u32>>,
    /// Where each bucket begins, and the end of the last.
    pub(super) starts: Vec<u32>,
}

/// Deals the entries out to the buckets of their digits; in each they keep their order. There are fewer than 2³² of them.
pub(super) fn bucketed<T, const N: usize>(
    mut chunks: Vec<Chunk<T, N>>,
    digits: &Digits<N>,
    shape: Shape<N>,
    number: bool,
) -> Bucketed<T, N> {
    let starts = starts(&chunks, digits);
    let length = starts[digits.buckets()] as usize;
    let mut values = Vec::with_capacity(length);
    {
        let mut places = Places::new(digits, &starts);
        let room = &mut values.spare_capacity_mut()[..length];
        for chunk in &mut chunks {
            let mut moving = std::mem::take(&mut chunk.values).into_iter();
            places.each(&chunk.keys, |place, _| {
                room[place].write(moving.next().expect("one value per key"));
            });
        }
        assert!(places.are_full(), "as many entries came as were counted");
    }
    // SAFETY: every place that was handed out has been written. Those of a bucket are handed out upwards from its start,
    // and the assertion says that each bucket got all of them, up to the start of the next. Buckets are adjacent and
    // cover `0..length`, so every element is written.
    unsafe { values.set_len(length) };
    let mut keys: [Option<KeyColumn>; N] = std::array::from_fn(|_| None);
    // A dimension that is partly in the digit comes last: it is needed to know the digits.
    for dimension in (0..N).filter(|dimension| !digits.takes(*dimension)).chain(digits.split()) {
        keys[dimension] = Some(moved(&chunks, digits, &starts, dimension, shape.fits_u32(dimension)));
        if !digits.takes(dimension) {
            for chunk in &mut chunks {
                chunk.keys[dimension] = KeyColumn::with_capacity(true, 0);
            }
        }
    }
    let ordinals = number.then(|| {
        let mut ordinals = vec![0; length];
        let (mut places, mut ordinal) = (Places::new(digits, &starts), 0);
        for chunk in &chunks {
            places.each(&chunk.keys, |place, _| {
                ordinals[place] = ordinal;
                ordinal += 1;
            });
        }
        ordinals
    });
    drop(chunks);
    let keys = std::array::from_fn(|dimension| {
        keys[dimension].take().unwrap_or_else(|| told(digits, &starts, dimension, shape.fits_u32(dimension)))
    });
    Bucketed { keys, values, ordinals, starts }
}

fn starts<T, const N: usize>(chunks: &[Chunk<T, N>], digits: &Digits<N>) -> Vec<u32> {
    let mut starts = vec![0_u32; digits.buckets() + 1];
    let mut stretch = [0_u16; STRETCH];
    for chunk in chunks {
        for positions in stretches(digits.length(&chunk.keys)) {
            let stretch = &mut stretch[..positions.len()];
            digits.fill(&chunk.keys, positions, stretch);
            for &digit in &*stretch {
                starts[usize::from(digit) + 1] += 1;
            }
        }
    }
    for bucket in 1..starts.len() {
        starts[bucket] += starts[bucket - 1];
    }
    starts
}

fn stretches(length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..length).step_by(STRETCH).map(move |start| start..(start + STRETCH).min(length))
}

/// Hands out the places of entries in the order of arrival.
struct Places<'a, const N: usize> {
    digits: &'a Digits<N>,
    starts: &'a [u32],
    /// By bucket: its next place.
    next: Vec<u32>,
}

impl<'a, const N: usize> Places<'a, N> {
    fn new(digits: &'a Digits<N>, starts: &'a [u32]) -> Self {
        Self { digits, starts, next: starts[..digits.buckets()].to_vec() }
    }

    /// The place and the position of every entry of the next chunk.
    #[inline]
    fn each(&mut self, keys: &[KeyColumn; N], mut visit: impl FnMut(usize, usize)) {
        let mut stretch = [0_u16; STRETCH];
        for positions in stretches(self.digits.length(keys)) {
            let stretch = &mut stretch[..positions.len()];
            self.digits.fill(keys, positions.clone(), stretch);
            for (&digit, position) in stretch.iter().zip(positions) {
                let next = &mut self.next[usize::from(digit)];
                visit(*next as usize, position);
                *next += 1;
            }
        }
    }

    fn are_full(&self) -> bool {
        self.next == self.starts[1..]
    }
}

/// The column of a dimension, bucket by bucket.
fn moved<T, const N: usize>(
    chunks: &[Chunk<T, N>],
    digits: &Digits<N>,
    starts: &[u32],
    dimension: usize,
    narrow: bool,
) -> KeyColumn {
    let length = starts[digits.buckets()] as usize;
    let mut places = Places::new(digits, starts);
    if narrow {
        let mut column = vec![0_u32; length];
        for chunk in chunks {
            match &chunk.keys[dimension] {
                KeyColumn::Narrow(keys) => places.each(&chunk.keys, |place, at| column[place] = keys[at]),
                // A key that fits the shape fits 32 bits, though another builder's column was widened.
                KeyColumn::Wide(keys) => places.each(&chunk.keys, |place, at| column[place] = keys[at] as u32),
            }
        }
        return KeyColumn::Narrow(column);
    }
    let mut column = vec![0_u64; length];
    for chunk in chunks {
        places.each(&chunk.keys, |place, at| column[place] = chunk.keys[dimension].get(at));
    }
    KeyColumn::Wide(column)
}

/// The column of a dimension that the digit tells.
fn told<const N: usize>(digits: &Digits<N>, starts: &[u32], dimension: usize, narrow: bool) -> KeyColumn {
    let mut column = KeyColumn::with_capacity(narrow, starts[digits.buckets()] as usize);
    for (bucket, ends) in starts.windows(2).enumerate().filter(|(_, ends)| ends[0] < ends[1]) {
        column.push_repeated(digits.index(dimension, bucket), (ends[1] - ends[0]) as usize);
    }
    column
}
