//! What a loop does with the names its body uses: how each declares itself, what workers share of it, and what each sees.
//!
//! Generated code makes a chain `(first, (second, (.., ())))` of captures, so that there may be any number of them; the
//! chain is a capture itself.

use crate::arrays::Arrays;
use crate::buffer::{Buffer, MOST_TARGETS, Rule};
use crate::plan::{Block, Placement};
use crate::view::buffer::rows_of;
use crate::view::{AccumulatorView, ArrayView, BufferView, PlainView};
use hemiola_array::{Accumulator, DistArray, Element};
use hemiola_cluster::{Cluster, Result};
use hemiola_core::WorkerId;
use parking_lot::Mutex;
use std::fmt;

/// What a name turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Captured {
    /// An array, by its number in the loop.
    Array(usize),
    /// Writes to arrays: the buffered one first.
    Buffer {
        /// Their numbers.
        targets: Vec<usize>,
        /// Entries after which workers must meet.
        bound: Option<u64>,
    },
    /// Anything else.
    Other,
}

/// What everything on a peer may look at while a loop runs.
#[derive(Clone, Copy)]
pub struct Scene<'l, 'a> {
    pub(crate) cluster: &'l Cluster,
    pub(crate) arrays: &'l Arrays<'a>,
    pub(crate) placements: &'l [Placement],
    pub(crate) names: &'static [&'static str],
    /// How many peers run blocks.
    pub(crate) peers_used: usize,
}

impl fmt::Debug for Scene<'_, '_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scene").field("names", &self.names).finish_non_exhaustive()
    }
}

/// A captured name, or a chain of them.
pub trait Capture<'a> {
    /// What the workers of a peer share.
    type Shared: Sync;
    /// What the body sees.
    type View;

    /// Says what it is.
    fn declare(&self, arrays: &mut Arrays<'a>, declared: &mut Vec<Captured>);

    /// Makes what workers share, once all arrays are in place.
    fn share(&self, scene: Scene<'_, 'a>, declared: &[Captured]) -> Self::Shared;

    /// Makes what a worker's body sees.
    fn view(&self, shared: &Self::Shared, scene: Scene<'_, 'a>, worker: WorkerId) -> Self::View;

    /// Turns a worker's view to a block it is about to run.
    fn bind(&self, _shared: &Self::Shared, _view: &mut Self::View, _scene: Scene<'_, 'a>, _block: Block) {}

    /// Applies what a worker has to itself, at the end of a block.
    fn end_block(&self, _shared: &Self::Shared, _view: &mut Self::View, _scene: Scene<'_, 'a>, _block: Block) {}

    /// Hands in what others must get, before a meeting.
    fn hand_in(&self, _shared: &Self::Shared, _view: &mut Self::View, _worker: WorkerId) {}

    /// *Collective.* Applies what all workers have handed in, while nobody works.
    fn settle(&self, _shared: &Self::Shared, _scene: Scene<'_, 'a>) -> Result<()> {
        Ok(())
    }
}

impl<'a> Capture<'a> for () {
    type Shared = ();
    type View = ();

    fn declare(&self, _: &mut Arrays<'a>, _: &mut Vec<Captured>) {}

    fn share(&self, _: Scene<'_, 'a>, _: &[Captured]) {}

    fn view(&self, (): &(), _: Scene<'_, 'a>, _: WorkerId) {}
}

impl<'a, A: Capture<'a>, B: Capture<'a>> Capture<'a> for (A, B) {
    type Shared = (A::Shared, B::Shared);
    type View = (A::View, B::View);

    fn declare(&self, arrays: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        self.0.declare(arrays, declared);
        self.1.declare(arrays, declared);
    }

    fn share(&self, scene: Scene<'_, 'a>, declared: &[Captured]) -> Self::Shared {
        (self.0.share(scene, declared), self.1.share(scene, declared))
    }

    fn view(&self, shared: &Self::Shared, scene: Scene<'_, 'a>, worker: WorkerId) -> Self::View {
        (self.0.view(&shared.0, scene, worker), self.1.view(&shared.1, scene, worker))
    }

    #[inline]
    fn bind(&self, shared: &Self::Shared, view: &mut Self::View, scene: Scene<'_, 'a>, block: Block) {
        self.0.bind(&shared.0, &mut view.0, scene, block);
        self.1.bind(&shared.1, &mut view.1, scene, block);
    }

