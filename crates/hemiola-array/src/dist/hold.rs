//! Arrays in the hands of a loop.
//!
//! A loop reads and writes arrays through shared references, cuts them as its plan asks, and lends parts of them to workers.
//! **Invariant:** while a [`Holding`] lives nobody else sees the contents: a second one is an error, and every method of
//! the array that looks at them panics with the name of the holder.

use crate::dist::agree::agree;
use crate::dist::arrange::{cut_again, fetch};
use crate::dist::array::{DenseBlock, DistArray, State, Storage};
use crate::dist::element::Element;
use crate::dist::partition::Layout;
use crate::dist::place::in_parallel;
use crate::dist::shuffle::{Piece, send_home};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{Dense, Error, Result, Shape};
use hemiola_core::Rank;
use parking_lot::RwLockWriteGuard;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

impl<T: Element, const N: usize> DistArray<T, N> {
    /// Takes the contents of the array for `holder`, which messages will name, until the holding is dropped.
    pub fn hold(&self, holder: &str) -> Result<Holding<'_, T, N>> {
        self.must_be_complete(holder)?;
        let Some(state) = self.state.try_write() else {
            let by = self.holder.lock().clone().unwrap_or_else(|| "a reader in another thread".to_owned());
            return Err(Error::ArrayHeld { by, wanted_by: holder.to_owned() });
        };
        *self.holder.lock() = Some(holder.to_owned());
        Ok(Holding { array: self, state })
    }

    /// An error if the array was [abandoned](Self::abandon).
    pub fn must_be_complete(&self, wanted_by: &str) -> Result<()> {
        let incomplete = |by: &String| Error::ArrayIncomplete { by: by.clone(), wanted_by: wanted_by.to_owned() };
        self.abandoned.get().map_or(Ok(()), |by| Err(incomplete(by)))
    }

    /// Says that `holder` has failed while parts of the array were under way between peers: nobody can use it any more.
    pub fn abandon(&self, holder: &str) {
        // The first failure is the one to tell of.
        let _ = self.abandoned.set(holder.to_owned());
    }
}

/// An array in the hands of a loop. Methods marked *collective* must be called by every peer.
pub struct Holding<'a, T: Element, const N: usize> {
    array: &'a DistArray<T, N>,
    state: RwLockWriteGuard<'a, State<T, N>>,
}

