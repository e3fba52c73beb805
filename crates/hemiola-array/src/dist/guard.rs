//! Exclusive access of a loop to an array.
//!
//! A loop reads and writes arrays through shared references, redistributes them as its plan
//! requires, and lends parts of them to workers. **Invariant:** while an [`ArrayGuard`] lives, no
//! other code sees the contents. A second lock is an error, and every method of the array that
//! accesses its contents panics with the name of the holder.

use crate::dist::agree::agree;
use crate::dist::array::{ArrayContents, DenseBlock, DistArray, Storage};
use crate::dist::build::in_parallel;
use crate::dist::element::Element;
use crate::dist::owner_shuffle::{ShuffleInput, shuffle_to_owners};
use crate::dist::partition::ArrayLayout;
use crate::dist::redistribute::{fetch_rows, repartition_rows};
use crate::sparse::{DuplicatePolicy, SparseBuilder};
use crate::{DenseArray, Error, Result, Shape};
use hemiola_core::Rank;
use parking_lot::RwLockWriteGuard;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

impl<T: Element, const N: usize> DistArray<T, N> {
    /// Locks the contents of the array for `holder`, which messages name, until the guard is
    /// dropped.
    pub fn lock(&self, holder: &str) -> Result<ArrayGuard<'_, T, N>> {
        self.check_complete(holder)?;
        let Some(contents) = self.contents.try_write() else {
            let current = self.holder.lock().clone().unwrap_or_else(|| "a reader on another thread".to_owned());
            return Err(Error::ArrayLocked { holder: current, requested_by: holder.to_owned() });
        };
        *self.holder.lock() = Some(holder.to_owned());
        Ok(ArrayGuard { array: self, contents })
    }

    /// Returns an error if the array was [poisoned](Self::poison).
    pub fn check_complete(&self, requested_by: &str) -> Result<()> {
        let poisoned =
            |holder: &String| Error::ArrayPoisoned { holder: holder.clone(), requested_by: requested_by.to_owned() };
        self.poisoned_by.get().map_or(Ok(()), |holder| Err(poisoned(holder)))
    }

    /// Marks the array as unusable: `holder` has failed while parts of it were in flight between
    /// peers.
    pub fn poison(&self, holder: &str) {
        // The first failure is the one to report.
        let _ = self.poisoned_by.set(holder.to_owned());
    }
}

/// Lock guard of a loop on an array. Methods marked *collective* must be called by every peer.
pub struct ArrayGuard<'a, T: Element, const N: usize> {
    array: &'a DistArray<T, N>,
    contents: RwLockWriteGuard<'a, ArrayContents<T, N>>,
}

