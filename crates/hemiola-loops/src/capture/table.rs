//! A captured table of the parameter server: rows are prefetched and announced, and its clock
//! advances with chunks, steps or passes.

use super::{Capture, CaptureKind, LoopContext, PassCapture, PrefetchCapture};
use crate::Error;
use crate::arrays::LoopArrays;
use crate::plan::{LoopPlan, hidden_updates_advice};
use crate::recorder::RowRecorder;
use crate::view::TableView;
use crate::view::table::{ChunkEnd, Lookahead, TableViewError};
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
        let (clocks, announces) = (self.table.clocks(), self.table.announces());
        declared.push(CaptureKind::Table { clocks, consistency: self.table.table().consistency(), announces });
    }

    fn advise(&self, context: LoopContext<'_, 'a>, plan: &LoopPlan) {
        let name = context.names[self.name];
        let hidden = plan.tables.iter().any(|table| table.name == name && plan.hides_updates(table));
        if hidden && context.cluster.is_root() && self.table.table().takes_advice() {
            context.cluster.warn(format!("{}: {}", context.title, hidden_updates_advice(name)));
        }
    }

    fn share(&self, _: LoopContext<'_, 'a>, _: &[CaptureKind]) {}

    fn view(&self, (): &(), context: LoopContext<'_, 'a>, worker: WorkerId) -> Self::View {
        let clocks = context.clocks[self.name].clone().expect("every table has a clock schedule");
        TableView::new(context.names[self.name], self.table, clocks, worker)
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
    fn end_chunk(&self, view: &mut Self::View, context: LoopContext<'_, 'a>, end: ChunkEnd) -> Result<()> {
        self.convert_table_error(context, view.end_chunk(end))
    }

    fn end_step(&self, view: &mut Self::View, context: LoopContext<'_, 'a>, step: usize) -> Result<()> {
        self.convert_table_error(context, view.end_step(step))
    }

    fn end_pass(&self, view: &mut Self::View, context: LoopContext<'_, 'a>) -> Result<()> {
        self.convert_table_error(context, view.end_pass())
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
