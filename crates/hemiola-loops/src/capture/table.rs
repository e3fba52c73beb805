//! A captured table of the parameter server: rows are prefetched and announced, and its clock
//! advances with steps or passes.

use super::{Capture, CaptureKind, LoopContext, PassCapture, PrefetchCapture};
use crate::Error;
use crate::arrays::LoopArrays;
use crate::recorder::RowRecorder;
use crate::view::TableView;
use crate::view::table::{Lookahead, TableViewError};
use hemiola_cluster::Result;
use hemiola_core::WorkerId;
use hemiola_tables_proto::in_loop::{LoopTable, TableInLoop};

/// A captured table of the parameter server.
#[derive(Debug)]
pub struct TableCapture<'a, 't, T> {
    pub(crate) table: &'a TableInLoop<'t, T>,
    pub(crate) name: usize,
}

impl<'a, T> Capture<'a> for TableCapture<'a, '_, T>
where
    T: LoopTable + 'a,
    T::Error: Into<hemiola_cluster::Error>,
{
    type Shared = ();
    type View = TableView<'a, T>;

    fn declare(&self, _: &mut LoopArrays<'a>, declared: &mut Vec<CaptureKind>) {
        declared.push(CaptureKind::Table { clocks: self.table.clocks(), announces: self.table.announces() });
    }

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        TableView::new(context.names[self.name], self.table, worker)
    }
}

impl<'a, T> PrefetchCapture<'a> for TableCapture<'a, '_, T>
where
    T: LoopTable + 'a,
    T::Error: Into<hemiola_cluster::Error>,
{
    type Recorder = RowRecorder<Self::View, 2>;

    fn recorder(&self, (): &(), context: LoopContext<'_, 'a>) -> Self::Recorder {
        let mine = context.accesses.iter().filter(|access| access.name == self.name);
        let table = self.table.table();
        let rows = table.row_count().and_then(|rows| usize::try_from(rows).ok()).unwrap_or(usize::MAX);
        RowRecorder::new([rows, table.width()], true, mine)
    }

    #[inline]
    fn touch_by_key(&self, recorder: &Self::Recorder, key: &[usize]) {
        recorder.touch_by_key(key);
    }

    fn recorded_rows(&self, recorder: &mut Self::Recorder, rows: &mut Vec<Vec<u64>>) {
        rows.push(recorder.take());
    }

    fn prefetch(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
    ) -> Result<()> {
        self.convert_table_error(context, view.fetch(rows.next().map_or(&[], Vec::as_slice)))
    }

    fn announce(
        &self,
        rows: &mut std::slice::Iter<'_, Vec<u64>>,
        view: &mut Self::View,
        context: LoopContext<'_, 'a>,
        ahead: Lookahead,
    ) -> Result<()> {
        self.convert_table_error(context, view.announce(rows.next().map_or(&[], Vec::as_slice), ahead))
    }
}

impl<'a, T> PassCapture<'a> for TableCapture<'a, '_, T>
where
    T: LoopTable + 'a,
    T::Error: Into<hemiola_cluster::Error>,
{
    fn end_step(&self, view: &mut Self::View, context: LoopContext<'_, 'a>) -> Result<()> {
        self.convert_table_error(context, view.end_step())
    }

    fn end_pass(&self, view: &mut Self::View, context: LoopContext<'_, 'a>, steps: u64) -> Result<()> {
        self.convert_table_error(context, view.end_pass(steps))
    }
}

impl<T: LoopTable> TableCapture<'_, '_, T>
where
    T::Error: Into<hemiola_cluster::Error>,
{
    /// Converts an error of a table view into a loop error.
    fn convert_table_error(
        &self,
        context: LoopContext<'_, '_>,
        outcome: Result<(), TableViewError<T::Error>>,
    ) -> Result<()> {
        outcome.map_err(|problem| match problem {
            TableViewError::Table(error) => error.into(),
            TableViewError::NoHandle(problem) => {
                let (site, name) = (context.title.to_owned(), context.names[self.name].to_owned());
                Error::TableUnavailable { site, name, problem }.into()
            }
        })
    }
}