impl<T: Element, const N: usize> ArrayGuard<'_, T, N> {
    /// Returns the extents of the whole array.
    #[must_use]
    pub fn shape(&self) -> Shape<N> {
        self.array.shape
    }

    /// Returns the current layout.
    #[must_use]
    pub fn layout(&self) -> &ArrayLayout {
        &self.contents.layout
    }

    /// Returns the blocks this peer owns.
    #[must_use]
    pub fn storage(&self) -> &Storage<T, N> {
        &self.contents.storage
    }

    /// Returns the blocks this peer owns, mutably.
    pub fn storage_mut(&mut self) -> &mut Storage<T, N> {
        &mut self.contents.storage
    }

    /// *Collective.* Moves the array into `layout`, sorting the entries of sparse blocks by the
    /// dimensions in `order`. Dense arrays must be partitioned into ranges of their first
    /// dimension. Does nothing if the array is in that layout and order already.
    pub fn redistribute(&mut self, layout: &ArrayLayout, order: [usize; N]) -> hemiola_cluster::Result<()> {
        let (cluster, shape) = (&self.array.cluster, self.array.shape);
        let divided = *self.contents.layout == *layout;
        let arranged = match &mut self.contents.storage {
            Storage::Dense(_) if divided => return Ok(()),
            Storage::Dense(blocks) => Storage::Dense(repartition_rows(cluster, shape, blocks, layout)?),
            Storage::Sparse(blocks) => {
                // A peer without blocks matches any order.
                let sorted = blocks.iter().all(|block| block.order() == order);
                if cluster.all_gather(divided && sorted)?.into_iter().all(|done| done) {
                    return Ok(());
                }
                let inputs =
                    std::mem::take(blocks).into_iter().map(|block| ShuffleInput::Builder(block.into())).collect();
                let builders = shuffle_to_owners(cluster, inputs, layout)?;
                // Keys of an array are unique, so the policy never applies.
                let finish = |builder: SparseBuilder<T, N>| builder.finish(shape, order, DuplicatePolicy::Last);
                Storage::Sparse(agree(cluster, in_parallel(cluster, builders, finish)?)?)
            }
        };
        *self.contents = ArrayContents { layout: Arc::new(layout.clone()), storage: arranged };
        Ok(())
    }

    /// *Collective.* Returns the rows of a dense array to their owners. Every peer may hold blocks
    /// of any rows, each row on one peer; afterwards each peer has the blocks that the layout
    /// assigns to it.
    pub fn restore_layout(&mut self) -> hemiola_cluster::Result<()> {
        let (cluster, shape, layout) = (&self.array.cluster, self.array.shape, Arc::clone(&self.contents.layout));
        if let Storage::Dense(blocks) = &mut self.contents.storage {
            *blocks = repartition_rows(cluster, shape, blocks, &layout)?;
        }
        Ok(())
    }

    /// *Collective.* Copies the whole dense array to the peers for which `wanted` is true; returns
    /// an empty array on the others.
    pub fn replicate(&self, wanted: impl Fn(Rank) -> bool) -> hemiola_cluster::Result<DenseArray<T, N>> {
        let (cluster, shape) = (&self.array.cluster, self.array.shape);
        let blocks = agree(cluster, dense_blocks(&self.contents.storage))?;
        let all = |peer| if wanted(peer) { 0..shape.extent(0) } else { 0..0 };
        let wants: Vec<Vec<Range<usize>>> = Rank::all(cluster.size()).map(|peer| vec![all(peer)]).collect();
        let mut copies = fetch_rows(cluster, shape, blocks, &wants)?;
        Ok(copies.swap_remove(0))
    }

    /// Copies the rows that this peer owns from a replica of the whole array.
    pub fn copy_from(&mut self, whole: &DenseArray<T, N>) -> Result<()> {
        self.array.shape.check_equal(whole.shape())?;
        let Storage::Dense(blocks) = &mut self.contents.storage else {
            return dense_blocks(&self.contents.storage).map(|_| ());
        };
        for block in blocks {
            let count = block.cells.shape().extent(0);
            let theirs = whole.slices(block.first..block.first + count);
            block.cells.slices_mut(0..count).zip(theirs).for_each(|(mine, theirs)| mine.clone_from_slice(theirs));
        }
        Ok(())
    }
}

fn dense_blocks<T, const N: usize>(storage: &Storage<T, N>) -> Result<&[DenseBlock<T, N>]> {
    match storage {
        Storage::Dense(blocks) => Ok(blocks),
        Storage::Sparse(_) => Err(Error::WrongStorage {
            found: "sparse".to_owned(),
            operation: "be indexed in a loop".to_owned(),
            hint: "make it dense with `to_dense`".to_owned(),
        }),
    }
}

impl<T: Element, const N: usize> Drop for ArrayGuard<'_, T, N> {
    fn drop(&mut self) {
        *self.array.holder.lock() = None;
    }
}

