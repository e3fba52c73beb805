//! Captured names while a loop runs: a view for the body, a recorder for the slice.
//!
//! The types of views have no `where Self: 'v`: with it, `for<'v> Fn(C::Views<'v>, ..)` would
//! require `C: 'static`.

use std::fmt::Debug;
use std::ops::{AddAssign, Index, IndexMut};

use super::kinds::{Accumulator, Buffer, DistArray, Element};
use super::probe::{CaptureProbe, CaptureShared, SharedWrite, shared_kind};

/// One captured name.
pub trait Capture {
    /// Per-worker state of the executor.
    type State;
    type Handle<'v>;
    type Recorder<'v>;
    fn begin(&self) -> Self::State;
    fn handle<'v>(&self, state: &'v mut Self::State) -> Self::Handle<'v>;
    fn recorder<'v>(&self, name: usize, log: &'v Log) -> Self::Recorder<'v>;
    fn end(&self, state: Self::State);
}

/// Indices that slices touched: name and subscripts as text.
#[derive(Debug, Default)]
pub struct Log(std::cell::RefCell<Vec<(usize, String)>>);

impl Log {
    pub fn take(&self) -> Vec<(usize, String)> {
        self.0.take()
    }
}

/// A list of captures: `(first, (second, ()))`.
pub trait Captures {
    type States;
    type Views<'v>;
    type Recorders<'v>;
    fn begin(&self) -> Self::States;
    fn views<'v>(&self, states: &'v mut Self::States) -> Self::Views<'v>;
    fn recorders<'v>(&self, name: usize, log: &'v Log) -> Self::Recorders<'v>;
    fn end(&self, states: Self::States);
}

impl Captures for () {
    type States = ();
    type Views<'v> = ();
    type Recorders<'v> = ();
    fn begin(&self) {}
    fn views<'v>(&self, (): &'v mut ()) {}
    fn recorders<'v>(&self, _: usize, _: &'v Log) {}
    fn end(&self, (): ()) {}
}

impl<A: Capture, B: Captures> Captures for (A, B) {
    type States = (A::State, B::States);
    type Views<'v> = (A::Handle<'v>, B::Views<'v>);
    type Recorders<'v> = (A::Recorder<'v>, B::Recorders<'v>);
    fn begin(&self) -> Self::States {
        (self.0.begin(), self.1.begin())
    }
    fn views<'v>(&self, states: &'v mut Self::States) -> Self::Views<'v> {
        (self.0.handle(&mut states.0), self.1.views(&mut states.1))
    }
    fn recorders<'v>(&self, name: usize, log: &'v Log) -> Self::Recorders<'v> {
        (self.0.recorder(name, log), self.1.recorders(name + 1, log))
    }
    fn end(&self, states: Self::States) {
        self.0.end(states.0);
        self.1.end(states.1);
    }
}

/// A captured plain value.
#[derive(Debug)]
pub struct Plain<'a, T: ?Sized>(pub &'a T);

impl<T: ?Sized> Clone for Plain<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Plain<'_, T> {}

impl<'a, T: ?Sized> Plain<'a, T> {
    pub fn resolve(self) -> &'a T {
        self.0
    }
    pub fn peek(self) -> Option<&'a T> {
        Some(self.0)
    }
    pub fn touch<S>(self, _: S) {}
}

impl<'a, T: ?Sized> Capture for Plain<'a, T> {
    type State = ();
    type Handle<'v> = Plain<'a, T>;
    type Recorder<'v> = Plain<'a, T>;
    fn begin(&self) {}
    fn handle<'v>(&self, (): &'v mut ()) -> Plain<'a, T> {
        *self
    }
    fn recorder<'v>(&self, _: usize, _: &'v Log) -> Plain<'a, T> {
        *self
    }
    fn end(&self, (): ()) {}
}

/// View of a worker on shared state.
#[derive(Debug)]
pub struct Handle<'v, V>(&'v mut V);

impl<'v, V> Handle<'v, V> {
    pub fn resolve(self) -> &'v mut V {
        self.0
    }
}

/// Records the reads of an iteration on shared state.
#[derive(Debug)]
pub struct Recorder<'v, V> {
    name: usize,
    log: &'v Log,
    view: std::marker::PhantomData<&'v V>,
}

impl<V> Clone for Recorder<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<V> Copy for Recorder<'_, V> {}

impl<'v, V> Recorder<'v, V> {
    /// Always `None`: shared state is not available before the loop runs. The type is that of the
    /// view, so that the slice compiles if the body does.
    pub fn peek(self) -> Option<&'v V> {
        None
    }
    pub fn touch<S: Debug>(self, subscript: S) {
        self.log.0.borrow_mut().push((self.name, format!("{subscript:?}")));
    }
}

/// Capture of an array.
#[derive(Debug)]
pub struct ArrayCapture<'a, T, const N: usize, const WRITTEN: bool>(&'a DistArray<T, N>);

/// View on an array.
#[derive(Debug)]
pub struct ArrayView<T, const N: usize, const WRITTEN: bool> {
    shape: [usize; N],
    values: Vec<T>,
}

fn array<T: Element, const N: usize, const WRITTEN: bool>(
    array: &DistArray<T, N>,
    _: usize,
) -> ArrayCapture<'_, T, N, WRITTEN> {
    ArrayCapture(array)
}

