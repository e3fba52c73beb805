//! What a loop does with the names its body uses: how each declares itself, what workers share of it, and what each sees.
//!
//! Generated code makes a chain `(first, (second, (.., ())))` of captures, so that there may be any number of them; the
//! chain is a capture itself.

use crate::Error;
use crate::arrays::Arrays;
use crate::buffer::{Buffer, MOST_TARGETS, Rule};
use crate::plan::{Block, Placement};
use crate::record::{NoRecorder, PlainRecorder, RowRecorder};
use crate::run::post::Requests;
use crate::view::buffer::rows_of;
use crate::view::served::Served;
use crate::view::table::{Ahead, Problem};
use crate::view::{AccumulatorView, ArrayView, BufferView, PlainView, TableView};
use hemiola_analysis::Access;
use hemiola_array::{Accumulator, DistArray, Element};
use hemiola_cluster::{Cluster, Result, panic_message};
use hemiola_core::{Purpose, WorkerId};
use hemiola_tables_proto::in_loop::{ClockEnds, InLoop, LoopTable};
use hemiola_tables_proto::{Owners, rows};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// A table of parameters.
    Table {
        /// When its clocks end.
        clocks: ClockEnds,
        /// Whether its rows are announced.
        announces: bool,
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
    /// Every place where the body uses one of them.
    pub(crate) accesses: &'static [Access],
    /// The loop, as messages call it.
    pub(crate) title: &'l str,
    /// How many peers run blocks.
    pub(crate) peers_used: usize,
    /// How workers ask for rows, if arrays are served.
    pub(crate) requests: Option<&'l Arc<Requests>>,
}

impl Scene<'_, '_> {
    /// The error of a rule that panicked.
    pub(crate) fn rule_failed(&self, panic: &(dyn Any + Send)) -> hemiola_cluster::Error {
        Error::Rule { site: self.title.to_owned(), rank: self.cluster.rank(), message: panic_message(panic) }.into()
    }
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
    /// What the slice of the body sees.
    type Recorder;

    /// Says what it is.
    fn declare(&self, arrays: &mut Arrays<'a>, declared: &mut Vec<Captured>);

    /// Makes what workers share, once all arrays are in place.
    fn share(&self, scene: Scene<'_, 'a>, declared: &[Captured]) -> Self::Shared;

    /// Makes what a worker's body sees.
    fn view(&self, shared: &Self::Shared, scene: Scene<'_, 'a>, worker: WorkerId) -> Self::View;

    /// Makes what the slice of the body sees.
    fn recorder(&self, shared: &Self::Shared, scene: Scene<'_, 'a>) -> Self::Recorder;

    /// Appends what the slice has written down.
    fn foreseen(&self, _recorder: &mut Self::Recorder, _rows: &mut Vec<Vec<u64>>) {}

    /// Writes down the rows that an entry reads by its indices alone: for those the slice has no code.
    #[inline]
    fn touch_by_key(&self, _recorder: &Self::Recorder, _key: &[usize]) {}

    /// Fetches what [`foreseen`](Self::foreseen) appended.
    fn prefetch(
        &self,
        _rows: &mut std::slice::Iter<'_, Vec<u64>>,
        _view: &mut Self::View,
        _scene: Scene<'_, 'a>,
    ) -> Result<()> {
        Ok(())
    }

    /// Says that what [`foreseen`](Self::foreseen) appended for a later block will be used.
    fn announce(
        &self,
        _rows: &mut std::slice::Iter<'_, Vec<u64>>,
        _view: &mut Self::View,
        _scene: Scene<'_, 'a>,
        _ahead: Ahead,
    ) -> Result<()> {
        Ok(())
    }

    /// Ends what a worker ends with each step.
    fn end_step(&self, _view: &mut Self::View, _scene: Scene<'_, 'a>) -> Result<()> {
        Ok(())
    }

    /// Ends what a worker ends in a pass of so many steps, as far as that has not been done: also if it has failed.
    fn end_pass(&self, _view: &mut Self::View, _scene: Scene<'_, 'a>, _steps: u64) -> Result<()> {
        Ok(())
    }

    /// Appends the names whose reads were not foreseen, with their numbers, and forgets what was fetched.
    fn unforeseen(&self, _shared: &Self::Shared, _counts: &mut Vec<(usize, u64)>) {}

    /// Notes what a worker's view has counted.
    fn leave(&self, _shared: &Self::Shared, _view: &mut Self::View) {}

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
    type Recorder = ();

    fn recorder(&self, (): &(), _: Scene<'_, 'a>) {}

    fn declare(&self, _: &mut Arrays<'a>, _: &mut Vec<Captured>) {}

    fn share(&self, _: Scene<'_, 'a>, _: &[Captured]) {}

    fn view(&self, (): &(), _: Scene<'_, 'a>, _: WorkerId) {}
}

impl<'a, A: Capture<'a>, B: Capture<'a>> Capture<'a> for (A, B) {
    type Shared = (A::Shared, B::Shared);
    type View = (A::View, B::View);
    type Recorder = (A::Recorder, B::Recorder);

    fn recorder(&self, shared: &Self::Shared, scene: Scene<'_, 'a>) -> Self::Recorder {
        (self.0.recorder(&shared.0, scene), self.1.recorder(&shared.1, scene))
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        self.0.touch_by_key(&recorder.0, key);
        self.1.touch_by_key(&recorder.1, key);
    }

    fn foreseen(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        self.0.foreseen(&mut recorder.0, rows);
        self.1.foreseen(&mut recorder.1, rows);
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        scene: Scene<'_, 'a>,
    ) -> Result<()> {
        self.0.prefetch(rows, &mut view.0, scene)?;
        self.1.prefetch(rows, &mut view.1, scene)
    }

    fn announce(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        scene: Scene<'_, 'a>,
        ahead: Ahead,
    ) -> Result<()> {
        self.0.announce(rows, &mut view.0, scene, ahead)?;
        self.1.announce(rows, &mut view.1, scene, ahead)
    }

    fn end_step(&self, view: &mut Self::View, scene: Scene<'_, 'a>) -> Result<()> {
        // Both, even if one fails: others wait for both clocks.
        let first = self.0.end_step(&mut view.0, scene);
        first.and(self.1.end_step(&mut view.1, scene))
    }

    fn end_pass(&self, view: &mut Self::View, scene: Scene<'_, 'a>, steps: u64) -> Result<()> {
        let first = self.0.end_pass(&mut view.0, scene, steps);
        first.and(self.1.end_pass(&mut view.1, scene, steps))
    }

    fn unforeseen(&self, shared: &Self::Shared, counts: &mut Vec<(usize, u64)>) {
        self.0.unforeseen(&shared.0, counts);
        self.1.unforeseen(&shared.1, counts);
    }

    fn leave(&self, shared: &Self::Shared, view: &mut Self::View) {
        self.0.leave(&shared.0, &mut view.0);
        self.1.leave(&shared.1, &mut view.1);
    }

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
        // Both, even if one fails here: other peers take part in both.
        let first = self.0.settle(&shared.0, scene);
        first.and(self.1.settle(&shared.1, scene))
    }
}

/// A captured array.
#[derive(Debug)]
pub struct ArrayCapture<'a, T, const N: usize, const WRITTEN: bool> {
    pub(crate) array: &'a DistArray<T, N>,
    pub(crate) name: usize,
}