impl<T: Element, const N: usize> Holding<'_, T, N> {
    /// The extents of the whole array.
    #[must_use]
    pub fn shape(&self) -> Shape<N> {
        self.array.shape
    }

    /// How it is divided.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.state.layout
    }

    /// What this peer holds.
    #[must_use]
    pub fn storage(&self) -> &Storage<T, N> {
        &self.state.storage
    }

    /// What this peer holds, to be changed.
    pub fn storage_mut(&mut self) -> &mut Storage<T, N> {
        &mut self.state.storage
    }

    /// *Collective.* Divides the array as `layout` says. Entries of sparse blocks are sorted by dimensions in `order`; dense
    /// arrays must be cut in ranges of their first dimension. Does nothing where all is so already.
    pub fn arrange(&mut self, layout: &Layout, order: [usize; N]) -> hemiola_cluster::Result<()> {
        let (cluster, shape) = (&self.array.cluster, self.array.shape);
        let divided = *self.state.layout == *layout;
        let arranged = match &mut self.state.storage {
            Storage::Dense(_) if divided => return Ok(()),
            Storage::Dense(blocks) => Storage::Dense(cut_again(cluster, shape, blocks, layout)?),
            Storage::Sparse(blocks) => {
                // An empty array has no block to show its order: then it has any.
                let sorted = blocks.iter().all(|block| block.order() == order);
                if cluster.all_gather(divided && sorted)?.into_iter().all(|done| done) {
                    return Ok(());
                }
                let pieces = std::mem::take(blocks).into_iter().map(|block| Piece::Built(block.into())).collect();
                let homes = send_home(cluster, pieces, layout)?;
                // The keys of an array are different, so the policy never acts.
                let finish = |builder: SparseBuilder<T, N>| builder.finish(shape, order, DuplicatePolicy::Last);
                Storage::Sparse(agree(cluster, in_parallel(cluster, homes, finish)?)?)
            }
        };
        *self.state = State { layout: Arc::new(layout.clone()), storage: arranged };
        Ok(())
    }

    /// *Collective.* Brings the rows of a dense array home: every peer may hold blocks of any rows, each row is held
    /// by one of them, and afterwards each peer has the blocks that the layout gives it.
    pub fn gather_rows(&mut self) -> hemiola_cluster::Result<()> {
        let (cluster, shape, layout) = (&self.array.cluster, self.array.shape, Arc::clone(&self.state.layout));
        if let Storage::Dense(blocks) = &mut self.state.storage {
            *blocks = cut_again(cluster, shape, blocks, &layout)?;
        }
        Ok(())
    }

    /// *Collective.* A copy of the whole dense array, on the peers for which `wanted` is true; empty on the others.
    pub fn copy_of_all(&self, wanted: impl Fn(Rank) -> bool) -> hemiola_cluster::Result<Dense<T, N>> {
        let (cluster, shape) = (&self.array.cluster, self.array.shape);
        let blocks = agree(cluster, dense(&self.state.storage))?;
        let all = |peer| if wanted(peer) { 0..shape.extent(0) } else { 0..0 };
        let wants: Vec<Vec<Range<u64>>> = Rank::all(cluster.size()).map(|peer| vec![all(peer)]).collect();
        let mut copies = fetch(cluster, shape, blocks, &wants)?;
        Ok(copies.swap_remove(0))
    }

    /// Takes the rows this peer holds from a copy of the whole array.
    pub fn take_from(&mut self, whole: &Dense<T, N>) -> Result<()> {
        self.array.shape.must_equal(whole.shape())?;
        let Storage::Dense(blocks) = &mut self.state.storage else { return dense(&self.state.storage).map(|_| ()) };
        for block in blocks {
            let count = block.cells.shape().extent(0);
            let theirs = whole.pieces(block.first..block.first + count);
            block.cells.pieces_mut(0..count).zip(theirs).for_each(|(mine, theirs)| mine.clone_from_slice(theirs));
        }
        Ok(())
    }
}

fn dense<T, const N: usize>(storage: &Storage<T, N>) -> Result<&[DenseBlock<T, N>]> {
    match storage {
        Storage::Dense(blocks) => Ok(blocks),
        Storage::Sparse(_) => Err(Error::WrongStorage {
            found: "sparse".to_owned(),
            asked: "be indexed in a loop".to_owned(),
            hint: "make it dense with `to_dense`".to_owned(),
        }),
    }
}

impl<T: Element, const N: usize> Drop for Holding<'_, T, N> {
    fn drop(&mut self) {
        *self.array.holder.lock() = None;
    }
}