shared_kind!([T: Element, const N: usize] DistArray<T, N> => array: ArrayCapture<'a, T, N, WRITTEN>);

impl<T: Element, const N: usize, const WRITTEN: bool> Capture for ArrayCapture<'_, T, N, WRITTEN> {
    type State = ArrayView<T, N, WRITTEN>;
    type Handle<'v> = Handle<'v, ArrayView<T, N, WRITTEN>>;
    type Recorder<'v> = Recorder<'v, ArrayView<T, N, WRITTEN>>;
    fn begin(&self) -> Self::State {
        ArrayView { shape: self.0.shape, values: self.0.values() }
    }
    fn handle<'v>(&self, state: &'v mut Self::State) -> Self::Handle<'v> {
        Handle(state)
    }
    fn recorder<'v>(&self, name: usize, log: &'v Log) -> Self::Recorder<'v> {
        Recorder { name, log, view: std::marker::PhantomData }
    }
    fn end(&self, state: Self::State) {
        if WRITTEN {
            self.0.put(state.values);
        }
    }
}

impl<T, const N: usize, const WRITTEN: bool> ArrayView<T, N, WRITTEN> {
    pub fn shape(&self) -> [usize; N] {
        self.shape
    }
    /// Changes its receiver, although its name is not in the list of mutators.
    pub fn trample(&mut self) {
        self.values.clear();
    }
}

impl<T, const WRITTEN: bool> Index<usize> for ArrayView<T, 1, WRITTEN> {
    type Output = T;
    fn index(&self, i: usize) -> &T {
        &self.values[i]
    }
}

impl<T> IndexMut<usize> for ArrayView<T, 1, true> {
    fn index_mut(&mut self, i: usize) -> &mut T {
        &mut self.values[i]
    }
}

impl<T, const WRITTEN: bool> Index<usize> for ArrayView<T, 2, WRITTEN> {
    type Output = [T];
    fn index(&self, i: usize) -> &[T] {
        &self.values[i * self.shape[1]..][..self.shape[1]]
    }
}

impl<T> IndexMut<usize> for ArrayView<T, 2, true> {
    fn index_mut(&mut self, i: usize) -> &mut [T] {
        &mut self.values[i * self.shape[1]..][..self.shape[1]]
    }
}

impl<T, const WRITTEN: bool> Index<[usize; 2]> for ArrayView<T, 2, WRITTEN> {
    type Output = T;
    fn index(&self, [i, j]: [usize; 2]) -> &T {
        &self[i][j]
    }
}

impl<T> IndexMut<[usize; 2]> for ArrayView<T, 2, true> {
    fn index_mut(&mut self, [i, j]: [usize; 2]) -> &mut T {
        &mut self[i][j]
    }
}

/// Capture of a buffer: additions that are applied when the loop ends.
#[derive(Debug)]
pub struct BufferCapture<'a, T, const N: usize>(&'a DistArray<T, N>);

fn buffer<'a, T: Element, const N: usize>(buffer: &Buffer<'a, T, N>, _: usize) -> BufferCapture<'a, T, N> {
    BufferCapture(buffer.0)
}

shared_kind!(['b, T: Element, const N: usize] Buffer<'b, T, N> => buffer: BufferCapture<'b, T, N>);

impl<T: Element, const N: usize> Capture for BufferCapture<'_, T, N> {
    type State = ArrayView<T, N, true>;
    type Handle<'v> = Handle<'v, ArrayView<T, N, true>>;
    type Recorder<'v> = Recorder<'v, ArrayView<T, N, true>>;
    fn begin(&self) -> Self::State {
        let zeros = vec![T::default(); self.0.values().len()];
        ArrayView { shape: self.0.shape, values: zeros }
    }
    fn handle<'v>(&self, state: &'v mut Self::State) -> Self::Handle<'v> {
        Handle(state)
    }
    fn recorder<'v>(&self, name: usize, log: &'v Log) -> Self::Recorder<'v> {
        Recorder { name, log, view: std::marker::PhantomData }
    }
    fn end(&self, state: Self::State) {
        let mut values = self.0.values();
        values.iter_mut().zip(state.values).for_each(|(value, change)| value.merge(change));
        self.0.put(values);
    }
}

/// Capture of an accumulator.
#[derive(Debug)]
pub struct AccumulatorCapture<'a, T>(&'a Accumulator<T>);

/// Part of an accumulator that one worker holds.
#[derive(Debug)]
pub struct Part<T>(T);

impl<T: AddAssign> AddAssign<T> for Part<T> {
    fn add_assign(&mut self, value: T) {
        self.0 += value;
    }
}

fn accumulator<T: Element>(accumulator: &Accumulator<T>, _: usize) -> AccumulatorCapture<'_, T> {
    AccumulatorCapture(accumulator)
}

shared_kind!([T: Element] Accumulator<T> => accumulator: AccumulatorCapture<'a, T>);

impl<T: Element> Capture for AccumulatorCapture<'_, T> {
    type State = Part<T>;
    type Handle<'v> = Handle<'v, Part<T>>;
    type Recorder<'v> = Recorder<'v, Part<T>>;
    fn begin(&self) -> Part<T> {
        Part(T::default())
    }
    fn handle<'v>(&self, state: &'v mut Part<T>) -> Handle<'v, Part<T>> {
        Handle(state)
    }
    fn recorder<'v>(&self, name: usize, log: &'v Log) -> Self::Recorder<'v> {
        Recorder { name, log, view: std::marker::PhantomData }
    }
    fn end(&self, state: Part<T>) {
        self.0.merge(state.0);
    }
}
