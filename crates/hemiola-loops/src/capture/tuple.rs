//! Chains of captures: `(first, (second, (.., ())))`.
//!
//! A chain passes every call to both of its sides, in the order of the captured names.
//! **Invariant:** calls that other workers or peers wait for reach both sides, even if the first
//! one fails.

use super::{Capture, CaptureKind, LoopContext, PassCapture, PrefetchCapture};
use crate::arrays::LoopArrays;
use crate::plan::{LoopBlock, LoopPlan};
use crate::view::table::{ChunkEnd, Lookahead};
use hemiola_cluster::Result;
use hemiola_core::WorkerId;

impl<'a> Capture<'a> for () {
    type Shared = ();
    type View = ();

    fn declare(&self, _: &mut LoopArrays<'a>, _: &mut Vec<CaptureKind>) {}

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), _: LoopContext<'_, 'a>, _: WorkerId) {}
}

impl<'a> PrefetchCapture<'a> for () {
    type Recorder = ();

    fn recorder(&self, (): &(), _: LoopContext<'_, 'a>) {}
}

impl PassCapture<'_> for () {}

impl<'a, A: Capture<'a>, B: Capture<'a>> Capture<'a> for (A, B) {
    type Shared = (A::Shared, B::Shared);
    type View = (A::View, B::View);

    fn declare(&self, arrays: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        self.0.declare(arrays, declared);
        self.1.declare(arrays, declared);
    }

    fn advise(&self, context: LoopContext<'_, 'a>, plan: &LoopPlan) {
        self.0.advise(context, plan);
        self.1.advise(context, plan);
    }

    fn share(&self, context: LoopContext<'_, 'a>, declared: &[CaptureKind]) -> Self::Shared {
        (self.0.share(context, declared), self.1.share(context, declared))
    }

    fn view(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        (self.0.view(&shared.0, context, worker), self.1.view(&shared.1, context, worker))
    }
}

impl<'a, A: PrefetchCapture<'a>, B: PrefetchCapture<'a>> PrefetchCapture<'a> for (A, B) {
    type Recorder = (A::Recorder, B::Recorder);

    fn recorder(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>) -> Self::Recorder {
        (self.0.recorder(&shared.0, context), self.1.recorder(&shared.1, context))
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        self.0.touch_by_key(&recorder.0, key);
        self.1.touch_by_key(&recorder.1, key);
    }

    fn recorded_rows(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        self.0.recorded_rows(&mut recorder.0, rows);
        self.1.recorded_rows(&mut recorder.1, rows);
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
    ) -> Result<()> {
        self.0.prefetch(rows, &mut view.0, context)?;
        self.1.prefetch(rows, &mut view.1, context)
    }

    fn announce(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
        ahead: Lookahead,
    ) -> Result<()> {
        self.0.announce(rows, &mut view.0, context, ahead)?;
        self.1.announce(rows, &mut view.1, context, ahead)
    }

    fn merge_counters(&self, shared: &Self::Shared, view: &mut Self::View) {
        self.0.merge_counters(&shared.0, &mut view.0);
        self.1.merge_counters(&shared.1, &mut view.1);
    }

    fn prefetch_misses(&self, shared: &Self::Shared, counts: &mut Vec<(usize, u64)>) {
        self.0.prefetch_misses(&shared.0, counts);
        self.1.prefetch_misses(&shared.1, counts);
    }
}

impl<'a, A: PassCapture<'a>, B: PassCapture<'a>> PassCapture<'a> for (A, B) {
    #[inline]
    fn bind(&self, shared: &Self::Shared, view: &mut Self::View, context: LoopContext<'_, 'a>, block: LoopBlock) {
        self.0.bind(&shared.0, &mut view.0, context, block);
        self.1.bind(&shared.1, &mut view.1, context, block);
    }

    fn end_block(
        &self,
        shared: &Self::Shared,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
        block: LoopBlock,
    ) -> Result<()> {
        self.0.end_block(&shared.0, &mut view.0, context, block)?;
        self.1.end_block(&shared.1, &mut view.1, context, block)
    }

    fn submit_updates(&self, shared: &Self::Shared, view: &mut Self::View, worker: WorkerId) {
        self.0.submit_updates(&shared.0, &mut view.0, worker);
        self.1.submit_updates(&shared.1, &mut view.1, worker);
    }

    fn apply_updates(&self, shared: &Self::Shared, context: LoopContext<'_, 'a>) -> Result<()> {
        // Both are called even if the first fails: the other peers take part in both.
        let first = self.0.apply_updates(&shared.0, context);
        first.and(self.1.apply_updates(&shared.1, context))
    }

    fn end_chunk(&self, view: &mut Self::View, context: LoopContext<'_, 'a>, end: ChunkEnd) -> Result<()> {
        // Both are called even if the first fails: other workers wait for both clocks.
        let first = self.0.end_chunk(&mut view.0, context, end);
        first.and(self.1.end_chunk(&mut view.1, context, end))
    }

    fn end_step(&self, view: &mut Self::View, context: LoopContext<'_, 'a>, step: usize) -> Result<()> {
        let first = self.0.end_step(&mut view.0, context, step);
        first.and(self.1.end_step(&mut view.1, context, step))
    }

    fn end_pass(&self, view: &mut Self::View, context: LoopContext<'_, 'a>) -> Result<()> {
        let first = self.0.end_pass(&mut view.0, context);
        first.and(self.1.end_pass(&mut view.1, context))
    }
}