impl<T: Element, const N: usize> fmt::Debug for ArrayGuard<'_, T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ArrayGuard").field("shape", &self.array.shape).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::partition::{PartitionMethod, PartitionSpec, PartitionedDimension};
    use crate::{ArrayExt, Partitioner};
    use hemiola_cluster::standalone;

    fn layout_at(bounds: &[usize], peers: usize) -> ArrayLayout {
        ArrayLayout {
            space: PartitionedDimension { dimension: 0, partitioner: Partitioner::from_bounds(bounds.to_vec()) },
            time: None,
            peers,
        }
    }

    #[test]
    fn redistribution_keeps_the_rows() {
        for peers in 1..4 {
            standalone(peers)
                .workers(2)
                .run(|cluster| {
                    let array = cluster.from_fn([23, 3, 5], |[a, b, c]| (a * 100 + b * 10 + c) as u32)?;
                    let before = array.collect()?;
                    let size = cluster.size();
                    let uneven: Vec<usize> = (0..=2 * size).map(|part| (part * part * 2).min(23)).collect();
                    let uneven = [&uneven[..2 * size], &[23]].concat();
                    let layouts =
                        [layout_at(&uneven, size), ArrayLayout::single_block(23, size), layout_at(&uneven, size)];
                    for layout in layouts {
                        let mut guard = array.lock("a test")?;
                        guard.redistribute(&layout, [0, 1, 2])?;
                        assert_eq!(*guard.layout(), layout);
                        let whole = guard.replicate(|peer| peer.index() + 1 == size)?;
                        let expected = if cluster.rank().index() + 1 == size { 23 * 15 } else { 0 };
                        assert_eq!(whole.to_cells().len(), expected);
                        if expected > 0 {
                            assert!(whole.to_cells().iter().eq(before.iter().map(|(_, value)| value)));
                        }
                        drop(guard);
                        assert_eq!(array.collect()?, before);
                    }
                    Ok(())
                })
                .unwrap();
        }
    }

    #[test]
    fn restore_layout_returns_rows_to_their_owners() {
        standalone(3)
            .run(|cluster| {
                let array = cluster.from_fn([10, 2], |[row, column]| row * 10 + column)?;
                let before = array.collect()?;
                let mut guard = array.lock("a test")?;
                guard.redistribute(&layout_at(&[0, 2, 3, 5, 6, 8, 10], 3), [0, 1])?;
                // All rows end up on the second peer, in reverse order.
                let all = guard.replicate(|_| true)?;
                let cells = |rows: Range<usize>| {
                    let values = all.slices(rows.clone()).flatten().copied().collect();
                    DenseArray::from_values(Shape::new([rows.end - rows.start, 2]), values)
                };
                let block =
                    |rows: Range<usize>| cells(rows.clone()).map(|cells| DenseBlock { first: rows.start, cells });
                let here = if cluster.rank().index() == 1 { vec![block(6..10)?, block(0..6)?] } else { Vec::new() };
                *guard.storage_mut() = Storage::Dense(here);
                guard.restore_layout()?;
                drop(guard);
                assert_eq!(array.collect()?, before);
                let Storage::Dense(blocks) = &*array.storage() else { panic!("it is dense") };
                assert_eq!(blocks.len(), 2);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn a_changed_replica_is_copied_back() {
        standalone(3)
            .run(|cluster| {
                let array = cluster.from_fn([10], |[index]| index)?;
                let mut guard = array.lock("a test")?;
                let mut whole = guard.replicate(|_| true)?;
                whole.map_in_place(|cell| *cell *= 2);
                guard.copy_from(&whole)?;
                drop(guard);
                assert!(array.collect()?.iter().all(|([index], value)| *value == index * 2));
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn entries_are_redistributed_in_two_dimensions_and_sorted() {
        standalone(2)
            .workers(2)
            .run(|cluster| {
                let dense = cluster.from_fn([9, 9], |[a, b]| a * 10 + b)?;
                let array = dense.entries().filter(|_, value| value % 3 == 0).materialize()?;
                let before = array.collect()?;
                let wanted = array.repartition(
                    &PartitionSpec::along(1)
                        .method(PartitionMethod::Range)
                        .and_along(0, PartitionMethod::Range)
                        .time_parts(3),
                )?;
                let mut guard = array.lock("a test")?;
                guard.redistribute(&wanted.layout(), [0, 1])?;
                let Storage::Sparse(blocks) = guard.storage() else { panic!("it is sparse") };
                assert_eq!(blocks.len(), 6);
                assert!(blocks.iter().all(|block| block.order() == [0, 1]));
                drop(guard);
                assert_eq!(array.collect()?, before);
                Ok(())
            })
            .unwrap();
    }

    #[test]
    fn an_array_has_one_holder_at_a_time_and_names_it() {
        standalone(1)
            .run(|cluster| {
                let array = cluster.zeros::<f32, 1>([4])?;
                let guard = array.lock("the loop at a.rs:1")?;
                let error = array.lock("the loop at b.rs:2").unwrap_err();
                assert_eq!(
                    error.to_string(),
                    "the loop at b.rs:2 uses an array that is locked by the loop at a.rs:1; \
                     the arrays of a loop must be distinct, and only one loop at a time may use an array"
                );
                let panic =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| array.memory_bytes())).unwrap_err();
                let panic = panic.downcast_ref::<String>().unwrap();
                assert_eq!(panic, "this array is locked by the loop at a.rs:1; use it after that loop has ended");
                drop(guard);
                assert!(array.lock("the loop at b.rs:2").is_ok());
                Ok(())
            })
            .unwrap();
    }
}
