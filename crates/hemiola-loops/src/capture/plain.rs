//! A captured value of any other type: borrowed by all workers, and read only.

use super::{Capture, CaptureKind, LoopContext, PassCapture, PrefetchCapture};
use crate::arrays::LoopArrays;
use crate::recorder::PlainRecorder;
use crate::view::PlainView;
use hemiola_core::WorkerId;

/// A captured value of any other type.
#[derive(Debug)]
pub struct PlainCapture<'a, X: ?Sized> {
    pub(crate) value: &'a X,
}

impl<'a, X: ?Sized> Capture<'a> for PlainCapture<'a, X> {
    type Shared = ();
    type View = PlainView<'a, X>;

    fn declare(&self, _: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Other);
    }

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), _: LoopContext<'_, 'a>, _: WorkerId) -> Self::View {
        PlainView(self.value)
    }
}

impl<'a, X: ?Sized> PrefetchCapture<'a> for PlainCapture<'a, X> {
    type Recorder = PlainRecorder<'a, X>;

    fn recorder(&self, (): &(), _: LoopContext<'_, 'a>) -> Self::Recorder {
        PlainRecorder(self.value)
    }
}

impl<'a, X: ?Sized> PassCapture<'a> for PlainCapture<'a, X> {}