    fn end_block(&self, shared: &Self::Shared, view: &mut Self::View, scene: Scene<'_, 'a>, block: Block) {
        self.0.end_block(&shared.0, &mut view.0, scene, block);
        self.1.end_block(&shared.1, &mut view.1, scene, block);
    }

    fn hand_in(&self, shared: &Self::Shared, view: &mut Self::View, worker: WorkerId) {
        self.0.hand_in(&shared.0, &mut view.0, worker);
        self.1.hand_in(&shared.1, &mut view.1, worker);
    }

    fn settle(&self, shared: &Self::Shared, scene: Scene<'_, 'a>) -> Result<()> {
        self.0.settle(&shared.0, scene)?;
        self.1.settle(&shared.1, scene)
    }
}

/// A captured array.
#[derive(Debug)]
pub struct ArrayCapture<'a, T, const N: usize, const WRITTEN: bool> {
    pub(crate) array: &'a DistArray<T, N>,
    pub(crate) name: usize,
}

impl<'a, T: Element, const N: usize, const WRITTEN: bool> Capture<'a> for ArrayCapture<'a, T, N, WRITTEN> {
    /// The array's number in the loop.
    type Shared = usize;
    type View = ArrayView<T, N, WRITTEN>;

    fn declare(&self, arrays: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        declared.push(Captured::Array(arrays.add(self.array)));
    }

    fn share(&self, _: Scene<'_, 'a>, declared: &[Captured]) -> usize {
        match declared[self.name] {
            Captured::Array(number) => number,
            _ => unreachable!("it declared itself an array"),
        }
    }

    fn view(&self, _: &usize, scene: Scene<'_, 'a>, _: WorkerId) -> Self::View {
        ArrayView::new(scene.names[self.name], self.array.shape().extents().map(|extent| extent as usize))
    }

    #[inline]
    fn bind(&self, shared: &usize, view: &mut Self::View, scene: Scene<'_, 'a>, block: Block) {
        view.bind(scene.arrays.get(*shared).window(block));
    }
}

/// A captured accumulator.
#[derive(Debug)]
pub struct AccumulatorCapture<'a, T, C> {
    pub(crate) accumulator: &'a Accumulator<T, C>,
}

impl<'a, T: Element, C: Fn(T, T) -> T + Sync> Capture<'a> for AccumulatorCapture<'a, T, C> {
    type Shared = ();
    type View = AccumulatorView<'a, T, C>;

    fn declare(&self, _: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        declared.push(Captured::Other);
    }

    fn share(&self, _: Scene<'_, 'a>, _: &[Captured]) {}

    fn view(&self, (): &(), _: Scene<'_, 'a>, worker: WorkerId) -> Self::View {
        AccumulatorView::new(self.accumulator, worker)
    }
}

/// Any other captured value.
#[derive(Debug)]
pub struct PlainCapture<'a, X: ?Sized> {
    pub(crate) value: &'a X,
}

impl<'a, X: ?Sized> Capture<'a> for PlainCapture<'a, X> {
    type Shared = ();
    type View = PlainView<'a, X>;

    fn declare(&self, _: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        declared.push(Captured::Other);
    }

    fn share(&self, _: Scene<'_, 'a>, _: &[Captured]) {}

    fn view(&self, (): &(), _: Scene<'_, 'a>, _: WorkerId) -> Self::View {
        PlainView(self.value)
    }
}

/// A captured buffer.
pub struct BufferCapture<'a, U, R, const N: usize> {
    pub(crate) buffer: &'a Buffer<U, R, N>,
    pub(crate) name: usize,
}

impl<U, R, const N: usize> fmt::Debug for BufferCapture<'_, U, R, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buffer.fmt(formatter)
    }
}

/// What workers share of a buffer.
pub struct BufferShared<U> {
    /// The numbers of the arrays it updates.
    targets: Vec<usize>,
    /// Each worker has the rows it writes to itself: no meeting is needed.
    own: bool,
    /// By worker: what it has handed in.
    handed_in: Vec<Mutex<Handed<U>>>,
}

/// Rows in ascending order, and their updates.
type Handed<U> = (Vec<u64>, Vec<U>);

impl<U> fmt::Debug for BufferShared<U> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BufferShared").field("targets", &self.targets).field("own", &self.own).finish_non_exhaustive()
    }
}

/// Whether each worker has the rows of all these arrays to itself.
pub(crate) fn own_rows(placements: &[Placement], targets: &[usize]) -> bool {
    let first = placements[targets[0]];
    first != Placement::Whole && targets.iter().all(|target| placements[*target] == first)
}

