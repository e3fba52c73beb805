//! A captured accumulator: each worker adds to a cell of its own, so nothing is moved or merged in
//! a pass.

use super::{Capture, CaptureKind, LoopContext, PassCapture, PrefetchCapture};
use crate::arrays::LoopArrays;
use crate::recorder::NoRecorder;
use crate::view::AccumulatorView;
use hemiola_array::{Accumulator, Element};
use hemiola_core::WorkerId;
use std::marker::PhantomData;

/// A captured accumulator, by reference.
#[derive(Debug)]
pub struct AccumulatorCapture<'a, T, C> {
    pub(crate) accumulator: &'a Accumulator<T, C>,
}

impl<'a, T: Element, C: Fn(T, T) -> T + Sync> Capture<'a> for AccumulatorCapture<'a, T, C> {
    type Shared = ();
    type View = AccumulatorView<'a, T, C>;

    fn declare(&self, _: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Other);
    }

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), _: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        AccumulatorView::new(self.accumulator, worker)
    }
}

impl<'a, T: Element, C: Fn(T, T) -> T + Sync> PrefetchCapture<'a> for AccumulatorCapture<'a, T, C> {
    type Recorder = NoRecorder<Self::View>;

    fn recorder(&self, (): &(), _: LoopContext<'_, 'a>) -> Self::Recorder {
        NoRecorder(PhantomData)
    }
}

impl<'a, T: Element, C: Fn(T, T) -> T + Sync> PassCapture<'a> for AccumulatorCapture<'a, T, C> {}