impl<T: Element, const N: usize> fmt::Debug for Holding<'_, T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Holding").field("shape", &self.array.shape).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::partition::{Axis, Partition, Way};
    use crate::{Cut, MakeArrays};
    use hemiola_cluster::standalone;

    fn cut_at(bounds: &[u64], peers: usize) -> Layout {
        Layout { space: Axis { dimension: 0, cut: Cut::at(bounds.to_vec()) }, time: None, peers }
    }

    #[test]
    fn rows_stay_the_same_however_they_are_cut() {
        for peers in 1..4 {
            standalone(peers)
                .workers(2)
                .run(|cluster| {
                    let array = cluster.from_fn([23, 3, 5], |[a, b, c]| (a * 100 + b * 10 + c) as u32)?;
                    let before = array.collect()?;
                    let size = cluster.size();
                    let uneven: Vec<u64> = (0..=2 * size as u64).map(|part| (part * part * 2).min(23)).collect();
                    let uneven = [&uneven[..2 * size], &[23]].concat();
                    let layouts = [cut_at(&uneven, size), Layout::in_one_block(23, size), cut_at(&uneven, size)];
                    for layout in layouts {
                        let mut held = array.hold("a test")?;
                        held.arrange(&layout, [0, 1, 2])?;
                        assert_eq!(*held.layout(), layout);
                        let whole = held.copy_of_all(|peer| peer.index() + 1 == size)?;
                        let expected = if cluster.rank().index() + 1 == size { 23 * 15 } else { 0 };
                        assert_eq!(whole.to_cells().len(), expected);
                        if expected > 0 {
                            assert!(whole.to_cells().iter().eq(before.iter().map(|(_, value)| value)));
                        }
                        drop(held);
                        assert_eq!(array.collect()?, before);
                    }
                    Ok(())
                })
                .unwrap();
        }
    }

    #[test]
    fn rows_that_lie_anywhere_find_their_way_home() {
        standalone(3)
            .run(|cluster| {
                let array = cluster.from_fn([10, 2], |[row, column]| row * 10 + column)?;
                let before = array.collect()?;
                let mut held = array.hold("a test")?;
                held.arrange(&cut_at(&[0, 2, 3, 5, 6, 8, 10], 3), [0, 1])?;
                // Everything ends up with the second peer, the wrong way round.
                let all = held.copy_of_all(|_| true)?;
                let cells = |rows: Range<u64>| {
                    let values = all.pieces(rows.clone()).flatten().copied().collect();
                    Dense::from_values(Shape::new([rows.end - rows.start, 2]), values)
                };
                let block = |rows: Range<u64>| cells(rows.clone()).map(|cells| DenseBlock { first: rows.start, cells });
                let here = if cluster.rank().index() == 1 { vec![block(6..10)?, block(0..6)?] } else { Vec::new() };
                *held.storage_mut() = Storage::Dense(here);
                held.gather_rows()?;
                drop(held);
                assert_eq!(array.collect()?, before);
                let Storage::Dense(blocks) = &*array.storage() else { panic!("it is dense") };
                assert_eq!(blocks.len(), 2);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn a_changed_copy_finds_its_way_back() {
        standalone(3)
            .run(|cluster| {
                let array = cluster.from_fn([10], |[index]| index)?;
                let mut held = array.hold("a test")?;
                let mut whole = held.copy_of_all(|_| true)?;
                whole.map_in_place(|cell| *cell *= 2);
                held.take_from(&whole)?;
                drop(held);
                assert!(array.collect()?.iter().all(|([index], value)| *value == index * 2));
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn entries_are_cut_in_two_dimensions_and_sorted_as_asked() {
        standalone(2)
            .workers(2)
            .run(|cluster| {
                let dense = cluster.from_fn([9, 9], |[a, b]| a * 10 + b)?;
                let array = dense.entries().filter(|_, value| value % 3 == 0).materialize()?;
                let before = array.collect()?;
                let wanted = array.repartition(&Partition::along(1).by(Way::Range).and(0, Way::Range).time_parts(3))?;
                let mut held = array.hold("a test")?;
                held.arrange(&wanted.layout(), [0, 1])?;
                let Storage::Sparse(blocks) = held.storage() else { panic!("it is sparse") };
                assert_eq!(blocks.len(), 6);
                assert!(blocks.iter().all(|block| block.order() == [0, 1]));
                drop(held);
                assert_eq!(array.collect()?, before);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn an_array_has_one_holder_at_a_time_and_says_who() {
        standalone(1)
            .run(|cluster| {
                let array = cluster.zeros::<f32, 1>([4])?;
                let held = array.hold("the loop at a.rs:1")?;
                let error = array.hold("the loop at b.rs:2").unwrap_err();
                assert_eq!(
                    error.to_string(),
                    "the loop at b.rs:2 uses an array that the loop at a.rs:1 holds; \
                     arrays of a loop must be different ones, used by one loop at a time"
                );
                let panic =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| array.memory_bytes())).unwrap_err();
                let panic = panic.downcast_ref::<String>().unwrap();
                assert_eq!(panic, "this array is held by the loop at a.rs:1; use it when that has ended");
                drop(held);
                assert!(array.hold("the loop at b.rs:2").is_ok());
                Ok(())
            })
            .unwrap();
    }
}