/// What workers share of an array.
#[derive(Debug)]
pub struct ArrayShared {
    /// Its number in the loop.
    number: usize,
    served: bool,
    /// Reads that the slice did not foresee.
    unforeseen: AtomicU64,
}

impl<'a, T: Element, const N: usize, const WRITTEN: bool> Capture<'a> for ArrayCapture<'a, T, N, WRITTEN> {
    type Shared = ArrayShared;
    type View = ArrayView<T, N, WRITTEN>;
    type Recorder = RowRecorder<Self::View, N>;

    fn declare(&self, arrays: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        declared.push(Captured::Array(arrays.add(self.array)));
    }

    fn share(&self, scene: Scene<'_, 'a>, declared: &[Captured]) -> ArrayShared {
        let Captured::Array(number) = declared[self.name] else { unreachable!("it declared itself an array") };
        let served = scene.peers_used > 1 && scene.placements[number] == Placement::Served;
        ArrayShared { number, served, unforeseen: AtomicU64::new(0) }
    }

    fn view(&self, shared: &ArrayShared, scene: Scene<'_, 'a>, worker: WorkerId) -> Self::View {
        let mut view = ArrayView::new(scene.names[self.name], self.extents());
        if shared.served {
            let owners = scene.arrays.get(shared.number).owners().expect("a served array has owners").clone();
            let requests = scene.requests.expect("rows are asked for where arrays are served");
            let (_, row_length) = rows_of(self.extents());
            let served = Served::new(scene.cluster, requests, worker, shared.number, owners, row_length);
            view.served = Some(Box::new(served));
        }
        view
    }

    fn recorder(&self, shared: &ArrayShared, scene: Scene<'_, 'a>) -> Self::Recorder {
        let mine = scene.accesses.iter().filter(|access| access.name == self.name);
        RowRecorder::new(self.extents(), shared.served, mine)
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        recorder.touch_by_key(key);
    }

    fn foreseen(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        if recorder.wanted {
            rows.push(recorder.take());
        }
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        _: Scene<'_, 'a>,
    ) -> Result<()> {
        match &view.served {
            Some(served) => served.prefetch(rows.next().map_or(&[], Vec::as_slice)),
            None => Ok(()),
        }
    }

    fn announce(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        _: Scene<'_, 'a>,
        _: Ahead,
    ) -> Result<()> {
        // Owners of arrays are not told, but the rows are among the others'.
        if view.served.is_some() {
            rows.next();
        }
        Ok(())
    }

    fn unforeseen(&self, shared: &ArrayShared, counts: &mut Vec<(usize, u64)>) {
        if shared.served {
            counts.push((self.name, shared.unforeseen.load(Ordering::Relaxed)));
        }
    }

    fn leave(&self, shared: &ArrayShared, view: &mut Self::View) {
        if let Some(served) = &view.served {
            // Relaxed: it is read when the workers have ended.
            shared.unforeseen.fetch_add(served.unforeseen(), Ordering::Relaxed);
        }
    }

    #[inline]
    fn bind(&self, shared: &ArrayShared, view: &mut Self::View, scene: Scene<'_, 'a>, block: Block) {
        view.bind(scene.arrays.get(shared.number).window(block));
    }

    fn hand_in(&self, _: &ArrayShared, view: &mut Self::View, _: WorkerId) {
        // What others own may change in the meeting.
        if let Some(served) = &view.served {
            served.forget();
        }
    }
}

