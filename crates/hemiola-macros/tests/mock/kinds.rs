//! Minimal versions of the kinds of shared state, enough to run a loop on one thread.

use std::cell::RefCell;

/// Element of an array.
pub trait Element: Clone + Default + std::fmt::Debug + 'static {
    fn merge(&mut self, change: Self);
}

macro_rules! element {
    ($($number:ty)*) => {$(impl Element for $number { fn merge(&mut self, change: Self) { *self += change; } })*};
}
element!(f64 f32 usize i64 u32);

impl<T: Element> Element for Vec<T> {
    fn merge(&mut self, change: Self) {
        self.extend(change);
    }
}

impl<A: Element, B: Element> Element for (A, B) {
    fn merge(&mut self, change: Self) {
        self.0.merge(change.0);
        self.1.merge(change.1);
    }
}

#[derive(Debug)]
pub struct Cluster;

impl Cluster {
    pub fn array<T: Element, const N: usize>(&self, shape: [usize; N]) -> DistArray<T, N> {
        self.filled(shape, |_| T::default())
    }
    pub fn filled<T: Element, const N: usize>(
        &self,
        shape: [usize; N],
        value: impl FnMut(usize) -> T,
    ) -> DistArray<T, N> {
        DistArray { shape, values: RefCell::new((0..shape.iter().product()).map(value).collect()) }
    }
    pub fn accumulator<T: Element>(&self) -> Accumulator<T> {
        Accumulator(RefCell::new(T::default()))
    }
}

#[derive(Debug)]
pub struct DistArray<T, const N: usize> {
    pub shape: [usize; N],
    values: RefCell<Vec<T>>,
}

impl<T: Element, const N: usize> DistArray<T, N> {
    pub fn values(&self) -> Vec<T> {
        self.values.borrow().clone()
    }
    pub fn put(&self, values: Vec<T>) {
        *self.values.borrow_mut() = values;
    }
    pub fn buffered(&self) -> Buffer<'_, T, N> {
        Buffer(self)
    }
}

#[derive(Debug)]
pub struct Buffer<'a, T, const N: usize>(pub &'a DistArray<T, N>);

#[derive(Debug)]
pub struct Accumulator<T>(RefCell<T>);

impl<T: Element> Accumulator<T> {
    pub fn take(&self) -> T {
        self.0.take()
    }
    pub fn merge(&self, change: T) {
        self.0.borrow_mut().merge(change);
    }
}
