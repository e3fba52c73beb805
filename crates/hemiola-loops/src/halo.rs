//! Rows that two neighbouring peers need: a stencil reads, and may write, a little beyond the parts of its own peer.
//!
//! Parts along space are dealt to peers in order, and an iteration with index `i` touches rows `i + low` to `i + high`. So a
//! peer that has the indices `start..end` touches rows `start + low..end + high`, and shares the last `high - low` of them,
//! its *halo*, with the peer after it, whose first rows they are:
//!
//! ```text
//!   peer k        [ home rows              ][ halo ]
//!   peer k + 1                              [ home rows              ][ halo ]
//! ```
//!
//! A row's home is the last peer that touches it. Each peer gets a copy of its halo when a pass begins. Where the loop writes
//! the array, it runs in waves: of two blocks that conflict, the one of the earlier peer comes first in the plan's order. Hence
//! - what an earlier peer reads and a later one writes is in the halo as it was before: a copy nobody else changes;
//! - what an earlier peer writes is sent to the later one after each block of time, before that runs the same block of time;
//! - when the pass has ended, the later peer has had all writes, its own last: the home rows are right, and halos are dropped.
//!
//! Only cells that have changed are sent. The others must not be: the later peer may have written them itself.
//!
//! **Invariant:** a peer's halo and the rows it shares with the peer before it do not overlap, and on each peer the halo is
//! touched by its last part alone (see `plan::choose`, which cuts so that the last part of each peer is as wide as the halo).

use crate::arrays::MESSAGE_BYTES;
use crate::view::Window;
use hemiola_array::Element;
use hemiola_cluster::Result;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Changed cells of a halo, on their way to the next peer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Change {
    /// The array's number in the loop.
    pub(crate) array: usize,
    pub(crate) time: usize,
    /// Runs of cells, counted from the first cell of the shared rows; their values follow in the message.
    runs: Vec<(usize, usize)>,
}

/// Some rows of a peer, in the memory that workers write.
#[derive(Clone, Copy)]
pub(crate) struct Strip {
    /// The first cell.
    base: *mut u8,
    /// Rows and cells in each. The cells of a one-dimensional array are one row.
    rows: usize,
    length: usize,
    stride: usize,
}

// SAFETY: a strip is an address; whoever reads or writes there argues at that place.
unsafe impl Send for Strip {}
// SAFETY: as above.
unsafe impl Sync for Strip {}

impl Strip {
    /// Some indices of the first dimension of an array. They lie in its window.
    pub(crate) fn new<T, const N: usize>(window: Window, extents: &[u64; N], indices: Range<u64>) -> Self {
        let count = (indices.end - indices.start) as usize;
        let per_index = if N == 1 { 1 } else { extents[1..N - 1].iter().product::<u64>() as usize };
        let cells = if N == 1 { 1 } else { per_index * window.stride };
        let part = window.part(indices.start as usize..indices.end as usize, cells, size_of::<T>());
        let (rows, length) = if N == 1 { (1, count) } else { (count * per_index, extents[N - 1] as usize) };
        Self { base: part.base, rows: if part.count == 0 { 0 } else { rows }, length, stride: window.stride }
    }

    fn cells(&self) -> usize {
        self.rows * self.length
    }

    /// The address of a cell, which is inside.
    fn cell<T>(&self, at: usize) -> *mut T {
        let (row, column) = (at / self.length, at % self.length);
        self.base.cast::<T>().wrapping_add(row * self.stride + column)
    }

    /// The cells of a row.
    ///
    /// # Safety
    /// Nobody may write to the row for as long as the slice lives.
    unsafe fn row<T>(&self, row: usize) -> &[T] {
        // SAFETY: the row lies inside the array; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.cell(row * self.length), self.length) }
    }
}

/// What a peer shares of one array with the peers beside it.
pub(crate) struct Halo<T> {
    /// The first rows of this peer: the halo of the peer before it.
    before: Strip,
    /// The halo of this peer.
    after: Strip,
    /// The halo as the next peer knows it, if changes are sent.
    known: Option<Mutex<Vec<T>>>,
}

impl<T> fmt::Debug for Halo<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "halo of {} cells", self.after.cells())
    }
}

impl<T: Element> Halo<T> {
    /// `known` are the cells of `after`, if changes are to be sent.
    pub(crate) fn new(before: Strip, after: Strip, known: Option<Vec<T>>) -> Self {
        Self { before, after, known: known.map(Mutex::new) }
    }

    /// What has changed in the halo since the last call, as messages for the next peer. Called by the worker that has run a
    /// block of the peer's last part, before it does anything else.
    pub(crate) fn changes(&self, array: usize, time: usize) -> Vec<Vec<u8>> {
        let Some(known) = &self.known else { return Vec::new() };
        let mut known = known.lock();
        let (mut messages, mut runs, mut values) = (Vec::new(), Vec::<(usize, usize)>::new(), Vec::new());
        let most = (MESSAGE_BYTES / size_of::<T>().max(1)).max(1);
        for row in 0..self.after.rows {
            // SAFETY: of this peer only the last part touches the halo, and the worker that runs it is here. What comes
            // from the peer before is written to other rows.
            let now: &[T] = unsafe { self.after.row(row) };
            let first = row * self.after.length;
            let before = &mut known[first..first + now.len()];
            for at in differences(before, now) {
                match runs.last_mut() {
                    Some((start, length)) if *start + *length == first + at => *length += 1,
                    _ => runs.push((first + at, 1)),
                }
                before[at].clone_from(&now[at]);
                values.push(now[at].clone());
                if values.len() == most {
                    messages.push(message(Change { array, time, runs: std::mem::take(&mut runs) }, &values));
                    values.clear();
                }
            }
        }
        if !values.is_empty() {
            messages.push(message(Change { array, time, runs }, &values));
        }
        messages
    }