impl<T: Element, const N: usize, const WRITTEN: bool> ArrayCapture<'_, T, N, WRITTEN> {
    fn extents(&self) -> [usize; N] {
        self.array.shape().extents().map(|extent| extent as usize)
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
    type Recorder = NoRecorder<Self::View>;

    fn recorder(&self, (): &(), _: Scene<'_, 'a>) -> Self::Recorder {
        NoRecorder(PhantomData)
    }

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
    type Recorder = PlainRecorder<'a, X>;

    fn recorder(&self, (): &(), _: Scene<'_, 'a>) -> Self::Recorder {
        PlainRecorder(self.value)
    }

    fn declare(&self, _: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        declared.push(Captured::Other);
    }

    fn share(&self, _: Scene<'_, 'a>, _: &[Captured]) {}

    fn view(&self, (): &(), _: Scene<'_, 'a>, _: WorkerId) -> Self::View {
        PlainView(self.value)
    }
}

/// A captured table.
#[derive(Debug)]
pub struct TableCapture<'a, 't, T> {
    pub(crate) table: &'a InLoop<'t, T>,
    pub(crate) name: usize,
}

impl<'a, T> Capture<'a> for TableCapture<'a, '_, T>
where
    T: LoopTable + 'a,
    T::Error: Into<hemiola_cluster::Error>,
{
    type Shared = ();
    type View = TableView<'a, T>;
    type Recorder = RowRecorder<Self::View, 2>;

    fn declare(&self, _: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        declared.push(Captured::Table { clocks: self.table.clocks(), announces: self.table.announces() });
    }

    fn share(&self, _: Scene<'_, 'a>, _: &[Captured]) {}

    fn view(&self, (): &(), scene: Scene<'_, 'a>, worker: WorkerId) -> Self::View {
        TableView::new(scene.names[self.name], self.table, worker)
    }

    fn recorder(&self, (): &(), scene: Scene<'_, 'a>) -> Self::Recorder {
        let mine = scene.accesses.iter().filter(|access| access.name == self.name);
        let table = self.table.table();
        let rows = table.row_count().and_then(|rows| usize::try_from(rows).ok()).unwrap_or(usize::MAX);
        RowRecorder::new([rows, table.width()], true, mine)
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        recorder.touch_by_key(key);
    }

    fn foreseen(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        rows.push(recorder.take());
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        scene: Scene<'_, 'a>,
    ) -> Result<()> {
        self.told(scene, view.fetch(rows.next().map_or(&[], Vec::as_slice)))
    }

    fn announce(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        scene: Scene<'_, 'a>,
        ahead: Ahead,
    ) -> Result<()> {
        self.told(scene, view.announce(rows.next().map_or(&[], Vec::as_slice), ahead))
    }

    fn end_step(&self, view: &mut Self::View, scene: Scene<'_, 'a>) -> Result<()> {
        self.told(scene, view.end_step())
    }

    fn end_pass(&self, view: &mut Self::View, scene: Scene<'_, 'a>, steps: u64) -> Result<()> {
        self.told(scene, view.end_pass(steps))
    }
}