impl<'a, U, R, const N: usize> Capture<'a> for BufferCapture<'a, U, R, N>
where
    U: Element + Default + PartialEq,
    R: Rule<'a, U>,
{
    type Shared = BufferShared<U>;
    type View = BufferView<U, N>;

    fn declare(&self, arrays: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        declared.push(Captured::Buffer { targets: self.buffer.rule.targets(arrays), bound: self.buffer.bound });
    }

    fn share(&self, scene: Scene<'_, 'a>, declared: &[Captured]) -> BufferShared<U> {
        let Captured::Buffer { targets, .. } = &declared[self.name] else { unreachable!("it declared itself a buffer") };
        let handed_in = (0..scene.cluster.workers()).map(|_| Mutex::new((Vec::new(), Vec::new()))).collect();
        BufferShared { targets: targets.clone(), own: own_rows(scene.placements, targets), handed_in }
    }

    fn view(&self, _: &Self::Shared, scene: Scene<'_, 'a>, _: WorkerId) -> Self::View {
        BufferView::new(scene.names[self.name], self.buffer.extents)
    }

    fn end_block(&self, shared: &Self::Shared, view: &mut Self::View, scene: Scene<'_, 'a>, block: Block) {
        if shared.own {
            let waiting = view.pending.drain();
            self.apply(shared, scene, block, waiting);
        }
    }

    fn hand_in(&self, shared: &Self::Shared, view: &mut Self::View, worker: WorkerId) {
        if !shared.own {
            *shared.handed_in[worker.index()].lock() = view.pending.drain();
        }
    }

    fn settle(&self, shared: &Self::Shared, scene: Scene<'_, 'a>) -> Result<()> {
        if shared.own {
            return Ok(());
        }
        let mine: Vec<Handed<U>> = shared.handed_in.iter().map(|handed| std::mem::take(&mut *handed.lock())).collect();
        let all = if scene.peers_used == 1 { mine } else { gathered(scene.cluster, mine)? };
        // Arrays are whole: any block's window is all of them.
        let anywhere = Block { part: 0, time: 0 };
        for handed in all {
            self.apply(shared, scene, anywhere, handed);
        }
        Ok(())
    }
}

impl<'a, U: Element + Default + PartialEq, R: Rule<'a, U>, const N: usize> BufferCapture<'a, U, R, N> {
    /// Brings updates into the arrays.
    fn apply(&self, shared: &BufferShared<U>, scene: Scene<'_, 'a>, block: Block, (rows, updates): Handed<U>) {
        if rows.is_empty() {
            return;
        }
        let (_, row_length) = rows_of(self.buffer.extents);
        let per_index: usize = if N == 1 { 1 } else { self.buffer.extents[1..N - 1].iter().product() };
        let windows: Vec<_> = shared.targets.iter().map(|target| scene.arrays.get(*target).window(block)).collect();
        let sizes: Vec<_> = shared.targets.iter().map(|target| scene.arrays.get(*target).cell_bytes()).collect();
        let mut updates = updates.into_iter();
        for row in rows {
            let row = row as usize;
            let mut addresses = [std::ptr::null_mut(); MOST_TARGETS];
            for (address, (window, size)) in addresses.iter_mut().zip(windows.iter().zip(&sizes)) {
                let index = (row / per_index).wrapping_sub(window.first);
                assert!(index < window.count, "a buffer's row lies where its array is");
                let cell = if N == 1 { index } else { (index * per_index + row % per_index) * window.stride };
                *address = window.base.wrapping_add(cell * size);
            }
            let of_row = updates.by_ref().take(row_length).collect();
            // SAFETY: every address is that of a row inside the window, which has `row_length` cells; the worker has the rows
            // to itself, or nobody works (see `view::window`).
            unsafe { self.buffer.rule.apply(&addresses, of_row) };
        }
    }
}

/// *Collective.* What the workers of all peers have handed in, in order.
fn gathered<U: Element>(cluster: &Cluster, mine: Vec<Handed<U>>) -> Result<Vec<Handed<U>>> {
    let packed: Vec<(Vec<u64>, u64, Vec<u8>)> = mine
        .into_iter()
        .map(|(rows, updates)| {
            let mut bytes = Vec::new();
            U::pack(&updates, &mut bytes);
            (rows, updates.len() as u64, bytes)
        })
        .collect();
    let mut all = Vec::new();
    for peer in cluster.all_gather(packed)? {
        for (rows, count, bytes) in peer {
            all.push((rows, U::unpack(&bytes, count as usize)?));
        }
    }
    Ok(all)
}

