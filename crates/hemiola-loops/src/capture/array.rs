//! A captured array: reached through windows, and prefetched if it is served.

use super::{Capture, CaptureKind, LoopContext, PassCapture, PrefetchCapture};
use crate::arrays::LoopArrays;
use crate::plan::{ArrayPlacement, LoopBlock};
use crate::recorder::RowRecorder;
use crate::view::ArrayView;
use crate::view::buffer::rows_of;
use crate::view::served::ServedRows;
use crate::view::table::Lookahead;
use hemiola_array::{DistArray, Element};
use hemiola_cluster::Result;
use hemiola_core::WorkerId;
use std::sync::atomic::{AtomicU64, Ordering};

/// A captured array. `WRITTEN` tells whether the body writes it.
#[derive(Debug)]
pub struct ArrayCapture<'a, T, const N: usize, const WRITTEN: bool> {
    pub(crate) array: &'a DistArray<T, N>,
    pub(crate) name: usize,
}

/// State of an array shared by the workers of a peer.
#[derive(Debug)]
pub struct ArrayShared {
    /// Index of the array in the loop.
    number: usize,
    served: bool,
    /// Reads that were not prefetched, summed over finished workers.
    prefetch_misses: AtomicU64,
}

impl<'a, T: Element, const N: usize, const WRITTEN: bool> Capture<'a> for ArrayCapture<'a, T, N, WRITTEN> {
    type Shared = ArrayShared;
    type View = ArrayView<T, N, WRITTEN>;

    fn declare(&self, arrays: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Array(arrays.add(self.array)));
    }

    fn share(&self, context: LoopContext<'_, 'a>, declared: &[CaptureKind]) -> ArrayShared {
        let CaptureKind::Array(number) = declared[self.name] else {
            unreachable!("an array capture declares an array")
        };
        let served = context.peers_used > 1 && context.placements[number] == ArrayPlacement::Served;
        ArrayShared { number, served, prefetch_misses: AtomicU64::new(0) }
    }

    fn view(&self, shared: &ArrayShared, context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        let mut view = ArrayView::new(context.names[self.name], self.extents());
        if shared.served {
            let owners = context.arrays.get(shared.number).owners().expect("a served array has owners").clone();
            let requests = context.requests.expect("served arrays have a request channel");
            let (_, row_length) = rows_of(self.extents());
            let served = ServedRows::new(context.cluster, requests, worker, shared.number, owners, row_length);
            view.served = Some(Box::new(served));
        }
        view
    }
}

impl<'a, T: Element, const N: usize, const WRITTEN: bool> PrefetchCapture<'a> for ArrayCapture<'a, T, N, WRITTEN> {
    type Recorder = RowRecorder<Self::View, N>;

    fn recorder(&self, shared: &ArrayShared, context: LoopContext<'_, 'a>) -> Self::Recorder {
        let mine = context.accesses.iter().filter(|access| access.name == self.name);
        RowRecorder::new(self.extents(), shared.served, mine)
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        recorder.touch_by_key(key);
    }

    fn recorded_rows(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        if recorder.enabled {
            rows.push(recorder.take());
        }
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        _: LoopContext<'_, 'a>,
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
        _: LoopContext<'_, 'a>,
        _: Lookahead,
    ) -> Result<()> {
        // Owners of arrays are not notified. The rows of this array are skipped.
        if view.served.is_some() {
            rows.next();
        }
        Ok(())
    }

    fn merge_counters(&self, shared: &ArrayShared, view: &mut Self::View) {
        if let Some(served) = &view.served {
            // Relaxed: the sum is read after the workers have ended.
            shared.prefetch_misses.fetch_add(served.misses(), Ordering::Relaxed);
        }
    }

    fn prefetch_misses(&self, shared: &ArrayShared, counts: &mut Vec<(usize, u64)>) {
        if shared.served {
            counts.push((self.name, shared.prefetch_misses.load(Ordering::Relaxed)));
        }
    }
}

impl<'a, T: Element, const N: usize, const WRITTEN: bool> PassCapture<'a> for ArrayCapture<'a, T, N, WRITTEN> {
    #[inline]
    fn bind(&self, shared: &ArrayShared, view: &mut Self::View, context: LoopContext<'_, 'a>, block: LoopBlock) {
        view.bind(context.arrays.get(shared.number).window(block));
    }

    fn submit_updates(&self, _: &ArrayShared, view: &mut Self::View, _: WorkerId) {
        // Rows of other peers may change inside the barrier.
        if let Some(served) = &view.served {
            served.clear();
        }
    }
}

impl<T: Element, const N: usize, const WRITTEN: bool> ArrayCapture<'_, T, N, WRITTEN> {
    fn extents(&self) -> [usize; N] {
        self.array.shape().extents()
    }
}
