//! Halos: rows that two neighbouring peers share, because a stencil accesses rows slightly beyond
//! the parts of its own peer.
//!
//! Parts along space are assigned to peers in order, and an iteration with index `i` accesses rows
//! `i + low` to `i + high`. So a peer that has the indices `start..end` accesses rows
//! `start + low..end + high`. It shares the last `high - low` of them, its *halo*, with the next
//! peer, whose first rows they are:
//!
//! ```text
//!   peer k        [ home rows              ][ halo ]
//!   peer k + 1                              [ home rows              ][ halo ]
//! ```
//!
//! The home of a row is the last peer that accesses it. Each peer gets a copy of its halo at the
//! start of a pass. If the loop writes the array, it runs as a wavefront: of two blocks that
//! conflict, the block of the earlier peer comes first in the plan's order. Hence
//!
//! - A row that an earlier peer reads and a later one writes has its old value in the halo, a copy
//!   that no other peer changes.
//! - Writes of an earlier peer are sent to the later one after each time block, before the later
//!   one runs the same time block.
//! - At the end of the pass the later peer has received all writes, and its own came last. The home
//!   rows are correct, and halos are dropped.
//!
//! Only changed cells are sent. Unchanged cells must not be sent, because the later peer may have
//! written them itself.
//!
//! **Invariant:** the halo of a peer and the rows it shares with the previous peer do not overlap,
//! and on each peer only the last part accesses the halo (`plan::choose` cuts so that the last part
//! of each peer is as wide as the halo).

use crate::arrays::MESSAGE_BYTES;
use crate::view::Window;
use hemiola_array::Element;
use hemiola_cluster::Result;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Header of a message with changed cells of a halo.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HaloChange {
    /// Index of the array in the loop.
    pub(crate) array: usize,
    pub(crate) time: usize,
    /// Runs of cells, counted from the first cell of the shared rows. Their values follow in the
    /// message.
    runs: Vec<(usize, usize)>,
}

/// Some rows of a peer, in memory that workers write.
#[derive(Clone, Copy)]
pub(crate) struct RowStrip {
    /// Address of the first cell.
    base: *mut u8,
    /// Number of rows. The cells of a one-dimensional array are one row.
    rows: usize,
    /// Number of cells in a row.
    length: usize,
    stride: usize,
}

// SAFETY: a strip is only an address. Each access has its own argument.
unsafe impl Send for RowStrip {}
// SAFETY: as above.
unsafe impl Sync for RowStrip {}

impl RowStrip {
    /// Strip of some indices of the first dimension of an array, which lie in its window.
    pub(crate) fn new<T, const N: usize>(window: Window, extents: &[usize; N], indices: Range<usize>) -> Self {
        let count = indices.end - indices.start;
        let per_index = if N == 1 { 1 } else { extents[1..N - 1].iter().product::<usize>() };
        let cells = if N == 1 { 1 } else { per_index * window.stride };
        let part = window.part(indices, cells, size_of::<T>());
        let (rows, length) = if N == 1 { (1, count) } else { (count * per_index, extents[N - 1]) };
        Self { base: part.base, rows: if part.count == 0 { 0 } else { rows }, length, stride: window.stride }
    }

    fn cells(&self) -> usize {
        self.rows * self.length
    }

    /// Address of a cell inside the strip.
    fn cell<T>(&self, at: usize) -> *mut T {
        let (row, column) = (at / self.length, at % self.length);
        self.base.cast::<T>().wrapping_add(row * self.stride + column)
    }

    /// Cells of a row.
    ///
    /// # Safety
    /// No thread may write to the row while the slice lives.
    unsafe fn row<T>(&self, row: usize) -> &[T] {
        // SAFETY: the row lies inside the array; the caller guarantees the rest.
        unsafe { std::slice::from_raw_parts(self.cell(row * self.length), self.length) }
    }
}

/// Rows of one array that a peer shares with its neighbours.
pub(crate) struct ArrayHalo<T> {
    /// First rows of this peer: the halo of the previous peer.
    home_edge: RowStrip,
    /// Halo of this peer.
    halo: RowStrip,
    /// Halo as the next peer knows it, if changes are sent.
    last_sent: Option<Mutex<Vec<T>>>,
}

impl<T> fmt::Debug for ArrayHalo<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "halo of {} cells", self.halo.cells())
    }
}

impl<T: Element> ArrayHalo<T> {
    /// `known` contains the cells of `after`, if changes are to be sent.
    pub(crate) fn new(before: RowStrip, after: RowStrip, known: Option<Vec<T>>) -> Self {
        Self { home_edge: before, halo: after, last_sent: known.map(Mutex::new) }
    }