    /// Takes in a message of [`changes`](Self::changes) of the peer before. Called by the driver while workers run.
    pub(crate) fn take_in(&self, change: &Change, cells: &[u8]) -> Result<()> {
        let bad = |problem: &str| hemiola_array::Error::BadMessage { problem: problem.to_owned() };
        let mut count = 0_usize;
        for (start, length) in &change.runs {
            let end = start.checked_add(*length).filter(|end| *end <= self.before.cells());
            count += end.ok_or_else(|| bad("cells that two peers do not share"))? - start;
        }
        let mut values = T::unpack(cells, count)?.into_iter();
        for (start, length) in &change.runs {
            for (at, value) in (*start..start + length).zip(values.by_ref()) {
                // SAFETY: the cell is inside (checked above). A block of the peer before has written it. The blocks that
                // workers run here now have not waited for that block: they are of earlier times. So the plan's proof says
                // that they do not conflict, and they do not touch the cell. Blocks that do touch it wait for a lock that
                // the driver releases after this.
                unsafe { *self.before.cell::<T>(at) = value };
            }
        }
        Ok(())
    }
}

fn message<T: Element>(change: Change, values: &[T]) -> Vec<u8> {
    let mut bytes = crate::run::post::encoded_change(change);
    T::pack(values, &mut bytes);
    bytes
}

/// Where two rows differ, bit by bit: as they would travel.
fn differences<T: Element>(before: &[T], now: &[T]) -> Vec<usize> {
    let packed = |values: &[T]| {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        T::pack(values, &mut bytes);
        bytes
    };
    if T::PLAIN {
        let (before, now) = (packed(before), packed(now));
        if before == now {
            return Vec::new();
        }
        let size = size_of::<T>().max(1);
        let pairs = before.chunks_exact(size).zip(now.chunks_exact(size)).enumerate();
        return pairs.filter(|(_, (before, now))| before != now).map(|(at, _)| at).collect();
    }
    let differs = |at: &usize| packed(&before[*at..=*at]) != packed(&now[*at..=*at]);
    (0..now.len()).filter(differs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hemiola_array::{Dense, Shape};

    fn strip<T, const N: usize>(dense: &mut Dense<T, N>, indices: Range<u64>) -> Strip {
        let extents = dense.shape().extents();
        let (base, stride) = dense.as_mut_ptr();
        let window = Window { base: base.cast(), first: 0, count: extents[0] as usize, stride };
        Strip::new::<T, N>(window, &extents, indices)
    }

    /// The halo of one array against the first rows of another.
    fn pass_on<T: Element + PartialEq + fmt::Debug, const N: usize>(
        mut from: Dense<T, N>,
        mut to: Dense<T, N>,
        change: impl FnOnce(&mut Dense<T, N>),
    ) -> Dense<T, N> {
        let extent = from.shape().extent(0);
        let nothing = strip(&mut from, 0..0);
        let known = from.pieces(extent - 2..extent).flatten().cloned().collect();
        let sender = Halo::new(nothing, strip(&mut from, extent - 2..extent), Some(known));
        let receiver = Halo::<T>::new(strip(&mut to, 0..2), nothing, None);
        change(&mut from);
        for message in sender.changes(3, 7) {
            let (change, cells) = crate::run::post::decoded_change(&message).expect("it is a change");
            assert_eq!((change.array, change.time), (3, 7));
            receiver.take_in(&change, cells).unwrap();
        }
        assert_eq!(sender.changes(3, 8), Vec::<Vec<u8>>::new(), "changes are sent once");
        to
    }

    #[test]
    fn changed_cells_come_over_and_others_are_left_alone() {
        let from = Dense::filled(Shape::new([5, 20]), 1.0_f64).unwrap();
        let to = Dense::filled(Shape::new([4, 20]), 2.0_f64).unwrap();
        let to = pass_on(from, to, |from| {
            from[[2, 0]] = 9.0;
            from[[3, 0]] = 5.0;
            from[[3, 1]] = -0.0;
            from[[4, 19]] = f64::NAN;
        });
        assert_eq!((to[[0, 0]], to[[0, 1]].to_bits(), to[[1, 19]].is_nan()), (5.0, (-0.0_f64).to_bits(), true));
        assert_eq!(to.rows().flatten().filter(|cell| cell.to_bits() == 2.0_f64.to_bits()).count(), 77);
    }

    #[test]
    fn values_of_any_type_and_single_dimensions_come_over() {
        let words = |extent: u64, word: &str| Dense::filled(Shape::new([extent]), word.to_owned()).unwrap();
        let to = pass_on(words(6, "a"), words(3, "b"), |from| from[[5]] = "long".to_owned());
        assert_eq!(to.to_cells(), ["b", "long", "b"]);
    }

    #[test]
    fn cells_outside_of_the_shared_rows_are_refused() {
        let mut cells = Dense::filled(Shape::new([4]), 0_u32).unwrap();
        let (before, after) = (strip(&mut cells, 0..1), strip(&mut cells, 0..0));
        let halo = Halo::<u32>::new(before, after, None);
        let change = Change { array: 0, time: 0, runs: vec![(usize::MAX, 1)] };
        assert!(halo.take_in(&change, &[0; 4]).is_err());
        let change = Change { array: 0, time: 0, runs: vec![(0, 2)] };
        assert!(halo.take_in(&change, &[0; 8]).is_err());
    }
}