impl<T: LoopTable> TableCapture<'_, '_, T>
where
    T::Error: Into<hemiola_cluster::Error>,
{
    fn told(&self, scene: Scene<'_, '_>, outcome: Result<(), Problem<T::Error>>) -> Result<()> {
        outcome.map_err(|problem| match problem {
            Problem::Table(error) => error.into(),
            Problem::NoHandle(problem) => {
                let (site, name) = (scene.title.to_owned(), scene.names[self.name].to_owned());
                Error::NoTable { site, name, problem }.into()
            }
        })
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
    /// Updates go to the owners of their rows, not to everybody.
    served: bool,
    /// By worker: what it has handed in.
    handed_in: Vec<Mutex<Handed<U>>>,
}

/// Rows in ascending order, and their updates.
type Handed<U> = (Vec<u64>, Vec<U>);

impl<U> fmt::Debug for BufferShared<U> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BufferShared")
            .field("targets", &self.targets)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

/// Whether each worker has the rows of all these arrays to itself. A plan places the arrays of a buffer alike.
pub(crate) fn own_rows(placements: &[Placement], targets: &[usize]) -> bool {
    matches!(placements[targets[0]], Placement::Local { .. } | Placement::Rotating { .. })
}

impl<'a, U, R, const N: usize> Capture<'a> for BufferCapture<'a, U, R, N>
where
    U: Element + Default + PartialEq,
    R: Rule<'a, U>,
{
    type Shared = BufferShared<U>;
    type View = BufferView<U, N>;
    type Recorder = NoRecorder<Self::View>;

    fn recorder(&self, _: &Self::Shared, _: Scene<'_, 'a>) -> Self::Recorder {
        NoRecorder(PhantomData)
    }

    fn declare(&self, arrays: &mut Arrays<'a>, declared: &mut Vec<Captured>) {
        declared.push(Captured::Buffer { targets: self.buffer.rule.targets(arrays), bound: self.buffer.bound });
    }

    fn share(&self, scene: Scene<'_, 'a>, declared: &[Captured]) -> BufferShared<U> {
        let Captured::Buffer { targets, .. } = &declared[self.name] else {
            unreachable!("it declared itself a buffer")
        };
        let handed_in = (0..scene.cluster.workers()).map(|_| Mutex::new((Vec::new(), Vec::new()))).collect();
        let own = own_rows(scene.placements, targets);
        let served = scene.peers_used > 1 && scene.placements[targets[0]] == Placement::Served;
        BufferShared { targets: targets.clone(), own, served, handed_in }
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
        let all = if scene.peers_used == 1 {
            mine
        } else if shared.served {
            let owners = scene.arrays.get(shared.targets[0]).owners().expect("a served array has owners");
            sent_to_owners(scene.cluster, &mine, owners, rows_of(self.buffer.extents).1)?
        } else {
            gathered(scene.cluster, mine)?
        };
        // Arrays are whole, or rows are those of this peer: any block's window has all of them.
        let anywhere = Block { part: 0, time: 0 };
        let apply = || all.into_iter().for_each(|handed| self.apply(shared, scene, anywhere, handed));
        // A rule that panics must not keep this peer from a barrier that the others wait in.
        let applied = catch_unwind(AssertUnwindSafe(apply));
        if shared.served {
            // Nobody may ask for a row before its owner has brought it up to date.
            scene.cluster.barrier()?;
        }
        applied.map_err(|panic| scene.rule_failed(&*panic))
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

/// *Collective.* What the workers of all peers have handed in for the rows of this one, in order.
fn sent_to_owners<U: Element>(
    cluster: &Cluster,
    mine: &[Handed<U>],
    owners: &Owners,
    row_length: usize,
) -> Result<Vec<Handed<U>>> {
    let mut outgoing: Vec<Vec<u8>> = (0..cluster.size()).map(|_| Vec::new()).collect();
    for (handed, updates) in mine {
        for (bytes, share) in outgoing.iter_mut().zip(owners.divide(handed)) {
            let (mut packed_rows, mut packed) = (Vec::new(), Vec::new());
            rows::pack(&handed[share.clone()], &mut packed_rows);
            U::pack(&updates[share.start * row_length..share.end * row_length], &mut packed);
            for part in [packed_rows, packed] {
                bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
                bytes.extend(part);
            }
        }
    }
    let incoming = cluster.all_to_all(outgoing.into_iter().map(Into::into).collect(), Purpose::Served)?;
    let mut all = Vec::new();
    for bytes in incoming {
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let handed = rows::unpack(part(&mut rest)?, owners.rows())?;
            let updates = U::unpack(part(&mut rest)?, handed.len() * row_length)?;
            all.push((handed, updates));
        }
    }
    Ok(all)
}

/// The next part of a message, which has its length in front.
fn part<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], hemiola_array::Error> {
    let bad = || hemiola_array::Error::BadMessage { problem: "updates are missing".to_owned() };
    let (length, after) = rest.split_first_chunk::<8>().ok_or_else(bad)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| bad())?;
    let (part, after) = after.split_at_checked(length).ok_or_else(bad)?;
    *rest = after;
    Ok(part)
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