    /// Changes of the halo since the last call, as messages for the next peer. Called by the worker
    /// that has run a block of the peer's last part, before it does anything else.
    pub(crate) fn changes(&self, array: usize, time: usize) -> Vec<Vec<u8>> {
        let Some(known) = &self.last_sent else { return Vec::new() };
        let mut known = known.lock();
        let (mut messages, mut runs, mut values) = (Vec::new(), Vec::<(usize, usize)>::new(), Vec::new());
        let most = (MESSAGE_BYTES / size_of::<T>().max(1)).max(1);
        for row in 0..self.halo.rows {
            // SAFETY: only the last part of this peer accesses the halo, and its worker calls this
            // function. Changes from the previous peer are written to other rows.
            let now: &[T] = unsafe { self.halo.row(row) };
            let first = row * self.halo.length;
            let before = &mut known[first..first + now.len()];
            for at in differing_cells(before, now) {
                match runs.last_mut() {
                    Some((start, length)) if *start + *length == first + at => *length += 1,
                    _ => runs.push((first + at, 1)),
                }
                before[at].clone_from(&now[at]);
                values.push(now[at].clone());
                if values.len() == most {
                    messages.push(message(HaloChange { array, time, runs: std::mem::take(&mut runs) }, &values));
                    values.clear();
                }
            }
        }
        if !values.is_empty() {
            messages.push(message(HaloChange { array, time, runs }, &values));
        }
        messages
    }

    /// Receives a message of [`changes`](Self::changes) of the previous peer. Called by the driver
    /// while workers run.
    pub(crate) fn apply(&self, change: &HaloChange, cells: &[u8]) -> Result<()> {
        let bad = |problem: &str| hemiola_array::Error::BadMessage { problem: problem.to_owned() };
        let mut count = 0_usize;
        for (start, length) in &change.runs {
            let end = start.checked_add(*length).filter(|end| *end <= self.home_edge.cells());
            count += end.ok_or_else(|| bad("changed cells are not shared"))? - start;
        }
        let mut values = T::unpack(cells, count)?.into_iter();
        for (start, length) in &change.runs {
            for (at, value) in (*start..start + length).zip(values.by_ref()) {
                // SAFETY: the cell is in bounds (checked above). A block of the previous peer has
                // written it. Blocks that run here now belong to earlier times and have not waited
                // for that block. By the plan's proof they do not conflict with it, so they do not
                // access the cell. Blocks that do access it wait for a lock that the driver
                // releases afterwards.
                unsafe { *self.home_edge.cell::<T>(at) = value };
            }
        }
        Ok(())
    }
}

fn message<T: Element>(change: HaloChange, values: &[T]) -> Vec<u8> {
    let mut bytes = crate::run::endpoint::encode_change(change);
    T::pack(values, &mut bytes);
    bytes
}

/// Indices at which two rows differ, compared by their serialized bytes.
fn differing_cells<T: Element>(before: &[T], now: &[T]) -> Vec<usize> {
    let packed = |values: &[T]| {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        T::pack(values, &mut bytes);
        bytes
    };
    if T::CONCATENABLE {
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
    use hemiola_array::{DenseArray, Shape};

    fn strip<T, const N: usize>(dense: &mut DenseArray<T, N>, indices: Range<usize>) -> RowStrip {
        let extents = dense.shape().extents();
        let (base, stride) = dense.as_mut_ptr();
        let window = Window { base: base.cast(), first: 0, count: extents[0], stride };
        RowStrip::new::<T, N>(window, &extents, indices)
    }

    /// Sends the changes of the halo of one array to the first rows of another.
    fn pass_on<T: Element + PartialEq + fmt::Debug, const N: usize>(
        mut from: DenseArray<T, N>,
        mut to: DenseArray<T, N>,
        change: impl FnOnce(&mut DenseArray<T, N>),
    ) -> DenseArray<T, N> {
        let extent = from.shape().extent(0);
        let nothing = strip(&mut from, 0..0);
        let known = from.slices(extent - 2..extent).flatten().cloned().collect();
        let sender = ArrayHalo::new(nothing, strip(&mut from, extent - 2..extent), Some(known));
        let receiver = ArrayHalo::<T>::new(strip(&mut to, 0..2), nothing, None);
        change(&mut from);
        for message in sender.changes(3, 7) {
            let (change, cells) = crate::run::endpoint::decode_change(&message).expect("the message is a halo change");
            assert_eq!((change.array, change.time), (3, 7));
            receiver.apply(&change, cells).unwrap();
        }
        assert_eq!(sender.changes(3, 8), Vec::<Vec<u8>>::new(), "changes are sent once");
        to
    }

    #[test]
    fn changed_cells_are_sent_and_others_are_kept() {
        let from = DenseArray::filled(Shape::new([5, 20]), 1.0_f64).unwrap();
        let to = DenseArray::filled(Shape::new([4, 20]), 2.0_f64).unwrap();
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
    fn non_plain_values_and_one_dimension_are_sent() {
        let words = |extent: usize, word: &str| DenseArray::filled(Shape::new([extent]), word.to_owned()).unwrap();
        let to = pass_on(words(6, "a"), words(3, "b"), |from| from[[5]] = "long".to_owned());
        assert_eq!(to.to_cells(), ["b", "long", "b"]);
    }

    #[test]
    fn cells_outside_of_the_shared_rows_are_rejected() {
        let mut cells = DenseArray::filled(Shape::new([4]), 0_u32).unwrap();
        let (before, after) = (strip(&mut cells, 0..1), strip(&mut cells, 0..0));
        let halo = ArrayHalo::<u32>::new(before, after, None);
        let change = HaloChange { array: 0, time: 0, runs: vec![(usize::MAX, 1)] };
        assert!(halo.apply(&change, &[0; 4]).is_err());
        let change = HaloChange { array: 0, time: 0, runs: vec![(0, 2)] };
        assert!(halo.apply(&change, &[0; 8]).is_err());
    }
}
